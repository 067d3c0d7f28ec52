package sqlbackend

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// GROUP BY a, b WITH ROLLUP. rewriteOperators makes the call of rollupName the last key; rollUp makes what a query says of
// its keys aggregates, which are NULL in the rows of more than one group; groupIter makes those rows.

// carrierName is an aggregate and window function of the frontend's that carries others, whose names it does not know. Their
// name is the first argument.
const (
	carrierName  = "first"
	groupingName = "grouping"
	cumeDistName = "cume_dist"
	nthValueName = "nth_value"
)

// rollUp prepares a query with WITH ROLLUP.
func rollUp(s *sqlparser.Select) {
	last := len(s.GroupBy) - 1
	if last < 1 || callOf(s.GroupBy[last], rollupName) == nil {
		return
	}
	keys := make([]sqlparser.Expr, last)
	for i := range keys {
		keys[i] = selectedKey(s, s.GroupBy[i])
		s.GroupBy[i] = keys[i]
	}
	keys = slices.Clone(keys) // a key stays what it is while what equals it is replaced
	for _, e := range s.SelectExprs {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			continue
		}
		if c, ok := a.Expr.(*sqlparser.ColName); ok && a.As.IsEmpty() {
			a.InputExpression = c.Name.String()
		}
		a.Expr = rolledUp(a.Expr, keys)
	}
	if s.Having != nil {
		s.Having.Expr = rolledUp(s.Having.Expr, keys)
	}
	for _, o := range s.OrderBy {
		o.Expr = rolledUp(o.Expr, keys)
	}
}

// selectedKey returns the expression that a key is, if it is the number or the alias of a column of the result.
func selectedKey(s *sqlparser.Select, key sqlparser.Expr) sqlparser.Expr {
	switch k := key.(type) {
	case *sqlparser.SQLVal:
		n, err := strconv.Atoi(string(k.Val))
		if k.Type != sqlparser.IntVal || err != nil || n < 1 || n > len(s.SelectExprs) {
			return key
		}
		if a, ok := s.SelectExprs[n-1].(*sqlparser.AliasedExpr); ok {
			return a.Expr
		}
	case *sqlparser.ColName:
		if !k.Qualifier.IsEmpty() {
			return key
		}
		for _, e := range s.SelectExprs {
			a, ok := e.(*sqlparser.AliasedExpr)
			if ok && a.As.Equal(k.Name) && !mentions(a.Expr, k.Name) {
				return a.Expr
			}
		}
	}
	return key
}

// mentions reports whether an expression has a column of that name: a key of the name is the column then, not the alias.
func mentions(e sqlparser.Expr, name sqlparser.ColIdent) bool {
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if c, ok := n.(*sqlparser.ColName); ok {
			found = found || c.Name.Equal(name)
		}
		return !found, nil
	}, e)
	return found
}

// rolledUp replaces the keys in an expression, outside of aggregates.
func rolledUp(e sqlparser.Expr, keys []sqlparser.Expr) sqlparser.Expr {
	if i := rollupIndex(e, keys); i >= 0 {
		return call(carrierName, sqlparser.NewStrVal([]byte(rollupName)), intLiteral(i), keys[i])
	}
	switch n := e.(type) {
	case *sqlparser.Subquery, *sqlparser.GroupConcatExpr, nil:
		return e
	case *sqlparser.FuncExpr:
		if n.Name.EqualString(groupingName) {
			args := []sqlparser.Expr{sqlparser.NewStrVal([]byte(groupingName))}
			for i := range n.Exprs {
				k := rollupIndex(argument(n, i), keys)
				if k < 0 {
					return e
				}
				args = append(args, intLiteral(k))
			}
			return call(carrierName, args...)
		}
		if isAggregate(n) {
			return e
		}
	case sqlparser.ValTuple:
		for i := range n {
			n[i] = rolledUp(n[i], keys)
		}
		return e
	}
	rewriteOperands(e, func(o sqlparser.Expr) sqlparser.Expr { return rolledUp(o, keys) })
	return e
}

func intLiteral(i int) sqlparser.Expr { return sqlparser.NewIntVal([]byte(strconv.Itoa(i))) }

// rollupIndex returns which of the keys an expression is, -1 if it is none.
func rollupIndex(e sqlparser.Expr, keys []sqlparser.Expr) int {
	if e == nil {
		return -1
	}
	return slices.IndexFunc(keys, func(k sqlparser.Expr) bool {
		a, ok1 := e.(*sqlparser.ColName)
		b, ok2 := k.(*sqlparser.ColName)
		if !ok1 || !ok2 {
			return ok1 == ok2 && sqlparser.String(e) == sqlparser.String(k)
		}
		return a.Name.Equal(b.Name) && (a.Qualifier.IsEmpty() || b.Qualifier.IsEmpty() ||
			strings.EqualFold(a.Qualifier.Name.String(), b.Qualifier.Name.String()))
	})
}

// isAggregate reports whether a call is of an aggregate or window function.
func isAggregate(f *sqlparser.FuncExpr) bool {
	is, _ := planbuilder.IsMySQLAggregateFuncName(nil, f.Name.Lowered()) // never fails
	return is || f.Over != nil
}

