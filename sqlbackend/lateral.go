package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// onName is the function that stands for the condition of a LEFT JOIN LATERAL; its second argument is a column of the derived table.
// Why: the planner moves a condition that names no such column below the join, and makes an inner join of one that has none.
const onName = "lancesql on"

// finishJoins puts table lists in parentheses into joins, FROM (a, b) being FROM (a JOIN b), and keeps the conditions of LEFT JOIN
// LATERAL where they are.
func finishJoins(n sqlparser.SQLNode) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch t := n.(type) {
		case *sqlparser.ParenTableExpr:
			for len(t.Exprs) > 1 {
				join := &sqlparser.JoinTableExpr{LeftExpr: t.Exprs[0], Join: sqlparser.JoinStr, RightExpr: t.Exprs[1]}
				t.Exprs = append(sqlparser.TableExprs{join}, t.Exprs[2:]...)
			}
		case *sqlparser.JoinTableExpr:
			right, ok := t.RightExpr.(*sqlparser.AliasedTableExpr)
			if !ok || !right.Lateral || t.Join != sqlparser.LeftJoinStr || t.Condition.On == nil {
				break
			}
			if column := firstColumn(right); column != "" {
				t.Condition.On = call(onName, t.Condition.On, &sqlparser.ColName{
					Name: sqlparser.NewColIdent(column), Qualifier: sqlparser.TableName{Name: right.As},
				})
			}
		}
		return true, nil
	}, n)
}

// firstColumn is the name of a column of a derived table; empty if it is not to be seen in the tree.
func firstColumn(t *sqlparser.AliasedTableExpr) string {
	sub, ok := t.Expr.(*sqlparser.Subquery)
	if !ok {
		return ""
	}
	if len(sub.Columns) > 0 {
		return sub.Columns[0].String()
	}
	query := sub.Select
	for {
		switch q := query.(type) {
		case *sqlparser.ParenSelect:
			query = q.Select
			continue
		case *sqlparser.SetOp:
			query = q.Left
			continue
		case *sqlparser.Select:
			for _, e := range q.SelectExprs {
				a, ok := e.(*sqlparser.AliasedExpr)
				if !ok {
					continue
				}
				if !a.As.IsEmpty() {
					return a.As.String()
				}
				if c, ok := a.Expr.(*sqlparser.ColName); ok {
					return c.Name.String()
				}
				if a.InputExpression != "" {
					return a.InputExpression
				}
			}
		}
		return ""
	}
}

// evalOn is the value of the condition.
func evalOn(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	is, err := sql.EvaluateCondition(ctx, args[0], row)
	if err != nil || is == nil {
		return nil, err
	}
	return sql.IsTrue(is), nil
}

// onFunction is the function of that name.
func onFunction() operator { return operator{typ: ofType(types.Boolean), eval: evalOn} }
