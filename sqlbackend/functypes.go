package sqlbackend

import (
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/expression/function/spatial"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// The frontend gives some functions another type than their values have: that of their argument, mostly. What a client gets is
// the value in that type, so that a standard deviation of integers arrives as an integer. These are those functions with
// MySQL's types.

// typedFunction returns a function with the type of its values.
func typedFunction(name string) (sql.Function, bool) {
	ofDoubles := func(build func(sql.Expression) sql.Expression) (sql.Function, bool) {
		return sql.Function1{Name: name, Fn: func(_ *sql.Context, e sql.Expression) sql.Expression { return build(&asDouble{e}) }}, true
	}
	ofType := func(build func(*sql.Context, ...sql.Expression) (sql.Expression, error), t sql.Type) (sql.Function, bool) {
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := build(ctx, args...)
			if err != nil {
				return nil, err
			}
			return &shown{e, func(*sql.Context, sql.Expression) sql.Type { return t }}, nil
		}}, true
	}
	switch name {
	case sameName:
		return sql.Function2{Name: name, Fn: func(_ *sql.Context, a, b sql.Expression) sql.Expression {
			return &shown{expression.NewNullSafeEquals(a, b), func(ctx *sql.Context, e sql.Expression) sql.Type { return e.Type(ctx) }}
		}}, true
	case negateName:
		return sql.Function1{Name: name, Fn: func(_ *sql.Context, e sql.Expression) sql.Expression {
			return &negated{expression.NewUnaryMinus(e)}
		}}, true
	case "std", "stddev", "stddev_pop":
		return ofDoubles(func(e sql.Expression) sql.Expression { return aggregation.NewStdDevPop(e) })
	case "stddev_samp":
		return ofDoubles(func(e sql.Expression) sql.Expression { return aggregation.NewStdDevSamp(e) })
	case "variance", "var_pop":
		return ofDoubles(func(e sql.Expression) sql.Expression { return aggregation.NewVarPop(e) })
	case "var_samp":
		return ofDoubles(func(e sql.Expression) sql.Expression { return aggregation.NewVarSamp(e) })
	case "st_geomfromwkb", "st_geometryfromwkb":
		return ofType(spatial.NewGeomFromWKB, types.GeometryType{})
	case "st_mlinefromwkb", "st_multilinestringfromwkb":
		return ofType(spatial.NewMLineFromWKB, types.MultiLineStringType{})
	case "curdate", "current_date": // the frontend has a text, which is another number than the date
		return sql.Function0{Name: name, Fn: func(ctx *sql.Context) sql.Expression {
			return &shown{function.NewCurrDate(ctx), func(*sql.Context, sql.Expression) sql.Type { return types.Date }}
		}}, true
	case "str_to_date":
		return sql.Function2{Name: name, Fn: func(ctx *sql.Context, text, format sql.Expression) sql.Expression {
			return &shown{function.NewStrToDate(ctx, &fractionText{text, format}, format), parsedType}
		}}, true
	}
	return nil, false
}

// asDouble is an argument that is taken as a DOUBLE.
type asDouble struct{ sql.Expression }

// Type implements sql.Expression.
func (*asDouble) Type(*sql.Context) sql.Type { return types.Float64 }

// Eval implements sql.Expression. Texts are left to the function, which warns.
func (d *asDouble) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := d.Expression.Eval(ctx, row)
	if err != nil || v == nil || !types.IsNumber(d.Expression.Type(ctx)) {
		return v, err
	}
	f, _, err := types.Float64.Convert(ctx, v)
	return f, err
}

// Children implements sql.Expression.
func (d *asDouble) Children() []sql.Expression { return []sql.Expression{d.Expression} }

// WithChildren implements sql.Expression.
func (d *asDouble) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(d, len(c), 1)
	}
	return &asDouble{c[0]}, nil
}

// parsedType is the type of STR_TO_DATE: with fractions if the format has any or is not known yet, a TIME without a day.
func parsedType(ctx *sql.Context, e sql.Expression) sql.Type {
	call, ok := e.(*function.StrToDate)
	if !ok { // it is evaluated already, or converted for a comparison
		t := e.Type(ctx)
		if l, ok := e.(*expression.Literal); ok && t == types.Datetime {
			if at, ok := l.Value().(time.Time); ok && at.Nanosecond() != 0 {
				return types.DatetimeMaxPrecision
			}
		}
		return t
	}
	digits := types.MaxDatetimePrecision
	if l, ok := call.Format.(*expression.Literal); ok {
		if format, ok := l.Value().(string); ok && !strings.Contains(format, "%f") {
			digits = 0
		}
	}
	switch t := call.Type(ctx); {
	case types.IsTimespan(t):
		return newTimeType(digits)
	case types.IsDateType(t):
		return t
	case digits == 0:
		return types.Datetime
	}
	return types.DatetimeMaxPrecision
}

