package sqlbackend_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// steps runs a script of several connections over the wire. A line is
//
//	A: statement -> result      run it and compare; "ok" for no rows, rows as a|b, c|d, or error N;
//	                            parts between asterisks occur in any order
//	A& statement                start it; it must wait
//	A? -> result                it ends with this
//
// Results of which both levels have their own are written RR x / RC y. Table t has rows (1,10), (2,20), (3,30).
type steps struct {
	t       *testing.T
	r       *running
	level   string
	conns   map[string]*sql.Conn
	ids     map[string]int
	pending map[string]chan string
}

func runSteps(t *testing.T, level, script string) {
	t.Helper()
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT NOT NULL)",
		"INSERT INTO d.t VALUES (1,10),(2,20),(3,30)", "CREATE TABLE d.u (id INT PRIMARY KEY, v INT)")
	s := &steps{t: t, r: r, level: level, conns: map[string]*sql.Conn{}, ids: map[string]int{}, pending: map[string]chan string{}}
	for _, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			s.step(line)
		}
	}
}

func (s *steps) conn(name string) *sql.Conn {
	c := s.conns[name]
	if c == nil {
		var err error
		c, err = s.r.open("d").Conn(context.Background())
		require.NoError(s.t, err)
		// Why not waited for: a statement that a failed step left waiting ends when the server stops.
		s.t.Cleanup(func() { go c.Close() })
		s.conns[name], s.ids[name] = c, connectionID(s.t, c)
		if s.level != "" {
			require.NoError(s.t, on(c, "SET SESSION TRANSACTION ISOLATION LEVEL "+s.level))
		}
	}
	return c
}

func (s *steps) step(line string) {
	s.t.Helper()
	text, want, _ := strings.Cut(line, " -> ")
	name, kind, statement := text[:1], text[1], strings.TrimSpace(text[2:])
	if rr, rc, ok := strings.Cut(want, " / RC "); ok {
		want = strings.TrimPrefix(rr, "RR ")
		if s.level == "READ COMMITTED" {
			want = rc
		}
	}
	c := s.conn(name)
	switch kind {
	case '&':
		done := make(chan string, 1)
		s.pending[name] = done
		go func() { done <- answer(c, statement) }()
		until(s.t, line, func() bool {
			select {
			case got := <-done:
				s.t.Fatalf("%s: did not wait: %s", line, got)
			default:
			}
			return s.r.waits(s.ids[name])
		})
		return
	case '?':
		select {
		case got := <-s.pending[name]:
			require.Equal(s.t, want, got, line)
		case <-time.After(20 * time.Second):
			s.t.Fatalf("%s: still waits", line)
		}
		return
	}
	got := answer(c, statement)
	if want == "" {
		want = "ok"
	}
	if parts := strings.Split(want, "*"); len(parts) > 1 { // in any order
		for _, p := range parts {
			require.Contains(s.t, got, p, line)
		}
		return
	}
	require.Equal(s.t, want, got, line)
}

// until polls a condition that other connections bring about, for as long as a slow machine may take.
func until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for began := time.Now(); !reached(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%s: does not come about", what)
		}
	}
}

// waits says whether a connection waits for a lock.
func (r *running) waits(id int) bool {
	_, ok := r.engine.Waiting()[uint64(id)]
	return ok
}

// executes says, by c, whether a connection runs the statement.
func executes(t testing.TB, c *sql.Conn, id int, statement string) bool {
	t.Helper()
	n := 0
	row := c.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND info = ?", id, statement)
	require.NoError(t, row.Scan(&n))
	return n > 0
}

// answer runs a statement and writes its result as the scripts do.
func answer(c *sql.Conn, statement string) string {
	rows, err := c.QueryContext(context.Background(), statement)
	if err != nil {
		return failure(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return failure(err)
	}
	var out []string
	for rows.Next() {
		cells, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range cells {
			targets[i] = &cells[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return failure(err)
		}
		parts := make([]string, len(columns))
		for i, cell := range cells {
			parts[i] = cell.String
			if !cell.Valid {
				parts[i] = "NULL"
			}
		}
		out = append(out, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		return failure(err)
	}
	switch {
	case len(out) > 0:
		return strings.Join(out, ", ")
	case len(columns) > 0:
		return "none"
	}
	return "ok"
}

func failure(err error) string {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return fmt.Sprintf("error %d", me.Number)
	}
	return err.Error()
}

// testLog is the log of the servers in tests: standard error with LANCESQL_TEST_LOG set, otherwise none.
func testLog() *slog.Logger {
	if os.Getenv("LANCESQL_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
