package sqlbackend

import (
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"

	"lancesql/engine"
	"lancesql/lsm"
)

// COUNT(*), MIN and MAX over a whole table without looking at its rows one by one: rows are counted as storage knows them,
// and extremes looked for where zone maps promise them. Both are those of the statement's view and own writes.

// wholeTable runs such an aggregation; nil if n is another one.
func (o *operators) wholeTable(ctx *sql.Context, n *plan.GroupBy) (sql.RowIter, error) {
	child := n.Child
	if a, ok := child.(*plan.TableAlias); ok {
		child = a.Child
	}
	rt, ok := child.(*plan.ResolvedTable)
	c := connOf(ctx)
	if !ok || c == nil || len(n.GroupByExprs) > 0 || len(n.SelectDeps) == 0 {
		return nil, nil
	}
	t, ok := rt.UnderlyingTable().(*Table)
	if !ok || t.filter != nil || t.lookup != nil || t.newest || t.lock.wanted() {
		return nil, nil
	}
	columns := make([]int, len(n.SelectDeps))
	for i, e := range n.SelectDeps {
		if columns[i], ok = t.extremeOf(e); !ok && !countsRows(e) {
			return nil, nil
		}
	}
	txn, err := t.txn(ctx)
	if err != nil {
		return nil, err
	}
	if txn.Options().Isolation == engine.Serializable { // which locks what it reads
		return nil, nil
	}
	out := make(sql.Row, len(columns))
	for i, e := range n.SelectDeps {
		if countsRows(e) {
			out[i], err = t.countRows(ctx)
		} else {
			_, greatest := e.(*aggregation.Max)
			out[i], err = t.extreme(ctx, c, txn, columns[i], greatest)
		}
		if err != nil {
			return nil, err
		}
	}
	return sql.RowsToRowIter(out), nil
}

// countsRows recognises COUNT(*) and COUNT of a literal.
func countsRows(e sql.Expression) bool {
	count, ok := e.(*aggregation.Count)
	if !ok {
		return false
	}
	switch arg := count.Child.(type) {
	case *expression.Star:
		return true
	case *expression.Literal:
		return arg.Value() != nil
	}
	return false
}

// extremeOf recognises MIN and MAX of a column whose cells are ordered as its values.
func (t *Table) extremeOf(e sql.Expression) (column int, ok bool) {
	var arg sql.Expression
	switch e := e.(type) {
	case *aggregation.Min:
		arg = e.Child
	case *aggregation.Max:
		arg = e.Child
	default:
		return 0, false
	}
	f, ok := arg.(*expression.GetField)
	if !ok {
		return 0, false
	}
	c := t.column(f.Name())
	if c < 0 {
		return 0, false
	}
	typ := t.schema[c].Type
	return c, types.IsInteger(typ) || types.IsDecimal(typ) || types.IsTime(typ)
}

func (t *Table) countRows(ctx *sql.Context) (rows int64, err error) {
	it := &rowIter{table: t, scans: []lsm.ScanSpec{{}}}
	defer func() { err = errors.Join(err, it.Close(ctx)) }()
	for {
		err := it.nextBatch(ctx)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return 0, err
		}
		rows += it.batch.NumRows()
	}
}

func (t *Table) extreme(ctx *sql.Context, c *Conn, txn *engine.Txn, column int, greatest bool) (any, error) {
	cell, err := txn.Extreme(ctx, t.info.entry, c.readKind(), column, greatest, c.stmt.explain.statsOf(t, lsm.ScanSpec{}))
	if err != nil || cell == nil {
		return nil, err
	}
	return t.info.decodeCell(column, cell, t.info.zone(ctx))
}
