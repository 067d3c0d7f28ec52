package wire_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	gsql "github.com/dolthub/go-mysql-server/sql"
	vmysql "github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/wire"
)

// fixture is a server over the frontend's own memory tables: the wire without lancesql's storage.
type fixture struct {
	listener *wire.Listener
	server   *server.Server
	log      *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// explode panics when it is evaluated.
type explode struct{ gsql.Expression }

func (explode) Eval(*gsql.Context, gsql.Row) (any, error) { panic("boom") }

func serve(t *testing.T, c wire.ListenConfig) *fixture {
	t.Helper()
	db := memory.NewDatabase("d")
	pro := memory.NewDBProvider(db)
	engine := sqle.NewDefault(pro)
	engine.Analyzer.Catalog.RegisterFunction(gsql.NewEmptyContext(), gsql.Function1{
		Name: "explode", Fn: func(_ *gsql.Context, e gsql.Expression) gsql.Expression { return explode{e} },
	})
	if c.Address == "" && c.Socket == "" {
		c.Address = "127.0.0.1:0"
	}
	l, err := wire.Listen(c)
	require.NoError(t, err)
	f := &fixture{listener: l, log: &lockedBuffer{}}
	cfg := server.Config{Protocol: "tcp", Address: l.Addr().String(), Listener: l, DisableConnectionWatcher: true,
		ProtocolListenerFactory: wire.ProtocolListener,
		Options: []server.Option{wire.Option(wire.Options{
			MapError: func(_ sqlparser.Statement, err error) *vmysql.SQLError {
				if errors.Is(err, context.Canceled) {
					return vmysql.NewSQLError(1317, "70100", "Query execution was interrupted")
				}
				return gsql.CastSQLError(err)
			},
			Log: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})}}
	f.server, err = server.NewServer(cfg, engine, gsql.NewContext, memory.NewSessionBuilder(pro), nil)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { defer close(done); _ = f.server.Start() }()
	t.Cleanup(func() {
		_ = f.server.Close()
		l.Drain()
		f.server.SessionManager().WaitForClosedConnections()
		<-done
	})
	return f
}

func (f *fixture) open(t *testing.T, params string) *sql.DB {
	t.Helper()
	dsn := fmt.Sprintf("root@%s(%s)/d?%s", f.listener.Addr().Network(), f.listener.Addr(), params)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func number(t *testing.T, err error) uint16 {
	t.Helper()
	var me *mysql.MySQLError
	require.ErrorAs(t, err, &me)
	return me.Number
}

// fill makes table t with ids 0..n-1 and a text.
func fill(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	_, err := db.Exec("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(200))")
	require.NoError(t, err)
	var b strings.Builder
	for i := 0; i < n; i++ {
		if b.Len() == 0 {
			b.WriteString("INSERT INTO t VALUES ")
		} else {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,'row %d')", i, i)
		if i%500 == 499 || i == n-1 {
			_, err := db.Exec(b.String())
			require.NoError(t, err)
			b.Reset()
		}
	}
}

func TestResults(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "")
	const n = 1000 // several batches and a rest
	fill(t, db, n)

	for _, query := range []string{"SELECT id, s FROM t ORDER BY id", "SELECT id, s FROM t WHERE id >= ? ORDER BY id"} {
		var args []any
		if strings.Contains(query, "?") {
			args = append(args, 0) // binary protocol
		}
		rows, err := db.Query(query, args...)
		require.NoError(t, err)
		i := 0
		for rows.Next() {
			var id int
			var s string
			require.NoError(t, rows.Scan(&id, &s))
			require.Equal(t, i, id)
			require.Equal(t, fmt.Sprintf("row %d", i), s)
			i++
		}
		require.NoError(t, rows.Err())
		require.Equal(t, n, i)
	}

	var count int
	require.ErrorIs(t, db.QueryRow("SELECT id FROM t WHERE id < 0").Scan(&count), sql.ErrNoRows)
	rows, err := db.Query("SELECT id, s FROM t WHERE id < 128") // exactly one batch
	require.NoError(t, err)
	for rows.Next() {
		count++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 128, count)

	res, err := db.Exec("UPDATE t SET s = 'x' WHERE id < 3")
	require.NoError(t, err)
	affected, err := res.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 3, affected)
	_, err = db.Exec("")
	require.EqualValues(t, 1065, number(t, err))
	_, err = db.Exec("/* nothing */")
	require.NoError(t, err)
	_, err = db.Exec("SELEKT 1")
	require.Error(t, err)
}

