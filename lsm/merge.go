package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// Hooks are what a mover needs to know about the engine's clock of commits.
type Hooks struct {
	LowWater func() uint64 // smallest CommitSeq any view may have
	Advance  func() uint64 // takes a fresh CommitSeq for an adoption
}

// mergeAttemptsMax bounds how often a merge starts over because outside commits arrived.
const mergeAttemptsMax = 20

// retired is a merged generation waiting for removal.
type retired struct {
	sh     *shard
	number uint64
	dir    string
	state  *genState // nil when found merged at open
	since  time.Time
}

// Merge folds all flushed generations into the base table in one commit that carries the merged generation
// number. Outside commits met on the way are adopted first. It is a no-op without flushed generations.
// Spec: MemWAL, "Background jobs merge flushed generations"; memwal.md §12.
func (t *Table) Merge(ctx context.Context, h Hooks) error {
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	for range mergeAttemptsMax {
		if _, err := t.adopt(ctx, h); err != nil {
			return fmt.Errorf("adopt outside commits: %w", err)
		}
		err := t.mergeOnce(ctx)
		t.Settle(h.LowWater())
		if !errors.Is(err, errs.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("merge table %s: %w", t.root, errs.ErrConflict)
}

// fold is one merge being computed.
type fold struct {
	t       *Table
	v       *Version
	pending []*generation // shard by shard, ascending
	tops    []uint64      // by shard: highest generation folded in, 0 = none

	dead    map[uint32]*roaring.Bitmap // base rows that die, by fragment
	emitted []*roaring.Bitmap          // per pending generation: offsets copied, in order
	copied  int                        // rows
	indexes []*segmentBuilder          // of all indexes
	zones   *zoneFeed
	scans   []*scanBuilder
	sink    *fragmentSink
}

func (t *Table) mergeOnce(ctx context.Context) (err error) {
	v, err := t.newest()
	if err != nil {
		return err
	}
	defer t.release(v)
	f := &fold{t: t, v: v, dead: make(map[uint32]*roaring.Bitmap)}
	f.tops = make([]uint64, len(v.gens))
	for o, gens := range v.gens {
		for _, g := range gens[:len(gens)-1] {
			if g.mem != nil {
				break // Why: ascending order; what lies above an unflushed generation must wait (I5)
			}
			f.pending = append(f.pending, g)
			f.tops[o] = g.number
		}
	}
	if len(f.pending) == 0 {
		return nil
	}
	f.collectDeaths()
	if f.indexes, err = t.segmentBuilders(ctx, v.base); err != nil {
		return err
	}
	if f.zones, err = t.newZoneFeed(v.base); err != nil {
		return err
	}
	f.sink = &fragmentSink{ds: v.base.ds, rows: t.tuning().FragmentRows, feeds: []rowFeed{f.zones}}
	for _, s := range f.indexes {
		f.sink.feeds = append(f.sink.feeds, s)
	}
	f.scans = t.scanBuilders(ctx, v.base, uint32(v.base.ds.NextFragmentID()), indexes.Bitmap, indexes.Bloom)
	for _, s := range f.scans {
		f.sink.feeds = append(f.sink.feeds, s)
		defer s.abort()
	}
	defer f.sink.abort()
	if err := f.copyRows(ctx); err != nil {
		return err
	}
	ds, err := f.commit(ctx)
	if err != nil {
		return err
	}
	// Durable: the base covers the generations from here on.
	return f.publish(ctx, ds)
}

// folds reports whether a generation is among those being merged.
func (f *fold) folds(id SourceID) bool {
	return id.shard() < len(f.tops) && id.generation() <= f.tops[id.shard()]
}

// collectDeaths finds the base rows that rows of the pending generations replaced. Their deaths are final: those
// generations take no more rows.
func (f *fold) collectDeaths() {
	f.v.base.deaths.each(func(a rowaddr.Addr, d death) {
		if !f.folds(d.killer) || f.t.o.Planted.SkipDeathMask {
			return
		}
		bm := f.dead[a.Fragment()]
		if bm == nil {
			bm = roaring.New()
			f.dead[a.Fragment()] = bm
		}
		bm.Add(a.Offset())
	})
}

// copyRows writes every row of the pending generations that no pending generation replaced, tombstones
// excepted, generations ascending and rows in order.
func (f *fold) copyRows(ctx context.Context) error {
	for _, g := range f.pending {
		dead := roaring.New()
		g.deaths.each(func(a rowaddr.Addr, d death) {
			if f.folds(d.killer) {
				dead.Add(a.Offset())
			}
		})
		kept := roaring.New()
		if err := f.copyGeneration(ctx, g, dead, kept); err != nil {
			return fmt.Errorf("copy generation %d: %w", g.number, err)
		}
		f.emitted = append(f.emitted, kept)
	}
	return f.sink.endFragment(ctx)
}

func (f *fold) copyGeneration(ctx context.Context, g *generation, dead, kept *roaring.Bitmap) error {
	r, err := g.ds.ScanFragment(ctx, g.frag, g.fieldIDs, 0, g.frag.PhysicalRows, f.t.o.BatchRows)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		first, rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = f.copyBatch(ctx, g, uint32(first), rec, dead, kept)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

func (f *fold) copyBatch(ctx context.Context, g *generation, first uint32, rec arrow.RecordBatch, dead, kept *roaring.Bitmap) error {
	tomb, ok := rec.Column(int(rec.NumCols()) - 1).(*array.Boolean)
	if !ok {
		return errs.Corrupt(g.sh.dir.path, -1, "tombstone column is not boolean")
	}
	mask := arrowx.NewMask(int(rec.NumRows()))
	for i := range int(rec.NumRows()) {
		off := first + uint32(i)
		if dead.Contains(off) || tomb.Value(i) {
			continue
		}
		mask.Set(i)
		kept.Add(off)
		f.copied++
	}
	if mask.Count() == 0 {
		return nil
	}
	out, err := f.t.project(rec, mask)
	if err != nil {
		return err
	}
	defer out.Release()
	return f.sink.write(ctx, out)
}

// project keeps the masked rows and the physical columns of a generation batch.
func (t *Table) project(rec arrow.RecordBatch, mask *arrowx.Mask) (arrow.RecordBatch, error) {
	rows, err := arrowx.FilterByMask(t.o.Alloc, rec, mask)
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	n := t.physical.NumFields()
	return array.NewRecordBatch(t.physical, rows.Columns()[:n], rows.NumRows()), nil
}

// commit writes the deletion vectors and the one Update transaction.
func (f *fold) commit(ctx context.Context) (*table.Dataset, error) {
	b := f.v.base
	op := table.Update{NewFragments: f.sink.written}
	for o, top := range f.tops {
		if top > 0 {
			op.Merged = append(op.Merged, table.MergedGeneration{Shard: f.v.set.list[o].dir.id, Generation: top})
		}
	}
	for _, frag := range b.frags {
		dead := f.dead[uint32(frag.ID)]
		if dead == nil {
			continue
		}
		all := dead.Clone()
		if old := b.deleted[uint32(frag.ID)]; old != nil {
			all.Or(old)
		}
		if all.GetCardinality() >= frag.PhysicalRows {
			op.RemovedFragmentIDs = append(op.RemovedFragmentIDs, frag.ID)
			continue
		}
		file, err := b.ds.WriteDeletions(ctx, frag.ID, all)
		if err != nil {
			return nil, err
		}
		op.UpdatedFragments = append(op.UpdatedFragments, frag.WithDeletion(file))
	}
	for _, field := range b.ds.Schema().Fields {
		op.FieldsForPreservingFragBitmap = append(op.FieldsForPreservingFragBitmap, uint32(field.ID))
	}
	for _, s := range f.indexes {
		if err := s.finish(ctx, b, f.dead, &op); err != nil {
			f.t.discardSegments(ctx, op.NewIndexes)
			return nil, err
		}
	}
	gone := roaring.New()
	for _, id := range op.RemovedFragmentIDs {
		gone.Add(uint32(id))
	}
	change, err := f.zones.finish(ctx, zoneBatch{gone: gone, first: uint32(b.ds.NextFragmentID()), rows: f.zones.options.EveryRows, read: true})
	for _, s := range f.scans {
		if err == nil {
			err = s.finish(gone, true, &change)
		}
	}
	op.NewIndexes, op.ReplacedIndexes = append(op.NewIndexes, change.added...), append(op.ReplacedIndexes, change.replaced...)
	if err != nil {
		f.t.discardSegments(ctx, op.NewIndexes)
		return nil, err
	}
	ds, err := b.ds.Commit(ctx, op)
	if errors.Is(err, errs.ErrConflict) {
		f.t.discardSegments(ctx, op.NewIndexes)
	}
	return ds, err
}

// publish indexes the new fragments, translates the deaths that arrived meanwhile and swaps the Version.
func (f *fold) publish(ctx context.Context, ds *table.Dataset) error {
	t, old := f.t, f.v.base
	nb, err := t.openBase(ctx, ds, old, nil)
	if err != nil {
		return t.stop(err)
	}
	if err := t.readKeys(ctx, nb, func(uint32) bool { return true }); err != nil { // none, unless the new segment cannot be used
		return t.stop(err)
	}
	addrs, err := f.newAddresses(nb)
	if err != nil {
		return t.stop(err)
	}
	f.zones.publish(nb)
	stays := func(d death) bool { return !f.folds(d.killer) }
	deaths := carrying{to: nb.deaths}
	defer deaths.end()
	deaths.add(old.deaths, stays, func(at []rowaddr.Addr, moved func(int, rowaddr.Addr)) {
		for i, a := range at {
			moved(i, a)
		}
	})
	floor := f.v.floor
	for i, g := range f.pending {
		kept := f.emitted[i]
		copies := addrs[:kept.GetCardinality()]
		addrs = addrs[len(copies):]
		deaths.add(g.deaths, stays, func(at []rowaddr.Addr, moved func(int, rowaddr.Addr)) {
			for i, a := range at {
				if kept.Contains(a.Offset()) {
					moved(i, copies[kept.Rank(a.Offset())-1])
				}
			}
		})
		floor = max(floor, g.births.Last())
	}
	t.latch.Lock()
	defer t.latch.Unlock()
	deaths.last()
	t.mu.Lock()
	defer t.mu.Unlock()
	cur := t.chain[len(t.chain)-1]
	t.publishLocked(&Version{base: nb, set: cur.set, gens: f.remaining(cur), floor: floor})
	now := t.o.Clock.Now()
	for _, g := range f.pending {
		t.retired = append(t.retired, retired{sh: g.sh, number: g.number, dir: g.dir, state: g.genState, since: now})
	}
	return nil
}

// remaining is the generations of v that were not folded in.
func (f *fold) remaining(v *Version) [][]*generation {
	out := make([][]*generation, len(v.gens))
	for o, gens := range v.gens {
		out[o] = slices.DeleteFunc(slices.Clone(gens), func(g *generation) bool { return f.folds(g.id) })
	}
	return out
}

// newAddresses lists the address of every copied row, in order. The commit gave the new fragments ascending
// ids above all old ones.
func (f *fold) newAddresses(nb *base) ([]rowaddr.Addr, error) {
	var fresh []*table.Fragment
	for _, frag := range nb.frags {
		if f.v.base.byID[uint32(frag.ID)] == nil {
			fresh = append(fresh, frag)
		}
	}
	if len(fresh) != len(f.sink.written) {
		return nil, fmt.Errorf("merge wrote %d fragments, version %d has %d new ones: %w",
			len(f.sink.written), nb.ds.Version(), len(fresh), errs.ErrConflict)
	}
	addrs := make([]rowaddr.Addr, 0, f.copied)
	for i, frag := range fresh {
		if frag.PhysicalRows != f.sink.written[i].PhysicalRows {
			return nil, fmt.Errorf("new fragment %d has %d rows, wrote %d: %w", frag.ID, frag.PhysicalRows, f.sink.written[i].PhysicalRows, errs.ErrConflict)
		}
		for off := range uint32(frag.PhysicalRows) {
			addrs = append(addrs, rowaddr.New(uint32(frag.ID), off))
		}
	}
	if len(addrs) != f.copied {
		return nil, fmt.Errorf("merge copied %d rows, new fragments have %d: %w", f.copied, len(addrs), errs.ErrConflict)
	}
	return addrs, nil
}

// stop closes the table after a commit that memory could not follow: reopening rebuilds everything from disk.
func (t *Table) stop(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return fmt.Errorf("table %s must be reopened: %w", t.root, errors.Join(errs.ErrPoisoned, err))
}
