package sqlbackend

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// prepareChange completes the plan of a data-changing statement. The frontend plans simple ones with a fixed list of
// rules of its own, so what other statements get from PushDownRule is done here, together with checkAssignments.
func prepareChange(ctx *sql.Context, n sql.Node) (sql.Node, error) {
	n, err := checkAssignments(ctx, n)
	if err != nil {
		return nil, err
	}
	n, _, err = PushDownRule(ctx, nil, n, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	transform.Inspect(n, func(n sql.Node) bool {
		if t, ok := n.(sql.TableNode); ok {
			if ours, ok := t.UnderlyingTable().(*Table); ok {
				*ours.exact = true
			}
		}
		return true
	})
	return n, nil
}

// checkAssignments makes UPDATE and ON DUPLICATE KEY UPDATE refuse numbers that do not fit their column (1264) and
// round those that do: the frontend's assignment silently stores the nearest value instead, and cuts off fractions. With
// IGNORE, and without strict mode, it makes sure that the nearest value is stored (see adjustedSource).
func checkAssignments(ctx *sql.Context, n sql.Node) (sql.Node, error) {
	if c := connOf(ctx); c != nil {
		c.stmt.lenient = ignores(n)
	}
	n, _, err := transform.Node(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		switch n := n.(type) {
		case *plan.UpdateSource:
			if n.Ignore || !sql.LoadSqlMode(ctx).Strict() {
				return transform.OneNodeExpressions(ctx, n, adjustAssignment)
			}
		case *plan.InsertInto:
			if err := refuseMissingDefaults(ctx, n); err != nil {
				return nil, transform.SameTree, err
			}
			loose, same := n.Ignore || !sql.LoadSqlMode(ctx).Strict(), transform.SameTree
			if _, done := n.Source.(*adjustedSource); !done {
				n, same = adjustSource(ctx, n, !loose).(*plan.InsertInto), transform.NewTree
			}
			if !n.OnDupExprs.HasUpdates() {
				return n, same, nil
			}
			n = comparesExactly(n)
			check := checkAssignment
			if loose {
				check = adjustAssignment
			}
			checked, _, err := transform.OneNodeExpressions(ctx, n, check)
			return checked, transform.NewTree, err
		default:
			return n, transform.SameTree, nil
		}
		return transform.OneNodeExpressions(ctx, n, checkAssignment)
	})
	return n, err
}

// ignores reports whether a plan is that of a statement with IGNORE.
func ignores(n sql.Node) bool {
	found := false
	transform.Inspect(n, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.UpdateSource:
			found = found || n.Ignore
		case *plan.InsertInto:
			found = found || n.Ignore
		}
		return !found
	})
	return found
}

// refuseMissingDefaults refuses VALUES (DEFAULT) for a column that has none and cannot be NULL: the frontend takes it for NULL.
func refuseMissingDefaults(ctx *sql.Context, n *plan.InsertInto) error {
	if n.Ignore || !sql.LoadSqlMode(ctx).Strict() {
		return nil
	}
	schema := n.Destination.Schema(ctx)
	tuples, _ := valuesOf(n.Source)
	for _, tuple := range tuples {
		for i, e := range tuple {
			if !missingDefault(e) {
				continue
			}
			c := schema[givenColumn(n, schema, i)]
			if !c.Nullable && !c.AutoIncrement && c.Default == nil && c.Generated == nil && !types.IsEnum(c.Type) {
				return sql.ErrInsertIntoNonNullableDefaultNullColumn.New(c.Name)
			}
		}
	}
	return nil
}

// comparesExactly makes ON DUPLICATE KEY UPDATE count a change of nothing but the case of a text.
func comparesExactly(n *plan.InsertInto) *plan.InsertInto {
	d, ok := n.Destination.(*plan.InsertDestination)
	if !ok {
		return n
	}
	to, insert := *d, *n
	to.Sch = exactSchema(d.Sch)
	insert.Destination = &to
	return &insert
}

func checkAssignment(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	s, ok := e.(*expression.SetField)
	if !ok {
		return e, transform.SameTree, nil
	}
	typ := s.LeftChild.Type(ctx)
	if types.IsTextOnly(typ) {
		if text, changed := shownText(ctx, s.RightChild, false); changed {
			return expression.NewSetField(s.LeftChild, text), transform.NewTree, nil
		}
	}
	if _, done := s.RightChild.(*assigned); done || !sql.IsNumberType(typ) && !takesTexts(typ) && !types.IsBit(typ) {
		return e, transform.SameTree, nil
	}
	a := &assigned{child: givenTo(ctx, typ, s.RightChild), typ: typ, rows: new(int)}
	if f, ok := s.LeftChild.(*expression.GetField); ok {
		a.column = f.Name()
	}
	return expression.NewSetField(s.LeftChild, a), transform.NewTree, nil
}

