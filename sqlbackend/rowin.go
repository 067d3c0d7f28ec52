package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// rowIn is (a, b, …) IN (sub-query). The frontend looks the row up by its hash, so that one with a NULL is never found: whether
// one of its other values differs from all rows, or the answer is NULL, is found out by comparing.
type rowIn struct{ *plan.InSubquery }

// exactRows puts rowIn and listedRow in place of the frontend's expressions, in a plan that is about to run. Why not before: the
// frontend's checks know which of its own expressions may have rows as operands, and its planner which make ranges of an index.
func exactRows(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	return transform.NodeExprsWithOpaque(ctx, n, func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		switch e := e.(type) {
		case *plan.InSubquery:
			if left, ok := e.LeftChild.(expression.Tuple); ok && len(left) > 1 {
				return &rowIn{e}, transform.NewTree, nil
			}
		case *expression.HashInTuple:
			if row := newListedRow(ctx, e); row != nil {
				return row, transform.NewTree, nil
			}
		case *plan.Subquery:
			q, same, err := exactRows(ctx, e.Query)
			if err != nil || same {
				return e, transform.SameTree, err
			}
			return e.WithQuery(q), transform.NewTree, nil
		}
		return e, transform.SameTree, nil
	})
}

// WithChildren implements sql.Expression.
func (in *rowIn) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := in.InSubquery.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &rowIn{e.(*plan.InSubquery)}, nil
}

// Eval implements sql.Expression.
func (in *rowIn) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	found, err := in.InSubquery.Eval(ctx, row)
	sub, ok := in.RightChild.(*plan.Subquery)
	if err != nil || found == true || !ok {
		return found, err
	}
	v, err := in.LeftChild.Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	left, ok := v.([]any)
	kinds, tuple := sub.Type(ctx).(types.TupleType)
	if !ok || !tuple || !hasNil(left) && !nullableRow(ctx, sub) {
		return found, nil
	}
	rows, err := sub.EvalMultiple(ctx, row)
	if err != nil {
		return nil, err
	}
	unknown := false
	for _, r := range rows {
		right, ok := r.([]any)
		if !ok || len(right) != len(left) {
			continue
		}
		differs, null, err := expression.NullUnsafeCompareTuples(ctx, left, right, kinds)
		if err != nil {
			return nil, err
		}
		if differs == 0 && !null {
			return true, nil
		}
		unknown = unknown || differs == 0
	}
	if unknown {
		return nil, nil
	}
	return false, nil
}

func hasNil(values []any) bool {
	for _, v := range values {
		if v == nil {
			return true
		}
	}
	return false
}

// nullableRow reports whether a column of a sub-query may be NULL.
func nullableRow(ctx *sql.Context, sub *plan.Subquery) bool {
	for _, c := range sub.Query.Schema(ctx) {
		if c.Nullable {
			return true
		}
	}
	return false
}

// listedRow is (a, b, …) IN ((…), (…)). The frontend looks the row up by its hash; where NULL takes part and no row of the list
// has it, the answer is found out by comparing value by value.
type listedRow struct {
	*expression.HashInTuple
	rows     [][]sql.Expression // rows[i][j] compares the value j with that of row i
	nullable bool               // whether the list has a NULL
}

var _ sql.Expression = (*listedRow)(nil)

// newListedRow returns nil for a list that is not made of rows as long as the left side.
func newListedRow(ctx *sql.Context, in *expression.HashInTuple) *listedRow {
	left, ok := in.Left().(expression.Tuple)
	list, listed := in.Right().(expression.Tuple)
	if !ok || !listed || len(left) < 2 {
		return nil
	}
	l := &listedRow{HashInTuple: in}
	for _, e := range list {
		row, ok := e.(expression.Tuple)
		if !ok || len(row) != len(left) {
			return nil
		}
		equal := make([]sql.Expression, len(row))
		for i, v := range row {
			equal[i] = expression.NewEquals(left[i], v)
			l.nullable = l.nullable || v.IsNullable(ctx)
		}
		l.rows = append(l.rows, equal)
	}
	return l
}

// Eval implements sql.Expression.
func (l *listedRow) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	found, err := l.HashInTuple.Eval(ctx, row)
	if err != nil || found == true {
		return found, err
	}
	if !l.nullable {
		v, err := l.Left().Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		if left, ok := v.([]any); ok && !hasNil(left) {
			return false, nil
		}
	}
	unknown := false
	for _, equal := range l.rows {
		var answer any = true
		for _, e := range equal {
			v, err := e.Eval(ctx, row)
			if err != nil {
				return nil, err
			}
			if v == false {
				answer = false
				break
			}
			if v == nil {
				answer = nil
			}
		}
		if answer == true {
			return true, nil
		}
		unknown = unknown || answer == nil
	}
	if unknown {
		return nil, nil
	}
	return false, nil
}

// IsNullable implements sql.Expression.
func (l *listedRow) IsNullable(*sql.Context) bool { return true }

// WithChildren implements sql.Expression.
func (l *listedRow) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := l.HashInTuple.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	in := e.(*expression.HashInTuple)
	if n := newListedRow(ctx, in); n != nil {
		return n, nil
	}
	return in, nil
}
