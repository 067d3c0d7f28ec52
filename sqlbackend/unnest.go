package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// unnesting is a rule of the frontend that makes joins of sub-queries, but for statements with a sub-query of which it would make
// another one than was asked for. Those are asked once for each row, by their indexes (outerLookups).
func unnesting(theirs analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		hazard := false
		transform.InspectExpressions(ctx, n, func(ctx *sql.Context, e sql.Expression) bool {
			switch e := e.(type) {
			case *plan.ExistsSubquery:
				hazard = hazard || outerJoinsOuter(ctx, e.Query.Query) || derives(ctx, e.Query.Query)
			case *plan.InSubquery:
				sub, ok := e.RightChild.(*plan.Subquery)
				hazard = hazard || !ok || outerJoinsOuter(ctx, sub.Query) || !sameKinds(ctx, e.LeftChild, sub) || mayBeUnknown(ctx, e.LeftChild, sub)
			}
			return !hazard
		})
		if hazard {
			return n, transform.SameTree, nil
		}
		return theirs(ctx, a, n, scope, sel, flags)
	}
}

// outerJoinsOuter reports whether a query has an outer join whose condition names columns of a query around it: made a join of that
// one, it has the condition evaluated where those columns are not.
func outerJoinsOuter(ctx *sql.Context, n sql.Node) bool {
	own := make(map[sql.TableId]bool)
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		if id, ok := n.(plan.TableIdNode); ok {
			own[id.Id()] = true
		}
		return true
	})
	found := false
	transform.InspectWithOpaque(ctx, n, func(ctx *sql.Context, n sql.Node) bool {
		if j, ok := n.(*plan.JoinNode); ok && j.Op.IsOuter() && j.Filter != nil {
			found = found || transform.InspectExpr(ctx, j.Filter, func(_ *sql.Context, e sql.Expression) bool {
				g, ok := e.(*expression.GetField)
				return ok && !own[g.TableId()]
			})
		}
		return true
	})
	return found
}

// derives reports whether a query joins derived tables: an anti join of them loses its condition.
func derives(ctx *sql.Context, n sql.Node) bool {
	found := false
	transform.InspectWithOpaque(ctx, n, func(ctx *sql.Context, n sql.Node) bool {
		if j, ok := n.(*plan.JoinNode); ok {
			transform.InspectWithOpaque(ctx, j, func(_ *sql.Context, n sql.Node) bool {
				_, derived := n.(*plan.SubqueryAlias)
				found = found || derived
				return true
			})
		}
		return true
	})
	return found
}

// mayBeUnknown reports whether comparing rows of several values may give NULL, which an anti join takes for no.
func mayBeUnknown(ctx *sql.Context, left sql.Expression, sub *plan.Subquery) bool {
	t, ok := left.(expression.Tuple)
	if !ok || len(t) < 2 {
		return false
	}
	for _, e := range t {
		if e.IsNullable(ctx) {
			return true
		}
	}
	return nullableRow(ctx, sub)
}

// sameKinds reports whether the values of a sub-query are different ones exactly if they differ for what is compared with them: else a
// join finds a row more than once.
func sameKinds(ctx *sql.Context, left sql.Expression, sub *plan.Subquery) bool {
	lefts := []sql.Expression{left}
	if t, ok := left.(expression.Tuple); ok {
		lefts = t.Children()
	}
	columns := sub.Query.Schema(ctx)
	if len(lefts) != len(columns) {
		return true // an error of its own
	}
	for i, e := range lefts {
		l, r := e.Type(ctx), columns[i].Type
		switch {
		case l.Equals(r), types.IsInteger(l) && types.IsInteger(r), l == types.Null, r == types.Null:
		case types.IsTextOnly(l) && types.IsTextOnly(r):
			if l.(sql.TypeWithCollation).Collation() != r.(sql.TypeWithCollation).Collation() {
				return false
			}
		default:
			return false
		}
	}
	return true
}
