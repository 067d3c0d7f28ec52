package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/indexes"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// rewriteAttemptsMax bounds how often a rewrite of fragments starts over because outside commits arrived.
const rewriteAttemptsMax = 20

// rewriting is a rewrite of fragments in two steps: rows are copied while merges go on, then the commit token is taken and what
// was deleted meanwhile is deleted in the copies.
type rewriting struct {
	t      *Table
	v      *Version // what is copied
	taken  uint64   // Table.adoptions then
	zones  *zoneFeed
	sink   *fragmentSink
	groups []rewriteGroup
}

// rewriteGroup is old fragments, as they were read, and the new ones with their live rows.
type rewriteGroup struct{ old, written []*table.Fragment }

// compactBase is one commit of a compaction, taken in. Merges go on while rows are copied, unless hold. errs.ErrConflict: nothing
// is done because somebody else has committed, or merges have deleted too much of what was copied.
func (t *Table) compactBase(ctx context.Context, h Hooks, o Compaction, hold bool) (done table.Compacted, err error) {
	t.mergeMu.Lock()
	r, err := t.beginRewrite(ctx, h)
	if !hold {
		t.mergeMu.Unlock()
	} else {
		defer t.mergeMu.Unlock()
	}
	if err != nil {
		return done, err
	}
	defer r.end()
	c := table.CompactOptions{FragmentRows: uint64(r.sink.rows), GroupsMax: o.Groups}
	if o.Small {
		c.SmallRows = c.FragmentRows / smallPart
	}
	plan, err := r.v.base.ds.PlanCompaction(ctx, c)
	if err != nil || len(plan) == 0 {
		return done, err
	}
	for _, old := range plan {
		if err := r.copy(ctx, old); err != nil {
			t.discardRewrite(ctx, r.sink, nil)
			return done, err
		}
	}
	if !hold {
		t.mergeMu.Lock()
		defer t.mergeMu.Unlock()
	}
	return r.commitLocked(ctx, h)
}

// beginRewrite pins what is to be copied. The caller holds mergeMu.
func (t *Table) beginRewrite(ctx context.Context, h Hooks) (*rewriting, error) {
	if _, err := t.adopt(ctx, h); err != nil {
		return nil, fmt.Errorf("adopt outside commits: %w", err)
	}
	v, err := t.newest()
	if err != nil {
		return nil, err
	}
	r := &rewriting{t: t, v: v, taken: t.adoptions}
	if r.zones, err = t.newZoneFeed(v.base); err != nil {
		r.end()
		return nil, err
	}
	r.sink = &fragmentSink{ds: v.base.ds, rows: t.tuning().FragmentRows, feeds: []rowFeed{r.zones}}
	return r, nil
}

func (r *rewriting) end() {
	if r.sink != nil {
		r.sink.abort()
	}
	r.t.release(r.v)
}

// copy copies the live rows of a group.
func (r *rewriting) copy(ctx context.Context, old []*table.Fragment) error {
	from := len(r.sink.written)
	for _, f := range old {
		if err := r.t.copyLive(ctx, r.v.base, f, r.sink); err != nil {
			return fmt.Errorf("copy fragment %d: %w", f.ID, err)
		}
	}
	if err := r.sink.endFragment(ctx); err != nil {
		return err
	}
	r.groups = append(r.groups, rewriteGroup{old: old, written: r.sink.written[from:len(r.sink.written):len(r.sink.written)]})
	return nil
}

// commitLocked puts the copies in the place of the old fragments. The caller holds mergeMu.
func (r *rewriting) commitLocked(ctx context.Context, h Hooks) (done table.Compacted, err error) {
	t := r.t
	if _, err := t.adopt(ctx, h); err != nil {
		t.discardRewrite(ctx, r.sink, nil)
		return done, fmt.Errorf("adopt outside commits: %w", err)
	}
	v, err := t.newest()
	if err != nil {
		t.discardRewrite(ctx, r.sink, nil)
		return done, err
	}
	defer t.release(v)
	op, gone, commits, err := r.operation(ctx, v.base)
	if err != nil {
		t.discardRewrite(ctx, r.sink, nil)
		return done, err
	}
	// Invariant: zones never follow rows through the reuse history, so the version that moves rows has their new zones.
	r.zones.b = v.base
	change, err := r.zones.finish(ctx, zoneBatch{gone: gone, first: uint32(v.base.ds.NextFragmentID())})
	// Why not bitmaps: they follow through the reuse history.
	for _, s := range t.scanBuilders(ctx, v.base, uint32(v.base.ds.NextFragmentID()), indexes.Bloom) {
		if err == nil {
			err = s.takeWritten(r.sink.written)
		}
		if err == nil {
			err = s.finish(gone, false, &change)
		}
		s.abort()
	}
	op.Added, op.Removed = change.added, change.replaced
	if err != nil {
		t.discardRewrite(ctx, r.sink, change.added)
		return done, err
	}
	ds := v.base.ds
	if commits > 1 {
		if ds, err = ds.Commit(ctx, table.ReserveFragments{Count: uint32(len(r.sink.written))}); err != nil {
			t.discardRewrite(ctx, r.sink, change.added)
			return done, fmt.Errorf("compact %s: %w", t.root, err)
		}
	}
	next, err := ds.Commit(ctx, op)
	if err != nil {
		if refused(err) {
			t.discardRewrite(ctx, r.sink, change.added)
		}
		return done, fmt.Errorf("compact %s: %w", t.root, err)
	}
	placed := next.NewFragments()
	for i, g := range r.groups {
		n := len(op.Groups[i].New)
		done.Moves = append(done.Moves, table.Move{Old: g.old, New: placed[:n]})
		placed = placed[n:]
		for _, f := range g.old {
			done.Rows += f.LiveRows()
		}
		done.FragmentsRemoved += len(g.old)
	}
	done.Groups, done.FragmentsAdded = len(r.groups), len(r.sink.written)
	// Durable: the rows lie elsewhere from here on; what memory does not follow now, the next adoption does.
	return done, t.takeIn(ctx, h, v, next, commits, newRelocation(v.base, r.v.base, done.Moves))
}

