package sqlbackend

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// What rewriteOperators put into calls and markers becomes expressions here, in the syntax tree.

// replacedOperator returns what stands for a comparison, a unary operator, an OR or a call; e itself if nothing is to be
// done.
func replacedOperator(e sqlparser.Expr) sqlparser.Expr {
	switch n := e.(type) {
	case *sqlparser.UnaryExpr:
		if n.Operator == sqlparser.TildaStr {
			return call(bitNotName, n.Expr)
		}
	case *sqlparser.OrExpr:
		if name, value, ok := assignmentOf(n); ok {
			return call(assignName, name, value)
		}
	case *sqlparser.FuncExpr:
		if p := replacedPlace(n); p != nil {
			return p
		}
		if kind := n.Name.Lowered(); kind == cumeDistName || kind == nthValueName {
			args := sqlparser.SelectExprs{&sqlparser.AliasedExpr{Expr: sqlparser.NewStrVal([]byte(kind))}}
			return &sqlparser.FuncExpr{Name: sqlparser.NewColIdent(carrierName), Exprs: append(args, n.Exprs...), Over: n.Over}
		}
		if n.Name.EqualString("json_value") && len(n.Exprs) == 3 { // the frontend's own form, which trusts that it names a type
			if _, null := argument(n, 2).(*sqlparser.NullVal); null {
				return call("json_value", argument(n, 0), argument(n, 1), argument(n, 2), argument(n, 2)) // too many
			}
		}
	case *sqlparser.ComparisonExpr:
		if n.Operator == sqlparser.LikeStr {
			return replacedLike(n)
		}
		return quantified(n)
	}
	return e
}

// replacedLike makes MEMBER OF and SOUNDS LIKE of the LIKE that stands for them.
func replacedLike(n *sqlparser.ComparisonExpr) sqlparser.Expr {
	if f := callOf(n.Right, memberName); f != nil && len(f.Exprs) == 1 {
		return call(memberName, n.Left, argument(f, 0))
	}
	right := n.Right
	mark, at := leftmost(right)
	if callOf(mark, soundsName) == nil || at == nil || at.Operator != sqlparser.BitXorStr {
		return n
	}
	if at == right {
		right = at.Right
	} else {
		sqlparser.ReplaceExpr(right, at, at.Right)
	}
	return &sqlparser.ComparisonExpr{Operator: sqlparser.EqualStr, Left: call("soundex", n.Left), Right: call("soundex", right)}
}

// leftmost returns the operand that stands first in a tree of binary operators, and its operator.
func leftmost(e sqlparser.Expr) (first sqlparser.Expr, at *sqlparser.BinaryExpr) {
	for {
		b, ok := e.(*sqlparser.BinaryExpr)
		if !ok {
			return e, at
		}
		at, e = b, b.Left
	}
}

// quantified makes a comparison with ANY, SOME or ALL of a subquery. = ANY and <> ALL are IN and NOT IN, which the frontend
// can make joins of.
func quantified(n *sqlparser.ComparisonExpr) sqlparser.Expr {
	f, all := callOf(n.Right, anyName), false
	if f == nil {
		f, all = callOf(n.Right, allName), true
	}
	if f == nil || len(f.Exprs) != 1 {
		return n
	}
	q := argument(f, 0)
	for {
		p, ok := q.(*sqlparser.ParenExpr)
		if !ok {
			break
		}
		q = p.Expr
	}
	sub, ok := q.(*sqlparser.Subquery)
	if !ok {
		return n
	}
	switch {
	case n.Operator == sqlparser.EqualStr && !all:
		return &sqlparser.ComparisonExpr{Operator: sqlparser.InStr, Left: n.Left, Right: sub}
	case n.Operator == sqlparser.NotEqualStr && all:
		return &sqlparser.ComparisonExpr{Operator: sqlparser.NotInStr, Left: n.Left, Right: sub}
	}
	name := anyName
	if all {
		name = allName
	}
	return call(name, sqlparser.NewStrVal([]byte(n.Operator)), n.Left, sub)
}

