package sqlbackend

import (
	"strconv"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Window functions in a query with groups. The frontend plans no query with both, so the query becomes two: the groups are a
// derived table, the window functions are over its rows. In
//
//	SELECT YEAR(d) y, SUM(SUM(x)) OVER (ORDER BY YEAR(d)) FROM t GROUP BY y HAVING COUNT(*) > 1 ORDER BY y LIMIT 3
//
// every part of an expression that has no window function is a column of the derived table:
//
//	SELECT y, SUM(b) OVER (ORDER BY c) FROM (SELECT YEAR(d) y, SUM(x) b, YEAR(d) c FROM t GROUP BY y HAVING COUNT(*) > 1) g ORDER BY y LIMIT 3

// groupsName is the name of the derived table.
const groupsName = "lancesql groups"

// windowsOverGroups splits a query with groups and window functions. It leaves queries with stars and locking clauses alone.
func windowsOverGroups(s *sqlparser.Select) {
	g := grouped{aliases: make(map[string]sqlparser.Expr), outer: make(map[*sqlparser.ColName]bool)}
	if !g.needed(s) || s.Lock != nil && s.Lock.Type != "" {
		return
	}
	for i := range s.GroupBy {
		s.GroupBy[i] = numberedKey(s, s.GroupBy[i])
	}
	for _, e := range s.SelectExprs {
		a := e.(*sqlparser.AliasedExpr)
		name := a.As
		if c, ok := a.Expr.(*sqlparser.ColName); ok && name.IsEmpty() {
			a.InputExpression = c.Name.String() // the column's name in the result
		}
		if a.Expr = g.split(a.Expr, name); !name.IsEmpty() {
			g.aliases[name.Lowered()] = a.Expr
		}
	}
	for _, o := range s.OrderBy {
		if c, ok := o.Expr.(*sqlparser.ColName); ok && c.Qualifier.IsEmpty() && g.aliases[c.Name.Lowered()] != nil {
			continue // the name of a column of the result
		}
		o.Expr = g.split(g.withoutAliases(o.Expr), sqlparser.ColIdent{})
	}
	for _, w := range s.Window {
		g.splitWindow(w)
	}
	inner := &sqlparser.Select{
		Comments: s.Comments, SelectExprs: g.columns, From: s.From, Where: s.Where, GroupBy: s.GroupBy, Having: s.Having,
	}
	s.From = sqlparser.TableExprs{&sqlparser.AliasedTableExpr{
		Expr: &sqlparser.Subquery{Select: inner}, As: sqlparser.NewTableIdent(groupsName),
		Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE},
	}}
	s.Where, s.GroupBy, s.Having = nil, nil, nil
}

// grouped collects the columns of the derived table.
type grouped struct {
	columns sqlparser.SelectExprs
	aliases map[string]sqlparser.Expr   // what the query's columns are in the end, by name in lower case
	outer   map[*sqlparser.ColName]bool // names of them in ORDER BY
}

// needed reports whether a query has both groups and window functions and can be split.
func (g *grouped) needed(s *sqlparser.Select) bool {
	windows, aggregates := false, len(s.GroupBy) > 0
	for _, e := range s.SelectExprs {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return false
		}
		windows = windows || hasCall(a.Expr, isWindow)
		aggregates = aggregates || hasCall(a.Expr, isGroup)
	}
	for _, o := range s.OrderBy {
		windows = windows || hasCall(o.Expr, isWindow)
		aggregates = aggregates || hasCall(o.Expr, isGroup)
	}
	return windows && aggregates
}

// numberedKey returns the expression of the column that a key names by its number.
func numberedKey(s *sqlparser.Select, key sqlparser.Expr) sqlparser.Expr {
	if _, ok := key.(*sqlparser.SQLVal); ok {
		return selectedKey(s, key)
	}
	return key
}

func isWindow(e sqlparser.Expr) bool {
	f, ok := e.(*sqlparser.FuncExpr)
	return ok && f.Over != nil
}

// isGroup reports whether an expression is an aggregate of a group.
func isGroup(e sqlparser.Expr) bool {
	switch f := e.(type) {
	case *sqlparser.FuncExpr:
		return f.Over == nil && (isAggregate(f) || f.Name.EqualString(groupingName))
	case *sqlparser.GroupConcatExpr:
		return true
	}
	return false
}