// operation is what r commits on now, gone the fragments that this takes away, commits how many versions it makes: before a
// rewrite with deletions the ids of the new fragments are reserved, because deletion files are named after them.
// errs.ErrConflict: it cannot be done, the rewrite has to begin again.
func (r *rewriting) operation(ctx context.Context, now *base) (op table.Rewrite, gone *roaring.Bitmap, commits int, err error) {
	gone = roaring.New()
	if r.t.adoptions != r.taken {
		return op, gone, 0, fmt.Errorf("others committed to %s while its fragments were copied: %w", r.t.root, errs.ErrConflict)
	}
	op.DeferRemap = true
	dead := make([][]*roaring.Bitmap, len(r.groups)) // by group and new fragment
	commits = 1
	for i, g := range r.groups {
		x := table.RewriteGroup{Old: g.old, New: g.written}
		if now.ds.Version() != r.v.base.ds.Version() {
			x.Old, x.Read = nil, g.old
			for _, f := range g.old {
				if f = now.byID[uint32(f.ID)]; f != nil { // otherwise a merge has deleted all its rows
					x.Old = append(x.Old, f)
				}
			}
			dead[i] = r.deletedSince(now, g)
		}
		for _, f := range x.Old {
			gone.Add(uint32(f.ID))
		}
		for n, d := range dead[i] {
			switch {
			case d.IsEmpty():
			case d.GetCardinality() >= g.written[n].PhysicalRows:
				return op, gone, 0, fmt.Errorf("all rows of a fragment of %s were deleted while they were copied: %w", r.t.root, errs.ErrConflict)
			default:
				commits = 2
			}
		}
		op.Groups = append(op.Groups, x)
	}
	if commits == 1 {
		return op, gone, commits, nil
	}
	id := now.ds.NextFragmentID()
	for i, g := range r.groups {
		op.Groups[i].New = nil
		for n, f := range g.written {
			placed := *f
			placed.ID = id
			id++
			if dead[i] == nil || dead[i][n].IsEmpty() {
				op.Groups[i].New = append(op.Groups[i].New, &placed)
				continue
			}
			file, err := now.ds.WriteNewDeletions(ctx, &placed, dead[i][n])
			if err != nil {
				return op, gone, 0, err
			}
			op.Groups[i].New = append(op.Groups[i].New, placed.WithDeletion(file))
		}
	}
	return op, gone, commits, nil
}

// deletedSince is the rows of the new fragments of a group that were deleted in the base since they were copied.
func (r *rewriting) deletedSince(now *base, g rewriteGroup) []*roaring.Bitmap {
	out := make([]*roaring.Bitmap, len(g.written))
	for n := range out {
		out[n] = roaring.New()
	}
	n, first := 0, uint64(0) // new fragment, and how many rows lie before it
	before := uint64(0)      // rows that the fragments so far had when they were copied
	for _, f := range g.old {
		id := uint32(f.ID)
		was := r.v.base.deleted[id]
		var lost *roaring.Bitmap
		switch {
		case now.byID[id] == nil:
			lost = roaring.New()
			lost.AddRange(0, f.PhysicalRows)
		case now.deleted[id] != nil:
			lost = now.deleted[id].Clone()
		default:
			lost = roaring.New()
		}
		if was != nil {
			lost.AndNot(was)
		}
		for it := lost.Iterator(); it.HasNext(); {
			off := it.Next()
			at := before + uint64(off)
			if was != nil {
				at -= was.Rank(off)
			}
			for at >= first+g.written[n].PhysicalRows {
				first += g.written[n].PhysicalRows
				n++
			}
			out[n].Add(uint32(at - first))
		}
		before += f.LiveRows()
	}
	return out
}

// copyLive writes the live rows of a base fragment, in order.
func (t *Table) copyLive(ctx context.Context, b *base, f *table.Fragment, sink *fragmentSink) error {
	return eachBatch(ctx, b.ds, f, b.fieldIDs, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
		if t.closing.Load() {
			return fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
		}
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
func stays(old *base) relocation { return newRelocation(old, old, nil) }

// newRelocation is that of rewrites of old which keep the order of rows. read is the base version from which the rows were
// copied, old or an earlier one.
func newRelocation(old, read *base, moves []table.Move) relocation {
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
		if dv := read.deleted[at.Fragment()]; dv != nil {
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
