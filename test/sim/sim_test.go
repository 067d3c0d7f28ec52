package sim

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/lsm"
)

// steps is the length of a history.
const steps = 50

func soak() bool { return os.Getenv("LANCESQL_SOAK") != "" }

// history runs one history; count gets what it reached.
func history(seed uint64, p engine.Planted, count map[string]int) (err error) {
	ctx := context.Background()
	w, err := newWorld(seed, p, count)
	if err != nil {
		return err
	}
	defer func() {
		w.drop()
		for _, s := range w.stalled {
			s.close(ctx)
		}
		if w.e != nil {
			_ = w.e.Close(ctx)
		}
		if err != nil {
			err = fmt.Errorf("LANCESQL_SEED=%d: %w\n %s", seed, err, strings.Join(w.trace, "\n "))
		}
	}()
	for i := range steps {
		w.trace = append(w.trace, fmt.Sprint("-- ", i))
		if err := w.step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return w.end(ctx, seed)
}

// end drains everything, compares the bases, and has every table checked offline.
func (w *world) end(ctx context.Context, seed uint64) error {
	w.disarm()
	w.drop()
	if err := w.e.FlushTables(ctx, nil); err != nil {
		return fmt.Errorf("flush at the end: %w", err)
	}
	for _, t := range tableNames {
		if err := w.checkBase(ctx, t); err != nil {
			return err
		}
	}
	if seed%4 != 0 {
		return nil
	}
	paths := map[string]string{}
	for _, t := range tableNames {
		paths[t] = w.table(t).Path
	}
	if err := w.e.Close(ctx); err != nil {
		return err
	}
	st, err := w.raw()
	if err != nil {
		return err
	}
	for _, t := range tableNames {
		var found []string
		_, err := lsm.Check(ctx, st, paths[t], lsm.CheckOptions{}, func(f lsm.Finding) {
			if f.Severity == lsm.Error { // what faults leave behind is swept later
				found = append(found, fmt.Sprintf("%+v", f))
			}
		})
		if err != nil {
			return err
		}
		w.count["checked offline"]++
		if len(found) > 0 {
			return wrongf("check of %s: %s", t, strings.Join(found, "; "))
		}
	}
	return nil
}

// reached are the kinds of steps that a run must have reached.
var reached = []string{
	"transaction", "transaction over tables", "savepoint", "rollback", "duplicate refused", "slow writer", "slow commit", "slow rollback",
	"lock timeout", "view", "view released", "view lost", "jobs", "write-behind", "flush", "trim", "merge", "cleanup", "freeze", "adopt",
	"freshness drain", "flush tables", "outside append", "outside append of our key", "outside delete", "outside update",
	"outside compact", "outside config", "outside index", "outside overwrite", "second claimant", "second claimant flushes",
	"stalled writer wakes", "stalled merger", "rebuild", "rebuild given up", "create and drop", "store fails", "store is ambiguous",
	"store is slow", "disk fails", "restart", "crash armed", "crash", "crash in recovery",
	"checked offline",
}

// met is what steps must have led to now and then.
var met = []string{"refused by a fault", "stopped by a fault"}

// run makes n histories from a seed on, on all processors, and stops at the first failure.
func run(first uint64, n int, p engine.Planted) (map[string]int, error) {
	total := map[string]int{}
	var mu sync.Mutex
	var failure error
	next := 0
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || failure != nil
				mu.Unlock()
				if stop {
					return
				}
				count := map[string]int{}
				err := history(first+uint64(i), p, count)
				mu.Lock()
				for k, v := range count {
					total[k] += v
				}
				if err != nil && failure == nil {
					failure = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return total, failure
}

// TestSimulation runs 500 histories, 10,000 in a soak. LANCESQL_SEED runs a single one.
func TestSimulation(t *testing.T) {
	n, least := 500, 10
	switch {
	case soak():
		n, least = 10_000, 1000
	case testing.Short():
		n, least = 20, 0
	}
	first := uint64(1)
	if s := os.Getenv("LANCESQL_SEED"); s != "" {
		parsed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		first, n, least = parsed, 1, 0
	}
	count, err := run(first, n, engine.Planted{})
	for _, k := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%-28s %d", k, count[k])
	}
	require.NoError(t, err)
	for _, k := range reached {
		require.GreaterOrEqual(t, count[k], least, "%s is not reached often enough", k)
	}
	for _, k := range met {
		require.GreaterOrEqual(t, count[k], least/10, "%s is not met often enough", k)
	}
}

// TestSimulationFindsPlantedBugs switches single rules off (I4).
func TestSimulationFindsPlantedBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("the plain run looks for planted bugs")
	}
	for name, p := range map[string]engine.Planted{
		"one tombstone": {LSM: lsm.Planted{SkipReplayedTombstone: true}},
		"one mask":      {LSM: lsm.Planted{SkipDeathMask: true}},
		"one sync":      {SkipSync: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(1, 300, p)
			require.Error(t, err)
			var wrong *mismatch
			require.ErrorAs(t, err, &wrong, "found by a difference, not by something else")
			t.Log(wrong)
		})
	}
}
