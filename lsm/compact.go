package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/lance/table"
)

// BaseInfo describes the base table of the newest Version.
type BaseInfo struct {
	Version   uint64
	Fragments int
	Small     int    // fragments far below the size a merge or compaction aims at
	Rows      uint64 // live rows
	Deleted   uint64 // rows in deletion vectors
	Unindexed int    // fragments whose keys are in memory until the next merge, because no segment covers them
	Shards    int
}

// smallPart: a fragment is small below this part of the rows it could have.
const smallPart = 4

// Base describes the base; zero once the table is closed.
func (t *Table) Base() BaseInfo {
	v, err := t.newest()
	if err != nil {
		return BaseInfo{}
	}
	defer t.release(v)
	i := BaseInfo{Version: v.base.ds.Version(), Fragments: len(v.base.frags), Shards: len(v.set.list)}
	for _, f := range v.base.frags {
		i.Rows += f.LiveRows()
		i.Deleted += f.DeletedRows
		if !t.keyless() && !v.base.pk.covered.Contains(uint32(f.ID)) {
			i.Unindexed++
		}
		if f.LiveRows() < uint64(t.tuning().FragmentRows)/smallPart {
			i.Small++
		}
	}
	return i
}

// Compaction says what Compact does. The zero value joins everything small and leaves index segments as they are.
type Compaction struct {
	// Small joins only fragments that are far below the aim (see BaseInfo), so that repeated compactions rewrite a row a
	// logarithmic number of times; without it all that are not full are joined.
	Small bool
	// Groups bounds how many groups of neighbours one call rewrites, and so how long merges wait; 0 = all there are.
	Groups int
	// RemapFrom rewrites index segments whose rows have moved at least this many times; 0 = none.
	RemapFrom int
	// CatchUp gives fragments their zones as soon as the rows that wait for them fill one, and their place in BITMAP and
	// BLOOMFILTER indexes.
	CatchUp bool
	NoWait  bool // nothing is done while another compaction or a recluster runs
}

// Compacted is what Compact did.
type Compacted struct {
	table.Compacted
	Remapped int // index segments rewritten
	CaughtUp int // index segments added for fragments that had been without
	Trimmed  int // steps of the reuse history forgotten
}

// catchUpMax bounds the segments that one call adds for fragments that had been without.
const catchUpMax = 1 << 12

// compactRoundsMax bounds how often what a compaction left is looked at again.
const compactRoundsMax = 8

// Compact joins small fragments of the base and drops rows deleted there, in order; what the indexes say of them is
// recorded in the reuse history, and segments are rewritten as asked for. Rows are copied beside merges; the commit token of
// the table is held for the commits and for segments. Outside commits met on the way are adopted; views begun before go on
// reading what they read, and the Floor stays. Without anything to do nothing is committed.
//
// errs.ErrUnsupported in tables whose fragments this package cannot rewrite (see table.Dataset.Compact).
// Spec: Fragment Reuse Index, "Expected Use Pattern".
func (t *Table) Compact(ctx context.Context, h Hooks, o Compaction) (done Compacted, err error) {
	if !o.NoWait {
		t.rewriteMu.Lock()
	} else if !t.rewriteMu.TryLock() {
		return done, nil
	}
	defer t.rewriteMu.Unlock()
	lost := 0
	for range compactRoundsMax {
		step, err := t.compactBase(ctx, h, o, false)
		for ; errors.Is(err, errs.ErrConflict) && lost < rewriteAttemptsMax; lost++ {
			step, err = t.compactBase(ctx, h, o, true) // Why: merges of a small table may delete all that was copied, for ever
		}
		if err != nil {
			return done, err
		}
		done.Groups += step.Groups
		done.FragmentsRemoved += step.FragmentsRemoved
		done.FragmentsAdded += step.FragmentsAdded
		done.Rows += step.Rows
		if step.Groups == 0 || o.Groups > 0 && done.Groups >= o.Groups {
			break
		}
	}
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	if _, err := t.adopt(ctx, h); err != nil {
		return done, fmt.Errorf("adopt outside commits: %w", err)
	}
	for n := 1; o.CatchUp && n > 0 && done.CaughtUp < catchUpMax; done.CaughtUp += n {
		if n, err = t.catchUp(ctx, h); err != nil {
			return done, err
		}
	}
	if o.RemapFrom <= 0 {
		return done, nil
	}
	v, err := t.newest()
	if err != nil {
		return done, err
	}
	defer t.release(v)
	last, n, err := t.remap(ctx, v, o.RemapFrom)
	if done.Remapped = n; err != nil {
		return done, err
	}
	last, done.Trimmed, err = last.TrimFragmentReuse(ctx, table.TrimOptions{})
	if err != nil {
		return done, err
	}
	if done.Trimmed > 0 {
		n++
	}
	return done, t.takeIn(ctx, h, v, last, n, stays(v.base))
}

