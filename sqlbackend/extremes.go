package sqlbackend

import (
	"math/big"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// extreme is GREATEST or LEAST. The frontend compares integers as doubles, texts by their bytes, and knows no other operands.
type extreme struct {
	name string
	sign int // of a comparison with what is better
	args []sql.Expression
}

var _ sql.FunctionExpression = (*extreme)(nil)

// extremeKind is what operands are compared as.
type extremeKind int

const (
	extremeMixed   extremeKind = iota // texts with numbers: doubles, by the frontend
	extremeInteger                    // integers, signed or unsigned
	extremeDecimal
	extremeReal
	extremeTime
	extremeDate
	extremeText
	extremeDateText // dates with texts
	extremeNull
)

// newExtreme is GREATEST or LEAST of operands.
func newExtreme(name string, args []sql.Expression) (sql.Expression, error) {
	if len(args) < 2 {
		return nil, sql.ErrInvalidArgumentNumber.New(strings.ToUpper(name), "2 or more", len(args))
	}
	for _, a := range args {
		if _, tuple := a.(interface{ Len() int }); tuple {
			return nil, newError(1241, "Operand should contain 1 column(s)")
		}
	}
	sign := 1
	if name == "least" {
		sign = -1
	}
	return &extreme{name, sign, args}, nil
}

// kind looks at the types of the operands.
func (x *extreme) kind(ctx *sql.Context) extremeKind {
	integers, decimals, reals, times, dates, texts := 0, 0, 0, 0, 0, 0
	for _, a := range x.args {
		switch typ := a.Type(ctx); {
		case typ == types.Null:
			return extremeNull
		case types.IsDecimal(typ):
			decimals++
		case types.IsFloat(typ):
			reals++
		case types.IsNumber(typ) || types.IsBit(typ):
			integers++
		case types.IsTimespan(typ) || isTimeType(typ):
			times++
		case types.IsTime(typ):
			dates++
		default:
			texts++
		}
	}
	switch all := len(x.args); {
	case integers == all:
		return extremeInteger
	case integers+decimals == all:
		return extremeDecimal
	case integers+decimals+reals == all:
		return extremeReal
	case times == all:
		return extremeTime
	case dates == all:
		return extremeDate
	case dates > 0 && dates+texts == all:
		return extremeDateText
	case texts+times+dates == all:
		return extremeText
	}
	return extremeMixed
}

// FunctionName implements sql.FunctionExpression.
func (x *extreme) FunctionName() string { return x.name }

// Description implements sql.FunctionExpression.
func (x *extreme) Description() string { return "" }

// Resolved implements sql.Expression.
func (x *extreme) Resolved() bool {
	for _, a := range x.args {
		if !a.Resolved() {
			return false
		}
	}
	return true
}

// String implements sql.Expression.
func (x *extreme) String() string {
	texts := make([]string, len(x.args))
	for i, a := range x.args {
		texts[i] = a.String()
	}
	return x.name + "(" + strings.Join(texts, ",") + ")"
}

// Type implements sql.Expression.
func (x *extreme) Type(ctx *sql.Context) sql.Type {
	for _, a := range x.args {
		if types.IsDeferredType(a.Type(ctx)) {
			return a.Type(ctx)
		}
	}
	switch x.kind(ctx) {
	case extremeInteger:
		signed, unsigned := false, false
		for _, a := range x.args {
			isUnsigned := types.IsUnsigned(a.Type(ctx)) || types.IsBit(a.Type(ctx))
			signed, unsigned = signed || !isUnsigned, unsigned || isUnsigned
		}
		switch {
		case !unsigned:
			return types.Int64
		case !signed:
			return types.Uint64
		}
		return decimalOf(20, 0)
	case extremeDecimal:
		if typ, ok := choiceType(ctx, x.args); ok {
			return typ
		}
		return types.InternalDecimalType
	case extremeTime:
		digits := 0
		for _, a := range x.args {
			digits = max(digits, timeDigits(a.Type(ctx)))
		}
		return newTimeType(digits)
	case extremeDate:
		digits, days := 0, true
		for _, a := range x.args {
			digits, days = max(digits, timeDigits(a.Type(ctx))), days && types.IsDateType(a.Type(ctx))
		}
		if days {
			return types.Date
		}
		return types.MustCreateDatetimeType(sqltypes.Datetime, digits)
	case extremeText, extremeDateText:
		id, _ := x.CollationCoercibility(ctx)
		if id == sql.Collation_binary || id == sql.Collation_Unspecified {
			for _, a := range x.args {
				if types.IsBinaryType(a.Type(ctx)) {
					return types.LongBlob
				}
			}
			return types.LongText
		}
		return types.CreateLongText(id)
	case extremeNull:
		return types.Null
	}
	return types.Float64
}

// IsNullable implements sql.Expression.
func (x *extreme) IsNullable(*sql.Context) bool { return true }

// Children implements sql.Expression.
func (x *extreme) Children() []sql.Expression { return x.args }

// WithChildren implements sql.Expression.
func (x *extreme) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != len(x.args) {
		return nil, sql.ErrInvalidChildrenNumber.New(x, len(c), len(x.args))
	}
	return &extreme{x.name, x.sign, c}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (x *extreme) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	id, strength := sql.GetCoercibility(ctx, x.args[0])
	for _, a := range x.args[1:] {
		other, otherStrength := sql.GetCoercibility(ctx, a)
		id, strength = sql.ResolveCoercibility(id, strength, other, otherStrength)
	}
	return id, strength
}

