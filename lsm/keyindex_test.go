package lsm_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// keySegments is the segments of the index over a composite key.
func (m *model) keySegments() int {
	ds, err := table.Open(m.t.Context(), m.store, "db/t.lance")
	require.NoError(m.t, err)
	list, err := ds.Indexes()
	require.NoError(m.t, err)
	n := 0
	for _, e := range list {
		if info, ok := indexes.KindOf(e.DetailsType); ok && info.Kind == indexes.Key {
			require.Equal(m.t, lsm.PrimaryIndex, e.Name)
			require.Len(m.t, e.Fields, 2)
			n++
		}
	}
	return n
}

// Merges put the keys of a composite key into files; nothing of the base is in memory, before and after an opening.
func TestCompositeKeysAreInFiles(t *testing.T) {
	m := newModel(t, 1)
	for round := range int64(6) {
		m.fill(round*1000, 100>>round)
		require.Zero(t, m.table.Base().Unindexed)
	}
	require.Greater(t, m.keySegments(), 1)
	require.Less(t, m.keySegments(), 6)
	require.NoError(t, m.table.Close(t.Context()))
	clear(m.views)
	m.open()
	require.Zero(t, m.table.Base().Unindexed)
	m.check()

	// A table whose index is gone, as are those of earlier releases, has its keys in memory until the next merge.
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	list, err := ds.Indexes()
	require.NoError(t, err)
	var drop table.CreateIndex
	for _, e := range list {
		if e.Name == lsm.PrimaryIndex {
			drop.Removed = append(drop.Removed, e.UUID)
		}
	}
	_, err = ds.Commit(t.Context(), drop)
	require.NoError(t, err)
	_, err = m.table.Adopt(t.Context(), m.hooks())
	require.NoError(t, err)
	require.Equal(t, m.table.Base().Fragments, m.table.Base().Unindexed)
	m.check()
	m.fill(2000, 1)
	require.Zero(t, m.table.Base().Unindexed)
	require.Equal(t, 1, m.keySegments())
	m.check()
}

// Neither library knows the index over a composite key: both leave it alone and see right answers, whatever they do with the
// table, and so do we afterwards.
func TestOthersPassTheKeyIndexOver(t *testing.T) {
	root := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	m := newModelOn(t, 4, st)
	for round := range int64(4) {
		m.fill(round*100, 60>>round)
	}
	dir := filepath.Join(root, "db")
	want := func() [][]int64 {
		out := [][]int64{}
		for _, id := range slices.Sorted(maps.Keys(m.now)) {
			out = append(out, []int64{id, int64(m.now[id])})
		}
		return out
	}
	adopted := func() {
		_, err := m.table.Adopt(t.Context(), m.hooks())
		require.NoError(t, err)
		clear(m.views)
		m.check()
		_, found := checkTable(t, m.store, lsm.CheckOptions{Deep: true, MemoryBytes: 1 << 20})
		require.Empty(t, faults(found, lsm.Error))
	}
	pylance := func(operations ...string) {
		var got struct {
			Rows, Looked [][]int64
			Names        []string
		}
		require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lsm_keys.py", append([]string{filepath.Join(dir, "t.lance")}, operations...)...), &got))
		require.Equal(t, want(), got.Rows, operations)
		require.Equal(t, want(), got.Looked, operations)
		require.NotContains(t, got.Names, lsm.PrimaryIndex)
		adopted()
	}
	lancedb := func(operations ...string) {
		var got struct{ Base, LSM, Looked [][]int64 }
		require.NoError(t, json.Unmarshal(oracle.RunNode(t, "lsm_keys.mjs", append([]string{dir}, operations...)...), &got))
		require.Equal(t, want(), got.Base, operations)
		require.Equal(t, want(), got.LSM, operations)
		require.Equal(t, want(), got.Looked, operations)
		adopted()
	}
	change := func(id int64, n int32) {
		m.now = maps.Clone(m.now)
		if m.now[id] = n; n < 0 {
			delete(m.now, id)
		}
	}
	pylance()
	lancedb()
	segments := m.keySegments()
	require.Greater(t, segments, 1)

	change(5000, 7)
	change(3, -1)
	change(101, 22)
	pylance("append:5000:7", "delete:id = 3", "update:22:id = 101")
	require.Equal(t, segments, m.keySegments())
	require.Equal(t, 2, m.table.Base().Unindexed, "their rows")

	change(5001, 8)
	change(4, -1)
	change(102, 23)
	lancedb("append:5001:8", "delete:id = 4", "update:23:id = 102")
	require.Equal(t, segments, m.keySegments())
	m.fill(6000, 3)
	require.Zero(t, m.table.Base().Unindexed, "the merge took them in")

	before := m.table.Base().Fragments
	pylance("compact", "indices")
	require.Equal(t, before, m.table.Base().Fragments, "they cannot rewrite what an index covers that they do not know")
	pylance("defer")
	require.Less(t, m.table.Base().Fragments, before)
	require.Zero(t, m.table.Base().Unindexed, "the reuse history leads us to the rows")
	change(103, 24)
	pylance("update:24:id = 103") // writes the bitmaps as it sees them
	lancedb("optimize")
	require.LessOrEqual(t, m.table.Base().Unindexed, 1, "the updated row")
	require.Positive(t, m.keySegments())
	var gone []lsm.Op
	for id := int64(10); id < 40; id++ {
		gone = append(gone, lsm.Op{Key: m.key(id)})
		change(id, -1)
	}
	m.write(gone)
	m.fill(7000, 3)
	require.Zero(t, m.table.Base().Unindexed)

	done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{RemapFrom: 1})
	require.NoError(t, err)
	require.Positive(t, done.Groups)
	require.Positive(t, done.Remapped)
	require.Zero(t, m.table.Base().Unindexed)
	pylance()
	lancedb()
}
