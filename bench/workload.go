package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
)

// workload is one kind of load.
type workload struct {
	once    bool // it has an end of its own instead of a time
	prepare func(ctx context.Context, s *session) error
	step    func(ctx context.Context, w *worker, n int) (rows int, err error) // one measured operation
}

// errFinished ends a workload that has an end of its own.
var errFinished = errors.New("finished")

// workloads is the table of all workloads; docs/benchmarks.md describes them.
func workloads() map[string]workload {
	return map[string]workload{
		"oltp_point": {prepare: loadTable, step: pointSelect},
		"oltp_rw":    {prepare: loadTable, step: readWrite},
		"oltp_write": {prepare: loadTable, step: writeOnly},
		"bulk_load":  {once: true, prepare: emptyBulkTable, step: bulkInsert},
		"scan":       {prepare: loadTable, step: scanTable},
	}
}

func workloadNames() []string {
	var names []string
	for name := range workloads() {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

const (
	tableColumns = "(id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
	batchRows    = 500 // rows of one INSERT while loading
	rangeRows    = 100 // rows of one range query
)

// loadTable makes the table `oltp` with config.rows rows, unless it is there.
func loadTable(ctx context.Context, s *session) error {
	if s.loaded {
		return nil
	}
	var rows int
	err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM oltp").Scan(&rows)
	if err != nil || rows != s.config.rows {
		if err := remake(ctx, s, "oltp"); err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(s.config.seed, 1<<40))
		for first := 1; first <= s.config.rows; first += batchRows {
			text, args := insertBatch(r, "oltp", first, min(batchRows, s.config.rows-first+1))
			if _, err := s.db.ExecContext(ctx, text, args...); err != nil {
				return err
			}
		}
	}
	s.loaded = true
	return nil
}

func remake(ctx context.Context, s *session, table string) error {
	if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, "CREATE TABLE "+table+" "+tableColumns)
	return err
}

// insertBatch is an INSERT of count rows with consecutive keys from first.
func insertBatch(r *rand.Rand, table string, first, count int) (string, []any) {
	var args []any
	for id := first; id < first+count; id++ {
		args = append(args, id, r.IntN(1<<30), digits(r, 119), digits(r, 59))
	}
	return "INSERT INTO " + table + " VALUES " + strings.TrimSuffix(strings.Repeat("(?,?,?,?),", count), ","), args
}

// digits is a text of n characters, groups of digits with dashes between, which compresses somewhat as real text does.
func digits(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + r.IntN(10))
		if i%12 == 11 {
			b[i] = '-'
		}
	}
	return string(b)
}

func (w *worker) anyID() int { return 1 + w.rand.IntN(w.session.config.rows) }

// ownID is an id that no other connection deletes or inserts, so that delete and insert never wait for each other.
func (w *worker) ownID() int {
	c, rows := w.session.config.connections, w.session.config.rows
	if rows <= c {
		return 1 + w.id%rows
	}
	id := w.anyID()
	if id = id - id%c + w.id; id < 1 || id > rows {
		id = w.id
		if id == 0 {
			id = c
		}
	}
	return id
}

// pointSelect is one SELECT by primary key.
func pointSelect(ctx context.Context, w *worker, _ int) (int, error) {
	return w.query(ctx, "SELECT c FROM oltp WHERE id = ?", w.anyID())
}

// readWrite is a transaction of ten point selects, a range sum, a range read and the writes of writeOnly.
func readWrite(ctx context.Context, w *worker, _ int) (int, error) {
	return w.transaction(ctx, func() (int, error) {
		rows := 0
		for range 10 {
			n, err := w.query(ctx, "SELECT c FROM oltp WHERE id = ?", w.anyID())
			if err != nil {
				return 0, err
			}
			rows += n
		}
		low := w.anyID()
		if _, err := w.query(ctx, "SELECT SUM(k) FROM oltp WHERE id BETWEEN ? AND ?", low, low+rangeRows-1); err != nil {
			return 0, err
		}
		n, err := w.query(ctx, "SELECT c FROM oltp WHERE id BETWEEN ? AND ? ORDER BY c", low, low+rangeRows-1)
		if err != nil {
			return 0, err
		}
		written, err := w.writes(ctx)
		return rows + n + written, err
	})
}

// writeOnly is a transaction of two updates and a delete with a new insert.
func writeOnly(ctx context.Context, w *worker, _ int) (int, error) {
	return w.transaction(ctx, func() (int, error) { return w.writes(ctx) })
}

func (w *worker) writes(ctx context.Context) (int, error) {
	if err := w.exec(ctx, "UPDATE oltp SET k = k + 1 WHERE id = ?", w.anyID()); err != nil {
		return 0, err
	}
	if err := w.exec(ctx, "UPDATE oltp SET c = ? WHERE id = ?", digits(w.rand, 119), w.anyID()); err != nil {
		return 0, err
	}
	id := w.ownID()
	if err := w.exec(ctx, "DELETE FROM oltp WHERE id = ?", id); err != nil {
		return 0, err
	}
	return 4, w.exec(ctx, "INSERT INTO oltp VALUES (?, ?, ?, ?)", id, w.rand.IntN(1<<30), digits(w.rand, 119), digits(w.rand, 59))
}

// transaction runs the body between BEGIN and COMMIT, and rolls back if it meets an error.
func (w *worker) transaction(ctx context.Context, body func() (int, error)) (int, error) {
	if _, err := w.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	rows, err := body()
	if err == nil {
		_, err = w.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, undo := w.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		if undo != nil {
			return 0, errors.Join(err, undo)
		}
		return 0, err
	}
	return rows, nil
}

func emptyBulkTable(ctx context.Context, s *session) error { return remake(ctx, s, "bulk") }

// bulkInsert is one INSERT of batchRows rows; the connections share the keys 1 … config.rows in turn.
func bulkInsert(ctx context.Context, w *worker, n int) (int, error) {
	first := 1 + (n*w.session.config.connections+w.id)*batchRows
	if first > w.session.config.rows {
		return 0, errFinished
	}
	count := min(batchRows, w.session.config.rows-first+1)
	text, args := insertBatch(w.rand, "bulk", first, count)
	return count, w.exec(ctx, text, args...)
}

// scanTable takes turns: count with a filter, sums by group, and all rows of a fifth of the table.
func scanTable(ctx context.Context, w *worker, n int) (int, error) {
	rows := w.session.config.rows
	switch n % 3 {
	case 0:
		_, err := w.query(ctx, "SELECT COUNT(*) FROM oltp WHERE k < ?", w.rand.IntN(1<<30))
		return rows, err
	case 1:
		_, err := w.query(ctx, "SELECT k % 10 AS g, COUNT(*), SUM(k), MIN(c) FROM oltp GROUP BY k % 10")
		return rows, err
	default:
		low := w.anyID()
		got, err := w.query(ctx, "SELECT * FROM oltp WHERE id BETWEEN ? AND ?", low, low+rows/5)
		if err == nil && got == 0 {
			err = fmt.Errorf("no row between %d and %d", low, low+rows/5)
		}
		return got, err
	}
}
