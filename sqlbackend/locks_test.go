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

// connections returns n connections to database d, whose table t has rows 1..3 with v = 0.
func connections(t *testing.T, n int) []*sql.Conn {
	t.Helper()
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO d.t VALUES (1,0),(2,0),(3,0)")
	conns := make([]*sql.Conn, n)
	for i := range conns {
		c, err := r.open("d").Conn(context.Background())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		conns[i] = c
	}
	return conns
}

func on(c *sql.Conn, statement string) error {
	_, err := c.ExecContext(context.Background(), statement)
	return err
}

func TestLockWaitEnds(t *testing.T) {
	c := connections(t, 3)
	require.NoError(t, on(c[0], "BEGIN"))
	require.NoError(t, on(c[0], "UPDATE t SET v = 10 WHERE id = 1"))

	require.NoError(t, on(c[1], "SET innodb_lock_wait_timeout = 1"))
	require.NoError(t, on(c[1], "BEGIN"))
	require.NoError(t, on(c[1], "UPDATE t SET v = 5 WHERE id = 2"))
	require.Equal(t, 1205, errorNumber(on(c[1], "UPDATE t SET v = v + 1 WHERE id = 1")))
	require.NoError(t, on(c[1], "COMMIT"), "the timeout ends the statement, not the transaction")

	var id int
	require.NoError(t, c[1].QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&id))
	require.NoError(t, on(c[1], "SET innodb_lock_wait_timeout = 50"))
	waiting := make(chan error, 1)
	go func() { waiting <- on(c[1], "UPDATE t SET v = v + 1 WHERE id = 1") }()
	require.Eventually(t, func() bool {
		require.NoError(t, on(c[2], fmt.Sprintf("KILL QUERY %d", id)))
		select {
		case err := <-waiting:
			return errorNumber(err) == 1317
		case <-time.After(10 * time.Millisecond):
			return false
		}
	}, 10*time.Second, time.Millisecond)

	const again = "UPDATE t SET v = v + 1 WHERE id = 1"
	go func() { waiting <- on(c[1], again) }()
	until(t, again, func() bool { return executes(t, c[2], id, again) })
	require.NoError(t, on(c[0], "COMMIT"))
	require.NoError(t, <-waiting)
	var one, two int
	require.NoError(t, c[2].QueryRowContext(context.Background(), "SELECT a.v, b.v FROM t a, t b WHERE a.id = 1 AND b.id = 2").Scan(&one, &two))
	require.Equal(t, [2]int{11, 5}, [2]int{one, two})
}

func TestDeadlock(t *testing.T) {
	c := connections(t, 3)
	for i, s := range []string{"UPDATE t SET v = v + 1 WHERE id = 1", "UPDATE t SET v = v + 1 WHERE id = 2"} {
		require.NoError(t, on(c[i], "BEGIN"))
		require.NoError(t, on(c[i], s))
	}
	results := make(chan error, 2)
	go func() { results <- on(c[0], "UPDATE t SET v = v + 1 WHERE id = 2") }()
	go func() { results <- on(c[1], "UPDATE t SET v = v + 1 WHERE id = 1") }()
	first, second := <-results, <-results
	if first == nil {
		first, second = second, first
	}
	require.Equal(t, 1213, errorNumber(first))
	require.NoError(t, second)
	for i := range 2 { // the victim's transaction is gone; COMMIT of nothing is harmless
		require.NoError(t, on(c[i], "COMMIT"))
	}
	var sum int
	require.NoError(t, c[2].QueryRowContext(context.Background(), "SELECT SUM(v) FROM t").Scan(&sum))
	require.Equal(t, 2, sum, "one transaction, whole")
}

// TestPreparedClauses: a statement prepared over the wire locks as its text says, although the protocol library parses it.
func TestPreparedClauses(t *testing.T) {
	c := connections(t, 2)
	ctx := context.Background()
	for _, clause := range []string{"FOR SHARE", "for share of t", "FOR SHARE NOWAIT", "LOCK IN SHARE MODE"} {
		stmt, err := c[0].PrepareContext(ctx, "SELECT v FROM t WHERE id = ? "+clause)
		require.NoError(t, err, clause)
		require.NoError(t, on(c[0], "BEGIN"))
		var v int
		require.NoError(t, stmt.QueryRow(1).Scan(&v), clause)
		require.Equal(t, 0, errorNumber(on(c[1], "SELECT v FROM t WHERE id = 1 FOR SHARE NOWAIT")), clause)
		require.Equal(t, 3572, errorNumber(on(c[1], "SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT")), clause)
		require.NoError(t, on(c[1], "SELECT v FROM t WHERE id = 2 FOR UPDATE NOWAIT"), clause)
		require.NoError(t, on(c[0], "COMMIT"))
		require.NoError(t, stmt.Close())
	}
	stmt, err := c[0].PrepareContext(ctx, "SELECT id FROM t WHERE v >= ? ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED")
	require.NoError(t, err)
	defer stmt.Close()
	require.NoError(t, on(c[1], "BEGIN"))
	require.NoError(t, on(c[1], "DELETE FROM t WHERE id = 3"))
	var id int
	require.NoError(t, stmt.QueryRow(0).Scan(&id))
	require.Equal(t, 2, id)
	require.NoError(t, on(c[1], "COMMIT"))
}

// TestShareInTexts: what only looks like a clause stays.
func TestShareInTexts(t *testing.T) {
	c := connections(t, 1)
	var got string
	require.NoError(t, c[0].QueryRowContext(context.Background(), "SELECT CONCAT('FOR SHARE', \"for share of\" /* FOR SHARE */) AS `for share` FROM t WHERE id = 1 FOR SHARE -- for share").Scan(&got))
	require.Equal(t, "FOR SHAREfor share of", got)
}

// TestKilledConnection: its locks and its transaction are gone at once.
func TestKilledConnection(t *testing.T) {
	c := connections(t, 2)
	require.NoError(t, on(c[0], "SELECT GET_LOCK('n', 0)"))
	require.NoError(t, on(c[0], "BEGIN"))
	require.NoError(t, on(c[0], "UPDATE t SET v = 1 WHERE id = 1"))
	id := connectionID(t, c[0])
	require.NoError(t, on(c[1], fmt.Sprintf("KILL %d", id)))
	require.NoError(t, on(c[1], "UPDATE t SET v = 2 WHERE id = 1"))
	var got int
	require.NoError(t, c[1].QueryRowContext(context.Background(), "SELECT GET_LOCK('n', 5)").Scan(&got))
	require.Equal(t, 1, got)
}
