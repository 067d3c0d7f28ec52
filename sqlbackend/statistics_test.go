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

// TestStatisticsAreKept: what ANALYZE TABLE counted decides plans after a restart as it did before, goes with a renamed table, and
// is not that of another table of the name.
func TestStatisticsAreKept(t *testing.T) {
	w := newWorld(t)
	ask := func(q string) string {
		sch, rows, err := w.conn("c1").exec(t.Context(), q)
		require.NoError(t, err, q)
		return strings.TrimSpace(format(sch, rows, nil, nil))
	}
	ask("CREATE TABLE large (id INT PRIMARY KEY, n INT, KEY (n))")
	ask("CREATE TABLE small (id INT PRIMARY KEY, n INT)")
	fill := func() {
		var rows []string
		for i := range 2000 {
			rows = append(rows, fmt.Sprintf("(%d, %d)", i, i%2)) // two values, where many are supposed
		}
		ask("INSERT INTO large VALUES " + strings.Join(rows, ", "))
	}
	fill()
	var rows []string
	for i := range 5 {
		rows = append(rows, fmt.Sprintf("(%d, %d)", i, i))
	}
	ask("INSERT INTO small VALUES " + strings.Join(rows, ", "))
	ask("CREATE VIEW v AS SELECT 1")
	join := func(large string) string {
		return ask("EXPLAIN FORMAT=TREE SELECT COUNT(*) FROM small JOIN " + large + " l ON l.n = small.n")
	}
	require.Contains(t, join("large"), "LookupJoin")
	ask("ANALYZE TABLE large")
	require.Contains(t, join("large"), "HashJoin")
	reopen := func() {
		w.close(t)
		w.open(t)
	}
	reopen()
	require.Contains(t, join("large"), "HashJoin")
	ask("RENAME TABLE large TO moved")
	reopen()
	require.Contains(t, join("moved"), "HashJoin")
	require.Equal(t, "1", ask("SELECT * FROM v"))
	ask("DROP TABLE moved")
	ask("CREATE TABLE large (id INT PRIMARY KEY, n INT, KEY (n))")
	fill()
	require.Contains(t, join("large"), "LookupJoin")
	ask("ANALYZE TABLE small")
	for name := range w.engine.Catalog().Database("test").Options {
		if strings.HasPrefix(name, "statistics:") {
			require.Equal(t, "statistics:"+w.engine.Catalog().Database("test").Table("small").ID.String(), name, "those of the dropped table are gone")
		}
	}
	ask("ANALYZE TABLE large")
	require.Contains(t, join("large"), "HashJoin")
	ask("ANALYZE TABLE large DROP HISTOGRAM ON n")
	reopen()
	require.Equal(t, "1000", ask("SELECT COUNT(*) FROM large WHERE n = 1"))
}
