package sqlbackend_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestClientCharacterSet: a client that does not speak Unicode reads what it wrote, others read the same letters, and byte strings
// are its bytes. The driver passes bytes on as they are.
func TestClientCharacterSet(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(9) CHARACTER SET utf8mb4, c VARBINARY(9))")
	for name, parameters := range map[string]string{"prepared": "", "text": "&interpolateParams=true"} {
		t.Run(name, func(t *testing.T) {
			unicode := r.open("d")
			run(t, unicode, "DELETE FROM t")
			latin := r.open("d?multiStatements=true&collation=latin1_german1_ci" + parameters)
			latin.SetMaxOpenConns(1)
			require.Equal(t, []string{"latin1 latin1 latin1 latin1_german1_ci"},
				text(t, latin, "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection)"))
			_, err := latin.Exec("INSERT INTO t VALUES (1, ?, ?)", "\xe9", "\xe9")
			require.NoError(t, err)
			run(t, latin, "INSERT INTO t VALUES (2, '\xfc', 'x'), (3, _utf8mb4'\xc3\xbc', _binary'\xfc')", "UPDATE t SET c = '\xfc\xfc' WHERE a = 2")
			require.Equal(t, []string{"1 é E9", "2 ü FCFC", "3 ü FC"}, text(t, unicode, "SELECT CONCAT_WS(' ', a, b, HEX(c)) FROM t ORDER BY a"))
			require.Equal(t, []string{"\xe9", "\xfc", "\xfc"}, text(t, latin, "SELECT b FROM t ORDER BY a"))
			require.Equal(t, []string{"2", "3"}, text(t, latin, "SELECT a FROM t WHERE b = ? ORDER BY a", "\xfc"))
			require.Equal(t, []string{"1 1 E9"}, text(t, latin, "SELECT CONCAT_WS(' ', LENGTH('\xe9'), CHAR_LENGTH('\xe9'), HEX('\xe9')) -- '\xe9"))

			run(t, unicode, "UPDATE t SET b = 'é☃a' WHERE a = 1")
			require.Equal(t, []string{"\xe9?a"}, text(t, latin, "SELECT b FROM t WHERE a = 1"))

			run(t, latin, "INSERT INTO t VALUES (4, '\xe4', 'x'); SET NAMES utf8mb4; INSERT INTO t VALUES (5, 'ä', 'ä')")
			require.Equal(t, []string{"ä", "ä"}, text(t, latin, "SELECT b FROM t WHERE a > 3 ORDER BY a"))
		})
	}
}

// TestPrepareTexts: what is prepared is one statement, even if it defines a body of several.
func TestPrepareTexts(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	db := r.open("d?multiStatements=true")
	db.SetMaxOpenConns(1)
	stmt, err := db.Prepare("CREATE PROCEDURE p(IN n INT)\nBEGIN\n  SET @a = n;\n  SELECT @a + 1;\nEND\n")
	require.NoError(t, err)
	_, err = stmt.Exec()
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRow("CALL p(?)", 4).Scan(&n))
	require.Equal(t, 5, n)
	_, err = db.Prepare("SELECT 1; SELECT 2")
	require.ErrorContains(t, err, "syntax error")
	_, err = db.Prepare("USE d")
	require.ErrorContains(t, err, "1295")
	require.NoError(t, db.QueryRow("SELECT 1; SELECT 2").Scan(&n), "several statements still work")
	require.NoError(t, db.QueryRow("SELECT ?;", 3).Scan(&n))
	require.Equal(t, 3, n)
}

// TestNoBackslashEscapes: the client is told, and what it writes is read that way, as a text, as a parameter and behind SET in
// one text.
func TestNoBackslashEscapes(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	one := func(db *sql.DB, query string, args ...any) (out string) {
		t.Helper()
		rows, err := db.Query(query, args...)
		require.NoError(t, err, query)
		defer rows.Close()
		for more := true; more; more = rows.NextResultSet() {
			for rows.Next() {
				require.NoError(t, rows.Scan(&out))
			}
		}
		return out
	}
	for name, parameters := range map[string]string{"prepared": "", "text": "&interpolateParams=true"} {
		t.Run(name, func(t *testing.T) {
			db := r.open("d?multiStatements=true" + parameters)
			db.SetMaxOpenConns(1)
			require.Equal(t, `a\b'`, one(db, "SELECT ?", `a\b'`))
			require.Equal(t, `\`, one(db, `SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT '\'`))
			require.Equal(t, `a\b'c\`, one(db, `SELECT CONCAT('a\b''', "c\") -- '\'`))
			require.Equal(t, `a\b'`, one(db, "SELECT ?", `a\b'`))
			require.Equal(t, `a\`, one(db, `SELECT CONCAT(?, '\')`, "a"))
			require.Equal(t, "a'b", one(db, `SET sql_mode = ''; SELECT 'a\'b'`))
		})
	}
}
