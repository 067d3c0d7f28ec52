package sqlbackend_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestCallWithSeveralResults: every SELECT of a procedure is a result of its own, in order, and the connection goes on.
func TestCallWithSeveralResults(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "USE d")
	db = r.open("d")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9))", "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
		"CREATE PROCEDURE inner_() SELECT b FROM t ORDER BY a DESC",
		`CREATE PROCEDURE p(IN n INT, OUT total INT) BEGIN
			DECLARE i INT DEFAULT 0;
			DECLARE v INT;
			SELECT a, b FROM t ORDER BY a;
			SELECT COUNT(*) INTO v FROM t;
			SET total = v + 1;
			INSERT INTO t VALUES (10, 'ten');
			WHILE i < n DO SET i = i + 1; SELECT i; END WHILE;
			CALL inner_();
			SELECT 1 FROM t WHERE a = 0;
			SELECT 'union' UNION ALL SELECT v;
			DELETE FROM t WHERE a = 10;
		END`)
	all := func(q string) (out []string) {
		rows, err := db.Query(q)
		require.NoError(t, err, q)
		defer rows.Close()
		for more := true; more; more = rows.NextResultSet() {
			columns, err := rows.Columns()
			require.NoError(t, err)
			var set []string
			for rows.Next() {
				cells, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
				for i := range cells {
					targets[i] = &cells[i]
				}
				require.NoError(t, rows.Scan(targets...))
				set = append(set, fmt.Sprint(cells[0].String, len(columns)))
			}
			out = append(out, strings.Join(set, ","))
		}
		require.NoError(t, rows.Err())
		return out
	}
	for range 3 { // also on a connection that has done it before
		require.Equal(t, []string{"12,22", "11", "21", "ten1,y1,x1", "", "union1,21"}, all("CALL p(2, @t)"))
		require.Equal(t, []string{"3"}, text(t, db, "SELECT @t"))
	}
	require.Equal(t, []string{"ten1,y1,x1"}, func() []string {
		run(t, db, "INSERT INTO t VALUES (10, 'ten')")
		defer run(t, db, "DELETE FROM t WHERE a = 10")
		return all("CALL inner_()") // one result stays one
	}())
	require.Equal(t, 5, len(text(t, db, "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5")))

	// A client that did not ask for several statements still may not send them.
	_, err := db.Exec("SELECT 1; SELECT 2")
	require.Equal(t, 1064, errorNumber(err))
	// One that did gets the results of all of them.
	many := r.open("d?multiStatements=true")
	many.SetMaxOpenConns(1)
	db = many
	require.Equal(t, []string{"51", "12,22", "11", "ten1,y1,x1", "", "union1,21", "61"}, all("SELECT 5; CALL p(1, @t); SELECT 6"))

	// The results before an error arrive.
	run(t, db, "CREATE PROCEDURE fails() BEGIN SELECT 1; SELECT 2; INSERT INTO t VALUES (1, 'again'); END")
	before, err := results(t, db, "CALL fails()")
	require.Equal(t, 1062, errorNumber(err))
	require.Equal(t, []string{"[1 ]", "[2 ]"}, before)
	require.Equal(t, []string{"71"}, all("SELECT 7"))

	// One that takes a single result gets the last, as in a prepared statement.
	stmt, err := db.PrepareContext(context.Background(), "CALL p(1, @t)")
	require.NoError(t, err)
	rows, err := stmt.Query()
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	require.NoError(t, db.Ping())

	raw := dialRaw(t, r.server.Addr())
	raw.ok("USE d")
	require.Equal(t, byte(2), raw.command(3, "CALL p(0, @t)")[0]) // two columns
	var last []byte
	count := 0
	for {
		last = raw.packet()
		if last[0] == 0xfe && len(last) < 9 { // the end of columns, or of rows
			if count++; count%2 == 0 { // of rows
				require.NotZero(t, last[3]&8, "no more results, but an OK is to come")
			}
		}
		if last[0] == 0 {
			break // the OK at the end
		}
	}
	require.Equal(t, 2*4, count) // each with an end of columns and one of rows
	require.Zero(t, last[3]&8, "more results after the last")
}
