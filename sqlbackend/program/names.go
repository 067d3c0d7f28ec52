package program

import (
	"reflect"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Names in statements that are variables. They are looked for in the syntax tree wherever an expression may stand, so that columns to
// be inserted or assigned, aliases and qualified names stay what they are. As in MySQL a variable hides a column of its name.

// substitutes reports whether names in a statement can be variables. In definitions they are none but in the query of CREATE TABLE.
func substitutes(stmt sqlparser.Statement) bool {
	switch s := stmt.(type) {
	case *sqlparser.Select, *sqlparser.SetOp, *sqlparser.ParenSelect, *sqlparser.Insert, *sqlparser.Update,
		*sqlparser.Delete, *sqlparser.Set, *sqlparser.Call, *sqlparser.Show, *sqlparser.Kill:
		return true
	case *sqlparser.DDL:
		return s.OptSelect != nil
	}
	return false
}

// visitNames calls f with each name that can be one of a variable.
func visitNames(n any, f func(name string)) {
	_ = replaceNames(n, func(c *sqlparser.ColName) sqlparser.Expr {
		f(nameOf(c))
		return nil
	})
}

// nameOf is the name by which a variable is known that c may mean: in lower case, for a column of the row of a trigger as fieldName has
// it. It is empty if c can mean none.
func nameOf(c *sqlparser.ColName) string {
	if c.Qualifier.IsEmpty() {
		return c.Name.Lowered()
	}
	row := c.Qualifier.Name.String()
	if c.Qualifier.DbQualifier.IsEmpty() && (strings.EqualFold(row, "new") || strings.EqualFold(row, "old")) {
		return fieldName(strings.ToLower(row), c.Name.Lowered())
	}
	return ""
}

// replaceNames returns a tree with expressions in place of names; with returns nil for a name that stays. What changes is copied, the
// rest is shared.
func replaceNames[T any](n T, with func(*sqlparser.ColName) sqlparser.Expr) T {
	v := reflect.ValueOf(&n).Elem()
	if out, changed := (&replacer{with: with}).value(v); changed {
		return out.Interface().(T)
	}
	return n
}

type replacer struct {
	with func(*sqlparser.ColName) sqlparser.Expr
}

// value returns a copy of v with the names replaced; false, and nothing, if there are none.
func (r *replacer) value(v reflect.Value) (reflect.Value, bool) {
	switch v.Kind() {
	case reflect.Interface:
		return r.inInterface(v)
	case reflect.Pointer:
		if v.IsNil() || !ofGrammar(v.Type().Elem()) {
			return v, false
		}
		elem, changed := r.value(v.Elem())
		if !changed {
			return v, false
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(elem)
		return out, true
	case reflect.Slice:
		return r.inSlice(v)
	case reflect.Struct:
		return r.inStruct(v)
	}
	return v, false
}

// ofGrammar reports whether a type is one of syntax trees. Others may point anywhere.
func ofGrammar(t reflect.Type) bool {
	return t.PkgPath() == reflect.TypeFor[sqlparser.Select]().PkgPath()
}

func (r *replacer) inInterface(v reflect.Value) (reflect.Value, bool) {
	if v.IsNil() {
		return v, false
	}
	if c, ok := v.Interface().(*sqlparser.ColName); ok {
		if v.Type() != reflect.TypeFor[sqlparser.Expr]() || c == nil || nameOf(c) == "" {
			return v, false
		}
		e := r.with(c)
		if e == nil {
			return v, false
		}
		return reflect.ValueOf(e), true
	}
	if s, ok := v.Interface().(*sqlparser.SubstrExpr); ok && s != nil && s.Name != nil && v.Type() == reflect.TypeFor[sqlparser.Expr]() {
		return r.inSubstring(v, s)
	}
	t := v.Elem().Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !ofGrammar(t) {
		return v, false
	}
	elem, changed := r.value(v.Elem())
	if !changed {
		return v, false
	}
	return elem, true
}

// inSubstring makes SUBSTRING(name FROM n) a call as any other: its node has a place for nothing but a column.
func (r *replacer) inSubstring(v reflect.Value, s *sqlparser.SubstrExpr) (reflect.Value, bool) {
	call := &sqlparser.FuncExpr{Name: sqlparser.NewColIdent("substring")}
	for _, e := range []sqlparser.Expr{s.Name, s.From, s.To} {
		if e != nil {
			call.Exprs = append(call.Exprs, &sqlparser.AliasedExpr{Expr: e})
		}
	}
	out, changed := r.value(reflect.ValueOf(call))
	if !changed {
		return v, false
	}
	return out, true
}

func (r *replacer) inSlice(v reflect.Value) (reflect.Value, bool) {
	switch v.Type().Elem().Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Struct, reflect.Slice:
	default:
		return v, false
	}
	out := reflect.Value{}
	for i := range v.Len() {
		elem, changed := r.value(v.Index(i))
		if !changed {
			continue
		}
		if !out.IsValid() {
			out = reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(out, v)
		}
		out.Index(i).Set(elem)
	}
	return out, out.IsValid()
}

func (r *replacer) inStruct(v reflect.Value) (reflect.Value, bool) {
	t := v.Type()
	if !ofGrammar(t) {
		return v, false
	}
	out := reflect.Value{}
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		field, changed := r.value(v.Field(i))
		if !changed {
			continue
		}
		if !out.IsValid() {
			out = reflect.New(t).Elem()
			out.Set(v)
			r.keepName(v, out)
		}
		out.Field(i).Set(field)
	}
	return out, out.IsValid()
}

