package sqlbackend

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// longList is the number of elements from which an IN list is long.
const longList = 200

func isLong(e sql.Expression) bool {
	list, ok := e.(expression.Tuple)
	return ok && len(list) >= longList
}

// plannable prepares conditions for the frontend's choice of an index. It compares the literals of two equalities of one
// column by ==, and panics if they are byte slices; texts say the same. Ranges of NOT IN and of long IN lists take it
// time that grows with the square of the list, deaf to KILL: long lists are looked up by lookupList.
type plannable struct{}

var _ sql.ExpressionTreeFilter = plannable{}

// Next implements sql.ExpressionTreeFilter.
func (plannable) Next(e sql.Expression) sql.Expression {
	e = plannedDates(e)
	switch e := e.(type) {
	case *expression.Equals:
		return expression.NewEquals(textLiteral(e.Left()), textLiteral(e.Right()))
	case *expression.NullSafeEquals:
		return expression.NewNullSafeEquals(textLiteral(e.Left()), textLiteral(e.Right()))
	case *expression.InTuple:
		if isLong(e.Right()) {
			return &unindexed{Expression: e}
		}
		return expression.NewInTuple(e.Left(), textLiteral(e.Right()))
	case *expression.Not:
		switch e.Child.(type) {
		case *expression.InTuple, *expression.HashInTuple:
			return &unindexed{Expression: e}
		}
	case *expression.HashInTuple:
		if isLong(e.Right()) {
			return &unindexed{Expression: e}
		}
		if n, err := e.WithChildren(nil, e.Left(), textLiteral(e.Right())); err == nil {
			return n
		}
	}
	return e
}

// plannedDates gives comparisons of a column of dates with numbers the dates they are. Other numbers are compared as such, of which
// no index knows.
func plannedDates(e sql.Expression) sql.Expression {
	switch e.(type) {
	case *expression.Between, expression.Comparer:
	default:
		return e
	}
	dated := false
	for _, c := range e.Children() {
		switch c := c.(type) {
		case *expression.GetField:
			dated = dated || types.IsTime(c.Type(nil))
		case *expression.Literal, expression.Tuple:
		default:
			return e
		}
	}
	if !dated {
		return e
	}
	with, _, err := comparedDates(nil, e, e.Children())
	if err != nil || slices.ContainsFunc(with.Children(), hasNumber) {
		return &unindexed{Expression: e}
	}
	return with
}

// hasNumber reports whether an operand is a number, or a list with one.
func hasNumber(e sql.Expression) bool {
	switch e := e.(type) {
	case *expression.Literal:
		return isNumber(e.Value())
	case expression.Tuple:
		return slices.ContainsFunc(e, hasNumber)
	}
	return false
}

// unindexed is a condition no index is chosen for.
type unindexed struct {
	sql.Expression
}

// Children implements sql.Expression.
func (u *unindexed) Children() []sql.Expression { return []sql.Expression{u.Expression} }

// WithChildren implements sql.Expression.
func (u *unindexed) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(u, len(c), 1)
	}
	return &unindexed{Expression: c[0]}, nil
}

func textLiteral(e sql.Expression) sql.Expression {
	switch e := e.(type) {
	case *expression.Literal:
		if b, ok := e.Value().([]byte); ok {
			return expression.NewLiteral(string(b), e.Type(nil))
		}
	case expression.Tuple:
		out := make(expression.Tuple, len(e))
		for i, c := range e {
			out[i] = textLiteral(c)
		}
		return out
	}
	return e
}