// assignmentOf reads name := value from the OR that stands for it.
func assignmentOf(n *sqlparser.OrExpr) (name, value sqlparser.Expr, ok bool) {
	rest := []sqlparser.Expr{n.Right}
	first := n.Left
	for {
		or, is := first.(*sqlparser.OrExpr)
		if !is {
			break
		}
		rest = append(rest, or.Right)
		first = or.Left
	}
	f := callOf(first, assignName)
	if f == nil || len(f.Exprs) != 1 {
		return nil, nil, false
	}
	value = rest[len(rest)-1]
	for i := len(rest) - 2; i >= 0; i-- {
		value = &sqlparser.OrExpr{Left: value, Right: rest[i]}
	}
	return argument(f, 0), value, true
}

// callOf returns e if it is a call of that function, else nil.
func callOf(e sqlparser.Expr, name string) *sqlparser.FuncExpr {
	if f, ok := e.(*sqlparser.FuncExpr); ok && f.Name.EqualString(name) {
		return f
	}
	return nil
}

// argument returns an argument of a call, nil if it is none.
func argument(f *sqlparser.FuncExpr, i int) sqlparser.Expr {
	if i < len(f.Exprs) {
		if a, ok := f.Exprs[i].(*sqlparser.AliasedExpr); ok {
			return a.Expr
		}
	}
	return nil
}

// assignsOnce looks at the user variables that a query assigns. Those of derived tables without tables of their own, with
// which a query begins its counters, are assigned once, however often a join looks at them. Where the order of rows or
// their number is not that of the result, an assignment means nothing: such queries are refused.
func assignsOnce(s *sqlparser.Select) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if sub, ok := n.(*sqlparser.Subquery); ok {
			if q, ok := sub.Select.(*sqlparser.Select); ok && withoutTables(q) {
				replaceAssignments(q.SelectExprs, "once")
			}
			return false, nil
		}
		return true, nil
	}, s.From)
	assigned := replaceable(s.SelectExprs)
	if len(assigned) == 0 {
		return
	}
	refuse := len(s.GroupBy) > 0 || s.Having != nil || s.QueryOpts.Distinct || aggregates(s.SelectExprs)
	for _, o := range s.OrderBy {
		switch by := o.Expr.(type) {
		case *sqlparser.SQLVal:
			refuse = true
		case *sqlparser.ColName:
			for _, a := range assigned {
				refuse = refuse || by.Qualifier.IsEmpty() && !a.As.IsEmpty() && by.Name.Equal(a.As)
			}
		case *sqlparser.OrExpr:
			_, _, is := assignmentOf(by)
			refuse = refuse || is
		}
	}
	if refuse {
		replaceAssignments(s.SelectExprs, "grouped")
	}
}

// orderByPosition makes ORDER BY alias, in a query with HAVING, ORDER BY the alias's position: the frontend takes the alias of
// an expression for a column that is not grouped by.
func orderByPosition(s *sqlparser.Select) {
	if len(s.GroupBy) == 0 || s.Having == nil {
		return
	}
	for _, o := range s.OrderBy {
		c, ok := o.Expr.(*sqlparser.ColName)
		if !ok || !c.Qualifier.IsEmpty() {
			continue
		}
		for i, e := range s.SelectExprs {
			a, ok := e.(*sqlparser.AliasedExpr)
			if !ok {
				break // the columns of a star count as well
			}
			if _, column := a.Expr.(*sqlparser.ColName); !column && a.As.Equal(c.Name) {
				o.Expr = intLiteral(i + 1)
				break
			}
		}
	}
}

// withoutTables reports whether a query reads no table.
func withoutTables(s *sqlparser.Select) bool {
	for _, t := range s.From {
		a, ok := t.(*sqlparser.AliasedTableExpr)
		if !ok {
			return false
		}
		if name, ok := a.Expr.(sqlparser.TableName); !ok || !strings.EqualFold(name.Name.String(), "dual") {
			return false
		}
	}
	return true
}

// replaceable returns the columns of a select list that assign user variables.
func replaceable(list sqlparser.SelectExprs) []*sqlparser.AliasedExpr {
	var found []*sqlparser.AliasedExpr
	for _, e := range list {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			continue
		}
		is := false
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			if or, ok := n.(*sqlparser.OrExpr); ok {
				_, _, assigns := assignmentOf(or)
				is = is || assigns
			}
			_, sub := n.(*sqlparser.Subquery)
			return !sub && !is, nil
		}, a.Expr)
		if is {
			found = append(found, a)
		}
	}
	return found
}

