package metamorphic

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lsm"
)

const steps = 44

// history runs one history; the counts of what it reached.
func history(t *testing.T, seed uint64, plant lsm.Planted) (counts, error) {
	ctx := t.Context()
	w, err := newWorld(ctx, seed, plant)
	if err != nil {
		return nil, err
	}
	for n := range steps {
		name, err := w.step(ctx)
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", n, name, err)
		}
		if err := w.ask(ctx, w.visible, w.now); err != nil {
			return nil, fmt.Errorf("after step %d, %s: %w", n, name, err)
		}
		for s, want := range w.views {
			if n%3 > 0 {
				break
			}
			if err := w.ask(ctx, s, want); err != nil {
				return nil, fmt.Errorf("after step %d, %s: %w", n, name, err)
			}
			break
		}
	}
	return w.counts, w.close(ctx)
}

// TestMetamorphic: every question has the same answer with and without each index, and that of looking at every row.
func TestMetamorphic(t *testing.T) {
	histories := uint64(300)
	switch {
	case os.Getenv("LANCESQL_SOAK") != "":
		histories = 5000
	case testing.Short():
		histories = 30
	}
	first := uint64(0)
	if s := os.Getenv("LANCESQL_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		first, histories = n, 1
	}
	total := counts{}
	for seed := first; seed < first+histories; seed++ {
		c, err := history(t, seed, lsm.Planted{})
		require.NoError(t, err, "LANCESQL_SEED=%d", seed)
		for k, n := range c {
			total[k] += n
		}
	}
	t.Log(total)
	if histories == 1 {
		return
	}
	for _, k := range []string{"commit", "flush", "freeze", "merge", "compact", "recluster", "outside append", "outside delete", "outside compact", "view", "reopen", "cleanup",
		"fragments compacted", "segments remapped", "history trimmed", "fragments reclustered", "stable partitions", "zones pruned", "fragments pruned", "hops", "shards pruned", "rows covered",
		"way: filter", "way: extreme", "zones pruned for an extreme", "way: key", "way: covered", "way: keys-in-order", "way: within", "way: index-in-order", "way: intersection", "way: index-and-others"} {
		require.Positive(t, total[k], "never reached: %s", k)
	}
}

// TestFindsPlantedBugs: the test above would notice each rule of reading that is switched off.
func TestFindsPlantedBugs(t *testing.T) {
	for name, plant := range map[string]lsm.Planted{
		"rows not led through rewrites": {SkipMoves: true},
		"fragments without an index":    {SkipUncovered: true},
		"zones too short":               {ShortZones: true},
		"rows not masked by a merge":    {SkipDeathMask: true},
		"tombstones lost in replay":     {SkipReplayedTombstone: true},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 60
			for seed := range uint64(most) {
				if _, err := history(t, seed, plant); err != nil {
					require.NotErrorIs(t, err, errs.ErrUnsupported)
					t.Logf("history %d: %.200s", seed, err.Error())
					return
				}
			}
			t.Fatalf("not found in %d histories", most)
		})
	}
}
