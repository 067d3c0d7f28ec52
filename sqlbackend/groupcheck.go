package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// checkingGroups is the rule that refuses columns that are not grouped by (ONLY_FULL_GROUP_BY). The frontend takes all that has no
// operands for a column: NOW(), variables, sub-queries. When it refuses a query, it is asked again about one without those.
func checkingGroups(theirs analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		checked, same, err := theirs(ctx, a, n, scope, sel, flags)
		if !sql.ErrNonAggregatedColumnWithoutGroupBy.Is(err) && !analyzererrors.ErrValidationGroupBy.Is(err) && !analyzererrors.ErrValidationGroupByOrderBy.Is(err) {
			return checked, same, err
		}
		columns, unchanged, cerr := transform.NodeExprsWithOpaque(ctx, n, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
			if !noColumn(e) {
				return e, transform.SameTree, nil
			}
			return &columnless{e}, transform.NewTree, nil
		})
		if cerr != nil || unchanged {
			return checked, same, err
		}
		if _, _, err = theirs(ctx, a, columns, scope, sel, flags); err != nil {
			return nil, transform.SameTree, err
		}
		return n, transform.SameTree, nil
	}
}

// noColumn reports whether an expression without operands depends on no column.
func noColumn(e sql.Expression) bool {
	switch e := e.(type) {
	case *expression.Literal, *expression.GetField, *expression.Star, *expression.AliasReference, *columnless, sql.Aggregation:
		return false
	case *plan.Subquery:
		return e.Correlated().Empty()
	}
	return e.Resolved() && len(e.Children()) == 0
}

// columnless is an expression whose only operand is a literal.
type columnless struct{ sql.Expression }

// Children implements sql.Expression.
func (c *columnless) Children() []sql.Expression {
	return []sql.Expression{expression.NewLiteral(nil, types.Null)}
}

// WithChildren implements sql.Expression.
func (c *columnless) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(c, len(children), 1)
	}
	return c, nil
}
