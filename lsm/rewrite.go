package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// rewriteAttemptsMax bounds how often a rewrite of fragments starts over because outside commits arrived.
const rewriteAttemptsMax = 20

// compactBase is one commit of a compaction, taken in. errs.ErrConflict: somebody else has committed, nothing is done.
func (t *Table) compactBase(ctx context.Context, h Hooks, o Compaction) (done table.Compacted, err error) {
	v, err := t.newest()
	if err != nil {
		return done, err
	}
	defer t.release(v)
	b := v.base
	c := table.CompactOptions{FragmentRows: uint64(t.tuning().FragmentRows), GroupsMax: o.Groups}
	if o.Small {
		c.SmallRows = c.FragmentRows / smallPart
	}
	plan, err := b.ds.PlanCompaction(ctx, c)
	if err != nil || len(plan) == 0 {
		return done, err
	}
	zones, err := t.newZoneFeed(b)
	if err != nil {
		return done, err
	}
	sink := &fragmentSink{ds: b.ds, rows: int64(c.FragmentRows), feeds: []rowFeed{zones}}
	defer sink.abort()
	op := table.Rewrite{DeferRemap: true}
	gone := roaring.New()
	for _, old := range plan {
		from := len(sink.written)
		for _, f := range old {
			gone.Add(uint32(f.ID))
			done.Rows += f.LiveRows()
			if err := t.copyLive(ctx, b, f, sink); err != nil {
				return done, fmt.Errorf("copy fragment %d: %w", f.ID, err)
			}
		}
		if err := sink.endFragment(ctx); err != nil {
			return done, err
		}
		op.Groups = append(op.Groups, table.RewriteGroup{Old: old, New: sink.written[from:len(sink.written):len(sink.written)]})
	}
	// Invariant: zones never follow rows through the reuse history, so the version that moves rows has their new zones.
	change, err := zones.finish(ctx, zoneBatch{gone: gone, first: uint32(b.ds.NextFragmentID())})
	op.Added, op.Removed = change.added, change.replaced
	if err != nil {
		t.discardRewrite(ctx, sink, change.added)
		return table.Compacted{}, err
	}
	next, err := b.ds.Commit(ctx, op)
	if err != nil {
		if refused(err) {
			t.discardRewrite(ctx, sink, change.added)
		}
		return table.Compacted{}, fmt.Errorf("compact %s: %w", t.root, err)
	}
	done.Groups, done.FragmentsRemoved, done.FragmentsAdded = len(plan), int(gone.GetCardinality()), len(sink.written)
	placed := next.NewFragments()
	for _, g := range op.Groups {
		done.Moves = append(done.Moves, table.Move{Old: g.Old, New: placed[:len(g.New)]})
		placed = placed[len(g.New):]
	}
	// Durable: the rows lie elsewhere from here on; what memory does not follow now, the next adoption does.
	return done, t.takeIn(ctx, h, v, next, 1, newRelocation(b, done.Moves))
}

// copyLive writes the live rows of a base fragment, in order.
func (t *Table) copyLive(ctx context.Context, b *base, f *table.Fragment, sink *fragmentSink) error {
	return eachBatch(ctx, b.ds, f, b.fieldIDs, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
		mask := b.liveMask(uint32(f.ID), uint32(first), int(rec.NumRows()))
		if mask.All() {
			return sink.write(ctx, rec)
		}
		if mask.Count() == 0 {
			return nil
		}
		live, err := arrowx.FilterByMask(t.o.Alloc, rec, mask)
		if err != nil {
			return err
		}
		defer live.Release()
		return sink.write(ctx, live)
	})
}

// liveMask is which of the n rows of a fragment from first on the base version's deletion vector leaves.
func (b *base) liveMask(fragment, first uint32, n int) *arrowx.Mask {
	mask := arrowx.NewFullMask(n)
	if dv := b.deleted[fragment]; dv != nil {
		it := dv.Iterator()
		it.AdvanceIfNeeded(first)
		for it.HasNext() {
			off := it.Next()
			if off >= first+uint32(n) {
				break
			}
			mask.Clear(int(off - first))
		}
	}
	return mask
}

// refused reports whether the error of a commit says for certain that there is no version of it. After any other what was
// written for it is left to clean-up.
func refused(err error) bool {
	for _, e := range []error{errs.ErrConflict, errs.ErrInvalid, errs.ErrUnsupported, errs.ErrLimit} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// discardRewrite removes what a rewrite wrote and no version names.
func (t *Table) discardRewrite(ctx context.Context, sink *fragmentSink, segments []table.IndexEntry) {
	t.discardSegments(ctx, segments)
	for _, f := range sink.written {
		for _, file := range f.Files {
			if err := t.o.Store.Delete(context.WithoutCancel(ctx), t.root+"/data/"+file.Path); err != nil {
				t.o.Log.Warn("remove the file of a fragment that no version names", "table", t.root, "file", file.Path, "error", err)
			}
		}
	}
}

// relocation says where rows of a base version went: at are ascending addresses; moved is called for those that are still
// there, in order, with their place in at.
type relocation func(at []rowaddr.Addr, moved func(i int, to rowaddr.Addr))

// stays is the relocation of a commit that moves nothing.
func stays(old *base) relocation { return newRelocation(old, nil) }

// newRelocation is that of rewrites which keep the order of rows.
func newRelocation(old *base, moves []table.Move) relocation {
	type group struct {
		before uint64 // live rows of its group before the fragment
		to     []*table.Fragment
	}
	groups := make(map[uint32]group)
	for _, m := range moves {
		before := uint64(0)
		for _, f := range m.Old {
			groups[uint32(f.ID)] = group{before: before, to: m.New}
			before += f.LiveRows()
		}
	}
	place := func(at rowaddr.Addr) (rowaddr.Addr, bool) {
		g, moved := groups[at.Fragment()]
		if !moved {
			return at, true
		}
		n := g.before + uint64(at.Offset())
		if dv := old.deleted[at.Fragment()]; dv != nil {
			n -= dv.Rank(at.Offset())
		}
		for _, f := range g.to {
			if n < f.PhysicalRows {
				return rowaddr.New(uint32(f.ID), uint32(n)), true
			}
			n -= f.PhysicalRows
		}
		return 0, false
	}
	return func(list []rowaddr.Addr, moved func(i int, to rowaddr.Addr)) {
		for i, at := range list {
			if !old.alive(at) {
				continue
			}
			if to, ok := place(at); ok {
				moved(i, to)
			}
		}
	}
}
