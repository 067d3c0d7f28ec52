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
	require.Contains(t, join("large"), "LookupJoin", "what DROP HISTOGRAM dropped stays dropped")

	require.Equal(t, "none", ask("SELECT * FROM information_schema.column_statistics"), "ANALYZE TABLE makes no histogram")
	ask(`ANALYZE TABLE large UPDATE HISTOGRAM ON id USING DATA '{"row_count": 3, "distinct_count": 3}'`)
	require.Equal(t, "test | large | id", ask("SELECT schema_name, table_name, column_name FROM information_schema.column_statistics"))
	require.Contains(t, join("large"), "HashJoin")
	ask("ANALYZE TABLE small")
	reopen()
	require.Contains(t, join("large"), "HashJoin", "what was set by hand is kept")
	ask("DROP TABLE large")
	ask("CREATE TABLE large (id INT PRIMARY KEY, n INT, KEY (n))")
	fill()
	require.Contains(t, join("large"), "LookupJoin", "and not of another table")
	require.Equal(t, "1000", ask("SELECT COUNT(*) FROM large WHERE n = 1"))
}

// TestHistograms: what ANALYZE TABLE saw of how values are spread decides how many rows a range is thought to have, also after a
// restart and for all kinds of keys.
func TestHistograms(t *testing.T) {
	w := newWorld(t)
	ask := func(q string) string {
		sch, rows, err := w.conn("c1").exec(t.Context(), q)
		require.NoError(t, err, q)
		return strings.TrimSpace(format(sch, rows, nil, nil))
	}
	ask("CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(40) COLLATE utf8mb4_bin, d DATETIME, p DECIMAL(10,2), KEY (n), KEY (s), KEY (d), KEY (p))")
	ask("CREATE TABLE small (id INT PRIMARY KEY, n INT)")
	var rows []string
	for i := range 2000 {
		n := i % 20 // most rows have small values
		if i%100 == 0 {
			n = 1000 + i
		}
		rows = append(rows, fmt.Sprintf("(%d, %d, 's%06d', '2024-01-01 00:00:00' + INTERVAL %d MINUTE, %d.25)", i, n, n, n, n))
	}
	ask("INSERT INTO t VALUES " + strings.Join(rows, ", "))
	rows = nil
	for i := range 100 {
		rows = append(rows, fmt.Sprintf("(%d, %d)", i, i))
	}
	ask("INSERT INTO small VALUES " + strings.Join(rows, ", "))
	// Of few rows of t a hash table is made; else t is looked up for each row of small.
	readsFew := func(condition string) bool {
		return !strings.Contains(ask("EXPLAIN FORMAT=TREE SELECT COUNT(*) FROM t JOIN small ON t.id = small.id WHERE "+condition), "keys: small.id")
	}
	few := []string{"t.n > 900", "t.n BETWEEN 1500 AND 9999", "t.s >= 's000900'", "t.d > '2024-01-01 15:00:00'", "t.p > 900", "t.n > 900 AND t.n < 5000"}
	many := []string{"t.n >= 0", "t.n < 900", "t.s < 's000900'", "t.d < '2024-01-01 15:00:00'", "t.p < 900", "t.n >= 0 AND t.n < 900"}
	require.False(t, readsFew("t.n > 900"), "a third is supposed")
	ask("ANALYZE TABLE t")
	for range 2 {
		for _, c := range few {
			require.True(t, readsFew(c), c)
		}
		for _, c := range many {
			require.False(t, readsFew(c), c)
		}
		w.close(t)
		w.open(t)
	}
	ask("ANALYZE TABLE t DROP HISTOGRAM ON n")
	require.False(t, readsFew("t.n > 900"))
}
