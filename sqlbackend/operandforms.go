package sqlbackend

import (
	"math/big"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
)

// Functions and operands that the frontend has in another form than MySQL. Each is a Go type of its own, so that looking at a plan
// twice changes nothing.

// nowOfDigits is NOW(n) and SYSDATE(n) with the n digits it has: the frontend says six.
type nowOfDigits struct {
	*function.Now
	digits int
}

// withDigits returns NOW with the digits it names; false if it names none.
func withDigits(ctx *sql.Context, e *function.Now) (sql.Expression, bool) {
	args := e.Children()
	if len(args) != 1 {
		return e, false
	}
	digits, ok := literalInt(ctx, args[0])
	if !ok || digits < 0 || digits > types.MaxDatetimePrecision {
		return e, false
	}
	return &nowOfDigits{e, digits}, true
}

// Type implements sql.Expression.
func (n *nowOfDigits) Type(*sql.Context) sql.Type {
	return types.MustCreateDatetimeType(sqltypes.Datetime, n.digits)
}

// Children implements sql.Expression. Why none: the frontend's NOW forgets that it was SYSDATE when its literal is put back.
func (n *nowOfDigits) Children() []sql.Expression { return nil }

// WithChildren implements sql.Expression.
func (n *nowOfDigits) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(n, len(c), 0)
	}
	return n, nil
}

// timeNow is CURTIME(n). The frontend's has no digits behind the seconds, and cannot be copied if it says how many.
type timeNow struct {
	*function.CurrTime
	digits int
}

// Type implements sql.Expression.
func (t *timeNow) Type(*sql.Context) sql.Type { return newTimeType(t.digits) }

// Eval implements sql.Expression.
func (t *timeNow) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	now, err := function.NewNow(ctx, expression.NewLiteral(int64(t.digits), types.Int64))
	if err != nil {
		return nil, err
	}
	v, err := now.Eval(ctx, row)
	if at, ok := v.(time.Time); ok {
		return ofDay(at), err
	}
	return nil, err
}

// Children implements sql.Expression.
func (t *timeNow) Children() []sql.Expression { return nil }

// WithChildren implements sql.Expression.
func (t *timeNow) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(t, len(c), 0)
	}
	return t, nil
}

// modulo is %, whose zero has no sign.
type modulo struct{ *expression.Mod }

// Eval implements sql.Expression.
func (m *modulo) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := m.Mod.Eval(ctx, row)
	if f, ok := v.(float64); ok && f == 0 {
		return 0.0, err
	}
	return plainZero(v), err
}

// WithChildren implements sql.Expression.
func (m *modulo) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := m.Mod.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &modulo{e.(*expression.Mod)}, nil
}

// wholeQuotient is DIV with an error where the result is no BIGINT or, if an operand is unsigned, no BIGINT UNSIGNED.
type wholeQuotient struct{ *expression.IntDiv }

// Eval implements sql.Expression.
func (q *wholeQuotient) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	l, err := q.Left().Eval(ctx, row)
	if err != nil || l == nil {
		return nil, err
	}
	r, err := q.Right().Eval(ctx, row)
	if err != nil || r == nil {
		return nil, err
	}
	x, ok := exactOf(l)
	y, ok2 := exactOf(r)
	if !ok || !ok2 || y.Sign() == 0 { // texts, doubles and dates; division by zero is NULL, with a warning
		left, right := expression.NewLiteral(l, q.Left().Type(ctx)), expression.NewLiteral(r, q.Right().Type(ctx))
		return expression.NewIntDiv(left, right).Eval(ctx, nil)
	}
	ratio := new(big.Rat).Quo(x, y)
	n := new(big.Int).Quo(ratio.Num(), ratio.Denom())
	kind := "BIGINT"
	if types.IsUnsigned(q.Type(ctx)) {
		if n.IsUint64() {
			return n.Uint64(), nil
		}
		kind = "BIGINT UNSIGNED"
	} else if n.IsInt64() {
		return n.Int64(), nil
	}
	return nil, mysql.NewSQLError(mysql.ERDataOutOfRange, "22003", "%s value is out of range in '%s'", kind, q.String())
}

// WithChildren implements sql.Expression.
func (q *wholeQuotient) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := q.IntDiv.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &wholeQuotient{e.(*expression.IntDiv)}, nil
}

// exactOf is an integer or a DECIMAL as a fraction.
func exactOf(v any) (*big.Rat, bool) {
	if d, ok := v.(*apd.Decimal); ok && d != nil && d.Form == apd.Finite {
		return new(big.Rat).SetString(d.Text('f'))
	}
	if n, ok := bigOf(v); ok {
		return new(big.Rat).SetInt(n), true
	}
	return nil, false
}

// plainModulos takes modulo out again below a quotient, whose digits depend on what the frontend recognises there.
func plainModulos(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	return transform.Expr(ctx, e, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		if m, ok := e.(*modulo); ok {
			return m.Mod, transform.NewTree, nil
		}
		return e, transform.SameTree, nil
	})
}

