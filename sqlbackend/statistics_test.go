package sqlbackend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/stretchr/testify/require"
)

// TestAnalyzeTable: ANALYZE TABLE counts the values of every index, also of an empty table; the statistics of a dropped table
// are not those of the next one of its name.
func TestAnalyzeTable(t *testing.T) {
	w := newWorld(t)
	c := w.conn("c1")
	ask := func(q string) string {
		sch, rows, err := c.exec(t.Context(), q)
		require.NoError(t, err, q)
		return strings.TrimSpace(format(sch, rows, nil, nil))
	}
	found := func() map[string][2]uint64 {
		ctx := sql.NewContext(t.Context(), sql.WithSession(c.session))
		table, _, err := w.front.Analyzer.Catalog.Table(ctx, "test", "t")
		require.NoError(t, err)
		list, err := w.front.Analyzer.Catalog.GetTableStats(ctx, "", "test", table)
		require.NoError(t, err)
		out := map[string][2]uint64{}
		for _, s := range list {
			rows := uint64(0)
			for _, b := range s.Histogram() {
				rows += b.RowCount()
			}
			require.Equal(t, s.RowCount(), rows)
			out[s.Qualifier().Idx+":"+strings.Join(s.Columns(), ",")] = [2]uint64{s.DistinctCount(), s.NullCount()}
		}
		return out
	}
	ask("CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(20), KEY (n), KEY sn (s, n))")
	ask("ANALYZE TABLE t")
	require.Equal(t, [2]uint64{0, 0}, found()["primary:id"])
	var rows []string
	for i := range 1000 {
		n := fmt.Sprint(i % 7)
		if i%10 == 0 {
			n = "NULL"
		}
		rows = append(rows, fmt.Sprintf("(%d, %s, 's%d')", i, n, i%20))
	}
	ask("INSERT INTO t VALUES " + strings.Join(rows, ", "))
	ask("ANALYZE TABLE t")
	require.Equal(t, map[string][2]uint64{"primary:id": {1000, 0}, "n:n": {8, 100}, "sn:s": {20, 0}, "sn:s,n": {128, 0}}, found())
	ask("DROP TABLE t")
	ask("CREATE TABLE t (id INT PRIMARY KEY, n INT, KEY (n))")
	require.Empty(t, found())
}