// hasCall reports whether an expression is one that is told or has one inside, outside of subqueries.
func hasCall(e sqlparser.Expr, is func(sqlparser.Expr) bool) bool {
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if _, ok := n.(*sqlparser.Subquery); ok {
			return false, nil
		}
		if e, ok := n.(sqlparser.Expr); ok && is(e) {
			found = true
		}
		return !found, nil
	}, e)
	return found
}

// split makes a column of the derived table of each part of an expression without window functions, called name if it is the whole
// of it, and returns what stands in its place.
func (g *grouped) split(e sqlparser.Expr, name sqlparser.ColIdent) sqlparser.Expr {
	switch n := e.(type) {
	case sqlparser.ValTuple:
		for i := range n {
			n[i] = g.split(n[i], sqlparser.ColIdent{})
		}
		return e
	case *sqlparser.IntervalExpr: // no value by itself
		n.Expr = g.split(n.Expr, sqlparser.ColIdent{})
		return e
	case *sqlparser.ColName:
		if g.isOuter(n) {
			return e
		}
	}
	if e == nil || isLiteral(e) {
		return e
	}
	if hasCall(e, func(e sqlparser.Expr) bool {
		c, ok := e.(*sqlparser.ColName)
		return isWindow(e) || ok && g.isOuter(c)
	}) {
		switch n := e.(type) {
		case *sqlparser.FuncExpr:
			g.splitWindow((*sqlparser.WindowDef)(n.Over))
			for _, arg := range n.Exprs {
				if a, ok := arg.(*sqlparser.AliasedExpr); ok {
					a.Expr = g.split(a.Expr, sqlparser.ColIdent{})
				}
			}
			return e
		case *sqlparser.ComparisonExpr: // lists are operands that are not replaced
			n.Left, n.Right = g.split(n.Left, sqlparser.ColIdent{}), g.split(n.Right, sqlparser.ColIdent{})
			return e
		}
		rewriteOperands(e, func(o sqlparser.Expr) sqlparser.Expr { return g.split(o, sqlparser.ColIdent{}) })
		return e
	}
	if name.IsEmpty() || g.has(name) {
		name = sqlparser.NewColIdent("lancesql " + strconv.Itoa(len(g.columns)+1))
	}
	g.columns = append(g.columns, &sqlparser.AliasedExpr{Expr: e, As: name})
	return &sqlparser.ColName{Name: name, Qualifier: sqlparser.TableName{Name: sqlparser.NewTableIdent(groupsName)}}
}

// isOuter reports whether a column is one of the derived table or of the result.
func (g *grouped) isOuter(c *sqlparser.ColName) bool {
	return c.Qualifier.Name.String() == groupsName || g.outer[c]
}

func (g *grouped) has(name sqlparser.ColIdent) bool {
	for _, c := range g.columns {
		if c.(*sqlparser.AliasedExpr).As.Equal(name) {
			return true
		}
	}
	return false
}

func (g *grouped) splitWindow(w *sqlparser.WindowDef) {
	if w == nil {
		return
	}
	for i := range w.PartitionBy {
		w.PartitionBy[i] = g.split(w.PartitionBy[i], sqlparser.ColIdent{})
	}
	for _, o := range w.OrderBy {
		o.Expr = g.split(o.Expr, sqlparser.ColIdent{})
	}
}

// withoutAliases puts the columns of the result in place of their names in an expression of ORDER BY, but for those with window
// functions, which are there once only.
func (g *grouped) withoutAliases(e sqlparser.Expr) sqlparser.Expr {
	if c, ok := e.(*sqlparser.ColName); ok && c.Qualifier.IsEmpty() {
		is := g.aliases[c.Name.Lowered()]
		switch {
		case is == nil:
			return e
		case hasCall(is, isWindow):
			g.outer[c] = true
			return e
		}
		return is
	}
	if isGroup(e) { // its argument is of the tables
		return e
	}
	rewriteOperands(e, g.withoutAliases)
	return e
}
