package lsm_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// The zone maps that merges keep serve pylance, over several segments and with deleted and replaced rows.
func TestPylanceUsesTheZoneMaps(t *testing.T) {
	root := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	m := newModelOn(t, 0, st)
	m.noIndexes, m.zones.Off = true, false
	require.NoError(t, m.table.Close(t.Context()))
	m.open()
	merge := func() {
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	}
	for round := range int64(7) {
		var ops []lsm.Op
		for i := range 200 >> round {
			id := round*1000 + int64(i)
			ops = append(ops, lsm.Op{Key: m.key(id), Row: m.row(cell(int32(i)), id, int32(round*100)+int32(i))})
		}
		m.write(ops)
		m.write([]lsm.Op{{Key: m.key(1)}, {Key: m.key(2), Row: m.row(nil, 2, int32(round))}, {Key: m.key(round * 1000)}})
		merge()
	}
	ds, err := table.Open(t.Context(), st, "db/t.lance")
	require.NoError(t, err)
	for _, c := range ds.MemWAL().Catchup {
		require.Equal(t, lsm.PrimaryIndex, c.Index)
	}
	check := func(unindexed bool) {
		t.Helper()
		filters := []string{"n < 3", "n >= 150 and n < 160", "n = 777", "n in (5, 611)", "v = 'v7'", "v is null", "v is not null and n > 500",
			"v >= 'v95'", "id < 3", "id > 5000"}
		var got struct {
			Index []struct {
				Name                string
				Columns             []string
				Segments, Unindexed int
			}
			Other      []string
			Rows, Scan [][]int64
			Plan       []string
		}
		require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lsm_zones.py", append([]string{filepath.Join(root, "db", "t.lance")}, filters...)...), &got))
		require.Len(t, got.Index, 3)
		for _, x := range got.Index {
			require.Len(t, x.Columns, 1)
			require.Equal(t, lsm.ZoneMapIndex(x.Columns[0]), x.Name)
			require.Equal(t, unindexed, x.Unindexed > 0)
			require.LessOrEqual(t, x.Segments, 3)
			require.Greater(t, x.Segments, 1, x.Name)
		}
		require.Contains(t, got.Other, lsm.PrimaryIndex)
		require.Equal(t, got.Scan, got.Rows)
		for i, plan := range got.Plan {
			require.Contains(t, plan, "ScalarIndexQuery", filters[i])
			if filters[i][:2] != "id" { // whose BTREE goes first
				require.Contains(t, plan, "_zonemap(ZoneMap)", filters[i])
			}
		}
		require.NotEmpty(t, got.Rows[1])
	}
	check(false)

	// What waits for the next segment is scanned, by the reference as well.
	m.zones.EveryRows = 1000
	require.NoError(t, m.table.Close(t.Context()))
	m.open()
	m.put(9000, 155)
	m.put(9001, 2)
	merge()
	check(true)
}