// CanSupport implements sql.Index: every range can be answered, if need be by a scan (I3). Not so ranges of an ENUM that the
// frontend made of a comparison with a text: they are of positions, and the comparison is by text (memberText).
func (x *Index) CanSupport(ctx *sql.Context, ranges ...sql.Range) bool {
	for _, r := range ranges {
		columns, ok := r.(sql.MySQLRange)
		if !ok {
			continue
		}
		for _, c := range columns {
			if !types.IsEnum(c.Typ) {
				continue
			}
			switch c.Type() {
			case sql.RangeType_All, sql.RangeType_EqualNull:
			case sql.RangeType_ClosedClosed:
				order, err := c.Typ.Compare(ctx, sql.GetMySQLRangeCutKey(c.LowerBound), sql.GetMySQLRangeCutKey(c.UpperBound))
				if err != nil || order != 0 {
					return false
				}
			case sql.RangeType_GreaterThan:
				if _, notNull := c.LowerBound.(sql.AboveNull); !notNull {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

// CanSupportOrderBy implements sql.Index.
func (x *Index) CanSupportOrderBy(sql.Expression) bool { return false }

// CoversColumns implements sql.Index: reading by the primary key reads whole rows.
func (x *Index) CoversColumns([]string) bool { return x.primary }

// PrefixLengths implements sql.Index.
func (x *Index) PrefixLengths() []uint16 {
	if x.lengths == nil {
		return nil
	}
	out := make([]uint16, len(x.lengths))
	for i, l := range x.lengths {
		out[i] = uint16(l)
	}
	return out
}

// Order implements sql.OrderedIndex.
func (x *Index) Order(*sql.Context) sql.IndexOrder {
	if x.key != nil && x.key.ordered {
		return sql.IndexOrderAsc
	}
	return sql.IndexOrderNone
}

// Reversible implements sql.OrderedIndex.
func (x *Index) Reversible(ctx *sql.Context) bool { return x.Order(ctx) != sql.IndexOrderNone }

// lookupList looks rows up by a long list of literals for the first part of the key. The condition stays (I3).
func (t *Table) lookupList(ctx *sql.Context, x *Index, conditions []sql.Expression) (sql.IndexLookup, bool) {
	for _, e := range conditions {
		var left, right sql.Expression
		switch e := e.(type) {
		case *expression.InTuple:
			left, right = e.Left(), e.Right()
		case *expression.HashInTuple:
			left, right = e.Left(), e.Right()
		default:
			continue
		}
		field, ok := left.(*expression.GetField)
		c := x.columns[0]
		if !ok || !isLong(right) || !strings.EqualFold(field.Table(), t.Name()) || !strings.EqualFold(field.Name(), t.schema[c].Name) {
			continue
		}
		if ranges, ok := t.listRanges(ctx, x, right.(expression.Tuple)); ok {
			return sql.NewIndexLookup(x, ranges, false, false, false, false), true
		}
	}
	return sql.IndexLookup{}, false
}

// listRanges returns a range per distinct literal; false if one has no exact counterpart in the column's type.
func (t *Table) listRanges(ctx *sql.Context, x *Index, list expression.Tuple) (sql.MySQLRangeCollection, bool) {
	c := x.columns[0]
	typ := boundType(t.schema[c].Type)
	values := make([]any, 0, len(list))
	for _, e := range list {
		l, ok := e.(*expression.Literal)
		if !ok {
			return nil, false
		}
		if l.Value() == nil {
			continue // equals nothing
		}
		cell, ok := t.info.exactCell(ctx, c, l.Value())
		if !ok {
			return nil, false
		}
		v, err := t.info.decodeCell(c, cell, t.info.zone(ctx))
		if err != nil {
			return nil, false
		}
		values = append(values, v)
	}
	var failed error
	compare := func(a, b any) int {
		n, err := typ.Compare(ctx, a, b)
		if err != nil {
			failed = err
		}
		return n
	}
	slices.SortFunc(values, compare)
	values = slices.CompactFunc(values, func(a, b any) bool { return compare(a, b) == 0 })
	if failed != nil || len(values) == 0 {
		return nil, false
	}
	ranges := make(sql.MySQLRangeCollection, len(values))
	for i, v := range values {
		r := make(sql.MySQLRange, len(x.columns))
		r[0] = sql.ClosedRangeColumnExpr(v, v, typ)
		for j := 1; j < len(r); j++ {
			r[j] = sql.AllRangeColumnExpr(boundType(t.schema[x.columns[j]].Type))
		}
		ranges[i] = r
	}
	return ranges, true
}
