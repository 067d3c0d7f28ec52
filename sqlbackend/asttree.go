package sqlbackend

import (
	"bytes"
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// rewriteExpressions replaces expressions of a statement, from the outside in; by returns what stands for one, which is
// itself if nothing is to be done. Names of result columns stay: the syntax tree keeps the text they come from.
func rewriteExpressions(stmt sqlparser.SQLNode, by func(sqlparser.Expr) sqlparser.Expr) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.AliasedExpr:
			was, column := n.Expr.(*sqlparser.ColName)
			if n.Expr = by(n.Expr); column && n.Expr != sqlparser.Expr(was) && n.InputExpression == "" {
				n.InputExpression = was.Name.String()
			}
		case *sqlparser.Where:
			if n != nil {
				n.Expr = by(n.Expr)
			}
		case *sqlparser.Order:
			n.Expr = by(n.Expr)
		case *sqlparser.AssignmentExpr:
			n.Expr = by(n.Expr)
		case sqlparser.Exprs:
			for i := range n {
				n[i] = by(n[i])
			}
		case sqlparser.GroupBy:
			for i := range n {
				n[i] = by(n[i])
			}
		case *sqlparser.JoinTableExpr:
			if n.Condition.On != nil {
				n.Condition.On = by(n.Condition.On)
			}
		case *sqlparser.SetVarExpr:
			n.Expr = by(n.Expr)
		case *sqlparser.Select:
			windowsOverGroups(n)
			rollUp(n)
			orderByPosition(n)
			assignsOnce(n)
		case sqlparser.Expr:
			rewriteOperands(n, by)
		}
		return true, nil
	}, stmt)
}

// rewriteOperands replaces the operands of one expression.
func rewriteOperands(e sqlparser.Expr, by func(sqlparser.Expr) sqlparser.Expr) {
	var operands []sqlparser.Expr
	root := true
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		operand, ok := n.(sqlparser.Expr)
		if !ok || root {
			root = false
			return true, nil
		}
		operands = append(operands, operand)
		return false, nil
	}, e)
	for _, o := range operands {
		if _, list := o.(sqlparser.ValTuple); list {
			continue // its own operands are replaced; lists cannot be compared
		}
		if with := by(o); with != o {
			sqlparser.ReplaceExpr(e, o, with)
		}
	}
}

// finishExpressions does what is to be done with the expressions of a query, whose text it is or is in.
func finishExpressions(ctx context.Context, n sqlparser.SQLNode, text string) {
	guardLiterals(n)
	finishJoins(n)
	rewriteExpressions(n, replacedExpression)
	if strings.Contains(text, assignName) {
		typeVariables(ctx, n)
	}
	if strings.Contains(text, noteStart) || strings.Contains(text, variablePrefix) {
		restoreNames(n)
	}
}

// restoreNames gives expressions of select lists the names that the client's text gives them.
func restoreNames(n sqlparser.SQLNode) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		a, ok := n.(*sqlparser.AliasedExpr)
		if !ok {
			return true, nil
		}
		if strings.Contains(a.InputExpression, noteStart) {
			a.InputExpression = originalText(a.InputExpression)
		}
		if c, ok := a.Expr.(*sqlparser.ColName); ok && a.As.IsEmpty() {
			if name := variableText(c.Name.String()); name != "" {
				a.InputExpression = name
			}
		}
		return true, nil
	}, n)
}

// castTimeName is the function that stands for CAST(x AS TIME(n)).
const castTimeName = "lancesql cast time"

// negateName is the function that stands for -x.
const negateName = "lancesql negate"

// sameName is the function that stands for x <=> y where neither is a literal. Why: a join that looks such rows up takes = for <=>,
// or finds no NULL; the planner does not look into functions.
const sameName = "lancesql same"

// replacedExpression puts functions into a query in place of expressions that the frontend's grammar ties to an
// implementation of its own: casts to TIME, date + INTERVAL, date - INTERVAL, minus of what is no literal, x <=> y.
func replacedExpression(e sqlparser.Expr) sqlparser.Expr {
	switch n := e.(type) {
	case *sqlparser.ComparisonExpr:
		if n.Operator == sqlparser.NullSafeEqualStr && !isLiteral(n.Left) && !isLiteral(n.Right) {
			return call(sameName, n.Left, n.Right)
		}
		binaryLike(n)
		return replacedOperator(e)
	case *sqlparser.MatchExpr:
		return replacedMatch(n)
	case *sqlparser.ExtractFuncExpr:
		return extractCall(n)
	case *sqlparser.UnaryExpr:
		if n.Operator != sqlparser.MinusStr {
			return replacedOperator(e)
		}
		switch n.Expr.(type) {
		case *sqlparser.SQLVal, *sqlparser.UnaryExpr:
			return e
		}
		return call(negateName, n.Expr)
	case *sqlparser.OrExpr, *sqlparser.FuncExpr:
		return replacedOperator(e)
	case *sqlparser.ConvertUsingExpr:
		if f, ok := n.Expr.(*sqlparser.FuncExpr); !ok || f.Name.String() != textName {
			return &sqlparser.ConvertUsingExpr{Expr: call(textName, n.Expr), Type: n.Type}
		}
	case *sqlparser.ConvertExpr:
		if n.Type == nil || !strings.EqualFold(n.Type.Type, "time") {
			return e
		}
		digits := n.Type.Length
		if digits == nil {
			digits = sqlparser.NewIntVal([]byte("0"))
		}
		return call(castTimeName, n.Expr, digits)
	case *sqlparser.BinaryExpr:
		date, interval := n.Left, n.Right
		if _, ok := date.(*sqlparser.IntervalExpr); ok && n.Operator == sqlparser.PlusStr {
			date, interval = interval, date
		}
		if _, ok := interval.(*sqlparser.IntervalExpr); !ok {
			return e
		}
		if _, ok := date.(*sqlparser.IntervalExpr); ok {
			return e
		}
		switch n.Operator {
		case sqlparser.PlusStr:
			return call("date_add", date, interval)
		case sqlparser.MinusStr:
			return call("date_sub", date, interval)
		}
	}
	return e
}

