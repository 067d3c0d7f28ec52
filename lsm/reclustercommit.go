package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// writeIndexes writes a segment over the destinations for each index whose rows can be followed, unless the reuse history
// does that.
func (r *reclustering) writeIndexes(ctx context.Context) error {
	if r.o.Publish {
		return nil
	}
	return r.t.eachIndex(ctx, r.b, func(ci *columnIndex) error {
		entry, err := r.t.writeWhole(ctx, r.b, ci, r.destinations(), func(at rowaddr.Addr) (rowaddr.Addr, bool) {
			to, _, ok := r.moved(at)
			return to, ok
		})
		if err != nil {
			return err
		}
		r.names[ci.name] = true
		r.added = append(r.added, entry)
		return nil
	})
}

// joinSegments commits one segment for each index that has several, or none for some fragments. Why: a published recluster
// is one step with all fragments, and a segment follows it only if it covers them all.
func (t *Table) joinSegments(ctx context.Context, h Hooks) error {
	v, err := t.newest()
	if err != nil {
		return err
	}
	defer t.release(v)
	b := v.base
	all := roaring.New()
	for _, f := range b.frags {
		all.Add(uint32(f.ID))
	}
	var op table.CreateIndex
	entries, err := b.ds.Indexes()
	if err != nil {
		return err
	}
	err = t.eachIndex(ctx, b, func(ci *columnIndex) error {
		if len(ci.segs) == 1 && ci.covered.Equals(all) {
			return nil
		}
		entry, err := t.writeWhole(ctx, b, ci, all, func(at rowaddr.Addr) (rowaddr.Addr, bool) { return at, b.alive(at) })
		if err != nil {
			return err
		}
		op.New = append(op.New, entry)
		for _, e := range entries {
			if e.Name == ci.name {
				op.Removed = append(op.Removed, e.UUID)
			}
		}
		return nil
	})
	if err != nil || len(op.New) == 0 {
		t.discardSegments(ctx, op.New)
		return err
	}
	next, err := b.ds.Commit(ctx, op)
	if err != nil {
		if refused(err) {
			t.discardSegments(ctx, op.New)
		}
		return fmt.Errorf("join index segments: %w", err)
	}
	return t.takeIn(ctx, h, v, next, 1, stays(b))
}

// eachIndex visits the BTREE and key indexes of a base version whose segments can be read, those of other writers too, with
// an open index each. Indexes of others that cover nothing are left out.
func (t *Table) eachIndex(ctx context.Context, b *base, visit func(ci *columnIndex) error) error {
	entries, err := b.ds.Indexes()
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, e := range entries {
		info, known := indexes.KindOf(e.DetailsType)
		if !known || info.Kind != indexes.BTree && info.Kind != indexes.Key || seen[e.Name] {
			continue
		}
		ci, own, err := t.indexOf(ctx, b, e)
		if err != nil {
			return err
		}
		if ci == nil || !own && len(ci.segs) == 0 {
			continue
		}
		seen[e.Name] = true
		err = visit(ci)
		if !own {
			for _, u := range ci.segs {
				t.drop(u.x.Close())
			}
		}
		if err != nil {
			return fmt.Errorf("segment of index %s: %w", ci.name, err)
		}
	}
	return nil
}

// indexOf opens the index that an entry belongs to; nil if its columns are not plain ones of the table. own: it is one of
// those that are open anyway.
func (t *Table) indexOf(ctx context.Context, b *base, e table.IndexEntry) (ci *columnIndex, own bool, err error) {
	for _, ci := range append([]*columnIndex{b.pk}, b.secondary...) {
		if ci.name == e.Name && ci.holds(e) {
			return ci, true, nil
		}
	}
	var columns []int
	for _, id := range e.Fields {
		c := slices.Index(b.fieldIDs, id)
		if c < 0 || !btree.Supported(t.physical.Field(c).Type) {
			return nil, false, nil
		}
		columns = append(columns, c)
	}
	ci, err = t.openIndex(ctx, b, nil, e.Name, columns)
	if errors.Is(err, errs.ErrUnsupported) {
		return nil, false, nil
	}
	return ci, false, err
}

