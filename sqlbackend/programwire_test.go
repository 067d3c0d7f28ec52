package sqlbackend_test

import (
	"context"
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
