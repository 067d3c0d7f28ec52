package sqlbackend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAccessPathsAgree: the same rows in a table with a key, in one without, and behind a derived table no filter can
// enter, give the same answer to random conditions. Literals often do not have the column's type.
func TestAccessPathsAgree(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	w := newWorld(t)
	c := w.conn("c1")
	must := func(q string) {
		_, _, err := c.exec(t.Context(), q)
		require.NoError(t, err, q)
	}
	for i, k := range []struct{ typ, values, literals string }{
		{"INT", "-3 -1 0 1 2 5 100", "-1 0 1 1.5 '2' '1.0' 2.49 1e0 NULL 99999999999 'x' true"},
		{"SMALLINT", "-3 -1 0 1 2 5 100", "-1 0 1 1.5 '2' -1.5 NULL 99999 'x'"},
		// Why no literal of more digits than a DATETIME has: the frontend rounds such literals when it builds index ranges,
		// and not when it compares.
		{"BIGINT UNSIGNED", "0 1 2 4503599627370497 18446744073709551615", "-1 0 1 1.5 '2' 9007199254740993 18446744073709551615 18446744073709551616"},
		{"BIGINT", "0 -9223372036854775808 9223372036854775807", "0 9223372036854775808 -9223372036854775808 9007199254740993"},
		{"DECIMAL(6,2)", "-1.50 -1.49 0 1.25 1.26 99.99", "-1.5 -1.495 1.255 '1.25' 1.25e0 2 10000 -10000.001 NULL"},
		{"DOUBLE", "-1.5 0 0.1 1 1e10", "0.1 '0.1' 0 -1.5 1e10 10000000000 NULL"},
		{"VARCHAR(10)", "'' 'a' 'Ab' 'B' 'ö' 'zz' '10' '9'", "'a' 'AB' 'b' '' 'Ö' 10 9.0 NULL"},
		{"VARCHAR(10) COLLATE utf8mb4_bin", "'' 'a' 'A' 'Ab' 'B' 'ä' 'zz'", "'a' 'A' 'b' '' 'Ä' 0 NULL"},
		{"VARCHAR(10) COLLATE utf8mb4_general_ci", "'' 'a' 'Ab' 'B' 'zz'", "'a' 'AB' 'b' '' 'c' NULL"},
		{"VARBINARY(8)", "'' 'a' 'A' x'00' x'ff'", "'a' x'00' x'ff' '' NULL"},
		{"DATE", "'2020-01-01' '2020-01-02' '1999-12-31'", "'2020-01-01' '2020-01-01 12:00:00' '1999-1-1' NULL"},
		{"DATETIME(2)", "'2020-01-01' '2020-01-01 12:00:00.25' '1999-12-31'", "'2020-01-01' '2020-01-01 12:00:00.25' NULL"},
		{"TIMESTAMP", "'2020-01-01' '2020-01-01 12:00:00'", "'2020-01-01' '2020-01-01 12:00:00' '1000-01-01' NULL"},
		{"YEAR", "1999 2020 2155", "1999 2020.0 '2020' 0 NULL"},
		{"TIME", "'-01:00:00' '00:00:00' '12:30:00'", "'00:00:00' '12:30:00' '-02:00:00' NULL"},
		{"ENUM('z','a','m')", "'z' 'a' 'm'", "'z' 'a' 'A' NULL"},
		{"BIT(8)", "0 1 255", "1 b'1' 255 0 NULL"},
	} {
		key, heap := fmt.Sprintf("k%d", i), fmt.Sprintf("h%d", i)
		must(fmt.Sprintf("CREATE TABLE %s (a %s, b INT, v INT, PRIMARY KEY (a, b))", key, k.typ))
		must(fmt.Sprintf("CREATE TABLE %s (a %s, b INT, v INT)", heap, k.typ))
		var rows []string
		for n, v := range words(k.values) {
			for b := range 3 {
				rows = append(rows, fmt.Sprintf("(%s, %d, %d)", v, b, n))
			}
		}
		for _, table := range []string{key, heap} {
			must("INSERT INTO " + table + " VALUES " + strings.Join(rows, ", "))
		}
		literals, values := words(k.literals), words(k.values)
		for range 60 {
			cond := condition(r, literals, values, 2)
			var answers [3]string
			for i, q := range []string{
				"SELECT * FROM " + key + " WHERE " + cond,
				"SELECT * FROM " + heap + " WHERE " + cond,
				"SELECT a, b, v FROM (SELECT *, 1 AS one FROM " + heap + " LIMIT 100000) d WHERE " + cond,
			} {
				sch, rows, err := c.exec(t.Context(), q)
				answers[i] = format(sch, rows, err, []string{"sort"})
				if err != nil {
					answers[i] = "error"
				}
			}
			require.Equal(t, answers[2], answers[0], "seed %d, key %s: %s", seed, k.typ, cond)
			require.Equal(t, answers[2], answers[1], "seed %d, heap %s: %s", seed, k.typ, cond)
			ordered(t, c, key, cond)
		}
	}
}

// ordered checks that ORDER BY over the key, which may come from the index, sorts as a sort does.
func ordered(t *testing.T, c *client, table, cond string) {
	q := "FROM " + table + " WHERE " + cond + " ORDER BY "
	s1, r1, err1 := c.exec(t.Context(), "SELECT a, b "+q+"a, b")
	s2, r2, err2 := c.exec(t.Context(), "SELECT a, b "+q+"a DESC, b DESC")
	if err1 != nil || err2 != nil {
		return
	}
	slices.Reverse(r2)
	require.Equal(t, format(s2, r2, nil, nil), format(s1, r1, nil, nil), "%s WHERE %s", table, cond)
}

// words splits at blanks outside quotes.
func words(s string) []string {
	quoted := false
	return strings.FieldsFunc(s, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

// condition draws a filter. Why IN takes stored values: the frontend rounds the members of a list, and not always.
func condition(r *rand.Rand, literals, values []string, depth int) string {
	lit := func() string { return literals[r.IntN(len(literals))] }
	if depth > 0 && r.IntN(2) == 0 {
		op := []string{"AND", "OR"}[r.IntN(2)]
		return "(" + condition(r, literals, values, depth-1) + " " + op + " " + condition(r, literals, values, depth-1) + ")"
	}
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf("a BETWEEN %s AND %s", lit(), lit())
	case 1:
		return fmt.Sprintf("a IN (%s, %s)", values[r.IntN(len(values))], values[r.IntN(len(values))])
	case 2:
		return "a IS NOT NULL"
	case 3:
		return fmt.Sprintf("b %s %d", []string{"=", "<", ">="}[r.IntN(3)], r.IntN(3))
	case 4:
		return fmt.Sprintf("NOT a = %s", lit())
	case 5:
		return fmt.Sprintf("%s < a", lit())
	default:
		return fmt.Sprintf("a %s %s", []string{"=", "<", "<=", ">", ">=", "<>", "<=>"}[r.IntN(7)], lit())
	}
}
