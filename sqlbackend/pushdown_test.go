package sqlbackend

import (
	"context"
	"fmt"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/objstore"
)

// TestWhatReachesTheScan: filters, projections and keys of typical queries arrive at the table.
func TestWhatReachesTheScan(t *testing.T) {
	e, err := engine.Open(context.Background(), engine.Config{}, engine.Components{Store: objstore.NewMem()})
	require.NoError(t, err)
	p := NewProvider(e)
	front := NewSQLEngine(e, p)
	conn := NewSession(sql.NewBaseSession(), p)
	conn.SetCurrentDatabase("db")
	t.Cleanup(func() {
		conn.SessionEnd()
		require.NoError(t, front.Close())
		require.NoError(t, e.Close(context.Background()))
	})
	for _, q := range []string{"CREATE DATABASE db", "CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(9) COLLATE utf8mb4_bin, c VARCHAR(9), m INT, KEY (m))"} {
		ctx := sql.NewContext(t.Context(), sql.WithSession(conn), sql.WithQuery(q))
		_, it, _, err := front.Query(ctx, q)
		require.NoError(t, err)
		_, err = sql.RowIterToRows(ctx, it)
		require.NoError(t, err)
	}
	for _, c := range []struct{ query, filter, columns, index string }{
		{"SELECT n FROM t WHERE n > 3", "{1 5 3}", "[n]", ""},
		{"SELECT id FROM t x WHERE x.n = 3 AND x.c = 'a'", "{1 1 3}", "[id n c]", ""},
		{"SELECT id FROM t WHERE n IN (1, 2) OR s < 'k'", "{[{1 [1 2]} {2 3 k}]}", "[id n s]", ""},
		{"SELECT id FROM t WHERE n BETWEEN 1 AND 2", "{[{1 6 1} {1 4 2}]}", "[id n]", ""},
		{"SELECT id FROM t WHERE n IS NULL", "{1}", "[id n]", ""},
		{"SELECT id FROM t WHERE n = 1.5", "<nil>", "[id n]", ""},
		{"SELECT id FROM t WHERE c = 'a'", "<nil>", "[id c]", ""},
		{"SELECT n FROM t WHERE id = 7", "<nil>", "[id n]", "PRIMARY"},
		{"SELECT id FROM t WHERE m = 3", "<nil>", "[id m]", "m"},
		{"SELECT id FROM t WHERE m > 3 AND n = 1", "<nil>", "[id n m]", "m"},
		{"SELECT n FROM t WHERE id > 7 AND n = 1", "<nil>", "[id n]", "PRIMARY"},
	} {
		ctx := sql.NewContext(t.Context(), sql.WithSession(conn), sql.WithQuery(c.query))
		require.NoError(t, conn.CommandBegin())
		n, err := front.AnalyzeQuery(ctx, c.query)
		require.NoError(t, err)
		n, _, err = pushOnce(ctx, n)
		conn.CommandEnd()
		require.NoError(t, err)
		var table *Table
		index := ""
		transform.Inspect(n, func(n sql.Node) bool {
			if ita, ok := n.(*plan.IndexedTableAccess); ok {
				index = ita.Index().ID()
			}
			if tn, ok := n.(sql.TableNode); ok {
				if ours, ok := tn.UnderlyingTable().(*Table); ok {
					table = ours
				}
			}
			return true
		})
		require.NotNil(t, table, c.query)
		require.Equal(t, c.filter, fmt.Sprint(table.filter), c.query)
		require.Equal(t, c.columns, fmt.Sprint(table.Projections()), c.query)
		require.Equal(t, c.index, index, c.query)
	}
}
