package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"
)

// session is the connection pool and the state of one run.
type session struct {
	config  config
	db      *sql.DB
	version string
	loaded  bool // the OLTP table holds config.rows rows
}

// connect opens the pool and makes the database.
func connect(ctx context.Context, c config) (*session, error) {
	open := func(database string) (*sql.DB, error) {
		m := mysql.NewConfig()
		m.User, m.Passwd, m.Net, m.Addr, m.DBName = c.user, c.password, "tcp", c.addr, database
		connector, err := mysql.NewConnector(m)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	}
	db, err := open("")
	if err != nil {
		return nil, err
	}
	s := &session{config: c}
	if err = db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.version); err == nil {
		_, err = db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS `"+c.database+"`")
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	if s.db, err = open(c.database); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(c.connections + 1)
	s.db.SetMaxIdleConns(c.connections + 1)
	return s, nil
}

func (s *session) close() { _ = s.db.Close() }

func (s *session) drop(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DROP DATABASE `"+s.config.database+"`")
	return err
}

// worker is one connection of a workload.
type worker struct {
	session *session
	id      int
	conn    *sql.Conn
	rand    *rand.Rand
	stmts   map[string]*sql.Stmt

	took    []time.Duration // of measured operations
	rows    int
	retries int
}

// stmt prepares a statement once per connection.
func (w *worker) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if st, ok := w.stmts[text]; ok {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, text)
	if err == nil {
		w.stmts[text] = st
	}
	return st, err
}

// exec runs a prepared statement.
func (w *worker) exec(ctx context.Context, text string, args ...any) error {
	st, err := w.stmt(ctx, text)
	if err == nil {
		_, err = st.ExecContext(ctx, args...)
	}
	return err
}

// query runs a prepared query, reads everything and returns the number of rows.
func (w *worker) query(ctx context.Context, text string, args ...any) (int, error) {
	st, err := w.stmt(ctx, text)
	if err != nil {
		return 0, err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	raw := make([]sql.RawBytes, len(names))
	into := make([]any, len(names))
	for i := range raw {
		into[i] = &raw[i]
	}
	n := 0
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
		n++
	}
	return n, rows.Err()
}

// measure prepares a workload, warms up, and runs it on all connections.
func (s *session) measure(ctx context.Context, name string, w workload) (result, error) {
	if err := w.prepare(ctx, s); err != nil {
		return result{}, fmt.Errorf("prepare: %w", err)
	}
	workers := make([]*worker, s.config.connections)
	defer func() {
		for _, k := range workers {
			if k != nil {
				_ = k.conn.Close()
			}
		}
	}()
	for i := range workers {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return result{}, err
		}
		workers[i] = &worker{session: s, id: i, conn: conn, rand: rand.New(rand.NewPCG(s.config.seed, uint64(i))), stmts: map[string]*sql.Stmt{}}
	}
	var done atomic.Int64
	stop := showProgress(name, &done)
	defer stop()
	if !w.once {
		if _, err := s.phase(ctx, w, workers, s.config.warmUp, &done); err != nil {
			return result{}, err
		}
		for _, k := range workers {
			k.took, k.rows, k.retries = nil, 0, 0
		}
	}
	elapsed, err := s.phase(ctx, w, workers, s.config.duration, &done)
	if err != nil {
		return result{}, err
	}
	var took []time.Duration
	rows, retries := 0, 0
	for _, k := range workers {
		took = append(took, k.took...)
		rows += k.rows
		retries += k.retries
	}
	return summarise(name, took, rows, retries, elapsed), nil
}

// phase runs the workload for the time, or to its end if it has one.
func (s *session) phase(ctx context.Context, w workload, workers []*worker, length time.Duration, done *atomic.Int64) (time.Duration, error) {
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, k := range workers {
		group.Go(func() error {
			for n := 0; w.once || time.Since(begin) < length; n++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				start := time.Now()
				rows, err := w.step(ctx, k, n)
				if errors.Is(err, errFinished) {
					return nil
				}
				if retriable(err) {
					k.retries++
					continue
				}
				if err != nil {
					return err
				}
				k.took = append(k.took, time.Since(start))
				k.rows += rows
				done.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(begin), err
}

// retriable says whether MySQL asks the client to try again: deadlock, lock wait timeout.
func retriable(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
}

// showProgress prints the number of operations twice a second if standard error is a terminal; the result ends it.
func showProgress(name string, done *atomic.Int64) func() {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	quit := make(chan struct{})
	var finished sync.WaitGroup
	finished.Add(1)
	go func() {
		defer finished.Done()
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		begin := time.Now()
		for {
			select {
			case <-quit:
				fmt.Fprint(os.Stderr, "\r\x1b[K")
				return
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "\r%s: %d operations in %.0f s\x1b[K", name, done.Load(), time.Since(begin).Seconds())
			}
		}
	}()
	return func() { close(quit); finished.Wait() }
}