// memberText is an ENUM as its text, which comparisons by order with anything but numbers take it for.
type memberText struct{ sql.Expression }

// Type implements sql.Expression.
func (m *memberText) Type(ctx *sql.Context) sql.Type {
	if t, ok := m.Expression.Type(ctx).(sql.TypeWithCollation); ok {
		return types.CreateLongText(t.Collation())
	}
	return types.LongText
}

// Eval implements sql.Expression.
func (m *memberText) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := m.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	if t, ok := m.Expression.Type(ctx).(sql.EnumType); ok {
		if n, ok := int64Of(v); ok {
			text, _ := t.At(int(n)) // none is the empty text of what was no member
			return text, nil
		}
	}
	return v, nil
}

// Children implements sql.Expression.
func (m *memberText) Children() []sql.Expression { return []sql.Expression{m.Expression} }

// WithChildren implements sql.Expression.
func (m *memberText) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(m, len(c), 1)
	}
	return &memberText{c[0]}, nil
}

// membersAsTexts replaces operands of a comparison by order; nil if there is nothing to replace.
func membersAsTexts(ctx *sql.Context, operands []sql.Expression) []sql.Expression {
	members := make([]bool, len(operands))
	found := false
	for i, o := range operands {
		t := o.Type(ctx)
		if types.IsNumber(t) {
			return nil
		}
		members[i] = types.IsEnum(t)
		found = found || members[i]
	}
	if !found {
		return nil
	}
	out := append([]sql.Expression{}, operands...)
	for i, member := range members {
		if member {
			out[i] = &memberText{operands[i]}
		}
	}
	return out
}

// dateValue is a DATE, DATETIME or TIMESTAMP as the number 20240229 or 20240229101112, which comparisons with numbers take it for.
type dateValue struct{ sql.Expression }

// Type implements sql.Expression.
func (d *dateValue) Type(ctx *sql.Context) sql.Type {
	if digits := timeDigits(d.Expression.Type(ctx)); digits > 0 {
		return decimalOf(len("20240229101112"), digits)
	}
	return types.Int64
}

// Eval implements sql.Expression.
func (d *dateValue) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := d.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	return d.number(ctx, v)
}

// number is a value of the expression as the number.
func (d *dateValue) number(ctx *sql.Context, v any) (any, error) {
	typ := d.Expression.Type(ctx)
	at, ok := v.(time.Time)
	if !ok { // functions of the frontend whose values are not of their type
		v, err := sql.UnwrapAny(ctx, v)
		if err != nil {
			return nil, err
		}
		converted, _, err := typ.Convert(ctx, v)
		if at, ok = converted.(time.Time); err != nil || !ok {
			return v, nil
		}
	}
	n := dateDigits(at)
	if !types.IsDateType(typ) {
		n = n*1_000_000 + int64(at.Hour())*10_000 + int64(at.Minute())*100 + int64(at.Second())
	}
	if digits := timeDigits(typ); digits > 0 {
		micros := new(apd.BigInt).Mul(apd.NewBigInt(n), apd.NewBigInt(1_000_000)) // more than an int64 has digits
		micros.Add(micros, apd.NewBigInt(int64(at.Nanosecond())/1000))
		return sql.DecimalRound(apd.NewWithBigInt(micros, -types.MaxDatetimePrecision), int32(digits))
	}
	return n, nil
}

// dateDigits is a day as yyyymmdd.
func dateDigits(at time.Time) int64 {
	if at.Year() < 0 {
		return 0 // the zero date is earlier than all others
	}
	return int64(at.Year())*10_000 + int64(at.Month())*100 + int64(at.Day())
}

// Children implements sql.Expression.
func (d *dateValue) Children() []sql.Expression { return []sql.Expression{d.Expression} }

// WithChildren implements sql.Expression.
func (d *dateValue) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(d, len(c), 1)
	}
	return &dateValue{c[0]}, nil
}

// datesAsNumbers replaces dates that are compared with columns of numbers, or with literals that are no dates; nil if there are none.
// Dates next to numbers that are dates are compared as such, see comparedDates.
func datesAsNumbers(ctx *sql.Context, operands []sql.Expression) []sql.Expression {
	number := false
	var out []sql.Expression
	for i, o := range operands {
		t := o.Type(ctx)
		if types.IsTime(t) {
			if out == nil {
				out = append(out, operands...)
			}
			out[i] = &dateValue{o}
			continue
		}
		if !types.IsNumber(t) || types.IsYear(t) {
			return nil
		}
		sql.Inspect(ctx, o, func(_ *sql.Context, e sql.Expression) bool {
			switch e.(type) {
			case *expression.GetField, *expression.Literal: // literals that are dates are texts by now
				number = true
			}
			return !number
		})
	}
	if !number {
		return nil
	}
	return out
}
