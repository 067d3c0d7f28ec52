package fragreuse

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/lance/table"
)

// Rewriter writes a new segment that holds the rows of entry e under their addresses of today, which t gives, and drops
// those that are gone. It returns identifier, files, details and version of the new entry; the rest is filled in.
type Rewriter func(ctx context.Context, e table.IndexEntry, t *Translation) (table.IndexEntry, error)

// Remap replaces one segment by a rewritten one that needs no history, in a commit of its own. done is false, and d is
// returned, if the segment needs none already. errs.ErrConflict if somebody replaced the segment or rewrote its fragments
// meanwhile: nothing is committed, the caller may try again on the newest version. errs.ErrNotFound if d has no such
// entry, errs.ErrUnsupported if the history cannot be maintained; errors of rewrite are wrapped.
func Remap(ctx context.Context, d *table.Dataset, id uuid.UUID, o Options, rewrite Rewriter) (next *table.Dataset, done bool, err error) {
	next, done, err = remap(ctx, d, id, o, rewrite)
	if err != nil {
		return nil, false, fmt.Errorf("remap index segment %s: %w", id, err)
	}
	return next, done, nil
}

func remap(ctx context.Context, d *table.Dataset, id uuid.UUID, o Options, rewrite Rewriter) (*table.Dataset, bool, error) {
	e, err := d.IndexEntryByUUID(id)
	if err != nil {
		return nil, false, err
	}
	h, err := Open(ctx, d, o)
	if err == nil {
		err = h.Maintainable()
	}
	if err != nil {
		return nil, false, err
	}
	if e.Fragments == nil {
		return nil, false, fmt.Errorf("its entry does not say what it covers: %w", errs.ErrUnsupported)
	}
	if needed, err := d.NeedsReuse(ctx, id, table.TrimOptions{}); err != nil || !needed {
		return d, false, err
	}
	t, err := h.For(ctx, e.Fragments)
	if err != nil {
		return nil, false, err
	}
	added, err := rewrite(ctx, e, t)
	if err != nil {
		return nil, false, err
	}
	added.Name, added.Fields, added.CoveringFields, added.BaseID = e.Name, e.Fields, e.CoveringFields, nil
	// Why: the reference keeps the old dataset_version when it remaps. The values are those of d, because fragments whose
	// values change leave the coverage; saying so lets the history be trimmed.
	added.DatasetVersion = d.Version()
	added.Fragments = roaring.New()
	for _, f := range d.Fragments() {
		if t.Coverage().Contains(uint32(f.ID)) {
			added.Fragments.Add(uint32(f.ID))
		}
	}
	next, err := d.CommitRebasing(ctx, table.CreateIndex{New: []table.IndexEntry{added}, Removed: []uuid.UUID{id}})
	return next, err == nil, err
}
