package sqlbackend

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// A sub-query in a select list, in HAVING or in ORDER BY may refer to columns below the grouping. The frontend's GROUP BY passes on
// only what those clauses name themselves, so that such a sub-query would read another cell of the row, or none. CarryColumnsRule
// adds what their sub-queries name. A selected sub-query by which rows are grouped or sorted is evaluated once, where it is needed
// first: the frontend evaluates it once more above, where its columns are gone. And the ORDER BY of a DISTINCT refers to the columns
// selected: the frontend puts it above them, but leaves expressions in it that need the columns below.

// carryColumnsRuleID is the number of CarryColumnsRule.
const carryColumnsRuleID = PushDownRuleID + 1

// CarryColumnsRule implements analyzer.RuleFunc. It runs before columns have places in rows.
func CarryColumnsRule(ctx *sql.Context, _ *analyzer.Analyzer, n sql.Node, _ *plan.Scope, _ analyzer.RuleSelector, _ *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
	n, _, reused, err := reuseQueries(ctx, n)
	if err != nil {
		return nil, transform.SameTree, err
	}
	n, carried, err := carryColumns(ctx, n, nil, false)
	return n, transform.TreeIdentity(!reused && !carried), err
}

// reuseQueries makes the nodes above one that evaluates a selected sub-query refer to its column. known are the columns of n that are
// such sub-queries; changed is true if out is not n.
func reuseQueries(ctx *sql.Context, n sql.Node) (out sql.Node, known map[sql.ColumnId]bool, changed bool, err error) {
	n, changed, err = withChildren(ctx, n, func(c sql.Node) (out sql.Node, changed bool, err error) {
		out, known, changed, err = reuseQueries(ctx, c)
		return out, changed, err
	})
	if err != nil {
		return nil, nil, false, err
	}
	switch x := n.(type) {
	case *plan.Limit, *plan.Offset, *plan.Distinct:
		return n, known, changed, nil
	case *plan.Sort, *plan.Having, *plan.Filter, *plan.TopN:
		n, replaced, err := withKnown(ctx, n, known)
		return n, known, changed || replaced, err
	case *plan.Project:
		n, replaced, err := withKnown(ctx, n, known)
		if err != nil {
			return nil, nil, false, err
		}
		return n, queriesIn(ctx, n.(*plan.Project).Projections, known), changed || replaced, nil
	case *plan.GroupBy:
		known = nil
		for _, e := range x.GroupByExprs {
			a, ok := e.(*expression.Alias)
			if !ok || a.Id() == 0 || !hasQuery(ctx, a) || known[a.Id()] {
				continue
			}
			if known == nil {
				g := *x
				g.SelectDeps, n, known, changed = slices.Clone(x.SelectDeps), &g, map[sql.ColumnId]bool{}, true
			}
			g := n.(*plan.GroupBy)
			if !slices.ContainsFunc(g.SelectDeps, func(e sql.Expression) bool { return idOf(e) == a.Id() }) {
				g.SelectDeps = append(g.SelectDeps, a)
			}
			known[a.Id()] = true
		}
		return n, known, changed, nil
	}
	return n, nil, changed, nil
}

// withChildren is n with what f makes of its children. Nodes are not compared: some are slices.
func withChildren(ctx *sql.Context, n sql.Node, f func(sql.Node) (out sql.Node, changed bool, err error)) (sql.Node, bool, error) {
	children := n.Children()
	changed := false
	for i, c := range children {
		made, other, err := f(c)
		if err != nil {
			return nil, false, err
		}
		if !other {
			continue
		}
		if !changed {
			children, changed = slices.Clone(children), true
		}
		children[i] = made
	}
	if !changed {
		return n, false, nil
	}
	n, err := n.WithChildren(ctx, children...)
	return n, true, err
}

// withKnown replaces selected sub-queries in a node's expressions by the columns they are below it.
func withKnown(ctx *sql.Context, n sql.Node, known map[sql.ColumnId]bool) (sql.Node, bool, error) {
	if len(known) == 0 {
		return n, false, nil
	}
	n, same, err := transform.OneNodeExpressions(ctx, n, func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		if a, ok := e.(*expression.Alias); ok && known[a.Id()] {
			return expression.NewGetField(int(a.Id()), a.Type(ctx), a.Name(), a.IsNullable(ctx)), transform.NewTree, nil
		}
		return e, transform.SameTree, nil
	})
	return n, !bool(same), err
}

// queriesIn are the columns of a projection that are sub-queries, or that were below it.
func queriesIn(ctx *sql.Context, projections []sql.Expression, below map[sql.ColumnId]bool) map[sql.ColumnId]bool {
	var known map[sql.ColumnId]bool
	for _, e := range projections {
		id := idOf(e)
		_, alias := e.(*expression.Alias)
		if id == 0 || !below[id] && !(alias && hasQuery(ctx, e)) {
			continue
		}
		if known == nil {
			known = map[sql.ColumnId]bool{}
		}
		known[id] = true
	}
	return known
}

// idOf is the number of the column that an expression makes; 0 if it has none.
func idOf(e sql.Expression) sql.ColumnId {
	if id, ok := e.(sql.IdExpression); ok {
		return id.Id()
	}
	return 0
}

