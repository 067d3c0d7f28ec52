package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/lsm"
)

func benchEngine(b *testing.B) *Engine {
	b.Helper()
	e, err := Open(context.Background(), Config{DataDir: b.TempDir()}, Components{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = e.Close(context.Background()) })
	require.NoError(b, createTestTable(context.Background(), e))
	return e
}

// BenchmarkCommitRows measures durable commits of n rows each.
func BenchmarkCommitRows(b *testing.B) {
	for _, rows := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			e := benchEngine(b)
			var next int64
			for b.Loop() {
				w := write{put: contents{}}
				for range rows {
					next++
					w.put[next] = "some value of a common length"
				}
				if err := w.run(context.Background(), e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkCommitParallel measures single-row commits of many writers sharing syncs.
func BenchmarkCommitParallel(b *testing.B) {
	e := benchEngine(b)
	var next atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w := write{put: contents{next.Add(1): "some value of a common length"}}
			if err := w.run(context.Background(), e); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkPointRead measures reads by key from the MemTable and from the base.
func BenchmarkPointRead(b *testing.B) {
	for _, where := range []string{"memtable", "base"} {
		b.Run(where, func(b *testing.B) {
			e := benchEngine(b)
			const rows = 100_000
			for i := int64(0); i < rows; i += 1000 {
				w := write{put: contents{}}
				for id := i; id < i+1000; id++ {
					w.put[id] = "some value of a common length"
				}
				require.NoError(b, w.run(context.Background(), e))
			}
			if where == "base" {
				require.NoError(b, e.FlushTables(context.Background(), nil))
			}
			ctx := context.Background()
			tbl := testTable(e)
			ot, err := e.openTable(ctx, tbl)
			require.NoError(b, err)
			id := int64(0)
			for b.Loop() {
				id = (id*7919 + 13) % rows
				k, err := ot.key(testRow(id, ""))
				if err != nil {
					b.Fatal(err)
				}
				x := e.Begin(TxnOptions{})
				if _, ok, err := x.Get(ctx, tbl, k, ot.allColumns); err != nil || !ok {
					b.Fatal(ok, err)
				}
				x.Rollback()
			}
		})
	}
}

// BenchmarkScan measures full scans of 200,000 base rows.
func BenchmarkScan(b *testing.B) {
	e := benchEngine(b)
	const rows = 200_000
	for i := int64(0); i < rows; i += 10_000 {
		w := write{put: contents{}}
		for id := i; id < i+10_000; id++ {
			w.put[id] = "some value of a common length"
		}
		require.NoError(b, w.run(context.Background(), e))
	}
	require.NoError(b, e.FlushTables(context.Background(), nil))
	tbl := testTable(e)
	for b.Loop() {
		x := e.Begin(TxnOptions{})
		r, err := x.Scan(context.Background(), tbl, Consistent, lsm.ScanSpec{Columns: []int{0, 1, 2}})
		require.NoError(b, err)
		n := int64(0)
		for {
			rec, err := r.Next()
			if err != nil {
				break
			}
			n += rec.NumRows()
			rec.Release()
		}
		require.NoError(b, r.Close())
		require.Equal(b, int64(rows), n)
		x.Rollback()
	}
	b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkStart opens an engine over a thousand tables with rows in their base and one commit each since.
func BenchmarkStart(b *testing.B) {
	ctx := context.Background()
	dir := b.TempDir()
	e, err := Open(ctx, Config{DataDir: dir}, Components{})
	require.NoError(b, err)
	require.NoError(b, e.CreateDatabase(ctx, "db", nil))
	const tables = 1000
	put := func(i int, id int64) {
		require.NoError(b, write{put: contents{id: "some value of a common length"}}.runOn(ctx, e, fmt.Sprint("t", i)))
	}
	for i := range tables {
		_, err := e.CreateTable(ctx, "db", fmt.Sprint("t", i), testDef())
		require.NoError(b, err)
		put(i, 1)
	}
	require.NoError(b, e.FlushTables(ctx, nil))
	for i := range tables {
		put(i, 2)
	}
	require.NoError(b, e.Close(ctx))
	for b.Loop() {
		e, err = Open(ctx, Config{DataDir: dir}, Components{})
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, e.Close(ctx))
		b.StartTimer()
	}
}