func TestMultiStatements(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "multiStatements=true")
	rows, err := db.Query("SELECT 1; ; SELECT 'a;b' /* ; */; SELECT 3;")
	require.NoError(t, err)
	var got []string
	for {
		for rows.Next() {
			var s string
			require.NoError(t, rows.Scan(&s))
			got = append(got, s)
		}
		if !rows.NextResultSet() {
			break
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []string{"1", "a;b", "3"}, got)

	_, err = db.Exec("CREATE TABLE m (i INT); INSERT INTO nowhere VALUES (1); INSERT INTO m VALUES (1)")
	require.Error(t, err)
	var n int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM m").Scan(&n))
	require.Zero(t, n, "an error ends the text")
}

func TestKill(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "")
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	defer conn.Close()
	var id int
	require.NoError(t, conn.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&id))
	done := make(chan error, 1)
	go func() {
		var v int
		done <- conn.QueryRowContext(context.Background(), "SELECT SLEEP(60)").Scan(&v)
	}()
	require.Eventually(t, func() bool {
		_, err := db.Exec(fmt.Sprintf("KILL QUERY %d", id))
		require.NoError(t, err)
		select {
		case err := <-done:
			return number(t, err) == 1317
		case <-time.After(20 * time.Millisecond):
			return false
		}
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, conn.QueryRowContext(context.Background(), "SELECT 1").Scan(&id), "the connection lives on")
	_, err = db.Exec("KILL 999999")
	require.EqualValues(t, 1094, number(t, err))
}

func TestPanicIsAnError(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "")
	fill(t, db, 3)
	db.SetMaxOpenConns(1)
	for _, q := range []string{"SELECT explode(id) FROM t", "SELECT COUNT(explode(id)) FROM t", "UPDATE t SET s = explode(id)"} {
		_, err := db.Exec(q)
		require.EqualValues(t, 1105, number(t, err), q)
	}
	require.Contains(t, f.log.String(), "boom")
	var n int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM t").Scan(&n))
	require.Equal(t, 3, n)
}

// TestClientGone: a statement ends when its client closes the socket.
func TestClientGone(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "")
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	sleeps := func() bool {
		return slices.ContainsFunc(f.server.Engine.ProcessList.Processes(), func(p gsql.Process) bool { return strings.Contains(p.Query, "SLEEP") })
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { _, err := conn.ExecContext(ctx, "SELECT SLEEP(60)"); ended <- err }()
	require.Eventually(t, sleeps, 10*time.Second, time.Millisecond)
	cancel() // the driver closes the socket
	require.Error(t, <-ended)
	_ = conn.Close()
	require.Eventually(t, func() bool { return !sleeps() }, 10*time.Second, 10*time.Millisecond)
}

func TestTooManyConnections(t *testing.T) {
	f := serve(t, wire.ListenConfig{MaxConnections: 2})
	db := f.open(t, "")
	var conns []*sql.Conn
	for range 2 {
		c, err := db.Conn(context.Background())
		require.NoError(t, err)
		require.NoError(t, c.PingContext(context.Background()))
		conns = append(conns, c)
	}
	_, err := db.Conn(context.Background())
	require.EqualValues(t, 1040, number(t, err))
	require.Equal(t, 2, f.listener.Open())
	db.SetMaxIdleConns(0)
	require.NoError(t, conns[0].Close())
	require.Eventually(t, func() bool { return db.Ping() == nil }, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, conns[1].Close())
}

func TestSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close()) // a dead process leaves its file

	f := serve(t, wire.ListenConfig{Socket: path})
	require.NoError(t, f.open(t, "").Ping())
	_, err = wire.Listen(wire.ListenConfig{Socket: path})
	require.ErrorIs(t, err, wire.ErrInUse)

	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	_, err = wire.Listen(wire.ListenConfig{Address: tcp.Addr().String()})
	require.ErrorIs(t, err, wire.ErrInUse)
	require.ErrorContains(t, err, tcp.Addr().String())

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = wire.Listen(wire.ListenConfig{Socket: file})
	require.ErrorContains(t, err, "not a socket")
}

// TestDrain: a running statement sends its answer although the server stops, an idle connection ends at once.
func TestDrain(t *testing.T) {
	f := serve(t, wire.ListenConfig{})
	db := f.open(t, "")
	idle, err := db.Conn(context.Background())
	require.NoError(t, err)
	busy, err := db.Conn(context.Background())
	require.NoError(t, err)
	answer := make(chan error, 1)
	go func() {
		var v int
		answer <- busy.QueryRowContext(context.Background(), "SELECT SLEEP(1)").Scan(&v)
	}()
	require.Eventually(t, func() bool {
		for _, p := range f.server.Engine.ProcessList.Processes() {
			if strings.Contains(p.Query, "SLEEP") {
				return true
			}
		}
		return false
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, f.server.Close())
	f.listener.Drain()
	require.Eventually(t, func() bool { return idle.PingContext(context.Background()) != nil }, 5*time.Second, time.Millisecond)
	require.NoError(t, <-answer)
	f.server.SessionManager().WaitForClosedConnections()
	require.Error(t, busy.PingContext(context.Background()))
}
