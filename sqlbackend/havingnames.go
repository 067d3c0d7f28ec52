package sqlbackend

import (
	"context"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// selectHaving gives the aggregates in HAVING names of their own where the frontend would look for their columns in the wrong table: it
// looks for them by name alone, and takes the first table that has one. `SELECT a … HAVING MAX(t.x) > 1` becomes
// `SELECT a FROM (SELECT a, MAX(t.x) AS h … HAVING h > 1)`.
func selectHaving(ctx context.Context, stmt sqlparser.Statement) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if q, ok := n.(*sqlparser.Select); ok && q.Having != nil && mistakesHaving(ctx, q) {
			nameHaving(q)
		}
		return true, nil
	}, stmt)
}

// fromNames are the tables of a FROM clause in order: the names they have there, and their own, which derived tables have not.
func fromNames(from sqlparser.TableExprs) (names []string, tables []sqlparser.TableName) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.Subquery:
			return false, nil
		case *sqlparser.AliasedTableExpr:
			table, _ := n.Expr.(sqlparser.TableName)
			name := n.As.String()
			if name == "" {
				name = table.Name.String()
			}
			names, tables = append(names, name), append(tables, table)
			return false, nil
		}
		return true, nil
	}, from)
	return names, tables
}

// mistakesHaving reports whether an aggregate in HAVING has a column of a table behind another one that has such a column too.
func mistakesHaving(ctx context.Context, q *sqlparser.Select) bool {
	names, tables := fromNames(q.From)
	if len(names) < 2 {
		return false
	}
	mistaken := false
	check := func(c *sqlparser.ColName) {
		for i, name := range names {
			if strings.EqualFold(name, c.Qualifier.Name.String()) {
				return
			}
			if hasColumn(ctx, tables[i], c.Name.Lowered()) {
				mistaken = true
			}
		}
	}
	for _, f := range havingAggregates(q.Having) {
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			if c, ok := n.(*sqlparser.ColName); ok && !c.Qualifier.IsEmpty() {
				check(c)
			}
			return true, nil
		}, f.Exprs)
	}
	return mistaken
}

// havingAggregates are the aggregates of a HAVING clause, without those of its sub-queries.
func havingAggregates(having *sqlparser.Where) (aggregates []*sqlparser.FuncExpr) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.Subquery:
			return false, nil
		case *sqlparser.FuncExpr:
			if n.IsAggregate() {
				aggregates = append(aggregates, n)
				return false, nil
			}
		}
		return true, nil
	}, having.Expr)
	return aggregates
}

// hasColumn reports whether a table has a column; true if that is not known.
func hasColumn(ctx context.Context, table sqlparser.TableName, column string) bool {
	if table.IsEmpty() {
		return true
	}
	columns := columnsAtParse(ctx, table)
	for _, c := range columns {
		if c.Lowered() == column {
			return true
		}
	}
	return columns == nil
}

// nameHaving changes the query. One with `*`, or that puts its rows elsewhere, stays as it is.
func nameHaving(q *sqlparser.Select) {
	if q.Into != nil || q.QueryOpts.SQLCalcFoundRows || locks(q.Lock) {
		return
	}
	var outer, inner sqlparser.SelectExprs
	for i, e := range q.SelectExprs {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return
		}
		shown := a.As
		if c, column := a.Expr.(*sqlparser.ColName); shown.IsEmpty() && column {
			shown = c.Name
		} else if shown.IsEmpty() {
			shown = sqlparser.NewColIdent(a.InputExpression)
		}
		if shown.IsEmpty() {
			return
		}
		// Why its own name: ORDER BY and HAVING may refer to it. Equal ones get others, to which nothing can refer.
		name := shown
		for _, before := range inner {
			if before.(*sqlparser.AliasedExpr).As.EqualString(shown.String()) {
				name = sqlparser.NewColIdent("lancesql column " + strconv.Itoa(i))
			}
		}
		own := *a
		own.As = name
		inner = append(inner, &own)
		outer = append(outer, &sqlparser.AliasedExpr{Expr: &sqlparser.ColName{Name: name}, As: shown})
	}
	named := map[string]sqlparser.ColIdent{}
	for _, e := range inner {
		if a := e.(*sqlparser.AliasedExpr); !strings.HasPrefix(a.As.String(), "lancesql column") {
			named[sqlparser.String(a.Expr)] = a.As // the frontend would not evaluate it twice
		}
	}
	for _, f := range havingAggregates(q.Having) {
		text := sqlparser.String(f)
		name, ok := named[text]
		if !ok {
			name = sqlparser.NewColIdent("lancesql aggregate " + strconv.Itoa(len(named)))
			named[text] = name
			inner = append(inner, &sqlparser.AliasedExpr{Expr: f, As: name})
		}
		q.Having.Expr = sqlparser.ReplaceExpr(q.Having.Expr, f, &sqlparser.ColName{Name: name})
	}
	query := *q
	query.SelectExprs, query.With = inner, nil
	*q = sqlparser.Select{
		SelectExprs: outer, With: q.With,
		From: sqlparser.TableExprs{&sqlparser.AliasedTableExpr{
			Expr: &sqlparser.Subquery{Select: &query},
			As:   sqlparser.NewTableIdent("lancesql having"),
			Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE},
		}},
	}
}
