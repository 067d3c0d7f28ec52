package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// checkTree refuses statements that the frontend takes though MySQL does not.
func checkTree(ctx *sql.Context, stmt sqlparser.Statement) error {
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		if err := checkDefinition(s); err != nil {
			return err
		}
		return checkExpressions(ctx, s)
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			if err := checkExpressions(ctx, d); err != nil {
				return err
			}
		}
		return nil
	case *sqlparser.Select, *sqlparser.SetOp, *sqlparser.ParenSelect, *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete:
		if !sql.LoadSqlMode(ctx).ModeEnabled(sql.OnlyFullGroupBy) {
			return nil
		}
		return sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			if q, ok := n.(*sqlparser.Select); ok {
				return true, checkDistinctOrder(q)
			}
			return true, nil
		}, s)
	}
	return nil
}

// returningIn is the RETURNING clause of an INSERT or REPLACE, or of one inside a definition; empty if there is none. It is MariaDB's: the
// frontend's grammar knows it, MySQL's does not.
func returningIn(stmt sqlparser.SQLNode) (clause string) {
	switch s := stmt.(type) {
	case *sqlparser.Insert:
		if s.Returning != nil {
			return "RETURNING " + sqlparser.String(s.Returning)
		}
	case *sqlparser.Explain:
		return returningIn(s.Statement)
	case *sqlparser.DDL:
		for _, body := range bodies(s) {
			_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
				if insert, ok := n.(*sqlparser.Insert); ok && clause == "" {
					clause = returningIn(insert)
				}
				return clause == "", nil
			}, body)
		}
	}
	return clause
}

// primaryColumn is sqlparser's option of a column that is the primary key, which it does not export.
const primaryColumn sqlparser.ColumnKeyOption = 1

// checkDefinition refuses a table with two primary keys (1068).
func checkDefinition(d *sqlparser.DDL) error {
	if d.TableSpec == nil || !strings.EqualFold(d.Action, sqlparser.CreateStr) {
		return nil
	}
	keys := 0
	for _, c := range d.TableSpec.Columns {
		if c.Type.KeyOpt == primaryColumn {
			keys++
		}
	}
	for _, x := range d.TableSpec.Indexes {
		if x.Info != nil && x.Info.Primary {
			keys++
		}
	}
	if keys > 1 {
		return newError(1068, "Multiple primary key defined")
	}
	return nil
}

// checkExpressions refuses stored functions in defaults (3770) and generated columns (3763), where variables (3764), aggregates (1111) and
// functions that give another value each time have no place either; the frontend refuses them in checks.
func checkExpressions(ctx *sql.Context, d *sqlparser.DDL) error {
	c := connOf(ctx)
	if d.TableSpec == nil || c == nil || c.provider == nil {
		return nil
	}
	for _, col := range d.TableSpec.Columns {
		if f := c.storedIn(ctx, col.Type.Default); f != "" {
			return newError(3770, "Default value expression of column '%s' contains a disallowed function: `%s`.", col.Name.String(), f)
		}
		if f := c.storedIn(ctx, col.Type.GeneratedExpr); f != "" {
			return newError(3763, "Expression of generated column '%s' contains a disallowed function: `%s`.", col.Name.String(), f)
		}
		if err := checkGenerated(col.Name.String(), col.Type.GeneratedExpr); err != nil {
			return err
		}
	}
	return nil
}

// checkGenerated refuses what the expression of a generated column must not have.
func checkGenerated(column string, e sqlparser.Expr) error {
	if e == nil {
		return nil
	}
	return sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.ColName:
			if strings.HasPrefix(n.Name.String(), "@") {
				return false, newError(3764, "Expression of generated column '%s' cannot refer user or system variables.", column)
			}
		case *sqlparser.FuncExpr:
			name := n.Name.Lowered()
			switch {
			case n.IsAggregate() && n.Over == nil:
				return false, newError(1111, "Invalid use of group function")
			case varies(name, len(n.Exprs)):
				return false, newError(3763, "Expression of generated column '%s' contains a disallowed function: %s.", column, name)
			}
		}
		return true, nil
	}, e)
}

// varies reports whether a function may give another value each time, or depends on the session.
func varies(name string, operands int) bool {
	switch name {
	case "benchmark", "connection_id", "curdate", "current_date", "curtime", "current_time", "current_timestamp", "now", "localtime", "localtimestamp",
		"sysdate", "utc_date", "utc_time", "utc_timestamp", "current_user", "user", "session_user", "system_user", "current_role", "database", "schema",
		"found_rows", "row_count", "last_insert_id", "get_lock", "is_free_lock", "is_used_lock", "release_lock", "release_all_locks", "load_file",
		"name_const", "rand", "random_bytes", "sleep", "uuid", "uuid_short", "version", "roles_graphml", "icu_version":
		return true
	case "unix_timestamp":
		return operands == 0
	}
	return false
}

// storedIn is the name of a stored function that an expression calls; empty if there is none.
func (c *Conn) storedIn(ctx *sql.Context, e sqlparser.Expr) (name string) {
	if e == nil {
		return ""
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if f, ok := n.(*sqlparser.FuncExpr); ok {
			if _, stored := c.provider.stored(ctx, f.Qualifier.String(), f.Name.Lowered()); stored {
				name = f.Name.String()
			}
		}
		return name == "", nil
	}, e)
	return name
}

// checkDistinctOrder refuses SELECT DISTINCT that is ordered by columns it does not select (3065): which row of equal ones
// decides would be open. Names of other query blocks are left alone.
func checkDistinctOrder(q *sqlparser.Select) error {
	if !q.QueryOpts.Distinct || len(q.OrderBy) == 0 || len(q.GroupBy) > 0 {
		return nil
	}
	selected, texts := map[string]bool{}, map[string]bool{}
	for _, e := range q.SelectExprs {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return nil // *
		}
		if c, ok := a.Expr.(*sqlparser.ColName); ok {
			selected[c.Name.Lowered()] = true
		}
		if !a.As.IsEmpty() {
			selected[a.As.Lowered()] = true
		}
		texts[comparedText(a.Expr)] = true
	}
	tables := map[string]bool{}
	for _, t := range namesIn(q.From, nil) {
		tables[t] = true
	}
	for i, o := range q.OrderBy {
		if texts[comparedText(o.Expr)] {
			continue
		}
		missing := ""
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			switch n := n.(type) {
			case *sqlparser.Subquery:
				return false, nil
			case *sqlparser.FuncExpr:
				return !n.IsAggregate(), nil
			case *sqlparser.ColName:
				own := n.Qualifier.IsEmpty() || tables[foldName(n.Qualifier.Name.String())]
				if own && !selected[n.Name.Lowered()] {
					missing = sqlparser.String(n)
				}
			}
			return missing == "", nil
		}, o.Expr)
		if missing != "" {
			return newError(3065, "Expression #%d of ORDER BY clause is not in SELECT list, references column '%s' which is not in SELECT list; this is incompatible with DISTINCT", i+1, missing)
		}
	}
	return nil
}

// comparedText is the text of an expression by which it is recognised. Parameters are all the same.
func comparedText(e sqlparser.Expr) string {
	b := sqlparser.NewTrackedBuffer(func(b *sqlparser.TrackedBuffer, n sqlparser.SQLNode) {
		if v, ok := n.(*sqlparser.SQLVal); ok && v.Type == sqlparser.ValArg {
			b.Myprintf("?")
			return
		}
		n.Format(b)
	})
	b.Myprintf("%v", e)
	return strings.ToLower(b.String())
}
