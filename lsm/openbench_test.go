package lsm_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// BenchmarkOpen opens a table of a million merged rows (5 million with LANCESQL_SOAK) on disk and looks one key up; heap-MB is
// what the open table keeps. unindexed-ms is one opening before a merge made the primary index.
func BenchmarkOpen(b *testing.B) {
	rows := int64(1_000_000)
	if os.Getenv("LANCESQL_SOAK") != "" {
		rows *= 5
	}
	for _, c := range []struct {
		name string
		s    *arrow.Schema
		key  []int
	}{{"one", tableSchema(), []int{1}}, {"composite", compositeSchema(), []int{3, 1}}} {
		b.Run(c.name, func(b *testing.B) {
			st, err := objstore.OpenLocal(vfs.Default, b.TempDir())
			require.NoError(b, err)
			keys, err := pkstore.Open()
			require.NoError(b, err)
			defer func() { require.NoError(b, keys.Close()) }()
			o := lsm.Options{Store: st, Keys: keys}
			m := &plainTable{t: b}
			row := func(id int64) arrowx.Row { return arrowx.Row{"v", id, int32(id), tag(id)}[:c.s.NumFields()] }
			m.enc, err = lsm.KeyEncoder(c.s, c.key)
			require.NoError(b, err)
			require.NoError(b, lsm.Create(b.Context(), o, "t.lance", c.s, nil))
			for at := int64(0); at < rows; at += 1_000_000 {
				appendRows(b, st, c.s, at, at+1_000_000)
			}
			open := func() {
				m.table, err = lsm.Open(b.Context(), o, "t.lance")
				require.NoError(b, err)
			}
			started := time.Now()
			open()
			bare := time.Since(started)
			k, err := m.enc.Row(row(rows+5), c.key)
			require.NoError(b, err)
			staged, err := m.table.Stage(b.Context(), []lsm.Op{{Key: k, Row: row(rows + 5)}})
			require.NoError(b, err)
			_, err = staged.Parts()
			require.NoError(b, err)
			m.table.Logged(staged, 1)
			require.NoError(b, m.table.Apply(staged, 1))
			staged.Release()
			m.seq = 1
			m.flush()
			m.merge()
			require.NoError(b, m.table.Close(b.Context()))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				open()
				snap, err := m.table.Snapshot(1)
				require.NoError(b, err)
				k, err := m.enc.Row(row(rows/2), c.key)
				require.NoError(b, err)
				_, ok, err := snap.Locate(b.Context(), k)
				require.NoError(b, err)
				require.True(b, ok)
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				snap.Release()
				require.NoError(b, m.table.Close(b.Context()))
				b.StartTimer()
			}
			b.ReportMetric(bare.Seconds()*1000, "unindexed-ms")
			b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/(1<<20), "heap-MB")
		})
	}
}

// appendRows appends rows [from, to) to the base as one fragment.
func appendRows(b *testing.B, st objstore.Store, s *arrow.Schema, from, to int64) {
	ds, err := table.Open(b.Context(), st, "t.lance")
	require.NoError(b, err)
	w, err := ds.NewFragmentWriter(b.Context())
	require.NoError(b, err)
	for from < to {
		bl := array.NewRecordBuilder(memory.DefaultAllocator, s)
		for n := 0; n < 8192 && from < to; n++ {
			bl.Field(0).(*array.StringBuilder).Append(fmt.Sprint("v", from))
			bl.Field(1).(*array.Int64Builder).Append(from)
			bl.Field(2).(*array.Int32Builder).Append(int32(from))
			if s.NumFields() > 3 {
				bl.Field(3).(*array.StringBuilder).Append(tag(from))
			}
			from++
		}
		rec := bl.NewRecordBatch()
		bl.Release()
		require.NoError(b, w.Write(rec))
		rec.Release()
	}
	frag, err := w.Finish(b.Context())
	require.NoError(b, err)
	_, err = ds.Commit(b.Context(), table.Append{Fragments: []*table.Fragment{frag}})
	require.NoError(b, err)
}
