package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/engine/sched"
	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/clock"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
	"lancesql/internal/predicate"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// outsider is another Lance writer on the same disk. Its own operations are not numbered: they happen or have not begun.
type outsider struct {
	store objstore.Store
	path  string
}

func (o outsider) change(ctx context.Context, do func(*table.Dataset) error) error {
	ds, err := table.Open(ctx, o.store, o.path)
	if err != nil {
		return err
	}
	return do(ds)
}

func (o outsider) add(ctx context.Context, c contents) error {
	return o.change(ctx, func(ds *table.Dataset) error {
		var rows []arrowx.Row
		for id, v := range c {
			rows = append(rows, testRow(id, v))
		}
		s, err := ds.Schema().Arrow()
		if err != nil {
			return err
		}
		rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rows)
		if err != nil {
			return err
		}
		_, err = ds.Append(ctx, table.Records(s, rec), table.WriteOptions{})
		return err
	})
}

func (o outsider) remove(ctx context.Context, id int64) error {
	return o.change(ctx, func(ds *table.Dataset) error {
		_, _, err := ds.DeleteWhere(ctx, predicate.Compare{Column: 0, Op: predicate.Eq, Value: id})
		return err
	})
}

func (o outsider) compact(ctx context.Context) error {
	return o.change(ctx, func(ds *table.Dataset) error {
		_, _, err := ds.Compact(ctx, table.CompactOptions{FragmentRows: 1000, DeferRemap: true})
		return err
	})
}

// claim takes the shard over as a lancedb process does, writes a row into the WAL, and leaves.
func (o outsider) claim(ctx context.Context, key func(arrowx.Row) (lsm.Op, error), row arrowx.Row) error {
	keys, err := pkstore.Open()
	if err != nil {
		return err
	}
	s, err := lsm.Open(ctx, lsm.Options{Store: o.store, Keys: keys}, o.path)
	if err != nil {
		return errors.Join(err, keys.Close())
	}
	op, err := key(row)
	if err == nil {
		var staged *lsm.Staged
		if staged, err = s.Stage(ctx, []lsm.Op{op}); err == nil {
			err = s.Append(ctx, staged)
			staged.Release()
		}
	}
	return errors.Join(err, s.Close(ctx), keys.Close())
}

// playBesideOutsiders runs a history in which other writers append, delete, compact and claim, until the first error.
func playBesideOutsiders(ctx context.Context, d disk, raw objstore.Store) (o outcome, err error) {
	o.acked = contents{}
	now := clock.NewManual(time.Unix(1000, 0))
	e, err := openWith(ctx, smallConfig(), Components{Store: d.store, Journal: d.journal, Clock: now}, planted{})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, e.Close(ctx)) }()
	if err := createTestTable(ctx, e); err != nil {
		return o, err
	}
	o.created = true
	entry := testTable(e)
	they := outsider{store: raw, path: entry.Path}
	ours := func(w write) error {
		o.maybe = o.acked.apply(w)
		if err := w.run(ctx, e); err != nil {
			return err
		}
		o.acked, o.maybe = o.maybe, nil
		return nil
	}
	theirs := func(w write, do func() error) error {
		if err := do(); err != nil {
			return fmt.Errorf("outsider: %w", err)
		}
		o.acked = o.acked.apply(w)
		return nil
	}
	upkeep := func(kinds ...sched.Kind) error {
		for _, k := range kinds {
			if err := e.RunUpkeep(ctx, entry, k); err != nil {
				return err
			}
		}
		return nil
	}
	for round := range int64(3) {
		id := 100 * (round + 1)
		steps := []func() error{
			func() error {
				return ours(write{put: contents{id: "base", id + 1: "base", id + 2: "base", id + 3: "base"}})
			},
			func() error { return e.FlushTables(ctx, nil) },
			func() error {
				return ours(write{put: contents{id: "newer", id + 10: "only ours"}, drop: []int64{id + 3}})
			},
			// They bring new rows, and rows of keys that our generations hold: ours win.
			func() error {
				w := contents{id + 20: "theirs", id + 21: "theirs"}
				return theirs(write{put: w}, func() error { return they.add(ctx, w.apply(write{put: contents{id + 10: "loses"}})) })
			},
			func() error {
				return theirs(write{drop: []int64{id + 1}}, func() error { return they.remove(ctx, id+1) })
			},
			func() error {
				if round == 1 {
					return upkeep(sched.Merge) // which adopts by itself
				}
				return upkeep(sched.Adopt)
			},
			func() error { return ours(write{put: contents{id + 20: "ours again"}, drop: []int64{id + 21}}) },
			func() error { return theirs(write{}, func() error { return they.compact(ctx) }) },
			func() error { return errors.Join(e.Freeze(ctx, entry), upkeep(sched.Flush)) },
			func() error { return upkeep(sched.Adopt, sched.Merge, sched.Cleanup) },
			func() error {
				now.Advance(3 * time.Minute) // the pause between two reopenings
				return theirs(write{put: contents{id + 30: "claimed"}}, func() error {
					ot, err := e.openTable(ctx, entry)
					if err != nil {
						return err
					}
					return they.claim(ctx, func(row arrowx.Row) (lsm.Op, error) {
						k, err := ot.key(row)
						return lsm.Op{Key: k, Row: row}, err
					}, testRow(id+30, "claimed"))
				})
			},
			func() error { return ours(write{put: contents{id + 31: "after the claim"}}) },
			func() error { return upkeep(sched.WriteBehind) },
		}
		for i, step := range steps {
			if err := step(); err != nil {
				return o, fmt.Errorf("round %d, step %d: %w", round, i, err)
			}
		}
	}
	work(e)
	return o, e.FlushTables(ctx, nil)
}

