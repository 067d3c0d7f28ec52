package sqlbackend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLongLists: conditions with tens of thousands of literals answer at once, whatever the key; the frontend alone
// takes minutes to plan them.
func TestLongLists(t *testing.T) {
	w := newWorld(t)
	c := w.conn("c1")
	ask := func(q string) string {
		sch, rows, err := c.exec(t.Context(), q)
		return strings.TrimSpace(format(sch, rows, err, nil))
	}
	require.Equal(t, "ok 0", ask("SET lancesql_verify_indexes = 0")) // a scan of the table for each literal
	const rows, listed = 1000, 20000
	numbers := make([]string, 0, listed)
	texts := make([]string, 0, listed)
	for i := range listed {
		numbers = append(numbers, fmt.Sprint(3*(listed-i)))
		texts = append(texts, fmt.Sprintf("'%d'", 3*i))
	}
	start := time.Now()
	for i, k := range []struct {
		typ  string
		list []string
		in   int // values below rows that are listed
	}{
		{"INT", numbers, 333}, {"DECIMAL(12,2)", numbers, 333}, {"VARCHAR(9)", texts, 334}, {"VARCHAR(9) COLLATE utf8mb4_bin", texts, 334},
	} {
		table := fmt.Sprintf("l%d", i)
		require.Equal(t, "ok 0", ask(fmt.Sprintf("CREATE TABLE %s (a %s, b INT, PRIMARY KEY (a, b))", table, k.typ)))
		var values []string
		for v := range rows {
			values = append(values, fmt.Sprintf("('%d', %d)", v, v%2))
		}
		require.Equal(t, fmt.Sprint("ok ", rows), ask("INSERT INTO "+table+" VALUES "+strings.Join(values, ", ")))
		list := "(" + strings.Join(k.list, ", ") + ")"
		require.Equal(t, fmt.Sprint(k.in), ask("SELECT COUNT(*) FROM "+table+" WHERE a IN "+list), k.typ)
		require.Equal(t, fmt.Sprint(rows-k.in), ask("SELECT COUNT(*) FROM "+table+" WHERE a NOT IN "+list), k.typ)
		require.Equal(t, fmt.Sprint(k.in), ask("SELECT COUNT(*) FROM "+table+" WHERE b >= 0 AND (a IN "+list+" OR b = 7)"), k.typ)
	}
	require.Less(t, time.Since(start), time.Minute)
}
