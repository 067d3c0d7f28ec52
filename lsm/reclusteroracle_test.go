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

// pylanceSays is what pylance says of a table.
type pylanceSays struct {
	Count   int
	Indexes map[string]struct {
		Type                string
		Segments, Unindexed int
	}
	Filters []struct {
		Rows, Scan []int64
		Plan       string
	}
}

func askPylance(t *testing.T, path string, filters []string) (out pylanceSays) {
	t.Helper()
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lsm_index.py", append([]string{"ask", path}, filters...)...), &out))
	return out
}

// lancedbSays is what lancedb for Node says of a table.
type lancedbSays struct {
	Error   string
	Count   int
	Indexed map[string]*int
	Filters []struct {
		Plan string
		Rows []int64
	}
}

func askLanceDB(t *testing.T, dir string, filters []string) (out lancedbSays) {
	t.Helper()
	require.NoError(t, json.Unmarshal(oracle.RunNode(t, "lsm_index.mjs", append([]string{dir}, filters...)...), &out))
	return out
}

// TestOthersAfterRecluster: after a recluster by default pylance and lancedb for Python and Node open the table, see its rows
// and find them by our indexes and by one that pylance had made. Published, pylance still does; lancedb 0.39 refuses the
// table by its own message.
func TestOthersAfterRecluster(t *testing.T) {
	root := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	m := orderedOn(t, newModelOn(t, 0, st), 100)
	dir := filepath.Join(root, "db")
	path := filepath.Join(dir, "t.lance")
	oracle.RunPython(t, "lsm_index.py", "make", path, "theirs", "v", "BTREE")
	filters := []string{"id = 77", "id in (3, 40, 350)", "n >= 500 and n < 520", "v = 'v919'", "id < 0"}
	for _, publish := range []bool{false, true} {
		m.write([]lsm.Op{{Key: m.key(7)}, {Key: m.key(8), Row: []any{cell(505), int64(8), int32(505)}}})
		m.now = maps.Clone(m.now)
		delete(m.now, 7)
		m.now[8] = 505
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
		_, err := m.table.Recluster(t.Context(), m.hooks(), lsm.Recluster{Columns: []int{2}, Buckets: 20, Publish: publish})
		require.NoError(t, err)
		m.check()
		ids := slices.Sorted(maps.Keys(m.now))
		want := func(pass func(id int64, n int32) bool) []int64 {
			out := []int64{}
			for _, id := range ids {
				if pass(id, m.now[id]) {
					out = append(out, id)
				}
			}
			return out
		}
		answers := [][]int64{
			want(func(id int64, _ int32) bool { return id == 77 }),
			want(func(id int64, _ int32) bool { return id == 3 || id == 40 || id == 350 }),
			want(func(_ int64, n int32) bool { return n >= 500 && n < 520 }),
			want(func(_ int64, n int32) bool { return n == 919 }),
			{},
		}
		got := askPylance(t, path, filters)
		require.Equal(t, len(ids), got.Count)
		for i, f := range got.Filters {
			require.Equal(t, answers[i], f.Rows, filters[i])
			require.Equal(t, answers[i], f.Scan, filters[i])
			require.Contains(t, f.Plan, "ScalarIndexQuery", filters[i])
		}
		if !publish { // it does not prefer what it has to translate
			require.Contains(t, got.Filters[0].Plan, "PRIMARY")
		}
		for _, name := range []string{lsm.PrimaryIndex, "by_v", "by_n", "by_id", "theirs"} {
			require.Zero(t, got.Indexes[name].Unindexed, name)
			require.Contains(t, got.Indexes, name)
		}
		ds, err := table.Open(t.Context(), st, "db/t.lance")
		require.NoError(t, err)
		said := askLanceDB(t, dir, filters)
		if publish {
			require.Contains(t, said.Error, "cannot be read by this version")
			require.Contains(t, said.Error, "1024")
			continue
		}
		require.Empty(t, said.Error)
		require.Equal(t, len(ids), said.Count)
		for i, f := range said.Filters {
			require.Equal(t, answers[i], f.Rows, filters[i])
			require.Contains(t, f.Plan, "ScalarIndexQuery", filters[i])
		}
		for _, name := range []string{lsm.PrimaryIndex, "theirs"} {
			require.NotNil(t, said.Indexed[name], name)
			require.EqualValues(t, ds.CountRows(), *said.Indexed[name], name)
		}
		dump := oracle.DumpPython(t, dir, "t")
		rows := func(d oracle.Dump) (out []string) {
			for _, r := range d.Rows {
				out = append(out, *r[1]+"="+*r[2])
			}
			slices.Sort(out)
			return out
		}
		var all []string
		for _, id := range ids {
			all = append(all, fmt.Sprint(id, "=", m.now[id]))
		}
		slices.Sort(all)
		require.Equal(t, all, rows(dump.Lance))
		require.Equal(t, all, rows(dump.LanceDB))
	}
}
