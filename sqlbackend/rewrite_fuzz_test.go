package sqlbackend

import (
	"strings"
	"testing"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// FuzzRewrite: no text makes the rewrites of statements panic or grow without bound.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{
		"SELECT a = ANY (SELECT 1), b MEMBER OF ('[1]'), c SOUNDS LIKE d FROM t GROUP BY a WITH ROLLUP",
		"SELECT /*!40000 HIGH_PRIORITY a > ALL (SELECT 1) */, EXISTS /*! (( */ (SELECT 1)))",
		"SELECT /*!50000 d + INTERVAL '1' */ DAY_HOUR, /*! @n := */ @n + 1",
		"{d '2024-01-01'}} {fn {", "@`a``b` @'", "SET @a := 1, @b := (@c := JSON_VALUE(a, b RETURNING CHAR(3) ON EMPTY ON ERROR))",
		"json_value(a returning", "JSON_VALUE(a, b DEFAULT ON EMPTY)", "json_value /*!(a, b returning */ /*! c default 1 on empty */ )", "ALTER TABLE t ORDER BY", "ALTER VIEW", "ALTER /*!50000 VIEW */ v AS SELECT 1",
		"SHOW OPEN TABLES FROM", "SHOW OPEN TABLES LIKE", "SHOW /*! OPEN */ TABLES", "PARTITION p VALUES LESS THAN MAXVALUE",
		"CREATE PROCEDURE p() BEGIN SET @x := ~1; SELECT DISTINCT SQL_NO_CACHE /*! QUICK */ 1; END",
		"SELECT 'a\\_b', \"c\\%\", n'x' IS UNKNOWN; INSERT LOW_PRIORITY IGNORE INTO t SET a = 1 AS n ON DUPLICATE KEY UPDATE a = 2",
		"((SELECT a FROM t ORDER BY 1 LIMIT 1) UNION (SELECT 2) LIMIT 1) UNION ((SELECT 3)) LIMIT 2", "WITH a AS ((SELECT 1)) (SELECT 1 /*! ) */ LIMIT 1) FOR UPDATE",
		"SELECT 1 + EXISTS ((SELECT 1)) = /*! EXISTS ( */ (SELECT $a, @b$)", "INSERT INTO t (a) ((SELECT 1)) ON DUPLICATE KEY UPDATE a = 1",
		"ALTER TABLE t ADD (a INT, b YEAR(4), KEY (a))", "CREATE TABLE t (LIKE u", "CREATE INDEX i ON t (a) ALGORITHM = /*! INPLACE */", "SELECT ROW(1, 2) IN (ROW(1, 2)), TRIM(BOTH FROM a) FROM t USE INDEX () IGNORE KEY FOR JOIN (PRIMARY)",
		noteStart + "9999999 zz" + noteEnd, noteStart + "3 00" + noteEnd, "CREATE TABLE t (a INT REFERENCES u (b)) /*!50100 PARTITION BY KEY (a) */",
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, query string, ansi bool) {
		out := rewriteClauses(query, sqlparser.ParserOptions{AnsiQuotes: ansi})
		const most = 64 // times as long: each edit is of a word and leaves a comment
		if len(out) > most*(len(query)+most) {
			t.Fatalf("%d bytes became %d", len(query), len(out))
		}
		originalText(out)
		for _, word := range []string{"help", "show", "set", "rename", "alter", "reset", "checksum"} {
			newTokens(word+" "+strings.TrimSpace(query), sqlparser.ParserOptions{AnsiQuotes: ansi}).serverStatement()
		}
	})
}
