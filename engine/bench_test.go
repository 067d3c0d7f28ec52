package engine

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/rowkey"
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

// BenchmarkPointRead measures reads of one row, by primary and by secondary key, from the MemTable, from four flushed
// generations and from the base, whose pages are cached. It reports the median.
func BenchmarkPointRead(b *testing.B) {
	for _, where := range []string{"memtable", "generations", "base"} {
		b.Run(where, func(b *testing.B) {
			ctx := context.Background()
			def := testDef()
			def.Indexes = []IndexDef{{Name: "by_v", Column: 1, Parts: []int{1}}}
			e, err := Open(ctx, Config{DataDir: b.TempDir(), Workers: NoWorkers}, Components{})
			require.NoError(b, err)
			b.Cleanup(func() { _ = e.Close(ctx) })
			require.NoError(b, e.CreateDatabase(ctx, "db", nil))
			_, err = e.CreateTable(ctx, "db", "t", def)
			require.NoError(b, err)
			tbl := testTable(e)
			ot, err := e.openTable(ctx, tbl)
			require.NoError(b, err)
			const rows = 100_000
			value := func(id int64) string { return fmt.Sprintf("some value of a common length %07d", id*7%rows) }
			for i := int64(0); i < rows; i += 1000 {
				w := write{put: contents{}}
				for id := i; id < i+1000; id++ {
					w.put[id] = value(id)
				}
				require.NoError(b, w.run(ctx, e))
				if where == "generations" && (i+1000)%(rows/4) == 0 {
					require.NoError(b, ot.table.Freeze())
					require.NoError(b, ot.table.Flush(ctx))
				}
			}
			if where == "base" {
				require.NoError(b, e.FlushTables(ctx, nil))
			}
			byValue, err := lsm.KeyEncoder(tbl.Schema, []int{1})
			require.NoError(b, err)
			key := func(b *testing.B, id int64) rowkey.Key {
				k, err := ot.key(testRow(id, ""))
				require.NoError(b, err)
				return k
			}
			scan := func(b *testing.B, x *Txn, spec lsm.ScanSpec) {
				spec.Columns = ot.allColumns
				r, err := x.Scan(ctx, tbl, Consistent, spec)
				require.NoError(b, err)
				rec, err := r.Next()
				require.NoError(b, err)
				require.Equal(b, int64(1), rec.NumRows())
				rec.Release()
				_, err = r.Next()
				require.ErrorIs(b, err, io.EOF)
				require.NoError(b, r.Close())
			}
			for name, read := range map[string]func(b *testing.B, x *Txn, id int64){
				"get": func(b *testing.B, x *Txn, id int64) {
					_, ok, err := x.Get(ctx, tbl, key(b, id), ot.allColumns)
					require.NoError(b, err)
					require.True(b, ok)
				},
				"key": func(b *testing.B, x *Txn, id int64) {
					scan(b, x, lsm.ScanSpec{Keys: []rowkey.Key{key(b, id)}})
				},
				"index": func(b *testing.B, x *Txn, id int64) {
					k, err := byValue.Tuple(value(id))
					require.NoError(b, err)
					scan(b, x, lsm.ScanSpec{Index: &lsm.IndexRange{Range: lsm.KeyRange{Lo: k, Hi: k + "\x00"}}})
				},
			} {
				b.Run(name, func(b *testing.B) {
					rng := rand.New(rand.NewPCG(1, 1))
					var took []time.Duration
					b.ReportAllocs()
					for b.Loop() {
						id := rng.Int64N(rows)
						started := time.Now()
						x := e.Begin(TxnOptions{})
						read(b, x, id)
						x.Rollback()
						took = append(took, time.Since(started))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
				})
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