func isLiteral(e sqlparser.Expr) bool {
	switch e.(type) {
	case *sqlparser.SQLVal, *sqlparser.NullVal, sqlparser.BoolVal, sqlparser.ValTuple:
		return true
	}
	return false
}

func call(name string, args ...sqlparser.Expr) *sqlparser.FuncExpr {
	f := &sqlparser.FuncExpr{Name: sqlparser.NewColIdent(name)}
	for _, a := range args {
		f.Exprs = append(f.Exprs, &sqlparser.AliasedExpr{Expr: a})
	}
	return f
}

// bodies returns the statements inside a definition of a view, procedure, trigger or event. Their text is kept, not their
// tree.
func bodies(d *sqlparser.DDL) []sqlparser.SQLNode {
	var list []sqlparser.SQLNode
	if d.ViewSpec != nil && d.ViewSpec.ViewExpr != nil {
		list = append(list, d.ViewSpec.ViewExpr)
	}
	if d.ProcedureSpec != nil && d.ProcedureSpec.Body != nil {
		list = append(list, d.ProcedureSpec.Body)
	}
	if d.TriggerSpec != nil && d.TriggerSpec.Body != nil {
		list = append(list, d.TriggerSpec.Body)
	}
	if d.EventSpec != nil && d.EventSpec.Body != nil {
		list = append(list, d.EventSpec.Body)
	}
	return list
}

// isQuery reports whether a statement reads or changes rows. Others are left as they are, since the text of definitions
// is shown later.
func isQuery(stmt sqlparser.Statement) bool {
	switch stmt.(type) {
	case *sqlparser.Select, *sqlparser.SetOp, *sqlparser.ParenSelect, *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete, *sqlparser.Set,
		*sqlparser.Call:
		return true
	}
	return false
}

// escapeLike names the escape character of a LIKE whose pattern may have it. The frontend turns some patterns into
// comparisons, backslashes and all, but only without ESCAPE.
func escapeLike(c *sqlparser.ComparisonExpr) {
	if c.Operator != sqlparser.LikeStr && c.Operator != sqlparser.NotLikeStr || c.Escape != nil {
		return
	}
	if v, ok := c.Right.(*sqlparser.SQLVal); ok && v.Type == sqlparser.StrVal && !bytes.ContainsRune(v.Val, '\\') {
		return
	}
	c.Escape = sqlparser.NewStrVal([]byte(`\`))
}

// escapeShow is escapeLike for SHOW TABLES LIKE and its kin, whose pattern becomes a condition. The pattern stays for the
// name of the result's column.
func escapeShow(ctx context.Context, s *sqlparser.Show) {
	filter, column := s.Filter, ""
	switch strings.ToLower(s.Type) {
	case "tables":
		if s.ShowTablesOpt == nil {
			return
		}
		db := s.ShowTablesOpt.DbName
		if sctx, ok := ctx.(*sql.Context); ok && db == "" {
			db = sctx.GetCurrentDatabase()
		}
		filter, column = s.ShowTablesOpt.Filter, "Tables_in_"+db
	case "columns", "fields":
		if s.ShowTablesOpt == nil {
			return
		}
		filter, column = s.ShowTablesOpt.Filter, "Field"
	case "databases", "schemas":
		column = "Database"
	case "table status":
		column = "Name"
	case "status":
		column = "Variable_name"
	default:
		return
	}
	if filter != nil && filter.Filter != nil {
		guardLiterals(filter.Filter) // which a walk through the statement does not find
		return
	}
	if filter == nil || !strings.Contains(filter.Like, `\`) {
		return
	}
	like := &sqlparser.ComparisonExpr{Operator: sqlparser.LikeStr, Right: sqlparser.NewStrVal([]byte(filter.Like)),
		Left: &sqlparser.ColName{Name: sqlparser.NewColIdent(column)}}
	escapeLike(like)
	filter.Filter = like
	if column == "Field" {
		filter.Like = "" // its name is not shown, and the frontend would look for both
	}
}
