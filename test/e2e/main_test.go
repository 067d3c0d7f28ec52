package e2e

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Cleanup()
	os.Exit(code)
}

// seed returns the test's seed (LANCESQL_SEED or the clock) after printing it.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("LANCESQL_SEED"); s != "" {
		parsed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		n = parsed
	}
	t.Logf("LANCESQL_SEED=%d repeats this run", n)
	return n
}

func newRand(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 1)) }

// small is a configuration under which a few hundred rows are enough for flushes and merges.
func small() map[string]string {
	return map[string]string{"memtable_rows": "400", "memtable_bytes": "262144", "merge_after_generations": "2"}
}

// do runs a statement that must succeed.
func do(t *testing.T, db execer, query string, args ...any) sql.Result {
	t.Helper()
	res, err := db.ExecContext(context.Background(), query, args...)
	require.NoError(t, err, "%.300s", query)
	return res
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query returns all rows of a query as text; a nil cell is NULL. An error ends the test.
func query(t *testing.T, db queryer, q string, args ...any) [][]*string {
	t.Helper()
	rows, err := tryQuery(db, q, args...)
	require.NoError(t, err, "%.300s", q)
	return rows
}

func tryQuery(db queryer, q string, args ...any) ([][]*string, error) {
	rows, err := db.QueryContext(context.Background(), q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var out [][]*string
	for rows.Next() {
		raw := make([]sql.RawBytes, len(names))
		into := make([]any, len(names))
		for i := range raw {
			into[i] = &raw[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		cells := make([]*string, len(names))
		for i, r := range raw {
			if r != nil {
				s := string(r)
				cells[i] = &s
			}
		}
		out = append(out, cells)
	}
	return out, rows.Err()
}

// one returns the single cell of a query as text.
func one(t *testing.T, db queryer, q string, args ...any) string {
	t.Helper()
	rows := query(t, db, q, args...)
	require.Len(t, rows, 1, q)
	require.Len(t, rows[0], 1, q)
	require.NotNil(t, rows[0][0], q)
	return *rows[0][0]
}

// mysqlCode returns the server's error number, 0 if err does not come from the server.
func mysqlCode(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// requireError checks an error's number and SQLSTATE.
func requireError(t *testing.T, err error, number uint16, state string) {
	t.Helper()
	var e *mysql.MySQLError
	require.ErrorAs(t, err, &e)
	require.Equal(t, number, e.Number, "%v", err)
	require.Equal(t, state, string(e.SQLState[:]), "%v", err)
}
