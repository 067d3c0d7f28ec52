package sqlbackend_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestLikeByIndex: LIKE finds the same rows by an index over text as without one, for collations with and without weights and with
// padding, in MemTables and merged, with the pattern as a literal and as a parameter.
func TestLikeByIndex(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE DATABASE test", "USE test")
	rng := rand.New(rand.NewPCG(7, 7))
	letters := []string{"a", "A", "á", "b", "B", "ß", "s", " ", "%", "_", "0", "é", "日", "Ⅳ"}
	word := func(most int) string {
		var b strings.Builder
		for range rng.IntN(most + 1) {
			b.WriteString(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	for i, collation := range []string{"utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_0900_as_cs", "utf8mb4_bin", "utf8mb3_unicode_ci", "utf8mb4_spanish_ci"} {
		name := fmt.Sprintf("t%d", i)
		run(t, db, fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, c VARCHAR(20) COLLATE %s, n INT, plain VARCHAR(20) COLLATE %s, KEY (c, n))", name, collation, collation),
			fmt.Sprintf("CREATE TABLE %sp (c VARCHAR(20) COLLATE %s, n INT, plain VARCHAR(20) COLLATE %s, PRIMARY KEY (n, c), UNIQUE KEY u (c, n))", name, collation, collation))
		if i == 0 {
			run(t, db, fmt.Sprintf("CREATE INDEX single ON %s (c)", name))
		}
		insert := func(from int) {
			var rows, keyed []string
			for id := from; id < from+150; id++ {
				w := quoted(word(4))
				if rng.IntN(20) > 0 {
					keyed = append(keyed, fmt.Sprintf("(%s, %d, %s)", w, id, w))
				} else {
					w = "NULL"
				}
				rows = append(rows, fmt.Sprintf("(%d, %s, %d, %s)", id, w, id%3, w))
			}
			run(t, db, "INSERT INTO "+name+" VALUES "+strings.Join(rows, ", "), "INSERT INTO "+name+"p VALUES "+strings.Join(keyed, ", "))
		}
		check := func() {
			for range 25 {
				pattern := word(3)
				if rng.IntN(2) == 0 {
					pattern += "%"
				}
				for table, id := range map[string]string{name: "id", name + "p": "n"} {
					want := text(t, db, fmt.Sprintf("SELECT %s FROM %s WHERE plain LIKE %s ORDER BY 1", id, table, quoted(pattern)))
					require.Equal(t, want, text(t, db, fmt.Sprintf("SELECT %s FROM %s WHERE c LIKE %s ORDER BY 1", id, table, quoted(pattern))), "%s %q", collation, pattern)
					require.Equal(t, want, text(t, db, fmt.Sprintf("SELECT %s FROM %s WHERE c LIKE %s ESCAPE '|' ORDER BY 1", id, table, quoted(pattern))), "%s %q", collation, pattern)
					require.Equal(t, want, text(t, db, fmt.Sprintf("SELECT %s FROM %s WHERE c LIKE ? ORDER BY 1", id, table), pattern), "%s %q", collation, pattern)
				}
			}
		}
		insert(0)
		check()
		run(t, db, "FLUSH TABLES")
		insert(1000)
		check()
	}

	// Few rows are read, not all behind the beginning, nor all.
	run(t, db, "CREATE TABLE large (id INT PRIMARY KEY, b VARCHAR(20) COLLATE utf8mb4_bin, c VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, KEY (b), KEY (c))")
	var rows []string
	for i := range 5000 {
		rows = append(rows, fmt.Sprintf("(%d, 'Key%05d', 'Key%05d')", i, i, i))
	}
	run(t, db, "INSERT INTO large VALUES "+strings.Join(rows, ", "), "FLUSH TABLES")
	for _, condition := range []string{"b LIKE 'Key0012%'", "b LIKE 'Key0012_' ESCAPE '|'", "c LIKE 'kéy0012%'", "c LIKE 'kEY0012_' ESCAPE '|'", "c LIKE 'key0012%' AND id > 3"} {
		out := strings.Join(text(t, db, "EXPLAIN ANALYZE SELECT id FROM large WHERE "+condition), "\n")
		require.LessOrEqual(t, rowsRead(t, out, "large"), 10, "%s\n%s", condition, out)
	}
}
