package sqlbackend_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// ddlWriters is how many connections write while another one defines.
const ddlWriters = 8

// owner is a connection that alone writes the rows of its number, and so knows them.
type owner struct {
	conn *sql.Conn
	self int
	rng  *rand.Rand
	rows map[int]int // v by id
	next int
}

// step is one transaction or read. Being overtaken by a definition, or in a deadlock, is part of the work: nothing has
// happened then.
func (o *owner) step(ctx context.Context) error {
	id := o.next
	if len(o.rows) > 0 && o.rng.IntN(3) > 0 {
		ids := slices.Sorted(maps.Keys(o.rows))
		id = ids[o.rng.IntN(len(ids))]
	}
	after := maps.Clone(o.rows)
	var statements []string
	switch v, there := o.rows[id]; {
	case !there:
		o.next += ddlWriters
		statements = []string{fmt.Sprintf("INSERT INTO a (id, owner, v) VALUES (%d, %d, %d)", id, o.self, id)}
		after[id] = id
	case o.rng.IntN(6) == 0:
		statements = []string{fmt.Sprintf("DELETE FROM a WHERE id = %d", id)}
		delete(after, id)
	case o.rng.IntN(3) == 0:
		return o.compare(ctx)
	default:
		statements = []string{"BEGIN", fmt.Sprintf("UPDATE a SET v = v + 1 WHERE id = %d", id),
			fmt.Sprintf("UPDATE a SET v = v + 1 WHERE id = %d AND v = %d", id, v+1), "COMMIT"}
		after[id] = v + 2
		if o.rng.IntN(4) == 0 {
			statements[3], after[id] = "ROLLBACK", v
		}
	}
	for i, s := range statements {
		if _, err := o.conn.ExecContext(ctx, s); err != nil {
			if i == 3 {
				return fmt.Errorf("%s: %w", s, err) // nobody knows what happened
			}
			if len(statements) > 1 {
				_, _ = o.conn.ExecContext(ctx, "ROLLBACK")
			}
			return overtaken(s, err)
		}
	}
	o.rows = after
	return nil
}

// overtaken is the error of a statement unless a definition or another transaction may cause it.
func overtaken(statement string, err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) && (e.Number == 1412 || e.Number == 1213 || e.Number == 1205) {
		return nil
	}
	return fmt.Errorf("%s: %w", statement, err)
}

// compare reads the connection's rows, by what index there may be, and requires that they are as it wrote them.
func (o *owner) compare(ctx context.Context) error {
	const text = "SELECT id, v FROM a WHERE owner = ?"
	rows, err := o.conn.QueryContext(ctx, text, o.self)
	if err != nil {
		return overtaken(text, err)
	}
	defer rows.Close()
	got := make(map[int]int)
	for rows.Next() {
		var id, v int
		if err := rows.Scan(&id, &v); err != nil {
			return err
		}
		if _, twice := got[id]; twice {
			return fmt.Errorf("row %d comes twice", id)
		}
		got[id] = v
	}
	if err := rows.Err(); err != nil {
		return overtaken(text, err)
	}
	if !maps.Equal(got, o.rows) {
		return fmt.Errorf("owner %d reads %v, wrote %v", o.self, got, o.rows)
	}
	return nil
}

// ddlRound is what the defining connection does again and again; in the end the table is as it was.
func ddlRound() []string {
	return []string{
		"ALTER TABLE a ADD COLUMN x INT DEFAULT 7 FIRST, ADD INDEX o (owner)",
		"ALTER TABLE a MODIFY v BIGINT NOT NULL, COMMENT = 'other'",
		"RENAME TABLE a TO c, b TO a, a TO d, c TO a, d TO b",
		"ALTER TABLE a ADD COLUMN g INT AS (v * 2) VIRTUAL, RENAME INDEX o TO p",
		"CREATE INDEX e ON a ((owner + 1))",
		"ALTER TABLE a DROP COLUMN x, DROP INDEX p",
		"ALTER TABLE a ADD CONSTRAINT small CHECK (v >= 0), ADD UNIQUE KEY iv (id, v)",
		"CREATE OR REPLACE VIEW w AS SELECT id FROM a",
		"DROP INDEX e ON a",
		"ALTER TABLE a DROP COLUMN g, DROP CHECK small, DROP INDEX iv, MODIFY v INT NOT NULL",
		"CREATE TABLE f (id INT PRIMARY KEY, r INT, CONSTRAINT fk FOREIGN KEY (r) REFERENCES a (id))",
		"DROP TABLE f",
	}
}

// Definitions of a table change while eight connections write to it: every connection always finds the rows it wrote, and
// nothing waits for ever.
func TestDDLUnderLoad(t *testing.T) {
	length := 3 * time.Second
	if os.Getenv("LANCESQL_SOAK") != "" {
		length = 2 * time.Minute
	}
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d", "CREATE TABLE d.a (id INT PRIMARY KEY, owner INT NOT NULL, v INT NOT NULL)",
		"CREATE TABLE d.b (v INT)")
	ctx, cancel := context.WithTimeout(context.Background(), length+5*time.Minute) // what hangs fails
	defer cancel()
	deadline := time.Now().Add(length)
	owners := make([]*owner, ddlWriters)
	var steps, defined atomic.Int64
	var wg sync.WaitGroup
	faults := make(chan error, ddlWriters+1)
	for i := range owners {
		c, err := r.open("d").Conn(ctx)
		require.NoError(t, err)
		o := &owner{conn: c, self: i, next: i, rng: rand.New(rand.NewPCG(uint64(i), 11)), rows: make(map[int]int)}
		owners[i] = o
		wg.Go(func() {
			for time.Now().Before(deadline) {
				if err := o.step(ctx); err != nil {
					faults <- err
					return
				}
				steps.Add(1)
			}
		})
	}
	wg.Go(func() {
		c, err := r.open("d").Conn(ctx)
		for err == nil && (time.Now().Before(deadline) || defined.Load() == 0) {
			for _, text := range ddlRound() {
				if _, err = c.ExecContext(ctx, text); err != nil {
					err = fmt.Errorf("%s: %w", text, err)
					break
				}
			}
			defined.Add(1)
		}
		if err != nil {
			faults <- err
		}
	})
	wg.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
	for _, o := range owners {
		require.NoError(t, o.compare(ctx))
	}
	t.Logf("%d transactions and reads, %d rounds of definitions", steps.Load(), defined.Load())
	require.Positive(t, steps.Load())
}
