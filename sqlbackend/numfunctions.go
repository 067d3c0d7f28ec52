package sqlbackend

import (
	"math"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// numberFunction returns functions whose results of type DECIMAL the frontend gives another scale than MySQL does, or
// which change their argument in place.
func numberFunction(name string) (sql.Function, bool) {
	two := func(build func(*sql.Context, sql.Expression, sql.Expression) sql.Expression, typ func(*sql.Context, sql.Expression) sql.Type) (sql.Function, bool) {
		return sql.Function2{Name: name, Fn: func(ctx *sql.Context, a, b sql.Expression) sql.Expression {
			return &shown{build(ctx, a, b), typ}
		}}, true
	}
	many := func(build func(*sql.Context, ...sql.Expression) (sql.Expression, error), typ func(*sql.Context, sql.Expression) sql.Type) (sql.Function, bool) {
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := build(ctx, args...)
			if err != nil {
				return nil, err
			}
			return &shown{e, typ}, nil
		}}, true
	}
	switch name {
	case "round":
		return sql.FunctionN{Name: name, Fn: newRounding}, true
	case "truncate":
		return sql.Function2{Name: name, Fn: func(_ *sql.Context, x, d sql.Expression) sql.Expression {
			return &rounding{args: []sql.Expression{x, d}, truncate: true}
		}}, true
	case "coalesce":
		return many(function.NewCoalesce, commonType)
	case "greatest", "least":
		return sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) { return newExtreme(name, args) }}, true
	case "ifnull":
		return two(function.NewIfNull, commonType)
	case "floor":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			return &wholeNumber{function.NewFloor(ctx, e), (*apd.Context).Floor, math.Floor}
		}}, true
	case "ceil", "ceiling":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			return &wholeNumber{function.NewCeil(ctx, e), (*apd.Context).Ceil, math.Ceil}
		}}, true
	}
	return nil, false
}

// constantInt is the value of an expression without columns, as a whole number; false if it is none.
func constantInt(ctx *sql.Context, e sql.Expression) (int, bool) {
	constant := true
	transform.InspectExpr(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
		switch e.(type) {
		case *expression.Literal, *expression.UnaryMinus:
		default:
			constant = false
		}
		return !constant
	})
	if !constant {
		return 0, false
	}
	v, err := e.Eval(ctx, nil)
	if err != nil || v == nil {
		return 0, false
	}
	n, _, err := types.Int32.Convert(quiet(ctx), v)
	if i, ok := n.(int32); ok && (err == nil || sql.ErrTruncatedIncorrect.Is(err)) {
		return int(i), true
	}
	return 0, false
}

// decimalOf is the DECIMAL with that many digits before and behind the point, as far as there are so many.
func decimalOf(whole, scale int) sql.Type {
	scale = min(scale, types.DecimalTypeMaxScale)
	return types.MustCreateDecimalType(uint8(min(max(whole+scale, 1), types.DecimalTypeMaxPrecision)), uint8(scale))
}

// commonType is the type of a choice between exact numbers, one of them a DECIMAL: all their digits. Others have the type
// the frontend gives them.
func commonType(ctx *sql.Context, e sql.Expression) sql.Type {
	typ := e.Type(ctx)
	if d, ok := choiceType(ctx, e.Children()); ok && types.IsNumber(typ) && !types.IsFloat(typ) {
		return d
	}
	return typ
}

func choiceType(ctx *sql.Context, args []sql.Expression) (sql.Type, bool) {
	whole, scale, decimals := 0, 0, false
	for _, a := range args {
		typ := a.Type(ctx)
		if typ == types.Null {
			continue
		}
		n, behind, ok := exactKind(typ)
		if !ok {
			return nil, false
		}
		decimals = decimals || types.IsDecimal(typ)
		whole, scale = max(whole, n-behind), max(scale, behind)
	}
	if !decimals {
		return nil, false
	}
	return decimalOf(whole, scale), true
}

// wholeNumber is FLOOR or CEILING: of a double one, which the frontend makes an integer, and of a DECIMAL. The frontend's own changes the DECIMAL it is given, which may be a cell of
// the row.
type wholeNumber struct {
	sql.Expression
	round func(*apd.Context, *apd.Decimal, *apd.Decimal) (apd.Condition, error)
	real  func(float64) float64
}

// ofReal reports whether the value is a double: that of a double, and of all that is no number.
func (w *wholeNumber) ofReal(ctx *sql.Context) bool {
	typ := w.Children()[0].Type(ctx)
	return types.IsFloat(typ) || !types.IsNumber(typ) && !types.IsBit(typ) && typ != types.Null && !types.IsDeferredType(typ)
}

// Eval implements sql.Expression.
func (w *wholeNumber) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	arg := w.Children()[0]
	if w.ofReal(ctx) {
		f, ok, err := realOperand(ctx, row, arg, "floor")
		if err != nil || !ok {
			return nil, err
		}
		return w.real(f), nil
	}
	if !types.IsDecimal(arg.Type(ctx)) {
		return w.Expression.Eval(ctx, row)
	}
	v, err := arg.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	d, err := toDecimal(v)
	if err != nil || d == nil {
		return nil, err
	}
	whole := new(apd.Decimal)
	if _, err := w.round(&sql.DecimalCtx, whole, d); err != nil {
		return nil, err
	}
	c, _, err := w.Type(ctx).Convert(quiet(ctx), whole)
	return c, err
}

// Type implements sql.Expression.
func (w *wholeNumber) Type(ctx *sql.Context) sql.Type {
	const bigint = 18 // digits that fit BIGINT
	if w.ofReal(ctx) {
		return types.Float64
	}
	arg := w.Children()[0]
	d, ok := arg.Type(ctx).(sql.DecimalType)
	switch arg.(type) {
	case *expression.GetField, *expression.Literal, *expression.Convert:
	default:
		ok = false // the frontend gives it more digits than it needs
	}
	if ok && int(d.Precision())-int(d.Scale()) >= bigint {
		return decimalOf(int(d.Precision())-int(d.Scale())+1, 0)
	}
	return w.Expression.Type(ctx)
}

// WithChildren implements sql.Expression.
func (w *wholeNumber) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := w.Expression.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &wholeNumber{e, w.round, w.real}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (w *wholeNumber) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, w.Expression)
}

// signedCast is CAST(x AS SIGNED), which takes the bits of an unsigned number as they are.
type signedCast struct {
	*expression.Convert
}

// Eval implements sql.Expression.
func (s *signedCast) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if types.IsUnsigned(s.Child.Type(ctx)) {
		v, err := s.Child.Eval(ctx, row)
		if n, ok := v.(uint64); ok || err != nil {
			return int64(n), err
		}
	}
	return s.Convert.Eval(ctx, row)
}

// WithChildren implements sql.Expression.
func (s *signedCast) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := s.Convert.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &signedCast{e.(*expression.Convert)}, nil
}