// writeWhole writes one segment of all rows of an index, under the addresses that place gives them; ok is false for rows
// that are gone. cover is the fragments these lie in.
func (t *Table) writeWhole(ctx context.Context, b *base, ci *columnIndex, cover *roaring.Bitmap, place func(rowaddr.Addr) (to rowaddr.Addr, ok bool)) (table.IndexEntry, error) {
	var streams []btree.Stream
	for _, u := range ci.segs {
		streams = append(streams, u.x.Stream(func(ids []uint64, keep []bool) error {
			if t.closing.Load() {
				return errs.ErrClosed
			}
			there, err := u.place(ctx, ids)
			if err != nil {
				return err
			}
			for i, id := range ids {
				if keep[i] = there[i]; keep[i] {
					var to rowaddr.Addr
					to, keep[i] = place(rowaddr.Addr(id))
					ids[i] = uint64(to)
				}
			}
			return nil
		}))
	}
	if bare := ci.uncovered(b); !bare.IsEmpty() {
		rest, err := t.bareStream(ctx, b, ci, bare, place)
		if err != nil {
			return table.IndexEntry{}, err
		}
		streams = append(streams, rest)
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return table.IndexEntry{}, fmt.Errorf("name an index segment: %w", err)
	}
	dir := store.NewDir(t.o.Store, indexes.SegmentDir(t.root, id), t.o.Alloc)
	sum, err := btree.Merge(ctx, dir, ci.typ, streams, btree.Options{Allocator: t.o.Alloc})
	if err != nil {
		return table.IndexEntry{}, errors.Join(err, t.o.Store.RemoveAll(context.WithoutCancel(ctx), indexes.SegmentDir(t.root, id)))
	}
	var files []table.IndexFile
	for _, f := range sum.Files {
		files = append(files, table.IndexFile{Path: f.Name, Size: f.Size})
	}
	return indexes.NewEntry(ci.kind, id, ci.name, ci.fields, cover, nil, files)
}

// bareStream sorts the values of fragments that no segment covers.
func (t *Table) bareStream(ctx context.Context, b *base, ci *columnIndex, bare *roaring.Bitmap, place func(rowaddr.Addr) (to rowaddr.Addr, ok bool)) (btree.Stream, error) {
	sorter, err := btree.NewSorter(ci.typ, 0, t.o.Alloc)
	if err != nil {
		return nil, err
	}
	for _, f := range b.frags {
		if !bare.Contains(uint32(f.ID)) {
			continue
		}
		err := eachBatch(ctx, b.ds, f, ci.fields, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
			ids, kept := make([]uint64, 0, rec.NumRows()), make([]int, 0, rec.NumRows())
			for i := range int(rec.NumRows()) {
				if to, ok := place(rowaddr.New(uint32(f.ID), uint32(first)+uint32(i))); ok {
					ids, kept = append(ids, uint64(to)), append(kept, i)
				}
			}
			values, err := btree.PKValues(t.o.Alloc, rec, positions(len(ci.fields)))
			if err != nil {
				return err
			}
			defer values.Release()
			if values, err = arrowx.TakeArray(t.o.Alloc, values, kept); err != nil {
				return err
			}
			defer values.Release()
			return sorter.Add(btree.Batch{Values: values, IDs: ids})
		})
		if err != nil {
			return nil, fmt.Errorf("index fragment %d: %w", f.ID, err)
		}
	}
	return sorter.Stream(), nil
}

// commit makes the destinations part of the table in place of the sources. The result says whether that has, or may have,
// happened: then nothing of it may be removed.
func (r *reclustering) commit(ctx context.Context, h Hooks) (committed bool, err error) {
	t := r.t
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	for range rewriteAttemptsMax {
		if _, err := t.adopt(ctx, h); err != nil {
			return false, fmt.Errorf("adopt outside commits: %w", err)
		}
		committed, err = r.commitOn(ctx, h)
		if committed || !errors.Is(err, errs.ErrConflict) || errors.Is(err, errStartOver) {
			break
		}
	}
	if err != nil || !committed {
		return committed, err
	}
	v, err := t.newest()
	if err != nil {
		return true, err
	}
	defer t.release(v)
	last, trimmed, err := v.base.ds.TrimFragmentReuse(ctx, table.TrimOptions{})
	if err != nil || trimmed == 0 {
		return true, err
	}
	return true, t.takeIn(ctx, h, v, last, 1, stays(v.base))
}

// errStartOver says that the sources are not what was read any more.
var errStartOver = fmt.Errorf("fragments were rewritten meanwhile: %w", errs.ErrConflict)

// commitOn is one attempt on the newest version.
func (r *reclustering) commitOn(ctx context.Context, h Hooks) (committed bool, err error) {
	cur, err := r.t.newest()
	if err != nil {
		return false, err
	}
	defer r.t.release(cur)
	group := table.RewriteGroup{Read: r.sources, Partition: r.partition}
	if group.Old, err = r.stillThere(ctx, cur.base); err != nil {
		return false, err
	}
	if group.New, err = r.newFragments(ctx, cur.base); err != nil {
		return false, err
	}
	if len(group.Old) == 0 {
		return false, nil // every row was deleted meanwhile
	}
	op := table.Rewrite{Groups: []table.RewriteGroup{group}, DeferRemap: r.o.Publish, Added: slices.Clone(r.added)}
	if op.Removed, err = r.emptied(ctx, cur.base); err != nil {
		return false, err
	}
	gone := roaring.New()
	for _, f := range r.sources {
		gone.Add(uint32(f.ID))
	}
	zones, err := r.t.newZoneFeed(cur.base)
	if err != nil {
		return false, err
	}
	zones.done, zones.rows = r.zones.done, r.zones.rows
	change, err := zones.finish(ctx, zoneBatch{gone: gone, first: uint32(r.first)})
	if err != nil {
		r.t.discardSegments(ctx, change.added)
		return false, err
	}
	op.Added, op.Removed = append(op.Added, change.added...), append(op.Removed, change.replaced...)
	next, err := cur.base.ds.Commit(ctx, op)
	if err != nil {
		if refused(err) {
			r.t.discardSegments(ctx, change.added)
			return false, err
		}
		return true, err
	}
	// Durable: the rows lie elsewhere from here on; what memory does not follow now, the next adoption does.
	return true, r.t.takeIn(ctx, h, cur, next, 1, r.relocation(cur.base))
}

