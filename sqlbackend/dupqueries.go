package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Sub-queries in ON DUPLICATE KEY UPDATE. The frontend plans INSERT of literals with a short list of rules that knows none, looks for
// VALUES() inside them in the wrong place, and has their columns read from other positions than those they are at.

// askDuplicates prepares the syntax tree of an INSERT for sub-queries in its assignments.
func askDuplicates(s *sqlparser.Insert) {
	asked := false
	for _, a := range s.OnDup {
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			if sub, ok := n.(*sqlparser.Subquery); ok {
				asked = true
				nameValues(s, sub)
				return false, nil
			}
			return true, nil
		}, a.Expr)
	}
	if !asked {
		return
	}
	if rows, ok := s.Rows.(*sqlparser.AliasedValues); ok {
		noLiterals(rows.Values)
	}
}

// nameValues makes VALUES(c) inside a sub-query the column c of the new row.
func nameValues(s *sqlparser.Insert, sub *sqlparser.Subquery) {
	rewriteExpressions(sub, func(e sqlparser.Expr) sqlparser.Expr {
		v, ok := e.(*sqlparser.ValuesFuncExpr)
		if !ok || !v.Name.Qualifier.IsEmpty() && !strings.EqualFold(v.Name.Qualifier.Name.String(), s.Table.Name.String()) {
			return e
		}
		table, column := planbuilder.OnDupValuesPrefix, v.Name.Name
		if rows, ok := s.Rows.(*sqlparser.AliasedValues); ok && !rows.As.IsEmpty() {
			table = rows.As.String()
			for i, c := range s.Columns {
				if c.Equal(column) && i < len(rows.Columns) {
					column = rows.Columns[i]
					break
				}
			}
		}
		return &sqlparser.ColName{Name: column, Qualifier: sqlparser.TableName{Name: sqlparser.NewTableIdent(table)}}
	})
}

// noLiterals puts a value into parentheses, with which a row is none of literals. One that is no parameter, if there is one: the
// type of those comes from the column. A variable of a routine becomes a literal later.
func noLiterals(rows sqlparser.Values) {
	var row sqlparser.ValTuple
	at := -1
	for _, r := range rows {
		for i, e := range r {
			if _, def := e.(*sqlparser.Default); def {
				continue
			}
			v, ok := e.(*sqlparser.SQLVal)
			if parameter := ok && v.Type == sqlparser.ValArg; !parameter {
				r[i] = &sqlparser.ParenExpr{Expr: e}
				return
			}
			if at < 0 {
				row, at = r, i
			}
		}
	}
	if at >= 0 {
		row[at] = &sqlparser.ParenExpr{Expr: row[at]}
	}
}

// placingDuplicates is the rule that gives columns their positions, and those in sub-queries of ON DUPLICATE KEY UPDATE the right ones.
// The frontend's counts the columns of the two rows around such a sub-query by their names, but those in it by their numbers, of
// which the rows have none.
func placingDuplicates(theirs analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		placed, same, err := theirs(ctx, a, n, scope, sel, flags)
		if err != nil {
			return placed, same, err
		}
		again, unchanged, err := transform.Node(ctx, placed, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
			insert, ok := n.(*plan.InsertInto)
			if !ok {
				return n, transform.SameTree, nil
			}
			return placeDuplicates(ctx, insert, func(p *plan.Project) (sql.Node, error) {
				n, _, err := theirs(ctx, a, p, nil, sel, flags)
				return n, err
			})
		})
		return again, same && unchanged, err
	}
}

// placeDuplicates has place work on the values that are assigned, above a node with the columns of the two rows.
func placeDuplicates(ctx *sql.Context, insert *plan.InsertInto, place func(*plan.Project) (sql.Node, error)) (sql.Node, transform.TreeIdentity, error) {
	var rows *plan.Project
	updates := insert.OnDupExprs.AllExpressions()
	var out []sql.Expression
	for i, e := range updates {
		set, ok := e.(*expression.SetField)
		if !ok || !asksQuery(ctx, set.RightChild) {
			continue
		}
		if rows == nil {
			rows = twoRows(ctx, insert)
			out = append(out, updates...)
		}
		placed, err := place(plan.NewProject(ctx, []sql.Expression{set.RightChild}, rows))
		if err != nil {
			return nil, transform.SameTree, err
		}
		if p, ok := placed.(*plan.Project); ok {
			out[i] = expression.NewSetField(set.LeftChild, p.Projections[0])
		}
	}
	if out == nil {
		return insert, transform.SameTree, nil
	}
	with, err := insert.OnDupExprs.WithExpressions(out)
	if err != nil {
		return nil, transform.SameTree, err
	}
	n := *insert
	n.OnDupExprs = with
	return &n, transform.NewTree, nil
}

// asksQuery reports whether an expression has a sub-query.
func asksQuery(ctx *sql.Context, e sql.Expression) bool {
	return transform.InspectExpr(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
		_, ok := e.(*plan.Subquery)
		return ok
	})
}

// twoRows is a node with the columns that assignments of ON DUPLICATE KEY UPDATE see: those of the row there is, then those of the
// row that was to be inserted.
func twoRows(ctx *sql.Context, insert *plan.InsertInto) *plan.Project {
	old, source := insert.Destination.Schema(ctx), insert.Source.Schema(ctx)
	values, isValues := insert.Source.(*plan.Values)
	var columns []sql.Expression
	add := func(c *sql.Column, table, name string) { // without a number: the frontend goes by names then
		columns = append(columns, expression.NewGetFieldWithTable(0, 0, c.Type, "", table, name, c.Nullable))
	}
	for _, c := range old {
		add(c, c.Source, c.Name)
	}
	for i, c := range old {
		table, name := planbuilder.OnDupValuesPrefix, c.Name
		if isValues {
			if values.AliasName != "" {
				table = values.AliasName
			}
			if values.ColumnNames != nil {
				name = values.ColumnNames[strings.ToLower(name)]
			}
		} else {
			for j, inserted := range insert.ColumnNames {
				if strings.EqualFold(c.Name, inserted) && j < len(source) {
					table, name = source[j].Source, source[j].Name
					break
				}
			}
		}
		add(old[i], table, name)
	}
	return plan.NewProject(ctx, columns, plan.NewEmptyTableWithSchema(nil))
}
