package sqlbackend

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// nameInserted makes VALUES(c) known in INSERT … SELECT … ON DUPLICATE KEY UPDATE: the frontend looks for it among the columns of the
// query, by the name of a table that only VALUES lists have. So the query becomes a derived table of that name, with the names of
// the columns it is inserted into. Statements that name tables of the query beside VALUES() stay as they are.
func nameInserted(ctx context.Context, s *sqlparser.Insert) {
	query, ok := s.Rows.(sqlparser.SelectStatement)
	if !ok || !asksInserted(s) {
		return
	}
	columns := s.Columns
	if len(columns) == 0 {
		columns = columnsAtParse(ctx, s.Table)
	}
	if len(columns) == 0 {
		return // the frontend says what is wrong
	}
	query, ok = named(ctx, query)
	if !ok || s.With != nil {
		return
	}
	if n := selectedColumns(query); n >= 0 && n != len(columns) {
		s.OnDup = nil // the frontend refuses the statement, with another error for derived tables (1136)
		return
	}
	s.Rows = &sqlparser.Select{
		SelectExprs: sqlparser.SelectExprs{&sqlparser.StarExpr{}},
		From: sqlparser.TableExprs{&sqlparser.AliasedTableExpr{
			Expr: &sqlparser.Subquery{Select: query, Columns: columns},
			As:   sqlparser.NewTableIdent(planbuilder.OnDupValuesPrefix),
			Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE},
		}},
	}
}

// named is a query without `*`, for which the frontend forgets the names that a derived table gives its columns; false if it is not
// known what stands behind one.
func named(ctx context.Context, query sqlparser.SelectStatement) (sqlparser.SelectStatement, bool) {
	switch q := query.(type) {
	case *sqlparser.ParenSelect:
		return named(ctx, q.Select)
	case *sqlparser.SetOp:
		left, ok := named(ctx, q.Left)
		if !ok {
			return query, false
		}
		out := *q
		out.Left = left
		return &out, true
	case *sqlparser.Select:
		var exprs sqlparser.SelectExprs
		for _, e := range q.SelectExprs {
			star, ok := e.(*sqlparser.StarExpr)
			if !ok {
				exprs = append(exprs, e)
				continue
			}
			columns, ok := starColumns(ctx, q.From, star.TableName)
			if !ok || q.With != nil { // which may hide a table
				return query, false
			}
			exprs = append(exprs, columns...)
		}
		out := *q
		out.SelectExprs = exprs
		return &out, true
	}
	return query, false
}

// starColumns are the columns behind `*`, or `t.*`; false if one of the tables is not one of the catalog, or a join merges columns.
func starColumns(ctx context.Context, from sqlparser.TableExprs, of sqlparser.TableName) (sqlparser.SelectExprs, bool) {
	var out sqlparser.SelectExprs
	for _, t := range from {
		switch t := t.(type) {
		case *sqlparser.AliasedTableExpr:
			table, ok := t.Expr.(sqlparser.TableName)
			if !ok {
				return nil, false
			}
			as := sqlparser.TableName{Name: t.As}
			if t.As.IsEmpty() {
				as = table
			}
			if !of.IsEmpty() && !strings.EqualFold(of.Name.String(), as.Name.String()) {
				continue
			}
			columns := columnsAtParse(ctx, table)
			if columns == nil {
				return nil, false
			}
			for _, c := range columns {
				out = append(out, &sqlparser.AliasedExpr{Expr: &sqlparser.ColName{Name: c, Qualifier: as}})
			}
		case *sqlparser.JoinTableExpr:
			if len(t.Condition.Using) > 0 || strings.Contains(strings.ToLower(t.Join), "natural") {
				return nil, false
			}
			columns, ok := starColumns(ctx, sqlparser.TableExprs{t.LeftExpr, t.RightExpr}, of)
			if !ok {
				return nil, false
			}
			out = append(out, columns...)
		case *sqlparser.ParenTableExpr:
			columns, ok := starColumns(ctx, t.Exprs, of)
			if !ok {
				return nil, false
			}
			out = append(out, columns...)
		default:
			return nil, false
		}
	}
	return out, len(out) > 0 || !of.IsEmpty()
}

// selectedColumns is the number of columns of a query without `*`; negative for one of several.
func selectedColumns(query sqlparser.SelectStatement) int {
	if s, ok := query.(*sqlparser.Select); ok {
		return len(s.SelectExprs)
	}
	return -1
}

// asksInserted reports whether the assignments have VALUES(), and no column of another table than the one that is inserted into.
func asksInserted(s *sqlparser.Insert) bool {
	asks, others := false, false
	for _, a := range s.OnDup {
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			switch n := n.(type) {
			case *sqlparser.ValuesFuncExpr:
				asks = true
				return false, nil
			case *sqlparser.ColName:
				table := n.Qualifier.Name.String()
				others = others || table != "" && !strings.EqualFold(table, s.Table.Name.String())
			case *sqlparser.Subquery: // has tables of its own
				asks = asks || valuesInside(n)
				return false, nil
			}
			return true, nil
		}, a.Expr)
	}
	return asks && !others
}

// valuesInside reports whether a sub-query has VALUES(c).
func valuesInside(sub *sqlparser.Subquery) bool {
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		_, values := n.(*sqlparser.ValuesFuncExpr)
		found = found || values
		return !found, nil
	}, sub)
	return found
}

// columnsAtParse returns the columns of a table while a statement is parsed, before its metadata locks are held; nil if there is none.
func columnsAtParse(ctx context.Context, name sqlparser.TableName) sqlparser.Columns {
	info := tableAtParse(ctx, name)
	if info == nil {
		return nil
	}
	var columns sqlparser.Columns
	for i, c := range info.schema.Schema {
		if !c.HiddenSystem && (i >= len(info.shape.Columns) || !info.shape.Columns[i].Hidden) {
			columns = append(columns, sqlparser.NewColIdent(c.Name))
		}
	}
	return columns
}

// tableAtParse returns a table while a statement is parsed, before its metadata locks are held; nil if there is none.
func tableAtParse(ctx context.Context, name sqlparser.TableName) *tableInfo {
	sctx, ok := ctx.(*sql.Context)
	if !ok {
		return nil
	}
	c := connOf(sctx)
	if c == nil {
		return nil
	}
	provider, database, table := c.provider, databaseOf(sctx, name), name.Name.String()
	entry := c.temporary(sctx, database, table)
	if entry != nil {
		provider = c.temps.provider
	} else if db := provider.catalog(sctx).Database(database); db != nil {
		entry = db.Table(table)
	}
	if entry == nil {
		return nil
	}
	info, err := provider.info(sctx, entry)
	if err != nil {
		return nil
	}
	return info
}

// groupsValues reports whether an INSERT … VALUES has an aggregate, which the frontend's builder does not survive.
func groupsValues(s *sqlparser.Insert) (found bool) {
	switch s.Rows.(type) {
	case sqlparser.Values, sqlparser.AliasedValues, *sqlparser.AliasedValues:
	default:
		return false
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.Subquery:
			return false, nil
		case *sqlparser.FuncExpr:
			found = found || n.IsAggregate()
		}
		return !found, nil
	}, s.Rows)
	return found
}

// refused is a statement that ends with an error.
func refused(err error) sqlparser.Statement {
	n := &serverStatement{name: "refused"}
	n.run = func(*sql.Context, *Conn) ([]sql.Row, error) { return nil, err }
	return n.inject(anybody())
}
