package sqlbackend_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExplain: what scans look at, and what they read, for the conditions an index or a literal's type decides.
func TestExplain(t *testing.T) {
	w := newWorld(t)
	c := w.conn("c1")
	ask := func(q string) string {
		sch, rows, err := c.exec(t.Context(), q)
		require.NoError(t, err, q)
		return format(sch, rows, nil, nil)
	}
	ask("SET lancesql_verify_indexes = 0") // its reads are the statement's
	ask("CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(20) COLLATE utf8mb4_bin, c VARCHAR(20), m INT, d DATE, KEY (n), KEY (s), KEY(m, d))")
	var rows []string
	for i := range 3000 {
		rows = append(rows, fmt.Sprintf("(%d, %d, 's%04d', 'c%d', %d, '2020-01-01' + INTERVAL %d DAY)", i, i/3, i, i%10, i%50, i%300))
	}
	ask("INSERT INTO t VALUES " + strings.Join(rows, ", "))
	ask("FLUSH TABLES t")
	ask("INSERT INTO t VALUES (9000, NULL, 'x', 'x', 1, '2021-01-01')")
	sizes := regexp.MustCompile(`reads \d+, bytes read \d+`)
	for _, e := range []struct{ query, storage, read string }{
		{"id = 5", "t by PRIMARY, const): scans 1, sources 2/2, fragments 1/1, index segments 1, hops 0, candidates 1", "rows read 1, rows returned 1"},
		{"n = 5", "t by n, ref): scans 1, sources 2/2, fragments 1/1, index segments 1, hops 0, candidates 3", "rows read 3, rows returned 3"},
		{"n <=> NULL", "t by n, ref): scans 1, sources 2/2, fragments 0/1, index segments 1, hops 0, candidates 1", "rows read 1, rows returned 1"},
		{"n IS NULL", "t by n, ref): scans 1, sources 2/2, fragments 0/1, index segments 1, hops 0, candidates 1", "rows read 1, rows returned 1"},
		{"s LIKE 's00%'", "t by s, range): scans 1, sources 2/2, fragments 1/1, index segments 1, hops 0, candidates 3001", "rows returned 100"},
		{"n < 2.5", "t by n, range): scans 1, sources 2/2, fragments 1/1, index segments 1, hops 0, candidates 13", "rows returned 12"},
		{"n = '7' AND s >= 's0022'", "t by n, ref): scans 1, sources 2/2, fragments 1/1, index segments 1, hops 0, candidates 3", "rows returned 2"},
		{"(m, d) = (3, '2020-01-04')", "t by m, ref): scans 1, sources 2/2, fragments 1/1, index segments 1, hops 0, candidates 10", "rows read 10, rows returned 10"},
		{"d < '2020-01-03 12:00:00'", "t, ALL): scans 1, sources 2/2, fragments 1/1", "rows read 3001, rows returned 30"},
		{"c = 'C3'", "t, ALL): scans 1, sources 2/2, fragments 1/1", "rows read 3001, rows returned 3001"},
	} {
		out := ask("EXPLAIN ANALYZE SELECT * FROM t WHERE " + e.query)
		require.Contains(t, out, "Storage("+e.storage, e.query)
		require.Contains(t, out, e.read, e.query)
		require.Regexp(t, sizes, out)
		plan := ask("EXPLAIN FORMAT=TREE SELECT * FROM t WHERE " + e.query)
		require.Contains(t, plan, "Storage("+strings.SplitAfter(e.storage, "scans 1")[0], e.query)
		require.Contains(t, plan, "rows expected ", e.query)
	}
	require.Contains(t, ask("EXPLAIN SELECT * FROM t WHERE n = 5"), "1 | SIMPLE | t | NULL | ref | PRIMARY,n,s,m | n | NULL | NULL | 3 | 100 | Using where; sources 2/2")
	require.Contains(t, ask("EXPLAIN ANALYZE SELECT COUNT(*) FROM t"), "reads 0, bytes read 0")
	require.Contains(t, ask("EXPLAIN ANALYZE SELECT id FROM t ORDER BY id LIMIT 3"), "rows from the index alone 128", "no sort, a few rows, no row read")
	_, _, err := c.exec(t.Context(), "EXPLAIN ANALYZE DELETE FROM t")
	require.Error(t, err)
	require.Equal(t, "3001", strings.TrimSpace(ask("SELECT COUNT(*) FROM t")))
}