// adjustAssignment is checkAssignment for UPDATE IGNORE.
func adjustAssignment(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	s, ok := e.(*expression.SetField)
	if !ok {
		return e, transform.SameTree, nil
	}
	column, ok := s.LeftChild.(*expression.GetField)
	if _, done := s.RightChild.(*adjusted); done || !ok {
		return e, transform.SameTree, nil
	}
	value := s.RightChild
	if types.IsTextOnly(column.Type(ctx)) {
		value, _ = shownText(ctx, value, false)
	}
	value = givenTo(ctx, column.Type(ctx), value)
	return expression.NewSetField(s.LeftChild, &adjusted{Expression: value, column: column}), transform.NewTree, nil
}

// adjusted is the value of an assignment, the nearest its column can hold.
type adjusted struct {
	sql.Expression // the value as given
	column         *expression.GetField
}

// Eval implements sql.Expression.
func (a *adjusted) Eval(ctx *sql.Context, row sql.Row) (interface{}, error) {
	v, err := a.Expression.Eval(ctx, row)
	if err != nil {
		return v, err
	}
	typ := a.column.Type(ctx)
	if takesTexts(typ) {
		v = tamed(v)
	}
	near, warning := nearest(ctx, typ, v)
	if v == nil && !a.column.IsNullable(ctx) {
		near, warning = typ.Zero(), 1048
	}
	if warning != 0 {
		warnAdjusted(ctx, warning, &sql.Column{Name: a.column.Name(), Type: typ}, v, 1)
	}
	if near != nil && sql.IsNumberType(typ) {
		if c, in, err := asColumn(ctx, typ, near); err == nil && in == sql.InRange {
			return c, nil // rounded
		}
	}
	return near, nil
}

// Children implements sql.Expression.
func (a *adjusted) Children() []sql.Expression { return []sql.Expression{a.Expression} }

// WithChildren implements sql.Expression.
func (a *adjusted) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(a, len(c), 1)
	}
	return &adjusted{Expression: c[0], column: a.column}, nil
}

// assigned is the value of an assignment to a column of numbers or bits, in the column's type, or of times.
type assigned struct {
	child  sql.Expression
	typ    sql.Type
	column string
	rows   *int // values so far, for messages
}

var _ sql.Expression = (*assigned)(nil)

// Eval implements sql.Expression.
func (a *assigned) Eval(ctx *sql.Context, row sql.Row) (interface{}, error) {
	*a.rows++
	v, err := a.child.Eval(ctx, row)
	if err != nil || v == nil {
		return v, err
	}
	v = tamed(v)
	if sql.LoadSqlMode(ctx).Strict() {
		if err := refusal(ctx, a.column, a.typ, v, int64(*a.rows)); err != nil {
			return nil, err
		}
	}
	if !sql.IsNumberType(a.typ) && !types.IsBit(a.typ) {
		return v, nil
	}
	var c any
	var in sql.ConvertInRange
	if rt, ok := a.typ.(sql.RoundingNumberType); ok {
		c, in, err = rt.ConvertRound(ctx, v)
	} else {
		c, in, err = a.typ.Convert(ctx, v)
	}
	if err != nil && types.IsBit(a.typ) && in != sql.InRange {
		return nil, bitsTooLong(a.column, int64(*a.rows))
	}
	if err != nil {
		return v, nil // the assignment itself reports it, with the column's name
	}
	if in != sql.InRange && sql.LoadSqlMode(ctx).Strict() {
		return nil, sql.ErrValueOutOfRange.New(v, inColumn(a.typ, a.column, int64(*a.rows)))
	}
	return c, nil
}

// Children implements sql.Expression.
func (a *assigned) Children() []sql.Expression { return []sql.Expression{a.child} }

// WithChildren implements sql.Expression.
func (a *assigned) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(a, len(c), 1)
	}
	return &assigned{child: c[0], typ: a.typ, column: a.column, rows: a.rows}, nil
}

// Type implements sql.Expression.
func (a *assigned) Type(ctx *sql.Context) sql.Type {
	if !sql.IsNumberType(a.typ) && !types.IsBit(a.typ) {
		return a.child.Type(ctx)
	}
	return a.typ
}

// IsNullable implements sql.Expression.
func (a *assigned) IsNullable(ctx *sql.Context) bool { return a.child.IsNullable(ctx) }

// Resolved implements sql.Expression.
func (a *assigned) Resolved() bool { return a.child.Resolved() }

// String implements fmt.Stringer.
func (a *assigned) String() string { return fmt.Sprint(a.child) }
