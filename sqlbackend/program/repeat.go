package program

import (
	"context"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// A trigger runs the same statements for each row of the statement that fires it. An INSERT of values that are only computed is planned
// once for all of them, with cells in the places of variables.

// Cell is a variable in such a plan.
type Cell struct {
	Slot
	value any
	ready bool // the statement is planned
}

// Eval implements sql.Expression. Why an error: see Slot.
func (c *Cell) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if !c.ready {
		return c.Slot.Eval(ctx, row)
	}
	return c.value, nil
}

// WithChildren implements sql.Expression.
func (c *Cell) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(c, len(children), 0)
	}
	return c, nil
}

// repeated is a statement that is planned.
type repeated struct {
	settings any
	cells    []*Cell
	plan     any
}

// repeats reports whether a statement may be planned once for several runs: INSERT … VALUES of nothing that remembers, looks at tables
// or at user variables.
func (p *parser) repeats(stmt sqlparser.Statement) bool {
	s, ok := stmt.(*sqlparser.Insert)
	if !ok || s.With != nil || s.Ignore != "" || len(s.OnDup)+len(s.Returning)+len(s.Partitions) > 0 {
		return false
	}
	var rows sqlparser.Values
	switch r := s.Rows.(type) {
	case sqlparser.Values:
		rows = r
	case *sqlparser.AliasedValues:
		rows = r.Values
	case sqlparser.AliasedValues:
		rows = r.Values
	}
	for _, row := range rows {
		for _, e := range row {
			if !asksSession(e) && !p.computes(e) {
				return false
			}
		}
	}
	user := false
	visitNames(stmt, func(name string) { user = user || strings.HasPrefix(name, "@") || name == caseVariable })
	return len(rows) > 0 && !user
}

// asksSession reports whether an expression is a function without arguments that is the same for all of a statement.
func asksSession(e sqlparser.Expr) bool {
	f, ok := e.(*sqlparser.FuncExpr)
	return ok && f.Qualifier.IsEmpty() && len(f.Exprs) == 0 && f.Over == nil &&
		strings.Contains(" now current_timestamp curdate current_date user current_user session_user connection_id ", " "+f.Name.Lowered()+" ")
}

// repeated returns the plan of a statement, with the values that its variables have now; nil if it has to be planned each time.
func (c *Call) repeated(ctx *sql.Context, q *query, sc *scope) any {
	if c.plans == nil || !q.repeats {
		return nil
	}
	settings := c.env.Settings()
	r, known := c.plans[q]
	if !known || r != nil && r.settings != settings {
		r = c.planQuery(ctx, q, sc)
		if r != nil {
			r.settings = settings
		}
		c.plans[q] = r
	}
	if r == nil {
		return nil
	}
	for _, cell := range r.cells {
		cell.value = sc.variable(cell.name).value
	}
	return r.plan
}

func (c *Call) planQuery(ctx *sql.Context, q *query, sc *scope) *repeated {
	r := &repeated{}
	usable := true
	stmt := replaceNames(q.stmt, func(col *sqlparser.ColName) sqlparser.Expr {
		name := nameOf(col)
		v := sc.variable(name)
		if v == nil || v.typ == nil {
			usable = false
			return nil
		}
		at := slices.IndexFunc(r.cells, func(c *Cell) bool { return c.name == name })
		if at < 0 {
			at = len(r.cells)
			r.cells = append(r.cells, &Cell{Slot: Slot{name: name, typ: v.typ}})
		}
		return injectedExpr(r.cells[at])
	})
	if !usable {
		return nil
	}
	if r.plan = c.env.PlanRepeated(ctx, stmt); r.plan == nil {
		return nil
	}
	for _, cell := range r.cells {
		cell.ready = true
	}
	return r
}

// WithResolvedChildren implements sqlparser.Injectable.
func (c *Cell) WithResolvedChildren(context.Context, []any) (any, error) { return c, nil }
