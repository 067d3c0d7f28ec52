package lsm_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// What a merge adds to the primary index serves pylance, over several segments and with deleted and replaced rows.
func TestPylanceUsesThePrimaryIndex(t *testing.T) {
	root := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	m := newModelOn(t, 2, st)
	merge := func() {
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	}
	for round := range int64(5) {
		var ops []lsm.Op
		for i := range 200 >> round {
			id := round*1000 + int64(i)
			ops = append(ops, lsm.Op{Key: m.key(id), Row: m.row(cell(int32(i)), id, int32(i))})
		}
		m.write(ops)
		m.write([]lsm.Op{{Key: m.key(1)}, {Key: m.key(2), Row: m.row(nil, 2, int32(round))}, {Key: m.key(round * 1000)}})
		merge()
	}
	ds, err := table.Open(t.Context(), st, "db/t.lance")
	require.NoError(t, err)
	var caughtUp []string
	for _, c := range ds.MemWAL().Catchup {
		caughtUp = append(caughtUp, c.Index)
		require.Equal(t, ds.MemWAL().Merged, c.CaughtUp)
	}
	require.ElementsMatch(t, []string{lsm.PrimaryIndex, "by_v", "by_n", "by_id"}, caughtUp)

	var got struct {
		Index []struct {
			Name, Type string
			Segments   int
		}
		Uncovered  int
		Rows, Scan []int
		Used       bool
	}
	values := []int64{0, 1, 2, 3, 199, 200, 1000, 1001, 1099, 1100, 4001, 4011, -5}
	args := []string{"keys", filepath.Join(root, "db", "t.lance"), "id"}
	want := make([]int, len(values))
	for i, v := range values {
		args = append(args, fmt.Sprint(v))
		want[i] = 1
	}
	for _, missing := range []int{0, 1, 5, 6, 9, 12} {
		want[missing] = 0
	}
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lsm_table.py", args...), &got))
	require.Equal(t, want, got.Scan)
	require.Equal(t, want, got.Rows)
	require.True(t, got.Used)
	require.Zero(t, got.Uncovered)
	require.Len(t, got.Index, 3)
	for _, x := range got.Index {
		require.Contains(t, []string{lsm.PrimaryIndex, "by_id", lsm.ZoneMapIndex("id")}, x.Name)
		require.Greater(t, x.Segments, 1)
		require.Less(t, x.Segments, 5)
	}
}
