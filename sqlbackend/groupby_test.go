package sqlbackend

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/stretchr/testify/require"
)

// memoryFrontend is the frontend with lancesql's operators over the frontend's own memory tables.
func memoryFrontend(t *testing.T) func(query string) ([]sql.Row, error) {
	t.Helper()
	pro := memory.NewDBProvider(memory.NewDatabase("d"))
	front := newFrontend(pro, sql.EngineOverrides{Builder: sql.BuilderOverrides{Parser: &parser{inner: sql.NewMysqlParser(), admin: injectAdmin(nil)}}})
	t.Cleanup(func() { _ = front.Close() })
	session := memory.NewSession(sql.NewBaseSession(), pro)
	session.SetCurrentDatabase("d")
	return func(query string) ([]sql.Row, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		sctx := sql.NewContext(ctx, sql.WithSession(session))
		_, iter, _, err := front.Query(sctx, query)
		if err != nil {
			return nil, err
		}
		var rows []sql.Row
		for {
			row, err := iter.Next(sctx)
			if err == io.EOF {
				return rows, iter.Close(sctx)
			}
			if err != nil {
				_ = iter.Close(sctx)
				return nil, err
			}
			rows = append(rows, row)
		}
	}
}

func TestGroupBy(t *testing.T) {
	query := memoryFrontend(t)
	must := func(q string) []sql.Row {
		t.Helper()
		rows, err := query(q)
		require.NoError(t, err, q)
		return rows
	}
	must("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(10) COLLATE utf8mb4_0900_ai_ci, n INT, f DOUBLE)")
	must("INSERT INTO t VALUES (1,'a',1,0e0), (2,'A',2,-0e0), (3,'b',NULL,1.5), (4,NULL,4,1.5), (5,NULL,5,NULL), (6,'',6,NULL)")
	require.Equal(t, []sql.Row{{"a", int64(2)}, {"b", int64(1)}, {nil, int64(2)}, {"", int64(1)}},
		must("SELECT s, COUNT(*) FROM t GROUP BY s"))
	require.Len(t, must("SELECT f, COUNT(*) FROM t GROUP BY f"), 3)
	require.Len(t, must("SELECT s, n, COUNT(*) FROM t GROUP BY s, n"), 6)
	require.Len(t, must("SELECT s, SUM(n) AS x FROM t GROUP BY s HAVING x > 3 ORDER BY x DESC LIMIT 1"), 1)
	require.Len(t, must("SELECT DISTINCT n % 2 FROM t GROUP BY id, n"), 3)
	require.Empty(t, must("SELECT n, COUNT(*) FROM t WHERE id > 100 GROUP BY n"))
	require.Equal(t, []sql.Row{{int64(0)}}, must("SELECT COUNT(*) FROM t WHERE id > 100"))
	require.Len(t, must("SELECT (SELECT MAX(u.n) FROM t u WHERE u.id <= t.id GROUP BY t.id) FROM t"), 6, "an outer row is given")
}

// TestGroupByError: an expression that fails ends the statement, however many rows are left to read.
func TestGroupByError(t *testing.T) {
	query := memoryFrontend(t)
	_, err := query("CREATE TABLE n (i INT PRIMARY KEY)")
	require.NoError(t, err)
	_, err = query("INSERT INTO n WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 990) SELECT i FROM c")
	require.NoError(t, err)
	started := time.Now()
	_, err = query("SELECT a.i, COUNT(*) FROM n a, n b WHERE b.i < 12 GROUP BY a.i, JSON_EXTRACT('{', '$.a')")
	require.Error(t, err)
	require.Less(t, time.Since(started), 15*time.Second)
}
