package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore/faultfs"
	"lancesql/lsm"
)

// fragmented makes a table with two indexes, many small fragments, deleted rows, and rows that are in no fragment yet.
func fragmented(ctx context.Context, e *Engine) (contents, error) {
	if err := e.CreateDatabase(ctx, "db", nil); err != nil {
		return nil, err
	}
	def := testDef()
	def.Indexes = []IndexDef{{Name: "by_v", Column: 1}, {Name: "by_n", Column: 2}}
	if _, err := e.CreateTable(ctx, "db", "t", def); err != nil {
		return nil, err
	}
	want := contents{}
	for id := range int64(18) {
		w := write{put: contents{id: fmt.Sprint("v", id%5), id / 3: "again"}}
		if id%6 == 5 {
			w.drop = []int64{id - 2}
		}
		if err := w.run(ctx, e); err != nil {
			return nil, err
		}
		want = want.apply(w)
		if id%3 == 0 {
			if err := e.FlushTables(ctx, nil); err != nil {
				return nil, err
			}
		}
	}
	return want, nil
}

// upkeepStatement runs a statement that rewrites fragments; whole looks at what it did when nothing stopped it.
type upkeepStatement func(ctx context.Context, e *Engine) (whole func(t *testing.T), err error)

func optimizeStatement(ctx context.Context, e *Engine) (func(t *testing.T), error) {
	done, err := e.Optimize(ctx, testTable(e).ID)
	return func(t *testing.T) {
		require.NotZero(t, done.Groups)
		require.NotZero(t, done.Remapped)
		require.NotEmpty(t, done.Removed)
	}, err
}

// reclusterStatement reclusters by v, published or not.
func reclusterStatement(publish bool) upkeepStatement {
	return func(ctx context.Context, e *Engine) (func(t *testing.T), error) {
		done, err := e.Recluster(ctx, testTable(e).ID, lsm.Recluster{Columns: []int{1}, Buckets: 3, Publish: publish})
		return func(t *testing.T) {
			require.NotZero(t, done.Rows)
			require.Greater(t, done.FragmentsRemoved, done.FragmentsAdded)
			require.Equal(t, !publish, done.Segments == 3)
		}, err
	}
}

// upkeepCrash dies at operation n of a statement, opens what is left, which dies at operation again if that is not 0, and
// looks at the table. more is false when the statement ended before n.
func upkeepCrash(t *testing.T, statement upkeepStatement, n, again int64) (more bool) {
	t.Helper()
	ctx := context.Background()
	fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
	d, err := diskOn(fs)
	require.NoError(t, err)
	e, err := d.open(ctx, planted{})
	require.NoError(t, err)
	want, err := fragmented(ctx, e)
	require.NoError(t, err)
	fs.Reset(faultfs.Plan{CrashAt: n})
	whole, err := statement(ctx, e)
	if more = err != nil; !more {
		whole(t)
	}
	_ = e.Close(ctx)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(again)))
	left, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percents(n)[0], Rand: rng})
	require.NoError(t, err)
	if again > 0 {
		second := faultfs.New(left, faultfs.Plan{CrashAt: again})
		if d, err := diskOn(second); err == nil {
			if e, err := d.open(ctx, planted{}); err == nil {
				if tbl := testTable(e); tbl != nil {
					_, _ = statement(ctx, e) // may die
				}
				_ = e.Close(ctx)
			}
		}
		left, err = second.CrashClone(faultfs.CloneConfig{UnsyncedPercent: 50, Rand: rng})
		require.NoError(t, err)
	}
	d, err = diskOn(left)
	require.NoError(t, err)
	e, err = d.open(ctx, planted{})
	require.NoError(t, err, "operation %d", n)
	defer func() { _ = e.Close(ctx) }()
	healthy := func() {
		t.Helper()
		got, err := dump(ctx, e)
		require.NoError(t, err, "operation %d", n)
		require.Equal(t, want, got, "operation %d", n)
		_, err = e.CheckTable(ctx, testTable(e), true, func(what string) { t.Errorf("operation %d: %s", n, what) })
		require.NoError(t, err, "operation %d", n)
	}
	healthy()
	w := write{put: contents{1: "after", 500: "new"}, drop: []int64{7}}
	require.NoError(t, w.run(ctx, e))
	want = want.apply(w)
	_, err = e.Optimize(ctx, testTable(e).ID)
	require.NoError(t, err, "operation %d", n)
	work(e)
	healthy()
	return more
}

// crashEverywhere lets a statement die at its operations, all of them in a soak.
func crashEverywhere(t *testing.T, statement upkeepStatement, step, least int64) {
	switch {
	case soak():
		step = 1
	case testing.Short():
		step *= 3
	}
	for n := int64(1); ; n += step {
		if !upkeepCrash(t, statement, n, n%2*(3+n*5%60)) {
			require.Greater(t, n, least, "the statement is too short to mean anything")
			t.Logf("%d operations", n)
			return
		}
	}
}

// TestCrashInOptimize: wherever OPTIMIZE TABLE dies, and dies again, no row and no index entry is lost or doubled.
func TestCrashInOptimize(t *testing.T) { crashEverywhere(t, optimizeStatement, 13, 60) }

// TestCrashInRecluster: the same for a recluster that rewrites index segments, and for one that is published.
func TestCrashInRecluster(t *testing.T) {
	for _, publish := range []bool{false, true} {
		t.Run(fmt.Sprint("publish ", publish), func(t *testing.T) { crashEverywhere(t, reclusterStatement(publish), 13, 60) })
	}
}
