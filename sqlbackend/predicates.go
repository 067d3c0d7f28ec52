package sqlbackend

import (
	"context"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"lancesql/internal/predicate"
)

// What a filter of the frontend says about the columns of one table, with literals folded to their types.

// predicateOf returns a predicate that is true wherever e is; nil if nothing useful is known. If exact, it has the value of
// e for every row, NULL among them.
func (t *Table) predicateOf(ctx context.Context, e sql.Expression, alias string) (p predicate.Expr, exact bool) {
	switch e := e.(type) {
	case *expression.And:
		l, exactL := t.predicateOf(ctx, e.LeftChild, alias)
		r, exactR := t.predicateOf(ctx, e.RightChild, alias)
		switch {
		case l == nil:
			return r, false
		case r == nil:
			return l, false
		}
		return predicate.And{Terms: []predicate.Expr{l, r}}, exactL && exactR
	case *expression.Or:
		l, exactL := t.predicateOf(ctx, e.LeftChild, alias)
		r, exactR := t.predicateOf(ctx, e.RightChild, alias)
		if l == nil || r == nil {
			return nil, false
		}
		return predicate.Or{Terms: []predicate.Expr{l, r}}, exactL && exactR
	case *expression.Not:
		if p, exact := t.predicateOf(ctx, e.Child, alias); exact {
			return predicate.Not{Term: p}, true
		}
		return nil, false
	case *expression.IsNull:
		if c, ok := t.fieldOf(e.Child, alias); ok {
			return predicate.IsNull{Column: c}, true
		}
		return nil, false
	case *expression.Between:
		return t.between(ctx, e, alias)
	case *expression.HashInTuple:
		return t.inOf(ctx, e.Left(), e.Right(), alias)
	case *expression.InTuple:
		return t.inOf(ctx, e.Left(), e.Right(), alias)
	case *expression.Like:
		return t.likeOf(e, alias), false
	case expression.Comparer:
		return t.comparison(ctx, e, alias)
	default:
		return nil, false
	}
}

func (t *Table) between(ctx context.Context, e *expression.Between, alias string) (predicate.Expr, bool) {
	lo, exactLo := t.compareOf(ctx, e.Val, e.Lower, predicate.Ge, alias)
	hi, exactHi := t.compareOf(ctx, e.Val, e.Upper, predicate.Le, alias)
	switch {
	case lo == nil:
		return hi, false
	case hi == nil:
		return lo, false
	}
	return predicate.And{Terms: []predicate.Expr{lo, hi}}, exactLo && exactHi
}

func (t *Table) comparison(ctx context.Context, e expression.Comparer, alias string) (predicate.Expr, bool) {
	var op, swapped predicate.Op
	switch e.(type) {
	case *expression.Equals:
		op, swapped = predicate.Eq, predicate.Eq
	case *expression.NullSafeEquals:
		op, swapped = predicate.NullSafeEq, predicate.NullSafeEq
	case *expression.LessThan:
		op, swapped = predicate.Lt, predicate.Gt
	case *expression.LessThanOrEqual:
		op, swapped = predicate.Le, predicate.Ge
	case *expression.GreaterThan:
		op, swapped = predicate.Gt, predicate.Lt
	case *expression.GreaterThanOrEqual:
		op, swapped = predicate.Ge, predicate.Le
	default:
		return nil, false
	}
	left, ok := e.Left().(expression.Tuple)
	right, ok2 := e.Right().(expression.Tuple)
	if ok && ok2 && len(left) == len(right) {
		return t.compareRows(ctx, left, right, op, swapped, alias), false
	}
	if p, exact := t.compareOf(ctx, e.Left(), e.Right(), op, alias); p != nil {
		return p, exact
	}
	return t.compareOf(ctx, e.Right(), e.Left(), swapped, alias)
}

