package sqlbackend

import (
	"math"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/iters"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// manyRows is the LIMIT from which all rows are sorted, not just the first ones kept: nobody has that many.
const manyRows = 1 << 40

// rowsWanted is the number of rows that a LIMIT lets through. The planner adds the offset where the rows are sorted below it,
// and LIMIT 18446744073709551615 OFFSET 5 is how MySQL says "all from the sixth": the sum ends at the largest number.
func rowsWanted(ctx *sql.Context, limit sql.Expression) (int64, error) {
	count, offset, ok := limitSum(limit)
	if !ok {
		return iters.GetInt64Value(ctx, limit)
	}
	n, err := iters.GetInt64Value(ctx, count)
	if err != nil {
		return 0, err
	}
	skipped, err := iters.GetInt64Value(ctx, offset)
	if err != nil {
		return 0, err
	}
	if skipped > math.MaxInt64-n {
		return math.MaxInt64, nil
	}
	return n + skipped, nil
}

func limitSum(limit sql.Expression) (count, offset sql.Expression, ok bool) {
	switch a := limit.(type) {
	case *checkedArithmetic:
		return a.Left(), a.Right(), true
	case *expression.Arithmetic:
		return a.Left(), a.Right(), true
	}
	return nil, nil, false
}

// top is ORDER BY … LIMIT; nil if the frontend's operator does.
func (o *operators) top(ctx *sql.Context, n *plan.TopN, row sql.Row) (sql.RowIter, error) {
	if n.CalcFoundRows {
		return o.countedTop(ctx, n, row)
	}
	limit, err := rowsWanted(ctx, n.Limit)
	if err != nil || limit < manyRows {
		return nil, err
	}
	child, err := o.build(ctx, n.Child, row)
	if err != nil {
		return nil, err
	}
	return &sortIter{child: child, by: n.SortConditions}, nil
}

// limited is LIMIT above rows that were sorted and locked below; nil if the frontend's operator does.
func (o *operators) limited(ctx *sql.Context, n *plan.Limit, row sql.Row) (sql.RowIter, error) {
	if _, _, ok := limitSum(n.Limit); !ok {
		return nil, nil
	}
	limit, err := rowsWanted(ctx, n.Limit)
	if err != nil {
		return nil, err
	}
	with := plan.NewLimit(expression.NewLiteral(limit, types.Int64), n.Child)
	with.CalcFoundRows = n.CalcFoundRows
	return o.build(ctx, with, row)
}

// sortedSet is a set operation with ORDER BY and an offset; nil if the frontend's operator does. Why: that one skips rows before it
// sorts them.
func (o *operators) sortedSet(ctx *sql.Context, n *plan.SetOp, row sql.Row) (sql.RowIter, error) {
	if n.Offset == nil || len(n.SortConditions) == 0 {
		return nil, nil
	}
	rows, ok := plan.NewSetOp(n.SetOpType, n.Left(), n.Right(), n.Distinct, nil, nil, nil).WithColumns(n.Columns()).WithId(n.Id()).(*plan.SetOp)
	if !ok {
		return nil, nil
	}
	n.AddDispose(func() { rows.Dispose(ctx) })
	var out sql.Node = plan.NewOffset(n.Offset, plan.NewSort(n.SortConditions, rows))
	if n.Limit != nil {
		out = plan.NewLimit(n.Limit, out)
	}
	return o.build(ctx, out, row)
}
