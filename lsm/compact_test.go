package lsm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// files lists every object below a directory.
func files(t *testing.T, st objstore.Store, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	require.NoError(t, st.List(t.Context(), dir, func(i objstore.Info) error {
		if !i.Dir {
			out[i.Name] = i.Size
			return nil
		}
		maps.Copy(out, files(t, st, i.Name))
		return nil
	}))
	return out
}

// TestCompactOften: histories in which compactions are the most frequent operation, each followed by a look at every view.
func TestCompactOften(t *testing.T) {
	total := map[string]int{}
	for seed := range uint64(4) {
		m := newModel(t, 100+seed)
		for i := range 30 {
			for range 1 + m.rng.IntN(4) {
				m.commit()
			}
			if i%3 == 0 {
				m.views[m.visible] = maps.Clone(m.now)
			}
			if m.rng.IntN(5) == 0 {
				m.outside()
			}
			require.NoError(t, m.table.Freeze())
			require.NoError(t, m.table.Flush(t.Context()))
			if m.rng.IntN(4) > 0 {
				require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
			}
			for range m.rng.IntN(3) {
				m.commit()
			}
			if m.rng.IntN(2) == 0 {
				m.compact()
			}
			m.check()
			if m.rng.IntN(8) == 0 {
				clear(m.views)
				require.NoError(t, m.table.Cleanup(t.Context(), m.lowWater()))
				m.crash()
				m.check()
			}
		}
		for k, n := range m.counts {
			total[k] += n
		}
		require.NoError(t, m.table.Close(t.Context()))
	}
	for _, k := range []string{"compacted", "remapped", "trimmed", "merged beside a compaction"} {
		require.Greater(t, total[k], 3, "%s: %v", k, total)
	}
}

// TestCompactIdle: a compaction with nothing to do writes nothing; it is case L17 for one table.
func TestCompactIdle(t *testing.T) {
	m := newModel(t, 0)
	for i := range 60 {
		m.put(int64(i%40), int32(i))
		if i%7 == 0 {
			require.NoError(t, m.table.Freeze())
			require.NoError(t, m.table.Flush(t.Context()))
			require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
		}
	}
	before := m.table.Base()
	done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{RemapFrom: 1})
	require.NoError(t, err)
	require.NotZero(t, done.Groups)
	require.NotZero(t, done.Remapped)
	after := m.table.Base()
	require.NotZero(t, before.Deleted)
	require.Zero(t, after.Deleted)
	require.Equal(t, before.Rows, after.Rows)
	m.check()
	was := files(t, m.store, "db")
	for range 10 {
		done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{RemapFrom: 1})
		require.NoError(t, err)
		require.Zero(t, done)
	}
	require.Equal(t, was, files(t, m.store, "db"))
	require.Equal(t, after, m.table.Base())
}

// After our compaction, with a merge beside it, pylance finds the rows by the indexes: through the reuse history, and after
// segments were rewritten.
func TestPylanceAfterCompaction(t *testing.T) {
	root := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	m := newModelOn(t, 0, st)
	for round := range int64(4) {
		for id := range int64(30) {
			m.put(round*17+id, int32(round))
		}
		m.write([]lsm.Op{{Key: m.key(round*17 + 5)}})
		m.now = maps.Clone(m.now)
		delete(m.now, round*17+5)
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	}
	values := []int64{0, 5, 6, 16, 17, 22, 29, 34, 39, 56, 60, 80, 81, -1}
	args := []string{"keys", filepath.Join(root, "db", "t.lance"), "id"}
	want := make([]int, len(values))
	for i, v := range values {
		args = append(args, fmt.Sprint(v))
		if _, ok := m.now[v]; ok {
			want[i] = 1
		}
	}
	m.store.(*besideStore).beside = func() {
		m.put(16, 99)
		m.write([]lsm.Op{{Key: m.key(34)}})
		m.now = maps.Clone(m.now)
		delete(m.now, 34)
		want[slices.Index(values, 34)] = 0
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	}
	for _, from := range []int{0, 1} {
		done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{RemapFrom: from})
		require.NoError(t, err)
		require.Equal(t, from == 0, done.Groups > 0)
		require.Equal(t, from == 1, done.Remapped > 0)
		ds, err := table.Open(t.Context(), st, "db/t.lance")
		require.NoError(t, err)
		require.Nil(t, m.store.(*besideStore).beside)
		_, history := ds.FragmentReuseUUID()
		require.Equal(t, from == 0, history)
		m.check()
		var got struct {
			Uncovered  int
			Rows, Scan []int
			Used       bool
		}
		require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lsm_table.py", args...), &got))
		require.Equal(t, want, got.Scan)
		require.Equal(t, want, got.Rows)
		require.True(t, got.Used)
		require.Zero(t, got.Uncovered)
	}
}