// keepName gives a column of a result, which was a variable, the variable's name.
func (r *replacer) keepName(v, out reflect.Value) {
	was, ok := v.Interface().(sqlparser.AliasedExpr)
	if !ok || was.InputExpression != "" {
		return
	}
	if c, ok := was.Expr.(*sqlparser.ColName); ok {
		was.InputExpression = c.Name.String()
		out.Set(reflect.ValueOf(was))
	}
}

// literal is a variable's value in a statement.
func (v *variable) literal() sqlparser.Expr {
	return injectedExpr(expression.NewLiteral(v.value, v.typ))
}

func injectedExpr(e sqlparser.Injectable) sqlparser.Expr {
	return sqlparser.InjectedExpr{Expression: e, Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE}}
}

// Local is a variable of a program as an argument of CALL, which may assign it.
type Local struct {
	*expression.Literal
	variable *variable
}

// Set assigns the variable.
func (l Local) Set(ctx *sql.Context, env *Env, value any, typ sql.Type) error {
	return l.variable.set(ctx, env, value, typ)
}

// argument is a variable as an argument of CALL.
func (v *variable) argument() sqlparser.Expr {
	return injectedExpr(injected{v})
}

type injected struct{ *variable }

// bound returns a statement with the values of variables in place of their names.
func bound[T sqlparser.SQLNode](stmt T, sc *scope) T {
	return replaceNames(stmt, func(c *sqlparser.ColName) sqlparser.Expr {
		if v := sc.variable(nameOf(c)); v != nil {
			return v.literal()
		}
		return nil
	})
}

// boundQuery is bound for statements. A variable in LIMIT that is NULL is none: the frontend wants numbers there.
func boundQuery(stmt sqlparser.Statement, sc *scope) sqlparser.Statement {
	out := bound(stmt, sc)
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		l, ok := n.(*sqlparser.Limit)
		if !ok || l == nil {
			return true, nil
		}
		for _, e := range []*sqlparser.Expr{&l.Offset, &l.Rowcount} { // of the copy: a name has been replaced
			injected, ok := (*e).(sqlparser.InjectedExpr)
			if !ok {
				continue
			}
			if l, ok := injected.Expression.(*expression.Literal); ok && l.Value() == nil {
				*e = sqlparser.NewIntVal([]byte("0"))
			}
		}
		return true, nil
	}, out)
	return out
}

// boundCall is bound for CALL: an argument that is a variable stays one.
func boundCall(call *sqlparser.Call, sc *scope) *sqlparser.Call {
	out := *call
	out.Params = make(sqlparser.Exprs, len(call.Params))
	for i, e := range call.Params {
		if c, ok := e.(*sqlparser.ColName); ok {
			if v := sc.variable(nameOf(c)); v != nil && !v.fixed {
				out.Params[i] = v.argument()
				continue
			}
		}
		out.Params[i] = bound(e, sc)
	}
	return &out
}