// CatchUp commits segments over fragments of the base that scans have none for: see Compaction.CatchUp. Merges come between.
func (t *Table) CatchUp(ctx context.Context, h Hooks) (segments int, err error) {
	for n := 1; n > 0 && err == nil && segments < catchUpMax; segments += n {
		n, err = t.catchUpOnce(ctx, h)
	}
	return segments, err
}

func (t *Table) catchUpOnce(ctx context.Context, h Hooks) (int, error) {
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	if _, err := t.adopt(ctx, h); err != nil {
		return 0, fmt.Errorf("adopt outside commits: %w", err)
	}
	return t.catchUp(ctx, h)
}

// catchUp commits segments over fragments that scans have none for, and returns how many.
func (t *Table) catchUp(ctx context.Context, h Hooks) (int, error) {
	v, err := t.newest()
	if err != nil {
		return 0, err
	}
	defer t.release(v)
	zones, err := t.newZoneFeed(v.base)
	if err != nil {
		return 0, err
	}
	none := roaring.New()
	change, err := zones.finish(ctx, zoneBatch{gone: none, rows: int64(zones.zoneRows()), read: true})
	for _, s := range t.scanBuilders(ctx, v.base, 0, indexes.Bitmap, indexes.Bloom) {
		if err == nil {
			err = s.finish(none, true, &change)
		}
		s.abort()
	}
	if err != nil || len(change.added) == 0 {
		t.discardSegments(ctx, change.added)
		return 0, err
	}
	next, err := v.base.ds.Commit(ctx, table.CreateIndex{New: change.added, Removed: change.replaced})
	if refused(err) {
		t.discardSegments(ctx, change.added)
	}
	if errors.Is(err, errs.ErrConflict) {
		_, err := t.adopt(ctx, h) // the caller comes again
		return len(change.added), err
	}
	if err != nil {
		return 0, fmt.Errorf("index fragments of %s: %w", t.root, err)
	}
	return len(change.added), t.takeIn(ctx, h, v, next, 1, stays(v.base))
}

// takeIn takes in commits of our own that made version next of v's: rows moved, or nothing did. Since every death is known
// with its time, the Floor stays. If somebody else has committed in between, all is adopted.
func (t *Table) takeIn(ctx context.Context, h Hooks, v *Version, next *table.Dataset, commits int, to relocation) error {
	if commits == 0 {
		return nil
	}
	old := v.base
	if next.Version() != old.ds.Version()+uint64(commits) {
		_, err := t.adopt(ctx, h)
		return err
	}
	nb, err := t.openBase(ctx, next, old, old.keys)
	if err != nil {
		return err
	}
	if err := t.readKeys(ctx, nb, func(id uint32) bool { return old.byID[id] == nil || old.pk.covered.Contains(id) }); err != nil {
		return err
	}
	deaths := carrying{to: nb.deaths}
	defer deaths.end()
	deaths.add(old.deaths, func(death) bool { return true }, to)
	t.latch.Lock()
	defer t.latch.Unlock()
	deaths.last()
	t.mu.Lock()
	defer t.mu.Unlock()
	cur := t.chain[len(t.chain)-1] // Why: commits, freezes and flushes went on, but nothing else swaps the base
	t.publishLocked(&Version{base: nb, set: cur.set, gens: cur.gens, floor: cur.floor})
	return nil
}