// aggregates reports whether a select list has aggregates or window functions.
func aggregates(list sqlparser.SelectExprs) bool {
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.Subquery:
			return false, nil
		case *sqlparser.FuncExpr:
			found = found || isAggregate(n)
		case *sqlparser.GroupConcatExpr:
			found = true
		}
		return !found, nil
	}, list)
	return found
}

// replaceAssignments replaces the assignments of a select list by calls of that kind.
func replaceAssignments(list sqlparser.SelectExprs, kind string) {
	rewriteExpressions(list, func(e sqlparser.Expr) sqlparser.Expr {
		or, ok := e.(*sqlparser.OrExpr)
		if !ok {
			return e
		}
		name, value, ok := assignmentOf(or)
		if !ok {
			return e
		}
		return call(assignName, name, value, sqlparser.NewStrVal([]byte(kind)))
	})
}

// typeVariables gives the user variables that a query reads and assigns the type of what it assigns: the frontend looks at
// the values they have before it begins. Of one that has a value and is assigned no literal, that is good enough.
func typeVariables(ctx context.Context, stmt sqlparser.SQLNode) {
	samples := map[string]sqlparser.Expr{}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		e, ok := n.(sqlparser.Expr)
		if !ok {
			return true, nil
		}
		f := callOf(e, assignName)
		if f == nil || len(f.Exprs) < 2 {
			return true, nil
		}
		name, ok := argument(f, 0).(*sqlparser.SQLVal)
		if !ok {
			return true, nil
		}
		key := strings.ToLower(string(name.Val))
		if sample, literal := sampleOf(argument(f, 1)); literal || samples[key] == nil && !hasValue(ctx, key) {
			samples[key] = sample
		}
		return true, nil
	}, stmt)
	if len(samples) == 0 {
		return
	}
	rewriteExpressions(stmt, func(e sqlparser.Expr) sqlparser.Expr {
		c, ok := e.(*sqlparser.ColName)
		if !ok || !c.Qualifier.IsEmpty() {
			return e
		}
		name, ok := strings.CutPrefix(c.Name.Lowered(), "@")
		if !ok || samples[name] == nil {
			return e
		}
		return call(variableName, sqlparser.NewStrVal([]byte(name)), samples[name])
	})
}

// sampleOf is a literal of the type that an expression has, as far as its tree says: a number or a text.
func sampleOf(e sqlparser.Expr) (sample sqlparser.Expr, literal bool) {
	switch e := e.(type) {
	case *sqlparser.SQLVal:
		return e, true
	case *sqlparser.BinaryExpr:
		return sqlparser.NewFloatVal([]byte("0.0")), false
	}
	return sqlparser.NewStrVal(nil), false
}

// hasValue reports whether a user variable has a value.
func hasValue(ctx context.Context, name string) bool {
	sctx, ok := ctx.(*sql.Context)
	if !ok || sctx.Session == nil {
		return false
	}
	t, _, err := sctx.GetUserVariable(sctx, name)
	return err == nil && t != nil
}

// binaryLike makes both sides of LIKE bytes where its pattern is. The frontend compares as the left side does.
func binaryLike(n *sqlparser.ComparisonExpr) {
	if (n.Operator == sqlparser.LikeStr || n.Operator == sqlparser.NotLikeStr) && makesBytes(n.Right) && !makesBytes(n.Left) {
		n.Left = &sqlparser.UnaryExpr{Operator: sqlparser.BinaryStr, Expr: n.Left}
	}
}

// makesBytes reports whether an expression is BINARY x or CAST(x AS BINARY).
func makesBytes(e sqlparser.Expr) bool {
	switch e := e.(type) {
	case *sqlparser.ParenExpr:
		return makesBytes(e.Expr)
	case *sqlparser.UnaryExpr:
		return e.Operator == sqlparser.BinaryStr
	case *sqlparser.ConvertExpr:
		return e.Type != nil && strings.EqualFold(e.Type.Type, "binary")
	}
	return false
}