// fractionText is the text of STR_TO_DATE with all six digits where its format ends with fractions: the frontend takes "5" for five
// microseconds, MySQL for five tenths.
type fractionText struct{ text, format sql.Expression }

// Eval implements sql.Expression.
func (m *fractionText) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := m.text.Eval(ctx, row)
	text, ok := v.(string)
	if err != nil || !ok {
		return v, err
	}
	f, err := m.format.Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	format, _ := f.(string)
	if !strings.HasSuffix(format, "%f") {
		return text, nil
	}
	digits := len(text) - len(strings.TrimRight(text, "0123456789"))
	if digits == 0 || digits >= types.MaxDatetimePrecision {
		return text, nil
	}
	return text + strings.Repeat("0", types.MaxDatetimePrecision-digits), nil
}

// Type implements sql.Expression.
func (m *fractionText) Type(ctx *sql.Context) sql.Type { return m.text.Type(ctx) }

// Resolved implements sql.Expression.
func (m *fractionText) Resolved() bool { return m.text.Resolved() && m.format.Resolved() }

// String implements sql.Expression.
func (m *fractionText) String() string { return m.text.String() }

// IsNullable implements sql.Expression.
func (m *fractionText) IsNullable(ctx *sql.Context) bool { return m.text.IsNullable(ctx) }

// Children implements sql.Expression.
func (m *fractionText) Children() []sql.Expression { return []sql.Expression{m.text, m.format} }

// WithChildren implements sql.Expression.
func (m *fractionText) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 2 {
		return nil, sql.ErrInvalidChildrenNumber.New(m, len(c), 2)
	}
	return &fractionText{c[0], c[1]}, nil
}

// product is * of exact numbers, whose zero has no sign.
type product struct{ *expression.Arithmetic }

// Eval implements sql.Expression.
func (p *product) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := p.Arithmetic.Eval(ctx, row)
	return plainZero(v), err
}

// IsValueExpression implements sql.ValueExpression: rows only.
func (p *product) IsValueExpression(*sql.Context) bool { return false }

// WithChildren implements sql.Expression.
func (p *product) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := p.Arithmetic.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &product{e.(*expression.Arithmetic)}, nil
}

// plainZero takes the sign off a zero.
func plainZero(v any) any {
	d, ok := v.(*apd.Decimal)
	if !ok || d == nil || !d.Negative || !d.IsZero() {
		return v
	}
	return new(apd.Decimal).Abs(d)
}

// negated is minus: of an integer it is a BIGINT or an error, of an exact number zero has no sign. The frontend's keeps the type
// of small integers and wraps unsigned ones around.
type negated struct{ *expression.UnaryMinus }

// ofInteger reports whether the operand is an integer. A literal's minus is left to the frontend, which knows that of 2^63.
func (n *negated) ofInteger(ctx *sql.Context) bool {
	_, literal := n.Child.(*expression.Literal)
	return !literal && types.IsInteger(n.Child.Type(ctx))
}

// Type implements sql.Expression.
func (n *negated) Type(ctx *sql.Context) sql.Type {
	if n.ofInteger(ctx) {
		return types.Int64
	}
	return n.UnaryMinus.Type(ctx)
}

// Eval implements sql.Expression.
func (n *negated) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if !n.ofInteger(ctx) {
		v, err := n.UnaryMinus.Eval(ctx, row)
		return plainZero(v), err
	}
	v, err := n.Child.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	if i, ok := int64Of(v); ok && i != math.MinInt64 {
		return -i, nil
	}
	b, ok := bigOf(v)
	if !ok {
		return n.UnaryMinus.Eval(ctx, row)
	}
	if b = new(big.Int).Neg(b); !b.IsInt64() {
		return nil, mysql.NewSQLError(mysql.ERDataOutOfRange, "22003", "BIGINT value is out of range in '%s'", n.String())
	}
	return b.Int64(), nil
}

// WithChildren implements sql.Expression.
func (n *negated) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := n.UnaryMinus.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &negated{e.(*expression.UnaryMinus)}, nil
}

// trimsText gives TRIM a text where it has something else, whose type it would have.
func trimsText(ctx *sql.Context, e *function.Trim) (sql.Expression, bool, error) {
	c := e.Children()
	if types.IsText(c[0].Type(ctx)) {
		return e, false, nil
	}
	n, err := e.WithChildren(ctx, &timeText{c[0]}, c[1])
	return n, true, err
}
