package sqlbackend

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"lancesql/internal/predicate"
)

// PushDownRuleID is the number of PushDownRule among the frontend's rules.
const PushDownRuleID analyzer.RuleId = 1 << 20

// PushDownRule hands what a filter says about the columns of one of our tables to its scan, and makes comparisons exact
// (exactComparisons). The filter stays (I3).
// It runs after the frontend's own rules, when filters lie on the tables they concern. Statements the frontend plans
// with a short list of rules of its own (SELECT of one table, UPDATE, DELETE) do not come by here: see pushOnce.
func PushDownRule(ctx *sql.Context, _ *analyzer.Analyzer, n sql.Node, _ *plan.Scope, _ analyzer.RuleSelector, _ *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
	if !n.Resolved() {
		return n, transform.SameTree, nil
	}
	n, pushed, err := transform.NodeWithOpaque(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		f, ok := n.(*plan.Filter)
		if !ok {
			return n, transform.SameTree, nil
		}
		return pushFilter(ctx, f)
	})
	if err != nil || plan.IsDDLNode(n) {
		return n, pushed, err
	}
	n, exact, err := exactComparisons(ctx, n)
	return n, pushed && exact, err
}

// pushOnce applies PushDownRule to the root of a plan about to be built; later calls in the same statement do nothing.
func pushOnce(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	c := connOf(ctx)
	if c == nil || c.stmt.pushed {
		return n, transform.SameTree, nil
	}
	c.stmt.pushed = true
	return PushDownRule(ctx, nil, n, nil, nil, nil)
}

func pushFilter(ctx *sql.Context, f *plan.Filter) (sql.Node, transform.TreeIdentity, error) {
	child, alias := f.Child, ""
	if a, ok := child.(*plan.TableAlias); ok {
		child, alias = a.Child, a.Name()
	}
	rt, ok := child.(*plan.ResolvedTable)
	if !ok {
		return f, transform.SameTree, nil
	}
	t, ok := rt.UnderlyingTable().(*Table)
	if !ok || t.filter != nil {
		return f, transform.SameTree, nil
	}
	if alias == "" {
		alias = t.Name()
	}
	p := t.predicateOf(ctx, f.Expression, alias)
	if p == nil {
		return f, transform.SameTree, nil
	}
	var node sql.Node
	node, err := rt.WithTable(ctx, t.withFilter(p))
	if err != nil {
		return nil, transform.SameTree, err
	}
	if a, ok := f.Child.(*plan.TableAlias); ok {
		if node, err = a.WithChildren(ctx, node); err != nil {
			return nil, transform.SameTree, err
		}
	}
	nf, err := f.WithChildren(ctx, node)
	if err != nil {
		return nil, transform.SameTree, err
	}
	return nf, transform.NewTree, nil
}

// predicateOf returns a predicate that is true wherever e is, nil if nothing useful is known.
func (t *Table) predicateOf(ctx context.Context, e sql.Expression, alias string) predicate.Expr {
	switch e := e.(type) {
	case *expression.And:
		l, r := t.predicateOf(ctx, e.LeftChild, alias), t.predicateOf(ctx, e.RightChild, alias)
		switch {
		case l == nil:
			return r
		case r == nil:
			return l
		}
		return predicate.And{Terms: []predicate.Expr{l, r}}
	case *expression.Or:
		l, r := t.predicateOf(ctx, e.LeftChild, alias), t.predicateOf(ctx, e.RightChild, alias)
		if l == nil || r == nil {
			return nil
		}
		return predicate.Or{Terms: []predicate.Expr{l, r}}
	case *expression.IsNull:
		if c, ok := t.fieldOf(e.Child, alias); ok {
			return predicate.IsNull{Column: c}
		}
		return nil
	case *expression.Not:
		if n, ok := e.Child.(*expression.IsNull); ok {
			if c, ok := t.fieldOf(n.Child, alias); ok {
				return predicate.Not{Term: predicate.IsNull{Column: c}}
			}
		}
		return nil
	case *expression.Between:
		lo := t.compareOf(ctx, e.Val, e.Lower, predicate.Ge, alias)
		hi := t.compareOf(ctx, e.Val, e.Upper, predicate.Le, alias)
		if lo == nil || hi == nil {
			return nil
		}
		return predicate.And{Terms: []predicate.Expr{lo, hi}}
	case *expression.HashInTuple:
		return t.inOf(ctx, e.Left(), e.Right(), alias)
	case *expression.InTuple:
		return t.inOf(ctx, e.Left(), e.Right(), alias)
	case expression.Comparer:
		return t.comparison(ctx, e, alias)
	default:
		return nil
	}
}