func hasQuery(ctx *sql.Context, e sql.Expression) bool {
	found := false
	sql.Inspect(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
		_, ok := e.(*plan.Subquery)
		found = found || ok
		return !found
	})
	return found
}

// carryColumns completes the groupings of a plan, and the projections between them and what is selected; above are the expressions that
// are evaluated above n over its rows, projected is set if what is selected is above n. changed is true if out is not n.
func carryColumns(ctx *sql.Context, n sql.Node, above []sql.Expression, projected bool) (out sql.Node, changed bool, err error) {
	switch x := n.(type) {
	case *plan.Sort:
		if d, ok := x.Child.(*plan.Distinct); ok {
			n, changed = sortedByColumns(ctx, x, d)
		}
		above = append(slices.Clone(above), n.(*plan.Sort).Expressions()...)
	case *plan.Project:
		if projected {
			if missing := missingColumns(ctx, x.Projections, x.Child, above); missing != nil {
				n, changed = plan.NewProject(ctx, append(slices.Clone(x.Projections), missing...), x.Child), true
			}
		}
		above, projected = append(slices.Clone(above), n.(*plan.Project).Projections...), true
	case *plan.Having, *plan.Filter, *plan.TopN:
		above = append(slices.Clone(above), n.(sql.Expressioner).Expressions()...)
	case *plan.Limit, *plan.Offset:
	case *plan.Distinct:
		projected = false // another column would make other rows of it
	case *plan.GroupBy:
		if missing := missingColumns(ctx, x.SelectDeps, x.Child, above); missing != nil {
			g := *x
			g.SelectDeps = append(slices.Clone(x.SelectDeps), missing...)
			n, changed = &g, true
		}
		above, projected = nil, false
	case *plan.Window:
		if missing := missingColumns(ctx, x.SelectExprs, x.Child, above); missing != nil {
			w := *x
			w.SelectExprs = append(slices.Clone(x.SelectExprs), missing...)
			n, changed = &w, true
		}
		above = n.(*plan.Window).SelectExprs
	default:
		above, projected = nil, false
	}
	n, below, err := withChildren(ctx, n, func(c sql.Node) (sql.Node, bool, error) { return carryColumns(ctx, c, above, projected) })
	return n, changed || below, err
}

// missingColumns are the columns of child that sub-queries in the expressions above refer to and that are not passed on.
func missingColumns(ctx *sql.Context, passed []sql.Expression, child sql.Node, above []sql.Expression) []sql.Expression {
	var wanted []*expression.GetField
	for _, e := range above {
		sql.Inspect(ctx, e, func(ctx *sql.Context, e sql.Expression) bool {
			if q, ok := e.(*plan.Subquery); ok {
				wanted = fieldsIn(ctx, q.Query, wanted)
			}
			return true
		})
	}
	if len(wanted) == 0 {
		return nil
	}
	has := map[sql.ColumnId]bool{}
	for _, e := range passed {
		has[idOf(e)] = true
	}
	offered := columnsOf(child)
	var missing []sql.Expression
	for _, f := range wanted {
		if id := f.Id(); offered.Contains(id) && !has[id] {
			has[id] = true
			missing = append(missing, f)
		}
	}
	return missing
}

// fieldsIn appends the columns that a query names, in its sub-queries as well.
func fieldsIn(ctx *sql.Context, n sql.Node, fields []*expression.GetField) []*expression.GetField {
	if e, ok := n.(sql.Expressioner); ok {
		for _, e := range e.Expressions() {
			sql.Inspect(ctx, e, func(ctx *sql.Context, e sql.Expression) bool {
				switch e := e.(type) {
				case *expression.GetField:
					fields = append(fields, e)
				case *plan.Subquery:
					fields = fieldsIn(ctx, e.Query, fields)
				}
				return true
			})
		}
	}
	for _, c := range n.Children() {
		fields = fieldsIn(ctx, c, fields)
	}
	return fields
}

// columnsOf are the columns of the tables and derived tables in a plan.
func columnsOf(n sql.Node) sql.ColSet {
	var set sql.ColSet
	if t, ok := n.(plan.TableIdNode); ok {
		return set.Union(t.Columns())
	}
	for _, c := range n.Children() {
		set = set.Union(columnsOf(c))
	}
	return set
}

// sortedByColumns is a Sort whose expressions that are selected are the columns selected.
func sortedByColumns(ctx *sql.Context, s *plan.Sort, d *plan.Distinct) (sort *plan.Sort, changed bool) {
	p, ok := d.Child.(*plan.Project)
	if !ok {
		return s, false
	}
	by := slices.Clone(s.SortConditions)
	for i, c := range by {
		if _, ok := c.Expr.(*expression.GetField); ok {
			continue
		}
		for _, e := range p.Projections {
			a, ok := e.(*expression.Alias)
			if !ok || !strings.EqualFold(a.String(), c.Expr.String()) && !strings.EqualFold(a.Child.String(), c.Expr.String()) {
				continue
			}
			by[i].Expr = expression.NewGetField(int(a.Id()), a.Type(ctx), a.Name(), a.IsNullable(ctx))
			changed = true
			break
		}
	}
	if !changed {
		return s, false
	}
	return plan.NewSort(by, s.Child), true
}