// Eval implements sql.Expression.
func (x *extreme) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	typ := x.Type(ctx)
	switch kind := x.kind(ctx); kind {
	case extremeNull:
		return nil, nil
	case extremeMixed:
		return x.mixed(ctx, row)
	case extremeReal:
		return best(x, func(a sql.Expression) (float64, bool, error) { return realOperand(ctx, row, a, x.name) },
			func(a, b float64) (int, error) { return compareReals(a, b), nil })
	case extremeInteger, extremeDecimal:
		v, err := best(x, func(a sql.Expression) (*big.Rat, bool, error) { return exactOperand(ctx, row, a) },
			func(a, b *big.Rat) (int, error) { return a.Cmp(b), nil })
		number, ok := v.(*big.Rat)
		if err != nil || !ok {
			return nil, err
		}
		scale := 0
		if d, ok := typ.(sql.DecimalType); ok {
			scale = int(d.Scale())
		}
		d, _, err := apd.NewFromString(number.FloatString(scale))
		if err != nil {
			return nil, err
		}
		c, _, err := typ.Convert(quiet(ctx), d)
		return c, err
	case extremeTime:
		return best(x, func(a sql.Expression) (types.Timespan, bool, error) {
			v, err := anyOperand(ctx, row, a)
			if err != nil || v == nil {
				return 0, false, err
			}
			c, _, err := types.Time.Convert(quiet(ctx), v)
			t, ok := c.(types.Timespan)
			return t, ok, err
		}, func(a, b types.Timespan) (int, error) { return compareReals(float64(a), float64(b)), nil })
	case extremeDate:
		return best(x, func(a sql.Expression) (time.Time, bool, error) {
			v, err := anyOperand(ctx, row, a)
			if err != nil || v == nil {
				return time.Time{}, false, err
			}
			c, _, err := typ.Convert(quiet(ctx), v)
			t, ok := c.(time.Time)
			return t, ok, err
		}, func(a, b time.Time) (int, error) { return a.Compare(b), nil })
	default:
		collation := types.LongText
		if t, ok := typ.(sql.StringType); ok && typ != types.LongBlob {
			collation = types.CreateLongText(t.Collation())
		}
		v, err := best(x, func(a sql.Expression) (string, bool, error) { return textOperand(ctx, row, a) }, func(a, b string) (int, error) {
			if kind == extremeDateText {
				if s, ok := momentIn(ctx, a); ok {
					if t, ok := momentIn(ctx, b); ok {
						return s.Compare(t), nil
					}
				}
			}
			if typ == types.LongBlob {
				return strings.Compare(a, b), nil
			}
			return collation.Compare(quiet(ctx), a, b)
		})
		if text, ok := v.(string); ok && typ == types.LongBlob {
			return []byte(text), err
		}
		return v, err
	}
}

// mixed leaves texts and numbers to the frontend, as such.
func (x *extreme) mixed(ctx *sql.Context, row sql.Row) (any, error) {
	args := make([]sql.Expression, len(x.args))
	for i, a := range x.args {
		if types.IsTextOnly(a.Type(ctx)) {
			args[i] = a
		} else {
			args[i] = &asReal{a}
		}
	}
	build := function.NewGreatest
	if x.sign < 0 {
		build = function.NewLeast
	}
	e, err := build(ctx, args...)
	if err != nil {
		return nil, err
	}
	v, err := e.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	c, _, err := types.Float64.Convert(quiet(ctx), v)
	return c, err
}

// best is the value of the best operand, nil if one of them is NULL.
func best[T any](x *extreme, value func(sql.Expression) (T, bool, error), compare func(a, b T) (int, error)) (any, error) {
	var chosen T
	for i, a := range x.args {
		v, ok, err := value(a)
		if err != nil || !ok {
			return nil, err
		}
		if i == 0 {
			chosen = v
			continue
		}
		n, err := compare(v, chosen)
		if err != nil {
			return nil, err
		}
		if n*x.sign > 0 {
			chosen = v
		}
	}
	return chosen, nil
}

func compareReals(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// exactOperand is an integer or a DECIMAL; false if it is NULL.
func exactOperand(ctx *sql.Context, row sql.Row, e sql.Expression) (*big.Rat, bool, error) {
	v, err := anyOperand(ctx, row, e)
	if err != nil || v == nil {
		return nil, false, err
	}
	if r, ok := exactOf(v); ok {
		return r, true, nil
	}
	f, ok, err := realOf(ctx, v, e, "a choice")
	if err != nil || !ok {
		return nil, false, err
	}
	r := new(big.Rat).SetFloat64(f)
	return r, r != nil, nil
}

// momentIn is the date and time a text is; false if it is none.
func momentIn(ctx *sql.Context, text string) (time.Time, bool) {
	c, _, err := types.DatetimeMaxPrecision.Convert(quiet(ctx), dateOfDigits(text))
	t, ok := c.(time.Time)
	return t, ok && err == nil
}