// stillThere returns the sources as they are in b. One may be gone because all its rows were deleted; one that somebody
// else rewrote means to start over.
func (r *reclustering) stillThere(ctx context.Context, b *base) ([]*table.Fragment, error) {
	var out []*table.Fragment
	vanished := make(map[uint64]bool)
	for _, f := range r.sources {
		now := b.byID[uint32(f.ID)]
		switch {
		case now == nil:
			vanished[f.ID] = true
		case !sameFiles(f, now):
			return nil, errStartOver
		default:
			out = append(out, now)
		}
	}
	for v := r.b.ds.Version() + 1; v <= b.ds.Version() && len(vanished) > 0; v++ {
		ds, err := b.ds.At(ctx, v)
		if err != nil {
			return nil, errors.Join(errStartOver, err)
		}
		txn, err := ds.Transaction(ctx)
		if err != nil {
			return nil, errors.Join(errStartOver, err)
		}
		switch op := txn.Op.(type) {
		case table.Overwrite, table.Restore:
			return nil, errStartOver
		case table.Rewrite:
			for _, g := range op.Groups {
				if slices.ContainsFunc(g.Old, func(f *table.Fragment) bool { return vanished[f.ID] }) {
					return nil, errStartOver
				}
			}
		}
	}
	return out, nil
}

// newFragments returns the destinations, with deletion files for the rows that were deleted in b since they were copied.
// One without any row left is left out.
func (r *reclustering) newFragments(ctx context.Context, b *base) ([]*table.Fragment, error) {
	dead := make([]*roaring.Bitmap, len(r.ends))
	kill := func(at rowaddr.Addr) {
		if to, _, ok := r.moved(at); ok {
			i := uint64(to.Fragment()) - r.first
			if dead[i] == nil {
				dead[i] = roaring.New()
			}
			dead[i].Add(to.Offset())
		}
	}
	for _, f := range r.sources {
		id := uint32(f.ID)
		if b.byID[id] == nil {
			for off := range uint32(f.PhysicalRows) {
				kill(rowaddr.New(id, off))
			}
			continue
		}
		if b.deleted[id] != nil {
			for it := b.deleted[id].Iterator(); it.HasNext(); {
				kill(rowaddr.New(id, it.Next()))
			}
		}
	}
	var out []*table.Fragment
	for i, f := range r.sink.written {
		f = f.WithDeletion(nil)
		f.ID = r.first + uint64(i)
		switch {
		case dead[i] == nil:
		case dead[i].GetCardinality() < f.PhysicalRows:
			file, err := b.ds.WriteNewDeletions(ctx, f, dead[i])
			if err != nil {
				return nil, err
			}
			f = f.WithDeletion(file)
		case r.o.Publish:
			return nil, errStartOver // Why: what is published names all destinations
		default:
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

// emptied lists the segments that the new ones stand for: of the indexes that were written, those that cover nothing but
// sources in b.
func (r *reclustering) emptied(ctx context.Context, b *base) ([]uuid.UUID, error) {
	entries, err := b.ds.Indexes()
	if err != nil {
		return nil, err
	}
	history, err := fragreuse.Open(ctx, b.ds, fragreuse.Options{})
	if err != nil {
		return nil, err
	}
	var out []uuid.UUID
	for _, e := range entries {
		if !r.names[e.Name] || e.Fragments == nil {
			continue
		}
		covered := e.Fragments
		if moved, err := history.Segment(ctx, e.UUID, covered); err == nil {
			covered = moved.Coverage()
		}
		left := false
		for it := covered.Iterator(); it.HasNext() && !left; {
			id := it.Next()
			_, source := r.at[id]
			left = !source && b.byID[id] != nil
		}
		if !left {
			out = append(out, e.UUID)
		}
	}
	return out, nil
}

// relocation leads rows of b to their new places.
func (r *reclustering) relocation(b *base) relocation {
	return func(list []rowaddr.Addr, moved func(i int, to rowaddr.Addr)) {
		for i, at := range list {
			if to, _, ok := r.moved(at); ok && b.alive(at) {
				moved(i, to)
			}
		}
	}
}

// discard removes what was written.
func (r *reclustering) discard(ctx context.Context) {
	if r.sink == nil {
		return
	}
	r.t.discardRewrite(ctx, r.sink, r.added)
	if r.partition != nil {
		dir := r.t.root + "/" + table.FragmentReuseDir + "/" + r.partition.MapID.String()
		if err := r.t.o.Store.RemoveAll(context.WithoutCancel(ctx), dir); err != nil {
			r.t.o.Log.Warn("remove a row map that no version names", "table", r.t.root, "error", err)
		}
	}
}
