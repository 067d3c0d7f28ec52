package fragreuse

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
)

// nodeAnswers lets lancedb for Node (Lance 12) answer all questions by index, and compares them with our scan.
func (b *bench) nodeAnswers() {
	b.t.Helper()
	list := []string{b.dir, "t"}
	for _, q := range questions() {
		list = append(list, q.sql)
	}
	var answer struct {
		Filters []struct {
			Plan string  `json:"plan"`
			IDs  []int64 `json:"ids"`
		} `json:"filters"`
		Indexed map[string]*uint64 `json:"indexed"`
	}
	require.NoError(b.t, json.Unmarshal(oracle.RunNode(b.t, "fragreuse.mjs", list...), &answer))
	d := b.open()
	for i, q := range questions() {
		_, want := b.scanned(d, q.expr)
		require.True(b.t, slices.Equal(want, answer.Filters[i].IDs), "%s: %v, want %v", q.sql, answer.Filters[i].IDs, want)
		require.Contains(b.t, answer.Filters[i].Plan, "ScalarIndexQuery", q.sql)
	}
	for name, rows := range answer.Indexed {
		if name != table.FragmentReuseName {
			require.NotNil(b.t, rows, name)
			require.Equal(b.t, d.CountRows(), *rows, "rows that index %s covers", name)
		}
	}
	require.GreaterOrEqual(b.t, len(answer.Indexed), 3)
}

// TestNode: lancedb 0.39 answers through our history, through a chain of it, and after our remap.
func TestNode(t *testing.T) {
	oracle.NodeModules(t)
	b := start(t)
	indexed(b, 60)
	b.do("delete", args{"where": "id in (1, 11, 35)"})
	b.compact(25)
	b.nodeAnswers()
	b.do("delete", args{"where": "id % 5 = 2"})
	b.compact(1000)
	b.nodeAnswers()
	b.do("delete", args{"where": "id % 5 = 3"})
	b.do("compact", args{"defer": true})
	b.nodeAnswers()
	require.Equal(t, 3, b.remapAll())
	b.nodeAnswers()
}