// remap rewrites the segments of v whose rows have moved at least from times, each in a commit of its own. It returns the
// last of them and how many there were.
func (t *Table) remap(ctx context.Context, v *Version, from int) (*table.Dataset, int, error) {
	var due []segmentUse
	v.base.segments(func(u segmentUse) {
		if u.moved != nil && u.moved.Steps() >= from && !slices.ContainsFunc(due, func(d segmentUse) bool { return d.indexSegment == u.indexSegment }) {
			due = append(due, u)
		}
	})
	n := 0
	ds := v.base.ds
	rewrite := func(id uuid.UUID, write func(ctx context.Context, moved *fragreuse.Translation) (table.IndexEntry, error)) error {
		next, done, err := fragreuse.Remap(ctx, ds, id, fragreuse.Options{}, func(ctx context.Context, _ table.IndexEntry, moved *fragreuse.Translation) (table.IndexEntry, error) {
			return write(ctx, moved)
		})
		if err != nil {
			return err
		}
		if ds = next; done {
			n++
		}
		return nil
	}
	for _, u := range due {
		err := rewrite(u.entry.UUID, func(ctx context.Context, moved *fragreuse.Translation) (table.IndexEntry, error) {
			return t.rewriteSegment(ctx, u, moved)
		})
		if err != nil {
			return ds, n, err
		}
	}
	for c, segs := range v.base.scans {
		for _, s := range segs {
			if s.moved == nil || s.moved.Steps() < from {
				continue
			}
			x, err := s.load(ctx, t, t.physical.Field(c).Type)
			if err != nil || x == nil {
				return ds, n, err
			}
			err = rewrite(s.entry.UUID, func(ctx context.Context, _ *fragreuse.Translation) (table.IndexEntry, error) {
				// Its own coverage is that of a segment that answers for all of it.
				w := &scanBuilder{t: t, b: v.base, def: ScanIndex{Name: s.entry.Name, Column: c, Kind: s.kind}, ctx: ctx, cover: roaring.New()}
				defer w.abort()
				if err := w.join(s, s.moved.Coverage()); err != nil {
					return table.IndexEntry{}, err
				}
				entry, _, err := w.write()
				return entry, err
			})
			if err != nil {
				return ds, n, err
			}
		}
	}
	return ds, n, nil
}

// rewriteSegment writes a segment with the addresses of today. What it wrote is removed if it cannot finish; what a commit
// that fails leaves is swept with the old versions.
func (t *Table) rewriteSegment(ctx context.Context, u segmentUse, moved *fragreuse.Translation) (table.IndexEntry, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return table.IndexEntry{}, fmt.Errorf("name an index segment: %w", err)
	}
	dir := store.NewDir(t.o.Store, indexes.SegmentDir(t.root, id), t.o.Alloc)
	stream := u.x.Stream(func(ids []uint64, keep []bool) error {
		for i := range keep {
			keep[i] = true
		}
		return moved.IDs(ctx)(ids, keep)
	})
	sum, err := btree.Merge(ctx, dir, u.x.Type(), []btree.Stream{stream}, btree.Options{Allocator: t.o.Alloc})
	if err != nil {
		return table.IndexEntry{}, errors.Join(err, t.o.Store.RemoveAll(context.WithoutCancel(ctx), indexes.SegmentDir(t.root, id)))
	}
	var files []table.IndexFile
	for _, f := range sum.Files {
		files = append(files, table.IndexFile{Path: f.Name, Size: f.Size})
	}
	kind := indexes.BTree
	if u.tuples {
		kind = indexes.Key
	}
	return indexes.NewEntry(kind, id, u.entry.Name, u.entry.Fields, nil, nil, files)
}
