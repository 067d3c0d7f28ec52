package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/engine/sched"
	"lancesql/internal/errs"
	"lancesql/internal/objstore/faultfs"
	"lancesql/internal/objstore/faultstore"
)

// playOn runs the history although single operations fail: what was refused did not happen, what was acknowledged did,
// and after an undecided commit nothing is acknowledged any more.
func playOn(ctx context.Context, d disk) (o outcome, err error) {
	o.acked = contents{}
	var e *Engine
	for range 2 { // the fault may hit the opening; the second attempt must work
		if e, err = d.open(ctx, planted{}); err == nil {
			break
		}
	}
	if err != nil {
		return o, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = e.Close(ctx) }()
	again := func(do func() error) error {
		if err := do(); err == nil || e.catalog.broken != nil {
			return err
		}
		return do()
	}
	if testTable(e) == nil {
		_ = again(func() error { return createTestTable(ctx, e) })
	}
	if testTable(e) == nil {
		_, _ = e.CreateTable(ctx, "db", "t", testDef())
	}
	_ = again(func() error { _, err := e.CreateTable(ctx, "db", "u", shardedDef()); return err })
	if testTable(e) == nil || namedTable(e, "u") == nil {
		return o, nil // the fault hit the making of the tables, which is not what this test is about
	}
	o.created = true
	for i, w := range history() {
		if err := w.runOn(ctx, e, "t", "u"); err == nil {
			if e.Failed() != nil {
				return o, errors.New("acknowledged after writes were stopped")
			}
			o.acked = o.acked.apply(w)
		} else if errors.Is(err, errUndecided) {
			o.maybe = o.acked.apply(w)
		}
		if i%3 == 1 {
			work(e)
			_ = e.jobs.Drain(ctx)
		}
		if i%5 == 4 {
			if _, err := same(ctx, e, o.acked); err != nil && !errors.Is(err, errs.ErrSync) {
				return o, fmt.Errorf("while serving, after write %d: %w", i, err)
			}
		}
	}
	if e.Failed() == nil {
		// Why not after a failed sync: the store believes nothing of that directory any more before a restart.
		if err := again(func() error { return e.FlushTables(ctx, nil) }); err != nil && !errors.Is(err, errs.ErrSync) {
			return o, fmt.Errorf("does not heal: %w", err)
		}
	}
	if _, err = same(ctx, e, o.acked); errors.Is(err, errs.ErrSync) {
		err = nil // a table that could not be opened
	}
	return o, err
}

// TestFailAtEveryOperation lets single operations of the filesystem fail, as a full disk or a bad block does.
func TestFailAtEveryOperation(t *testing.T) {
	step := int64(41)
	switch {
	case soak():
		step = 1
	case testing.Short():
		step = 101
	}
	ctx := context.Background()
	for name, fault := range map[string]error{"no space": &errNoSpace{"file"}, "error": errors.New("disk says no")} {
		t.Run(name, func(t *testing.T) {
			stopped, runs := 0, 0
			for n := int64(1); ; n += step {
				fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{FailAt: n, Err: fault})
				d, err := diskOn(fs)
				if err != nil {
					d, err = diskOn(fs)
				}
				require.NoError(t, err)
				o, err := playOn(ctx, d)
				require.NoError(t, err, "operation %d", n)
				runs++
				if o.maybe != nil {
					stopped++
				}
				if fs.Count() < n {
					break
				}
				clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: int(n%3) * 50, Rand: rand.New(rand.NewPCG(uint64(n), 3))})
				require.NoError(t, err)
				after, err := diskOn(clone)
				require.NoError(t, err)
				require.NoError(t, verify(ctx, after, o, planted{}), "operation %d", n)
			}
			t.Logf("%d runs, %d with an undecided commit", runs, stopped)
			if !testing.Short() {
				require.Positive(t, stopped)
			}
		})
	}
}

// TestStoreFaultAtEveryOperation lets single calls of the store fail with effect and without, as a store behind a network
// does: what it said is not what happened.
func TestStoreFaultAtEveryOperation(t *testing.T) {
	step := int64(11)
	switch {
	case soak():
		step = 1
	case testing.Short():
		step = 101
	}
	ctx := t.Context()
	for _, c := range []struct {
		name   string
		action faultstore.Action
		err    error
	}{
		{"fails", faultstore.Fail, faultstore.ErrInjected},
		{"fails with effect", faultstore.Ambiguous, faultstore.ErrInjected},
		{"no space, with effect", faultstore.Ambiguous, errs.ErrNoSpace},
		{"not durable, with effect", faultstore.Ambiguous, errs.ErrSync},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs := 0
			for n := int64(1); ; n += step {
				fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
				d, err := diskOn(fs)
				require.NoError(t, err)
				st := faultstore.New(d.store, faultstore.Plan{Faults: []faultstore.Fault{{At: n, Action: c.action, Err: c.err}}})
				o, err := playOn(ctx, disk{store: st, journal: d.journal})
				require.NoError(t, err, "operation %d", n)
				runs++
				if st.Count() < n {
					break
				}
				clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: int(n%3) * 50, Rand: rand.New(rand.NewPCG(uint64(n), 5))})
				require.NoError(t, err)
				after, err := diskOn(clone)
				require.NoError(t, err)
				require.NoError(t, verify(ctx, after, o, planted{}), "operation %d", n)
			}
			t.Logf("%d runs", runs)
			require.Greater(t, int64(runs), 200/step)
		})
	}
}

// TestReadableAfterAFailedMerge lets merges fail after their commit, when what they wrote is read back. The table stays
// readable and whole without a pause, however often that happens.
func TestReadableAfterAFailedMerge(t *testing.T) {
	ctx := t.Context()
	d, err := diskOn(vfs.NewMem())
	require.NoError(t, err)
	st := faultstore.New(d.store, faultstore.Plan{})
	e, err := openWith(ctx, smallConfig(), Components{Store: st, Journal: d.journal}, planted{})
	require.NoError(t, err)
	require.NoError(t, createTestTable(ctx, e))
	want := contents{}
	stopped := 0
	for n := range int64(12) {
		w := write{put: contents{n % 8: fmt.Sprint("a", n), (n + 3) % 8: fmt.Sprint("b", n)}} // fragments lose one row, then the other
		mustRun(t, e, w)
		want = want.apply(w)
		require.NoError(t, e.Freeze(ctx, testTable(e)))
		require.NoError(t, e.RunUpkeep(ctx, testTable(e), sched.Flush))
		before := e.opened(testTable(e).ID)
		committed := false
		st.Reset(faultstore.Plan{CountReads: true, Faults: []faultstore.Fault{{Action: faultstore.Fail}}, Match: func(op faultstore.Op) bool {
			committed = committed || op.Kind == faultstore.PutIfAbsent && strings.HasPrefix(op.Name, testTable(e).Path+"/_versions/")
			return committed && op.Kind >= faultstore.ReadAt
		}})
		failed := e.RunUpkeep(ctx, testTable(e), sched.Merge)
		st.Reset(faultstore.Plan{})
		if before.table.Stopped() {
			stopped++
		}
		require.Equal(t, want, mustDump(t, e), "round %d, the merge said %v", n, failed)
	}
	require.Greater(t, stopped, 3, "no merge failed after its commit")
	require.NoError(t, e.Close(ctx))
}