// compareRows is what the comparison of two row constructors says about their parts: equal rows have equal parts, and the
// first parts of ordered ones are ordered or equal.
func (t *Table) compareRows(ctx context.Context, left, right expression.Tuple, op, swapped predicate.Op, alias string) predicate.Expr {
	one := func(i int, op, swapped predicate.Op) predicate.Expr {
		if p, _ := t.compareOf(ctx, left[i], right[i], op, alias); p != nil {
			return p
		}
		p, _ := t.compareOf(ctx, right[i], left[i], swapped, alias)
		return p
	}
	switch op {
	case predicate.Eq, predicate.NullSafeEq:
		var terms []predicate.Expr
		for i := range left {
			if p := one(i, op, swapped); p != nil {
				terms = append(terms, p)
			}
		}
		if len(terms) == 0 {
			return nil
		}
		return predicate.And{Terms: terms}
	case predicate.Lt, predicate.Le:
		return one(0, predicate.Le, predicate.Ge)
	case predicate.Gt, predicate.Ge:
		return one(0, predicate.Ge, predicate.Le)
	}
	return nil
}

// compareOf folds a literal to the column's type: exactly if the column has such a cell, and to the next one, with a wider
// comparison, if it does not.
func (t *Table) compareOf(ctx context.Context, field, literal sql.Expression, op predicate.Op, alias string) (predicate.Expr, bool) {
	c, ok := t.fieldOf(field, alias)
	if !ok {
		return nil, false
	}
	l, ok := literal.(*expression.Literal)
	if !ok {
		return nil, false
	}
	if l.Value() == nil {
		if op == predicate.NullSafeEq {
			return predicate.IsNull{Column: c}, true
		}
		return predicate.Const{}, false // NULL: true for no row
	}
	if !t.info.filterable(c) {
		return nil, false
	}
	value := t.info.numeric(c, l.Value())
	if v, ok := t.info.exactCell(ctx, c, value); ok {
		return predicate.Compare{Column: c, Op: op, Value: v}, true
	}
	return t.info.near(ctx, c, op, value), false
}

