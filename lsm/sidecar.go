package lsm

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/bloom"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// writeIndexes writes the secondary indexes of a generation. Their entries are those of its manifest.
func (t *Table) writeIndexes(ctx context.Context, root string, s *schema.Schema, batches []arrow.RecordBatch) ([]table.IndexEntry, error) {
	var out []table.IndexEntry
	for _, d := range t.o.Indexes {
		typ := t.physical.Field(d.Column).Type
		sorter, err := btree.NewSorter(typ, 0, t.o.Alloc)
		if err != nil {
			return nil, err
		}
		first := uint64(0)
		for _, rec := range batches {
			ids := make([]uint64, rec.NumRows())
			for i := range ids {
				ids[i] = uint64(rowaddr.New(0, uint32(first)+uint32(i)))
			}
			first += uint64(rec.NumRows())
			if err := sorter.Add(btree.Batch{Values: rec.Column(d.Column), IDs: ids}); err != nil {
				return nil, fmt.Errorf("index %s: %w", d.Name, err)
			}
		}
		id, err := uuid.NewRandom()
		if err != nil {
			return nil, fmt.Errorf("name an index segment: %w", err)
		}
		sum, err := btree.Build(ctx, store.NewDir(t.o.Store, indexes.SegmentDir(root, id), t.o.Alloc), typ, sorter.Stream(), btree.Options{})
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", d.Name, err)
		}
		var files []table.IndexFile
		for _, f := range sum.Files {
			files = append(files, table.IndexFile{Path: f.Name, Size: f.Size})
		}
		e, err := indexes.NewEntry(indexes.BTree, id, d.Name, []int32{s.FieldByName(t.physical.Field(d.Column).Name).ID}, roaring.BitmapOf(0), nil, files)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// writeSidecars writes the `_pk_index` of a generation: every row's key, superseded rows and tombstones too, with its
// offset. keyBytes is the size of the keys. A table without a key has no sidecars. Spec: MemWAL, "Primary-key sidecars".
func (t *Table) writeSidecars(ctx context.Context, root string, batches []arrow.RecordBatch) (keyBytes uint64, err error) {
	if t.keyless() {
		return 0, nil
	}
	typ, err := t.pkType()
	if err != nil {
		return 0, err
	}
	sorter, err := btree.NewSorter(typ, 0, t.o.Alloc)
	if err != nil {
		return 0, err
	}
	first := uint64(0)
	for _, rec := range batches {
		values, err := btree.PKValues(t.o.Alloc, rec, t.keyCols)
		if err != nil {
			return 0, err
		}
		ids := make([]uint64, rec.NumRows())
		for i := range ids {
			ids[i] = first + uint64(i)
		}
		first += uint64(rec.NumRows())
		keyBytes += uint64(arrowx.ArrayBytes(values))
		err = sorter.Add(btree.Batch{Values: values, IDs: ids})
		values.Release()
		if err != nil {
			return 0, fmt.Errorf("sort keys: %w", err)
		}
	}
	if err := t.writeBloom(ctx, root, batches); err != nil {
		return 0, err
	}
	_, err = btree.BuildPK(ctx, store.NewDir(t.o.Store, root+"/"+btree.PKDir, t.o.Alloc), typ, sorter.Stream())
	return keyBytes, err
}

// writeBloom writes the generation's bloom filter if the reference can be trusted with it. Spec: memwal.md §11.1.
func (t *Table) writeBloom(ctx context.Context, root string, batches []arrow.RecordBatch) error {
	types := make([]arrow.DataType, len(t.keyCols))
	for i, c := range t.keyCols {
		types[i] = t.physical.Field(c).Type
	}
	if !bloom.Trusted(types) {
		return nil
	}
	f := bloom.NewPK()
	for _, rec := range batches {
		if err := f.AddBatch(rec, t.keyCols); err != nil {
			return fmt.Errorf("bloom filter: %w", err)
		}
	}
	_, err := f.Write(ctx, store.NewDir(t.o.Store, root, t.o.Alloc))
	return err
}

// pkType is the type of the sidecar's values.
func (t *Table) pkType() (arrow.DataType, error) {
	types := make([]arrow.DataType, len(t.keyCols))
	for i, c := range t.keyCols {
		types[i] = t.physical.Field(c).Type
	}
	return btree.PKType(types)
}
