package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/schema"
)

// CreateGeneration writes a complete one-version table at root: schema s, one fragment with id 0 holding batches in
// order, and, when deleted is not empty, a deletion file (always a bitmap) of the offsets in it. batches are borrowed
// and must hold at least one row, of which at least one is not deleted (errs.ErrInvalid). errs.ErrExists if root has
// a version. Everything is durable on return; a failed attempt leaves files that no version names.
// Spec: MemWAL, "Flush"; "Generation dataset".
func CreateGeneration(ctx context.Context, st objstore.Store, root string, s *schema.Schema, batches []arrow.RecordBatch, deleted *roaring.Bitmap) (*Dataset, error) {
	return CreateGenerationWith(ctx, st, root, s, batches, deleted, CreateOptions{})
}

// CreateGenerationWith is CreateGeneration with options; the MemWAL entry is not allowed in a generation.
func CreateGenerationWith(ctx context.Context, st objstore.Store, root string, s *schema.Schema, batches []arrow.RecordBatch, deleted *roaring.Bitmap, o CreateOptions) (*Dataset, error) {
	d, err := createGeneration(ctx, newEnv(st, o.Options), root, s, batches, deleted, o)
	if err != nil {
		return nil, fmt.Errorf("create generation %s: %w", root, err)
	}
	return d, nil
}

func createGeneration(ctx context.Context, e *env, root string, s *schema.Schema, batches []arrow.RecordBatch, deleted *roaring.Bitmap, o CreateOptions) (*Dataset, error) {
	if o.MemWAL != nil {
		return nil, fmt.Errorf("MemWAL entry in a generation: %w", errs.ErrInvalid)
	}
	b, err := firstBuilder(ctx, e, root, o)
	if err != nil {
		return nil, err
	}
	f, err := e.writeFragment(ctx, root, s, b, batches)
	if err != nil {
		return nil, err
	}
	// The operation must not carry a deletion file, so the version's fragment gets it after the operation.
	if err := (Overwrite{Schema: s, Fragments: []*Fragment{f}, ConfigUpsert: o.Config}).apply(ctx, b); err != nil {
		return nil, err
	}
	if deleted != nil && !deleted.IsEmpty() {
		if deleted.GetCardinality() >= f.PhysicalRows {
			return nil, fmt.Errorf("all %d rows deleted: %w", f.PhysicalRows, errs.ErrInvalid)
		}
		const fragment, readVersion = 0, 1
		df, err := e.writeDeletions(ctx, root, fragment, f.PhysicalRows, readVersion, deleted, DeletionBitmap)
		if err != nil {
			return nil, err
		}
		b.fragments[0] = b.fragments[0].WithDeletion(df)
	}
	for _, entry := range o.Indexes {
		p, err := b.newEntry(entry)
		if err != nil {
			return nil, err
		}
		b.indices = append(b.indices, p)
	}
	d, err := b.commit(ctx, root, namingV2)
	if errors.Is(err, errTaken) {
		err = errs.ErrExists
	}
	return d, err
}

func (e *env) writeFragment(ctx context.Context, root string, s *schema.Schema, b *builder, batches []arrow.RecordBatch) (*Fragment, error) {
	w, err := e.newFragmentWriter(ctx, root, s, b.dataFiles)
	if err != nil {
		return nil, err
	}
	for _, rec := range batches {
		if err := ctx.Err(); err != nil {
			w.Abort()
			return nil, err
		}
		if err := w.Write(rec); err != nil {
			w.Abort()
			return nil, err
		}
	}
	return w.Finish(ctx)
}
