package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/lance/table"
)

// BaseInfo describes the base table of the newest Version.
type BaseInfo struct {
	Version   uint64
	Fragments int
	Small     int    // fragments far below the size a merge or compaction aims at
	Rows      uint64 // live rows
	Deleted   uint64 // rows in deletion vectors
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
		if f.LiveRows() < uint64(t.o.RowsPerFragment)/smallPart {
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
}

// Compacted is what Compact did.
type Compacted struct {
	table.Compacted
	Remapped int // index segments rewritten
	Trimmed  int // steps of the reuse history forgotten
}

// compactRoundsMax bounds how often what a compaction left is looked at again.
const compactRoundsMax = 8

// Compact joins small fragments of the base and drops rows deleted there, in order; what the indexes say of them is
// recorded in the reuse history, and segments are rewritten as asked for. It holds the commit token of the table: no merge
// runs meanwhile. Outside commits met on the way are adopted; its own are taken in the same way, so that views begun before
// go on reading what they read. Without anything to do nothing is committed.
//
// errs.ErrUnsupported in tables whose fragments this package cannot rewrite (see table.Dataset.Compact).
// Spec: Fragment Reuse Index, "Expected Use Pattern".
func (t *Table) Compact(ctx context.Context, h Hooks, o Compaction) (done Compacted, err error) {
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	if _, err := t.adopt(ctx, h); err != nil {
		return done, fmt.Errorf("adopt outside commits: %w", err)
	}
	for range compactRoundsMax {
		step, err := t.compactBase(ctx, h, o)
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
	if o.RemapFrom <= 0 {
		return done, nil
	}
	if done.Remapped, err = t.remap(ctx, o.RemapFrom); err != nil {
		return done, err
	}
	if done.Trimmed, err = t.trimReuse(ctx); err != nil {
		return done, err
	}
	_, err = t.adopt(ctx, h)
	return done, err
}

// compactBase is one commit of a compaction, taken in.
func (t *Table) compactBase(ctx context.Context, h Hooks, o Compaction) (table.Compacted, error) {
	v, err := t.newest()
	if err != nil {
		return table.Compacted{}, err
	}
	defer t.release(v)
	c := table.CompactOptions{FragmentRows: uint64(t.o.RowsPerFragment), DeferRemap: true, GroupsMax: o.Groups}
	if o.Small {
		c.SmallRows = uint64(t.o.RowsPerFragment) / smallPart
	}
	next, done, err := v.base.ds.Compact(ctx, c)
	if err != nil || done.Groups == 0 {
		return table.Compacted{}, err
	}
	t.mu.Lock()
	twice := t.twice
	t.mu.Unlock()
	// Durable: the rows lie elsewhere from here on; what memory does not follow now, the next adoption does.
	if _, err := t.adopt(ctx, h); err != nil {
		return done, fmt.Errorf("adopt the compaction: %w", err)
	}
	if next.Version() == v.base.ds.Version()+1 {
		t.mu.Lock()
		t.twice = twice // Why: keys that were there twice have moved, no more came
		t.mu.Unlock()
	}
	return done, nil
}

// remap rewrites the segments whose rows have moved at least from times, each in a commit of its own.
func (t *Table) remap(ctx context.Context, from int) (int, error) {
	v, err := t.newest()
	if err != nil {
		return 0, err
	}
	defer t.release(v)
	var due []segmentUse
	v.base.segments(func(u segmentUse) {
		if u.moved != nil && u.moved.Steps() >= from && !slices.ContainsFunc(due, func(d segmentUse) bool { return d.indexSegment == u.indexSegment }) {
			due = append(due, u)
		}
	})
	n := 0
	ds := v.base.ds
	for _, u := range due {
		next, done, err := fragreuse.Remap(ctx, ds, u.entry.UUID, fragreuse.Options{}, func(ctx context.Context, _ table.IndexEntry, moved *fragreuse.Translation) (table.IndexEntry, error) {
			return t.rewriteSegment(ctx, u, moved)
		})
		if err != nil {
			return n, err
		}
		if ds = next; done {
			n++
		}
	}
	return n, nil
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
	return indexes.NewEntry(indexes.BTree, id, u.entry.Name, u.entry.Fields[0], nil, nil, files)
}

// trimReuse forgets the steps of the reuse history that no segment needs any more.
func (t *Table) trimReuse(ctx context.Context) (int, error) {
	v, err := t.newest()
	if err != nil {
		return 0, err
	}
	defer t.release(v)
	latest, err := v.base.ds.Latest(ctx)
	if err != nil {
		return 0, err
	}
	_, n, err := latest.TrimFragmentReuse(ctx, table.TrimOptions{})
	return n, err
}
