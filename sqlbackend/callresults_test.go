package sqlbackend_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// results reads all results of a statement: the first value of each row, and the error behind the last of them.
func results(t *testing.T, db *sql.DB, query string, args ...any) (out []string, err error) {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for {
		one := "["
		for rows.Next() {
			var v any
			require.NoError(t, rows.Scan(&v))
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			one += fmt.Sprint(v, " ")
		}
		if rows.Err() != nil {
			return out, rows.Err()
		}
		out = append(out, one+"]")
		if !rows.NextResultSet() {
			return out, rows.Err()
		}
	}
}

// TestResultsBeforeError: what a CALL has made before it fails arrives, and then the error; the connection lives on.
func TestResultsBeforeError(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	db := r.open("d?multiStatements=true")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE TABLE t (id INT PRIMARY KEY)",
		"CREATE PROCEDURE one() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'x', MYSQL_ERRNO = 5000; END",
		"CREATE PROCEDURE two(n INT) BEGIN SELECT n; SELECT n + 1 UNION ALL SELECT n + 2; INSERT INTO t VALUES (n), (n); END",
		"CREATE PROCEDURE outer_one() BEGIN SELECT 0; CALL one(); SELECT 'never'; END",
		"CREATE PROCEDURE handled() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SELECT 'caught'; CALL one(); SELECT 2; END",
		"CREATE PROCEDURE nothing() BEGIN SELECT 1 FROM t WHERE FALSE; SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 5000; END")
	for _, c := range []struct {
		query  string
		args   []any
		out    []string
		number int
	}{
		{"CALL one()", nil, []string{"[1 ]"}, 5000},
		{"CALL two(1)", nil, []string{"[1 ]", "[2 3 ]"}, 1062},
		{"CALL outer_one()", nil, []string{"[0 ]", "[1 ]"}, 5000},
		{"CALL nothing()", nil, []string{"[]"}, 5000},
		{"SELECT 7; CALL one(); SELECT 8", nil, []string{"[7 ]", "[1 ]"}, 5000},
		{"CALL two(?)", []any{5}, []string{"[6 7 ]"}, 1062}, // prepared: one result
		{"CALL one()", nil, []string{"[1 ]"}, 5000},
	} {
		out, err := results(t, db, c.query, c.args...)
		require.Equal(t, c.number, errorNumber(err), "%s: %v", c.query, err)
		require.Equal(t, c.out, out, c.query)
		require.Equal(t, []string{"9"}, text(t, db, "SELECT 9"))
	}
	out, err := results(t, db, "CALL handled()")
	require.NoError(t, err)
	require.Equal(t, []string{"[1 ]", "[caught ]", "[2 ]"}, out[:3])
	_, err = results(t, db, "CALL one()")
	require.Error(t, err)
	require.Equal(t, []string{"Error|5000|x"}, text(t, db, "SHOW WARNINGS"))
}

// TestResultsBounded: results without rows, and cursors that are open in procedures inside each other, count as what they take.
func TestResultsBounded(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	db := r.open("d?multiStatements=true")
	db.SetMaxOpenConns(1)
	run(t, db, "SET max_sp_recursion_depth = 255",
		"CREATE PROCEDURE deep(n INT) BEGIN DECLARE c CURSOR FOR SELECT REPEAT('x', 20000000); OPEN c; SET @deep = n; CALL deep(n + 1); END",
		"CREATE PROCEDURE again(n INT) BEGIN WHILE n > 0 DO BEGIN DECLARE c CURSOR FOR SELECT REPEAT('x', 20000000); OPEN c; END; SET n = n - 1; END WHILE; END")
	_, err := db.Exec("CALL deep(1)")
	require.Error(t, err)
	deep := text(t, db, "SELECT @deep < 20")
	require.Equal(t, []string{"1"}, deep, "%v", err)
	run(t, db, "CALL again(30)")
}
