package lsm_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lsm"
)

// heapPair is a row of the table that lsm_heap.py makes: n and v.
type heapPair struct {
	n int32
	v any
}

// pylance and we append in turns to one table without a key, through MemWAL and to the base, and each goes on from the
// generations and the WAL that the other left: every row is there exactly as often as it was appended.
func TestHeapInTurnsWithPylance(t *testing.T) {
	root := t.TempDir()
	oracle.RunPython(t, "lsm_heap.py", "create", root)
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	keys, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keys.Close()) })
	seq := uint64(0)
	hooks := lsm.Hooks{LowWater: func() uint64 { return seq }, Advance: func() uint64 { seq++; return seq }}
	want := map[heapPair]int{{1, "a"}: 2, {2, nil}: 1}
	var tb *lsm.Table
	open := func() {
		tb, err = lsm.Open(t.Context(), lsm.Options{Store: st, Keys: keys, Floor: seq}, "t.lance")
		require.NoError(t, err)
	}
	put := func(n int32, times int) {
		var ops []lsm.Op
		for range times {
			ops = append(ops, lsm.Op{Row: arrowx.Row{n, "x"}})
		}
		s, err := tb.Stage(t.Context(), ops)
		require.NoError(t, err)
		require.NoError(t, tb.Append(t.Context(), s))
		seq++
		require.NoError(t, tb.Apply(s, seq))
		s.Release()
		want[heapPair{n, "x"}] += times
	}
	theirs := func(end string, n int32) {
		oracle.RunPython(t, "lsm_heap.py", "put", root, end, fmt.Sprint(n))
		want[heapPair{n, "x"}] += 3
	}
	check := func() {
		t.Helper()
		snap, err := tb.Snapshot(seq)
		require.NoError(t, err)
		defer snap.Release()
		r, err := snap.Scan(t.Context(), lsm.ScanSpec{Columns: []int{0, 1}}, nil)
		require.NoError(t, err)
		defer r.Close()
		got := map[heapPair]int{}
		for rec, err := r.Next(); err == nil; rec, err = r.Next() {
			for i := range int(rec.NumRows()) {
				row := arrowx.RowOf(rec, i)
				got[heapPair{row[0].(int32), row[1]}]++
			}
			rec.Release()
		}
		require.Equal(t, want, got)
	}

	theirs("close", 5) // a generation
	theirs("die", 6)   // WAL entries
	open()
	check()
	put(7, 2) // behind their entries, in one MemTable
	check()
	require.NoError(t, tb.Freeze())
	require.NoError(t, tb.Flush(t.Context()))
	put(8, 4) // in the WAL
	require.NoError(t, tb.Close(t.Context()))
	theirs("close", 9) // replays ours, flushes both
	open()
	check()
	require.NoError(t, tb.Merge(t.Context(), hooks))
	check()
	put(5, 1)
	oracle.RunPython(t, "lsm_heap.py", "append", root, "5")
	want[heapPair{5, "x"}]++
	_, err = tb.Adopt(t.Context(), hooks)
	require.NoError(t, err)
	check()
	require.NoError(t, tb.Freeze())
	require.NoError(t, tb.Flush(t.Context()))
	require.NoError(t, tb.Merge(t.Context(), hooks))
	check()
	require.NoError(t, tb.Close(t.Context()))
	theirs("die", 6)
	open()
	check()
	require.NoError(t, tb.Freeze())
	require.NoError(t, tb.Flush(t.Context()))
	require.NoError(t, tb.Merge(t.Context(), hooks))
	require.NoError(t, tb.Close(t.Context()))
	_, err = lsm.Check(t.Context(), st, "t.lance", lsm.CheckOptions{Deep: true}, func(f lsm.Finding) { require.NotEqual(t, lsm.Error, f.Severity, f) })
	require.NoError(t, err)

	var got struct {
		Base, LanceDB [][2]any
		Refused       []string
	}
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lsm_heap.py", "read", root), &got))
	base := map[heapPair]int{}
	for _, r := range got.Base {
		base[heapPair{int32(r[0].(float64)), r[1]}]++
	}
	require.Equal(t, want, base)
	require.Equal(t, got.Base, got.LanceDB)
	require.Len(t, got.Refused, 3)
	for _, message := range got.Refused { // what docs/operations.md says of other readers
		require.Contains(t, message, "primary key")
	}
}
