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

// selectedColumns is the number of columns of a query; negative if it selects all of some table.
func selectedColumns(query sqlparser.SelectStatement) int {
	s, ok := query.(*sqlparser.Select)
	if !ok {
		return -1
	}
	for _, e := range s.SelectExprs {
		if _, ok := e.(*sqlparser.AliasedExpr); !ok {
			return -1
		}
	}
	return len(s.SelectExprs)
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
			case *sqlparser.Subquery:
				return false, nil // has tables of its own
			}
			return true, nil
		}, a.Expr)
	}
	return asks && !others
}

// columnsAtParse returns the columns of a table while a statement is parsed, before its metadata locks are held; nil if there is none.
func columnsAtParse(ctx context.Context, name sqlparser.TableName) sqlparser.Columns {
	sctx, ok := ctx.(*sql.Context)
	if !ok {
		return nil
	}
	c := connOf(sctx)
	if c == nil {
		return nil
	}
	db := c.provider.catalog(sctx).Database(databaseOf(sctx, name))
	if db == nil {
		return nil
	}
	entry := db.Table(name.Name.String())
	if entry == nil {
		return nil
	}
	info, err := c.provider.info(sctx, entry)
	if err != nil {
		return nil
	}
	var columns sqlparser.Columns
	for _, col := range newTable(c.provider, info).Schema(sctx) {
		if !col.HiddenSystem {
			columns = append(columns, sqlparser.NewColIdent(col.Name))
		}
	}
	return columns
}