// carriedFunction returns the function that carries others.
func carriedFunction(name string) (sql.Function, bool) {
	if name != carrierName {
		return nil, false
	}
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		kind := ""
		if len(args) > 1 || len(args) == 1 && literalText(args[0]) == cumeDistName {
			kind = literalText(args[0])
		}
		switch {
		case kind == rollupName && len(args) == 3:
			i, _ := literalInt(ctx, args[1])
			return &rollupKey{First: aggregation.NewFirst(args[2]), key: i}, nil
		case kind == groupingName:
			g := &grouping{First: aggregation.NewFirst(args[0])}
			for _, a := range args[1:] {
				i, _ := literalInt(ctx, a)
				g.keys = append(g.keys, i)
			}
			return g, nil
		case kind == cumeDistName && len(args) == 1:
			return newCumeDist(ctx), nil
		case kind == nthValueName && len(args) == 3:
			return newNthValue(ctx, args[1], args[2])
		case len(args) == 1:
			return aggregation.NewFirst(args[0]), nil
		}
		return nil, sql.ErrInvalidArgumentNumber.New(name, 1, len(args))
	}}, true
}

// rollupKey is a key of GROUP BY … WITH ROLLUP: that of the group, NULL if the row is for more than one.
type rollupKey struct {
	*aggregation.First
	key int
}

var _ sql.Aggregation = (*rollupKey)(nil)

// String implements fmt.Stringer.
func (r *rollupKey) String() string {
	return "rollup(" + strconv.Itoa(r.key) + "," + r.Child.String() + ")"
}

// IsNullable implements sql.Expression.
func (r *rollupKey) IsNullable(*sql.Context) bool { return true }

// WithChildren implements sql.Expression.
func (r *rollupKey) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := r.First.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &rollupKey{e.(*aggregation.First), r.key}, nil
}

// WithWindow implements sql.WindowAdaptableExpression.
func (r *rollupKey) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &rollupKey{r.First.WithWindow(ctx, w).(*aggregation.First), r.key}
}

// WithId implements sql.IdExpression.
func (r *rollupKey) WithId(id sql.ColumnId) sql.IdExpression {
	return &rollupKey{r.First.WithId(id).(*aggregation.First), r.key}
}

// grouping is GROUPING(key, …).
type grouping struct {
	*aggregation.First
	keys []int
}

var _ sql.Aggregation = (*grouping)(nil)

// String implements fmt.Stringer.
func (g *grouping) String() string {
	parts := make([]string, len(g.keys))
	for i, k := range g.keys {
		parts[i] = strconv.Itoa(k)
	}
	return "grouping(" + strings.Join(parts, ",") + ")"
}

// Type implements sql.Expression.
func (g *grouping) Type(*sql.Context) sql.Type { return types.Int64 }

// IsNullable implements sql.Expression.
func (g *grouping) IsNullable(*sql.Context) bool { return false }

// bits is the value in a row for groups of that many keys.
func (g *grouping) bits(keys int) int64 {
	n := int64(0)
	for _, k := range g.keys {
		n <<= 1
		if k >= keys {
			n |= 1
		}
	}
	return n
}

// WithChildren implements sql.Expression.
func (g *grouping) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := g.First.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &grouping{e.(*aggregation.First), g.keys}, nil
}

// WithWindow implements sql.WindowAdaptableExpression.
func (g *grouping) WithWindow(ctx *sql.Context, w *sql.WindowDefinition) sql.WindowAdaptableExpression {
	return &grouping{g.First.WithWindow(ctx, w).(*aggregation.First), g.keys}
}

// WithId implements sql.IdExpression.
func (g *grouping) WithId(id sql.ColumnId) sql.IdExpression {
	return &grouping{g.First.WithId(id).(*aggregation.First), g.keys}
}

// constant is the buffer of an aggregate whose value is known when its group begins.
type constant struct{ value any }

// Eval implements sql.AggregationBuffer.
func (c constant) Eval(*sql.Context) (any, error) { return c.value, nil }

// Update implements sql.AggregationBuffer.
func (constant) Update(*sql.Context, sql.Row) error { return nil }

// Dispose implements sql.Disposable.
func (constant) Dispose(*sql.Context) {}

// rolledKeys returns the keys without the one that stands for WITH ROLLUP, and whether it was there.
func rolledKeys(by []sql.Expression) ([]sql.Expression, bool) {
	if last := len(by) - 1; last > 0 {
		if o, ok := by[last].(*operator); ok && o.name == rollupName {
			return by[:last], true
		}
	}
	return by, false
}

// sortRollup puts groups in the order of their keys, each row for more than one group behind its groups.
func (g *groupIter) sortRollup(ctx *sql.Context) error {
	var failed error
	slices.SortStableFunc(g.groups, func(a, b *group) int {
		for i := range min(len(a.key), len(b.key)) {
			x, y := a.key[i], b.key[i]
			switch {
			case x == nil && y == nil:
			case x == nil:
				return -1
			case y == nil:
				return 1
			default:
				c, err := g.types[i].Type.Compare(ctx, x, y)
				if err != nil {
					failed = err
				}
				if c != 0 {
					return c
				}
			}
		}
		return len(b.key) - len(a.key)
	})
	return failed
}
