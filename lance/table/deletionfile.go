package table

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/errs"
)

// A deletion file is one of
//
//	.arrow  Arrow IPC file: one record batch of one column "row_id", UInt32, not nullable, values in any order
//	.bin    portable 32-bit Roaring bitmap (roaring.go)
//
// and holds every deleted offset of its fragment. Spec: table layout, "Deletion files".
const deletionColumn = "row_id"

// deletedSet is a decoded deletion file.
type deletedSet struct{ bitmap *roaring.Bitmap }

// WriteDeletions writes the COMPLETE set of deleted offsets of fragment fragID, which replaces the set the fragment
// had. It returns the file to put into the fragment (Fragment.WithDeletion). all is borrowed and must name at least
// one row and only rows of the fragment (errs.ErrInvalid). The file is durable on return but belongs to no version.
func (d *Dataset) WriteDeletions(ctx context.Context, fragID uint64, all *roaring.Bitmap) (*DeletionFile, error) {
	f := d.state.fragment(fragID)
	if f == nil {
		return nil, fmt.Errorf("deletions of fragment %d: no such fragment in version %d: %w", fragID, d.Version(), errs.ErrInvalid)
	}
	if f.Deletion != nil {
		before, err := d.Deletions(ctx, f)
		if err != nil {
			return nil, err
		}
		if before.AndCardinality(all) != before.GetCardinality() { // I4
			return nil, fmt.Errorf("deletions of fragment %d: rows deleted before are missing: %w", fragID, errs.ErrInvalid)
		}
	}
	df, err := d.env.writeDeletions(ctx, d.root, fragID, f.PhysicalRows, d.Version(), all, deletionKindFor(all))
	if err != nil {
		return nil, fmt.Errorf("deletions of fragment %d: %w", fragID, err)
	}
	return df, nil
}

// WriteNewDeletions is WriteDeletions for a fragment of a Rewrite that no version has yet; its id is a reserved one.
func (d *Dataset) WriteNewDeletions(ctx context.Context, f *Fragment, all *roaring.Bitmap) (*DeletionFile, error) {
	df, err := d.env.writeDeletions(ctx, d.root, f.ID, f.PhysicalRows, d.Version(), all, deletionKindFor(all))
	if err != nil {
		return nil, fmt.Errorf("deletions of new fragment %d: %w", f.ID, err)
	}
	return df, nil
}

func deletionKindFor(all *roaring.Bitmap) DeletionKind {
	if all.GetCardinality() <= arrowDeletionsMax {
		return DeletionArrow
	}
	return DeletionBitmap
}

func (e *env) writeDeletions(ctx context.Context, root string, fragID, rows, readVersion uint64, all *roaring.Bitmap, kind DeletionKind) (*DeletionFile, error) {
	if all.IsEmpty() || uint64(all.Maximum()) >= rows {
		return nil, fmt.Errorf("%d offsets up to %d for %d rows: %w", all.GetCardinality(), maximum(all), rows, errs.ErrInvalid)
	}
	id := e.newUUID()
	df := &DeletionFile{Kind: kind, ReadVersion: readVersion, ID: binary.LittleEndian.Uint64(id[8:]) ^ binary.LittleEndian.Uint64(id[:8]), Rows: all.GetCardinality()}
	encode := encodeDeletionArrow
	if kind == DeletionBitmap {
		encode = encodeRoaring
	}
	b, err := encode(all)
	if err != nil {
		return nil, err
	}
	object := join(root, deletionsDir, deletionName(fragID, df))
	if err := e.st.PutIfAbsent(ctx, object, b); err != nil { // Durable: before any manifest names it
		return nil, err
	}
	e.deleted.put(object, &deletedSet{all.Clone()})
	return df, nil
}

func maximum(b *roaring.Bitmap) uint32 {
	if b.IsEmpty() {
		return 0
	}
	return b.Maximum()
}

// Deletions returns the deleted offsets of a fragment of this table, nil if none. The set is cached and shared: do
// not change it. errs.ErrCorruption if the file disagrees with the fragment.
func (d *Dataset) Deletions(ctx context.Context, f *Fragment) (*roaring.Bitmap, error) {
	if f.Deletion == nil {
		return nil, nil
	}
	at, err := d.place(f.Deletion.BaseID, deletionsDir, deletionName(f.ID, f.Deletion))
	if err != nil {
		return nil, fmt.Errorf("deletions of fragment %d: %w", f.ID, err)
	}
	object := at.name
	set, err := d.env.deleted.get(at.key, func() (*deletedSet, error) {
		b, err := at.st.ReadAll(ctx, object, deletionBytesMax)
		if err != nil {
			return nil, err
		}
		bitmap, err := decodeDeletions(object, f.Deletion.Kind, b)
		return &deletedSet{bitmap}, err
	})
	if err != nil {
		return nil, fmt.Errorf("deletions of fragment %d: %w", f.ID, err)
	}
	if n := set.bitmap.GetCardinality(); n != f.Deletion.Rows || uint64(maximum(set.bitmap)) >= f.PhysicalRows {
		return nil, errs.Corrupt(object, -1, "%d offsets up to %d; the manifest says %d of %d rows", n, maximum(set.bitmap), f.Deletion.Rows, f.PhysicalRows)
	}
	return set.bitmap, nil
}

func decodeDeletions(object string, kind DeletionKind, b []byte) (*roaring.Bitmap, error) {
	if kind == DeletionBitmap {
		return decodeRoaring(object, b)
	}
	return decodeDeletionArrow(object, b)
}
