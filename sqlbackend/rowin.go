package sqlbackend

import (
	"slices"

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
	n, sources, err := changedSources(ctx, n, func(source sql.Node) (sql.Node, transform.TreeIdentity, error) { return exactRows(ctx, source) })
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, rows, err := transform.NodeExprsWithOpaque(ctx, n, func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
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
	return n, rows && sources, err
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
	sub, ok := in.RightChild.(*plan.Subquery)
	if ok && (!sameKinds(ctx, in.LeftChild, sub) || slices.ContainsFunc(in.LeftChild.(expression.Tuple), func(e sql.Expression) bool { return e.Type(ctx) == types.Null })) {
		return in.compare(ctx, sub, row)
	}
	found, err := in.InSubquery.Eval(ctx, row)
	if err != nil && ok { // a row that its hash cannot be made of; if the query fails, it does so again
		return in.compare(ctx, sub, row)
	}
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

// compare is Eval value by value, for columns that are not of the types of what is compared with them: the frontend's hash converts
// the row to those.
func (in *rowIn) compare(ctx *sql.Context, sub *plan.Subquery, row sql.Row) (any, error) {
	left := in.LeftChild.(expression.Tuple)
	columns := sub.Query.Schema(ctx)
	if len(left) != len(columns) {
		return nil, sql.ErrInvalidOperandColumns.New(len(left), len(columns))
	}
	values := make([]sql.Expression, len(left))
	for i, e := range left {
		v, err := e.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		values[i] = expression.NewLiteral(v, e.Type(ctx))
	}
	rows, err := sub.EvalMultiple(ctx, row)
	if err != nil {
		return nil, err
	}
	unknown := false
	for _, r := range rows {
		right, ok := r.([]any)
		if !ok || len(right) != len(values) {
			continue
		}
		answer, err := equalRows(len(values), func(i int) (any, error) {
			return expression.NewEquals(values[i], expression.NewLiteral(right[i], columns[i].Type)).Eval(ctx, nil)
		})
		if err != nil {
			return nil, err
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

// equalRows is whether all of so many comparisons hold; NULL if none fails and one is NULL.
func equalRows(n int, equal func(i int) (any, error)) (any, error) {
	var answer any = true
	for i := range n {
		v, err := equal(i)
		if err != nil {
			return nil, err
		}
		if v == false {
			return false, nil
		}
		if v == nil {
			answer = nil
		}
	}
	return answer, nil
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
		answer, err := equalRows(len(equal), func(i int) (any, error) { return equal[i].Eval(ctx, row) })
		if err != nil {
			return nil, err
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
