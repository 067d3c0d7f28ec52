package sqlbackend_test

import (
	"encoding/json"
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

// TestExplainJSON: what EXPLAIN says, as JSON.
func TestExplainJSON(t *testing.T) {
	w := newWorld(t)
	c := w.conn("c1")
	ask := func(q string) string {
		_, rows, err := c.exec(t.Context(), q)
		require.NoError(t, err, q)
		if len(rows) == 1 && len(rows[0]) == 1 {
			return fmt.Sprint(rows[0][0])
		}
		return ""
	}
	ask("CREATE TABLE t (id INT PRIMARY KEY, n INT, KEY (n))")
	ask("INSERT INTO t VALUES (1, 1), (2, 2)")
	var doc struct {
		Block map[string]any `json:"query_block"`
	}
	explain := func(q string) map[string]any {
		doc.Block = nil
		require.NoError(t, json.Unmarshal([]byte(ask(q)), &doc), q)
		require.EqualValues(t, 1, doc.Block["select_id"])
		return doc.Block
	}
	table := explain("EXPLAIN FORMAT=JSON SELECT * FROM t WHERE n = 2")["table"].(map[string]any)
	require.Equal(t, "t", table["table_name"])
	require.Equal(t, "ref", table["access_type"])
	require.Equal(t, "n", table["key"])
	require.Equal(t, []any{"PRIMARY", "n"}, table["possible_keys"])
	require.Equal(t, "100.00", table["filtered"])
	require.Len(t, explain("EXPLAIN FORMAT = json SELECT * FROM t JOIN t AS u ON u.n < t.n WHERE t.id = 1")["nested_loop"], 2)
	require.Len(t, explain("EXPLAIN FORMAT=JSON SELECT * FROM t JOIN t AS u")["nested_loop"], 2)
	require.Equal(t, "No tables used", explain("DESC FORMAT=JSON SELECT 1")["message"])
	require.Equal(t, "t", explain("EXPLAIN FORMAT=JSON DELETE FROM t WHERE id = 1")["table"].(map[string]any)["table_name"])
}