// verifyOne is verify for the one table of this history.
func verifyOne(ctx context.Context, d disk, o outcome) error {
	e, err := d.open(ctx, planted{})
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	defer func() { _ = e.Close(ctx) }()
	if testTable(e) == nil {
		if o.created {
			return errors.New("a created table is gone")
		}
		return nil
	}
	check := func(when string, allowed ...contents) (contents, error) {
		got, err := dump(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", when, err)
		}
		for _, c := range allowed {
			if c != nil && equal(got, c) {
				return got, nil
			}
		}
		return nil, fmt.Errorf("%s:\n got  %v\n want one of %v", when, got, allowed)
	}
	got, err := check("after reopen", o.acked, o.maybe)
	if err != nil {
		return err
	}
	w := write{put: contents{1000: "after"}, drop: keysOf(got, 1)}
	if err := w.run(ctx, e); err != nil {
		return fmt.Errorf("write after reopen: %w", err)
	}
	work(e)
	if err := e.FlushTables(ctx, nil); err != nil {
		return fmt.Errorf("flush after reopen: %w", err)
	}
	if _, err := check("after one more write and flush", got.apply(w)); err != nil {
		return err
	}
	return e.Close(ctx)
}

// TestCrashBesideOutsiders stops the machine at the n-th operation of an engine that adopts what others commit: for every
// n in a soak.
func TestCrashBesideOutsiders(t *testing.T) {
	step := int64(7)
	switch {
	case soak():
		step = 1
	case testing.Short():
		step = 47
	}
	ctx := t.Context()
	for n := int64(1); ; n += step {
		mem := vfs.NewCrashableMem()
		fs := faultfs.New(mem, faultfs.Plan{})
		d, err := diskOn(fs)
		require.NoError(t, err)
		raw, err := objstore.OpenLocal(mem, "/data")
		require.NoError(t, err)
		fs.Reset(faultfs.Plan{CrashAt: n})
		o, err := playBesideOutsiders(ctx, d, raw)
		if !fs.Crashed() {
			require.NoError(t, err)
			require.Greater(t, n, int64(500), "the history is too short to mean anything")
			t.Logf("%d operations", n)
			return
		}
		for _, percent := range percents(n) {
			clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percent, Rand: rand.New(rand.NewPCG(uint64(n), uint64(percent)))})
			require.NoError(t, err)
			after, err := diskOn(clone)
			require.NoError(t, err)
			require.NoError(t, verifyOne(ctx, after, o), "crash at operation %d, %d%% of unsynced data kept, stopped by %v", n, percent, err)
		}
	}
}