func (t *Table) comparison(ctx context.Context, e expression.Comparer, alias string) predicate.Expr {
	var op, swapped predicate.Op
	switch e.(type) {
	case *expression.Equals:
		op, swapped = predicate.Eq, predicate.Eq
	case *expression.LessThan:
		op, swapped = predicate.Lt, predicate.Gt
	case *expression.LessThanOrEqual:
		op, swapped = predicate.Le, predicate.Ge
	case *expression.GreaterThan:
		op, swapped = predicate.Gt, predicate.Lt
	case *expression.GreaterThanOrEqual:
		op, swapped = predicate.Ge, predicate.Le
	default:
		return nil
	}
	if p := t.compareOf(ctx, e.Left(), e.Right(), op, alias); p != nil {
		return p
	}
	return t.compareOf(ctx, e.Right(), e.Left(), swapped, alias)
}

func (t *Table) compareOf(ctx context.Context, field, literal sql.Expression, op predicate.Op, alias string) predicate.Expr {
	c, ok := t.fieldOf(field, alias)
	if !ok || !t.info.filterable(c) {
		return nil
	}
	l, ok := literal.(*expression.Literal)
	if !ok {
		return nil
	}
	v, ok := t.info.exactCell(ctx, c, l.Value())
	if !ok {
		return nil
	}
	return predicate.Compare{Column: c, Op: op, Value: v}
}

func (t *Table) inOf(ctx context.Context, field, list sql.Expression, alias string) predicate.Expr {
	c, ok := t.fieldOf(field, alias)
	if !ok || !t.info.filterable(c) {
		return nil
	}
	tuple, ok := list.(expression.Tuple)
	if !ok {
		return nil
	}
	values := make([]any, 0, len(tuple))
	for _, e := range tuple {
		l, ok := e.(*expression.Literal)
		if !ok {
			return nil
		}
		if l.Value() == nil {
			continue // x IN (…, NULL) is never true because of the NULL
		}
		v, ok := t.info.exactCell(ctx, c, l.Value())
		if !ok {
			return nil
		}
		values = append(values, v)
	}
	return predicate.In{Column: c, Values: values}
}

// fieldOf returns the physical column of a plain reference to this table.
func (t *Table) fieldOf(e sql.Expression, alias string) (int, bool) {
	g, ok := e.(*expression.GetField)
	if !ok || !strings.EqualFold(g.Table(), alias) {
		return 0, false
	}
	c := t.column(g.Name())
	return c, c >= 0
}

// filterable reports whether predicates compare the column's cells as the frontend compares its values.
func (t *tableInfo) filterable(column int) bool {
	typ := t.schema.Schema[column].Type
	switch st := typ.(type) {
	case sql.EnumType, sql.SetType:
		return false
	case sql.StringType:
		return byteOrdered(st.Collation())
	}
	return !isJSON(typ)
}

// equality recognises column = literal of this table, unaliased.
func (t *Table) equality(e sql.Expression) (column string, l *expression.Literal, ok bool) {
	eq, ok := e.(*expression.Equals)
	if !ok {
		return "", nil, false
	}
	left, right := eq.Left(), eq.Right()
	if _, isLiteral := left.(*expression.Literal); isLiteral {
		left, right = right, left
	}
	g, ok := left.(*expression.GetField)
	if !ok || !strings.EqualFold(g.Table(), t.Name()) {
		return "", nil, false
	}
	l, ok = right.(*expression.Literal)
	return g.Name(), l, ok
}
