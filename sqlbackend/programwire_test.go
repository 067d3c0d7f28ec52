package sqlbackend_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestKillProgram: KILL ends a stored program in a loop, with 1317, whatever its handlers are; what it did in the open transaction
// can still be rolled back.
func TestKillProgram(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	ctx := context.Background()
	victim, err := r.open("d").Conn(ctx)
	require.NoError(t, err)
	defer victim.Close()
	killer, err := r.open("d").Conn(ctx)
	require.NoError(t, err)
	defer killer.Close()
	id := connectionID(t, victim)
	for _, q := range []string{
		"CREATE TABLE t (id INT PRIMARY KEY)",
		"CREATE PROCEDURE ever() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; INSERT INTO t VALUES (1); SELECT GET_LOCK('in', 0) INTO @in; LOOP SET @n = 1; END LOOP; END",
		"CREATE PROCEDURE jump() BEGIN DECLARE i INT DEFAULT 0; SELECT GET_LOCK('in', 0) INTO @in; a: LOOP ITERATE a; END LOOP; END",
	} {
		require.NoError(t, on(victim, q))
	}
	for _, query := range []string{"CALL ever()", "CALL jump()"} {
		require.NoError(t, on(victim, "BEGIN"))
		done := make(chan error, 1)
		go func() { done <- on(victim, query) }()
		require.Eventually(t, func() bool {
			var held any
			require.NoError(t, killer.QueryRowContext(ctx, "SELECT IS_USED_LOCK('in')").Scan(&held))
			return held != nil
		}, 30*time.Second, time.Millisecond)
		require.NoError(t, on(killer, fmt.Sprintf("KILL QUERY %d", id)))
		select {
		case err := <-done:
			require.Equal(t, 1317, errorNumber(err), "%s: %v", query, err)
		case <-time.After(30 * time.Second):
			t.Fatalf("%s goes on after KILL", query)
		}
		require.NoError(t, on(victim, "ROLLBACK"))
		require.NoError(t, on(victim, "DO RELEASE_ALL_LOCKS()"))
		var n int
		require.NoError(t, victim.QueryRowContext(ctx, "SELECT COUNT(*) FROM t").Scan(&n))
		require.Zero(t, n)
	}
}

// TestProgramDiagnostics: what a CALL leaves is what its last statement left, and definitions come in the form of dumps.
func TestProgramDiagnostics(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	db := r.open("d?multiStatements=true")
	db.SetMaxOpenConns(1)
	run(t, db,
		"/*!50003 CREATE*/ /*!50020 DEFINER=`root`@`localhost`*/ /*!50003 PROCEDURE `warns`()\nBEGIN\n  -- a comment; with a semicolon\n  SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'it''s; only a warning';\nEND */",
		"CREATE PROCEDURE a() BEGIN SELECT 1; END; CREATE PROCEDURE b() SELECT 2; SET @three = 3")
	require.Equal(t, []string{"1"}, text(t, db, "CALL a()"))
	require.Equal(t, []string{"2"}, text(t, db, "CALL b()"))
	require.Equal(t, []string{"3"}, text(t, db, "SELECT @three"))
	run(t, db, "CALL warns()")
	var level, message string
	var code int
	require.NoError(t, db.QueryRow("SHOW WARNINGS").Scan(&level, &code, &message))
	require.Equal(t, "Warning 1642 it's; only a warning", fmt.Sprint(level, " ", code, " ", message))

	run(t, db, "CREATE PROCEDURE takes(a INT, b VARCHAR(10)) SELECT a + 1, CONCAT(b, '!')")
	var n int
	require.NoError(t, db.QueryRow("CALL takes(?, ?)", 41, "text").Scan(&n, &message)) // prepared
	require.Equal(t, "42 text!", fmt.Sprint(n, " ", message))
}

// TestStoredFunctions: stored functions over the wire: who may call them, where they cannot stand, what an error leaves, time limits.
func TestStoredFunctions(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	db := r.open("d")
	db.SetMaxOpenConns(1)
	run(t, db, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)", "CREATE TABLE log (id INT PRIMARY KEY)",
		"CREATE FUNCTION twice(x INT) RETURNS INT DETERMINISTIC RETURN x * 2",
		"CREATE FUNCTION note(x INT) RETURNS INT BEGIN INSERT INTO log VALUES (x); RETURN x; END",
		"CREATE FUNCTION ever() RETURNS INT BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; LOOP SET @n = 1; END LOOP; RETURN 1; END")
	require.Equal(t, []string{"2", "4", "6"}, text(t, db, "SELECT twice(id) FROM t ORDER BY id"))
	var n int
	require.NoError(t, db.QueryRow("SELECT twice(?) + twice(?)", 1, 20).Scan(&n))
	require.Equal(t, 42, n)

	for number, q := range map[int]string{
		3763: "CREATE TABLE c (a INT PRIMARY KEY, b INT AS (twice(a)))",
		3770: "CREATE TABLE c (a INT PRIMARY KEY, b INT DEFAULT (twice(2)))",
		3814: "CREATE TABLE c (a INT PRIMARY KEY, CHECK (twice(a) > 2))",
		3024: "SELECT /*+ MAX_EXECUTION_TIME(50) */ ever()",
		1792: "CREATE FUNCTION late() RETURNS INT RETURN 1",
	} {
		if number == 1792 {
			run(t, db, "START TRANSACTION READ ONLY")
		}
		_, err := db.Exec(q)
		require.Equal(t, number, errorNumber(err), "%s: %v", q, err)
		if number == 1792 {
			run(t, db, "ROLLBACK")
		}
	}

	// An error behind a function takes back what it wrote, and nothing else of the transaction.
	run(t, db, "BEGIN", "INSERT INTO log VALUES (100)")
	_, err := db.Exec("SELECT note(id), CAST(CONCAT('[', id) AS JSON) FROM t")
	require.Error(t, err)
	run(t, db, "COMMIT")
	require.Equal(t, []string{"100"}, text(t, db, "SELECT id FROM log"))

	// EXECUTE.
	run(t, db, "CREATE USER u@localhost IDENTIFIED BY 'p'", "GRANT SELECT ON d.t TO u@localhost")
	u, err := sql.Open("mysql", fmt.Sprintf("u:p@%s(%s)/d", r.server.Addr().Network(), r.server.Addr()))
	require.NoError(t, err)
	defer u.Close()
	_, err = u.Exec("SELECT twice(id) FROM t")
	require.Equal(t, 1370, errorNumber(err), "%v", err)
	require.Empty(t, text(t, u, "SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'd'"))
	_, err = u.Exec("DROP FUNCTION twice")
	require.Error(t, err)
	run(t, db, "GRANT EXECUTE ON d.* TO u@localhost")
	require.Equal(t, []string{"6"}, text(t, u, "SELECT twice(id) FROM t WHERE id = 3"))
	require.Equal(t, []string{"ever", "note", "twice"}, text(t, u, "SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'd' ORDER BY 1"))
	run(t, db, "CREATE PROCEDURE p1() BEGIN END", "CREATE PROCEDURE p2(a INT) BEGIN END")
	require.Equal(t, []string{"ever", "note", "p1", "p2", "twice"}, text(t, db, "SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'd' ORDER BY 1"))
	rows, err := db.Query("SHOW FUNCTION STATUS LIKE 'tw%'")
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.NoError(t, rows.Close())
}