// numeric is a text that is nothing but an integer as one, for integer columns: SQL compares the two as numbers.
func (t *tableInfo) numeric(column int, v any) any {
	const exact = 1 << 53 // beyond it different integers are one number to SQL
	text, ok := v.(string)
	if !ok || !sqltypes.IsIntegral(t.schema.Schema[column].Type.Type()) || types.IsYear(t.schema.Schema[column].Type) {
		return v
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > -exact && n < exact {
		return n
	}
	return v
}

// near is what a comparison with a literal that no cell is equal to says about a column of numbers or times: a wider
// comparison with the nearest cell. Rounding keeps the order. nil if nothing is known.
func (t *tableInfo) near(ctx context.Context, c int, op predicate.Op, v any) predicate.Expr {
	typ := t.schema.Schema[c].Type
	switch {
	case types.IsYear(typ) || !comparable(typ, v): // 69 is the year 2069, 70 is 1970
		return nil
	case !types.IsInteger(typ) && !types.IsFloat(typ) && !types.IsDecimal(typ) && !types.IsTime(typ):
		return nil
	}
	cell, in, ok := t.nearest(ctx, c, v)
	if !ok {
		return nil
	}
	if in != sql.InRange {
		beyond := in == sql.Overflow
		switch {
		case !types.IsInteger(typ):
			return nil
		case beyond && (op == predicate.Lt || op == predicate.Le), !beyond && (op == predicate.Gt || op == predicate.Ge):
			return predicate.Not{Term: predicate.IsNull{Column: c}}
		case op == predicate.Ne:
			return nil
		}
		return predicate.Const{}
	}
	switch op {
	case predicate.Lt, predicate.Le:
		return predicate.Compare{Column: c, Op: predicate.Le, Value: cell}
	case predicate.Gt, predicate.Ge:
		return predicate.Compare{Column: c, Op: predicate.Ge, Value: cell}
	}
	return nil
}

// inOf is an IN list: of single values or of row constructors.
func (t *Table) inOf(ctx context.Context, field, list sql.Expression, alias string) (predicate.Expr, bool) {
	members, ok := list.(expression.Tuple)
	if !ok {
		return nil, false
	}
	if row, ok := field.(expression.Tuple); ok {
		return t.inRows(ctx, row, members, alias), false
	}
	c, ok := t.fieldOf(field, alias)
	if !ok || !t.info.filterable(c) {
		return nil, false
	}
	values := make([]any, 0, len(members))
	null := false
	for _, e := range members {
		l, ok := e.(*expression.Literal)
		if !ok {
			return nil, false
		}
		if l.Value() == nil {
			null = true // x IN (…, NULL) is never true because of the NULL, but never false either
			continue
		}
		v, ok := t.info.exactCell(ctx, c, l.Value())
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	return predicate.In{Column: c, Values: values}, !null && len(values) > 0
}

// rowsMax bounds the row constructors of an IN list that are looked at.
const rowsMax = 256

func (t *Table) inRows(ctx context.Context, row, members expression.Tuple, alias string) predicate.Expr {
	if len(members) > rowsMax {
		return nil
	}
	var any []predicate.Expr
	for _, m := range members {
		other, ok := m.(expression.Tuple)
		if !ok || len(other) != len(row) {
			return nil
		}
		p := t.compareRows(ctx, row, other, predicate.Eq, predicate.Eq, alias)
		if p == nil {
			return nil
		}
		any = append(any, p)
	}
	return predicate.Or{Terms: any}
}

// likeOf is what LIKE says about how a text begins: for columns whose bytes compare as SQL compares, and for others that an index has
// the weights of.
func (t *Table) likeOf(e *expression.Like, alias string) predicate.Expr {
	c, ok := t.fieldOf(e.LeftChild, alias)
	if !ok {
		return nil
	}
	text, ok := t.info.schema.Schema[c].Type.(sql.StringType)
	if !ok {
		return nil
	}
	l, ok := e.RightChild.(*expression.Literal)
	if !ok {
		return nil
	}
	pattern, ok := l.Value().(string)
	if !ok {
		return nil
	}
	escape := `\`
	if e.Escape != nil {
		x, ok := e.Escape.(*expression.Literal)
		if !ok {
			return nil
		}
		if escape, ok = x.Value().(string); !ok || len(escape) > 1 {
			return nil
		}
	}
	if !t.info.filterable(c) {
		return t.info.beginsLike(c, text.Collation(), literalStart(pattern, escape))
	}
	var begin any = literalStart(pattern, escape)
	if begin == "" {
		return predicate.Not{Term: predicate.IsNull{Column: c}}
	}
	if types.IsBinaryType(t.info.schema.Schema[c].Type) {
		begin = []byte(begin.(string))
	}
	p, ok := predicate.HasPrefix(c, begin)
	if !ok {
		return nil
	}
	return p
}

// beginsLike is "the column begins with text under its collation" in terms of a hidden key, which begins with the weights of the
// column's characters; nil if there is none. LIKE compares character by character, as weights are made.
func (t *tableInfo) beginsLike(column int, c sql.CollationID, text string) predicate.Expr {
	set := c.CharacterSet()
	if set != sql.CharacterSet_utf8mb4 && set != sql.CharacterSet_utf8mb3 || strings.TrimRight(text, " ") == "" {
		return nil
	}
	keys := []*keyMap{&t.key}
	for i := range t.indexes {
		keys = append(keys, &t.indexes[i].key)
	}
	for _, k := range keys {
		if k.hidden < 0 || len(k.parts) == 0 || k.parts[0].column != column || k.parts[0].length > 0 {
			continue
		}
		start, err := k.parts[0].append(nil, text)
		if err != nil || len(start) < 2 || start[len(start)-1] != 0 { // Why silent: a pattern that is no text is LIKE's to refuse
			return nil
		}
		p, _ := predicate.HasPrefix(k.hidden, start[:len(start)-1]) // without the end of the text
		return p
	}
	return nil
}

// literalStart is what a LIKE pattern says before its first wildcard or escape.
func literalStart(pattern, escape string) string {
	if i := strings.IndexAny(pattern, "%_"+escape); i >= 0 {
		return pattern[:i]
	}
	return pattern
}
