package sqlbackend_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/objstore"
	"lancesql/sqlbackend"
)

// killMax is how long a statement may run on after KILL. The goal is 50 ms; a busy machine gets more.
const killMax = 300 * time.Millisecond

// big makes table t of n rows, each of about 100 bytes.
func big(t *testing.T, r *running, n int) {
	t.Helper()
	run(t, r.open(""), "CREATE DATABASE IF NOT EXISTS d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, s VARCHAR(100))")
	db := r.open("d")
	const batch = 2000
	for i := 0; i < n; i += batch {
		var b strings.Builder
		b.WriteString("INSERT INTO t VALUES ")
		for j := i; j < min(i+batch, n); j++ {
			if j > i {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,%d,'%s')", j, (j*7919)%100003, strings.Repeat("x", 80))
		}
		run(t, db, b.String())
	}
}

func connectionID(t *testing.T, c *sql.Conn) int {
	t.Helper()
	var id int
	require.NoError(t, c.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&id))
	return id
}

// drain reads a whole result.
func drain(c *sql.Conn, query string) error {
	rows, err := c.QueryContext(context.Background(), query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// TestKill: a statement ends soon, with 1317, wherever it is, and its connection lives on.
func TestKill(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	big(t, r, 30_000)
	ctx := context.Background()
	victim, err := r.open("d").Conn(ctx)
	require.NoError(t, err)
	defer victim.Close()
	killer, err := r.open("d").Conn(ctx)
	require.NoError(t, err)
	defer killer.Close()
	id := connectionID(t, victim)
	require.NoError(t, on(killer, "BEGIN"))
	require.NoError(t, on(killer, "UPDATE t SET v = v WHERE id = 1"))
	for _, query := range []string{
		"SELECT COUNT(*) FROM t a JOIN t b ON a.s = b.s WHERE a.v + b.v < 0", // a join
		"SELECT a.id FROM t a, t b, t c ORDER BY a.v, b.v",                   // a sort
		"SELECT COUNT(DISTINCT a.v + b.v) FROM t a, t b",
		"SELECT a.v % 10, COUNT(*) FROM t a, t b GROUP BY a.v % 10",
		"SELECT a.id, b.s FROM t a, t b", // rows are on their way
		"SELECT SLEEP(100)",
		"SELECT v FROM t WHERE id = 1 FOR UPDATE", // a row
		"SELECT GET_LOCK('held', 100)",
		"DROP TABLE t",
	} {
		if strings.Contains(query, "held") {
			require.NoError(t, on(killer, "SELECT GET_LOCK('held', 0)"))
		}
		took := time.Duration(0)
		for range 3 { // a slow end must come again to be believed
			done := make(chan error, 1)
			go func() { done <- drain(victim, query) }()
			until(t, query, func() bool { return executes(t, killer, id, query) })
			time.Sleep(50 * time.Millisecond) // into the middle of it
			began := time.Now()
			require.NoError(t, on(killer, fmt.Sprintf("KILL QUERY %d", id)))
			select {
			case err := <-done:
				require.Equal(t, 1317, errorNumber(err), "%s: %v", query, err)
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: runs on", query)
			}
			took = time.Since(began)
			require.Equal(t, id, connectionID(t, victim), "the connection lives on")
			if took < killMax {
				break
			}
		}
		require.Less(t, took, killMax, query)
		t.Logf("%s: ended after %s", query, took)
	}
	// KILL CONNECTION
	done := make(chan error, 1)
	go func() { done <- drain(victim, "SELECT SLEEP(100)") }()
	until(t, "the victim sleeps", func() bool { return executes(t, killer, id, "SELECT SLEEP(100)") })
	require.NoError(t, on(killer, fmt.Sprintf("KILL %d", id)))
	require.Error(t, <-done)
	require.Eventually(t, func() bool {
		return len(text(t, r.open("d"), fmt.Sprintf("SELECT id FROM information_schema.processlist WHERE id = %d", id))) == 0
	}, 5*time.Second, 10*time.Millisecond)
}

func TestMaxExecutionTime(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	big(t, r, 3000)
	c, err := r.open("d").Conn(context.Background())
	require.NoError(t, err)
	defer c.Close()
	const long = " COUNT(*) FROM t a, t b, t c WHERE a.v + b.v + c.v < 0"
	began := time.Now()
	require.Equal(t, 3024, errorNumber(drain(c, "SELECT /*+ MAX_EXECUTION_TIME(100) */"+long)))
	require.NoError(t, on(c, "SET max_execution_time = 100"))
	require.Equal(t, 3024, errorNumber(drain(c, "SELECT"+long)))
	require.Equal(t, 3024, errorNumber(drain(c, "(SELECT"+long+") UNION ALL SELECT 1")))
	stmt, err := c.PrepareContext(context.Background(), "SELECT"+long+" AND a.id > ?")
	require.NoError(t, err)
	_, err = stmt.Query(0)
	require.Equal(t, 3024, errorNumber(err))
	require.Less(t, time.Since(began), 5*time.Second)
	require.NoError(t, on(c, "UPDATE t SET v = SLEEP(0.3) WHERE id = 1"), "only SELECT is bounded")
	require.NoError(t, drain(c, "SELECT 1"))
	require.NoError(t, on(c, "SET max_execution_time = 0"))
}

// TestTransactionTooLarge: what one transaction may hold is bounded; the statement is undone, the transaction goes on.
func TestTransactionTooLarge(t *testing.T) {
	e, err := engine.Open(context.Background(), engine.Config{TxnBytes: 64 << 10}, engine.Components{Store: objstore.NewMem()})
	require.NoError(t, err)
	s, err := sqlbackend.NewServer(sqlbackend.ServerConfig{Addr: "127.0.0.1:0"}, e, nil)
	require.NoError(t, err)
	r := &running{t: t, engine: e, server: s, done: make(chan error, 1)}
	go func() { r.done <- s.Start() }()
	t.Cleanup(r.stop)
	run(t, r.open(""), "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, s TEXT)")
	c, err := r.open("d").Conn(context.Background())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, on(c, "BEGIN"))
	require.NoError(t, on(c, "INSERT INTO t VALUES (1, REPEAT('x', 10000))"))
	require.Equal(t, 1197, errorNumber(on(c, "INSERT INTO t VALUES (2, REPEAT('x', 20000)), (3, REPEAT('x', 20000)), (4, REPEAT('x', 20000))")))
	require.NoError(t, on(c, "INSERT INTO t VALUES (5, 'x')"))
	require.NoError(t, on(c, "COMMIT"))
	require.Equal(t, []string{"1", "5"}, text(t, r.open("d"), "SELECT id FROM t ORDER BY id"))
}

func TestProcessListStates(t *testing.T) {
	runSteps(t, "", `
		A: SELECT GET_LOCK('n', 0) -> 1
		A: BEGIN
		A: UPDATE t SET v = 0 WHERE id = 1
		B& UPDATE t SET v = 1 WHERE id = 1
		A: SELECT 1 -> 1
		C& SELECT GET_LOCK('n', 100)
		D& DROP TABLE t
		A: SHOW PROCESSLIST -> *executing*User lock*Waiting for row lock*Waiting for table metadata lock*
		A: COMMIT
		B? -> ok
		D? -> ok
		A: SELECT RELEASE_LOCK('n') -> 1
		C? -> 1`)
}

// TestClientLeavesMidResult: nobody has to act on that, so nothing is logged as an error.
func TestClientLeavesMidResult(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	e, err := engine.Open(context.Background(), engine.Config{}, engine.Components{Store: objstore.NewMem()})
	require.NoError(t, err)
	s, err := sqlbackend.NewServer(sqlbackend.ServerConfig{Addr: "127.0.0.1:0"}, e, slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil)))
	require.NoError(t, err)
	r := &running{t: t, engine: e, server: s, done: make(chan error, 1)}
	go func() { r.done <- s.Start() }()
	t.Cleanup(r.stop)
	big(t, r, 6000)
	c, err := r.open("d").Conn(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	rows, err := c.QueryContext(ctx, "SELECT a.s, b.s FROM t a, t b")
	require.NoError(t, err)
	require.True(t, rows.Next())
	cancel() // the driver closes the socket
	_ = rows.Close()
	_ = c.Close()
	require.Eventually(t, func() bool {
		return len(text(t, r.open("d"), "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT a.s%'")) == 0
	}, 5*time.Second, 20*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	require.NotContains(t, log.String(), "level=ERROR")
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
