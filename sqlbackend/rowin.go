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

// exactRows puts rowIn in place of the frontend's expression, in a plan that is about to run. Why not before: the frontend's checks
// know which of its own expressions may have rows as operands.
func exactRows(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	return transform.NodeExprsWithOpaque(ctx, n, func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		switch e := e.(type) {
		case *plan.InSubquery:
			if left, ok := e.LeftChild.(expression.Tuple); ok && len(left) > 1 {
				return &rowIn{e}, transform.NewTree, nil
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
