package sqlbackend_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// together runs work on n connections at once and fails the test with the first error.
func together(t *testing.T, r *running, n int, work func(c *sql.Conn, worker int) error) {
	t.Helper()
	var wg sync.WaitGroup
	failures := make(chan error, n)
	for worker := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := r.open("d").Conn(context.Background())
			if err == nil {
				err = work(c, worker)
				_ = c.Close()
			}
			if err != nil {
				failures <- err
			}
		}()
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
}

// TestRetryKeepsEveryUpdate: a statement whose rows change while it runs is run again, whole, and counts once.
func TestRetryKeepsEveryUpdate(t *testing.T) {
	const connections, rounds = 8, 25
	for _, c := range []struct {
		statement string
		affected  int64
	}{
		{"UPDATE t SET v = v + 1", 3},
		{"UPDATE t SET v = v + 1 WHERE id IN (1, 2, 3) ORDER BY id DESC", 3},
		{"UPDATE t JOIN u ON t.id = u.id SET t.v = t.v + 1", 3},
		{"INSERT INTO t (id, v) VALUES (1, 1), (2, 1), (3, 1) ON DUPLICATE KEY UPDATE v = v + 1", 6},
		{"INSERT INTO t (id, v) SELECT id, 1 FROM u ON DUPLICATE KEY UPDATE t.v = t.v + 1", 6},
		{"UPDATE IGNORE t SET v = v + 1", 3},
	} {
		t.Run(c.statement, func(t *testing.T) {
			r := start(t, "", sqlbackend.ServerConfig{})
			db := r.open("")
			run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT NOT NULL)", "CREATE TABLE d.u (id INT PRIMARY KEY)",
				"INSERT INTO d.t VALUES (1,0),(2,0),(3,0)", "INSERT INTO d.u VALUES (1),(2),(3)")
			together(t, r, connections, func(conn *sql.Conn, _ int) error {
				for range rounds {
					res, err := conn.ExecContext(context.Background(), c.statement)
					if err != nil {
						return err
					}
					if n, _ := res.RowsAffected(); n != c.affected {
						return fmt.Errorf("%d rows affected, want %d", n, c.affected)
					}
				}
				return nil
			})
			want := fmt.Sprint(connections * rounds)
			require.Equal(t, []string{"1|" + want, "2|" + want, "3|" + want}, text(t, db, "SELECT * FROM d.t ORDER BY id"))
		})
	}
}

// TestRetryInsideTransactions: the statement is run again, what the transaction did before it stays.
func TestRetryInsideTransactions(t *testing.T) {
	const connections, rounds = 4, 15
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO d.t VALUES (1,0)")
	together(t, r, connections, func(conn *sql.Conn, worker int) error {
		for round := range rounds {
			tx, err := conn.BeginTx(context.Background(), nil)
			if err != nil {
				return err
			}
			for _, s := range []string{
				fmt.Sprintf("INSERT INTO t VALUES (%d, 0)", 1000*(worker+1)+round),
				"UPDATE t SET v = v + 1 WHERE id = 1",
				"UPDATE t SET v = v + 1 WHERE id = 1",
			} {
				if _, err := tx.Exec(s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
			}
			if err := tx.Commit(); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, []string{fmt.Sprintf("%d|%d", 1+connections*rounds, 2*connections*rounds)},
		text(t, db, "SELECT COUNT(*), SUM(v) FROM d.t"))
}

// TestRetryOfDeletes: each row is deleted by one connection only.
func TestRetryOfDeletes(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	db := r.open("")
	run(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
	for i := range 60 {
		run(t, db, fmt.Sprintf("INSERT INTO d.t VALUES (%d)", i))
	}
	var mu sync.Mutex
	var deleted int64
	together(t, r, 6, func(conn *sql.Conn, _ int) error {
		for range 20 {
			res, err := conn.ExecContext(context.Background(), "DELETE FROM t ORDER BY id LIMIT 2")
			if err != nil {
				return err
			}
			n, _ := res.RowsAffected()
			mu.Lock()
			deleted += n
			mu.Unlock()
		}
		return nil
	})
	require.EqualValues(t, 60, deleted)
	require.Equal(t, []string{"0"}, text(t, db, "SELECT COUNT(*) FROM d.t"))
}
