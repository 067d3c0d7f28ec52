package sqlbackend

import (
	"fmt"
	"math"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// rounding is ROUND(x [, d]) or TRUNCATE(x, d). Exact numbers stay exact; everything else is a DOUBLE. The frontend computes
// doubles as decimals, which ends where these have no more digits, rounds their halves away from zero, and has no result for texts
// of VARCHAR, JSON and dates.
type rounding struct {
	args     []sql.Expression
	truncate bool
}

var _ sql.FunctionExpression = (*rounding)(nil)

// newRounding builds ROUND; sql.ErrInvalidArgumentNumber for other numbers of arguments than one and two.
func newRounding(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	if len(args) != 1 && len(args) != 2 {
		return nil, sql.ErrInvalidArgumentNumber.New("ROUND", "1 or 2", len(args))
	}
	return &rounding{args: args}, nil
}

// FunctionName implements sql.FunctionExpression.
func (r *rounding) FunctionName() string {
	if r.truncate {
		return "truncate"
	}
	return "round"
}

// Description implements sql.FunctionExpression.
func (r *rounding) Description() string {
	return "changes how many digits a number has behind the point"
}

// String implements fmt.Stringer.
func (r *rounding) String() string {
	digits := "0"
	if len(r.args) > 1 {
		digits = r.args[1].String()
	}
	return fmt.Sprintf("%s(%s,%s)", r.FunctionName(), r.args[0], digits)
}

// Resolved implements sql.Expression.
func (r *rounding) Resolved() bool { return expression.ExpressionsResolved(r.args...) }

// Children implements sql.Expression.
func (r *rounding) Children() []sql.Expression { return r.args }

// WithChildren implements sql.Expression.
func (r *rounding) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != len(r.args) {
		return nil, sql.ErrInvalidChildrenNumber.New(r, len(c), len(r.args))
	}
	return &rounding{args: c, truncate: r.truncate}, nil
}

// IsNullable implements sql.Expression.
func (r *rounding) IsNullable(ctx *sql.Context) bool {
	return r.args[0].IsNullable(ctx) || len(r.args) > 1 && r.args[1].IsNullable(ctx)
}

// CollationCoercibility implements sql.CollationCoercible.
func (*rounding) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	return sql.Collation_binary, 5
}

// Type implements sql.Expression: a BIGINT for integers, and otherwise, if d is constant, a DECIMAL or DOUBLE with d digits behind
// the point.
func (r *rounding) Type(ctx *sql.Context) sql.Type {
	typ := timeAsNumber(ctx, r.args[0]).Type(ctx)
	digits, behind, exact := exactKind(typ)
	switch {
	case types.IsUnsigned(typ) || types.IsBit(typ):
		return types.Uint64
	case exact && !types.IsDecimal(typ) || types.IsYear(typ):
		return types.Int64
	}
	scale, constant := 0, true
	if len(r.args) > 1 {
		scale, constant = constantInt(ctx, r.args[1])
		scale = max(scale, 0)
	}
	switch {
	case exact && constant:
		return decimalOf(digits-behind+1, scale)
	case exact:
		return typ
	case constant && scale <= types.DecimalTypeMaxScale:
		const significant = 17 // digits of a DOUBLE
		return shownNumber{types.Float64.(types.NumberTypeImpl_), significant + scale, scale}
	}
	return types.Float64
}

// Eval implements sql.Expression.
func (r *rounding) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	x := timeAsNumber(ctx, r.args[0])
	v, err := x.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	digits := int32(0)
	if len(r.args) > 1 {
		d, err := r.args[1].Eval(ctx, row)
		if err != nil || d == nil {
			return nil, err
		}
		if digits, err = wantedDigits(ctx, d); err != nil {
			return nil, err
		}
	}
	typ := x.Type(ctx)
	switch _, _, exact := exactKind(typ); {
	case types.IsDecimal(typ):
		return r.decimal(ctx, v, digits)
	case exact || types.IsBit(typ) || types.IsYear(typ):
		return r.integer(ctx, v, digits)
	}
	f, err := doubleOf(ctx, v, x)
	if err != nil {
		return nil, err
	}
	return r.double(f, digits), nil
}

// wantedDigits is how many digits there are to be behind the point; as many before it stay if it is negative.
func wantedDigits(ctx *sql.Context, d any) (int32, error) {
	n, in, err := types.Int32.Convert(ctx, d)
	if err != nil {
		if !sql.ErrTruncatedIncorrect.Is(err) {
			return 0, err
		}
		ctx.Warn(mysql.ERTruncatedWrongValue, "%s", err.Error())
	}
	switch i, _ := n.(int32); {
	case in == sql.Overflow:
		return math.MaxInt16, nil
	case in == sql.Underflow:
		return math.MinInt16, nil
	default:
		return min(max(i, math.MinInt16), math.MaxInt16), nil
	}
}

func (r *rounding) decimal(ctx *sql.Context, v any, digits int32) (any, error) {
	d, err := toDecimal(v)
	if err != nil || d == nil {
		return nil, err
	}
	if d, err = r.cut(d, digits); err != nil {
		return nil, err
	}
	if t, ok := r.Type(ctx).(sql.DecimalType); ok {
		d, err = sql.DecimalRound(d, int32(t.Scale()))
	}
	return plainZero(d), err
}

// cut leaves no digits but those wanted.
func (r *rounding) cut(d *apd.Decimal, digits int32) (*apd.Decimal, error) {
	const places = decimalDigitsMax + 1 // before the point
	switch {
	case digits < -places:
		return new(apd.Decimal), nil
	case digits >= -d.Exponent:
		return d, nil
	case r.truncate:
		return types.DecimalTruncate(d, digits), nil
	}
	return sql.DecimalRound(d, digits)
}

func (r *rounding) integer(ctx *sql.Context, v any, digits int32) (any, error) {
	typ := r.Type(ctx)
	whole, _, err := typ.Convert(ctx, v)
	if err != nil || digits >= 0 {
		return whole, err
	}
	d, err := toDecimal(whole)
	if err != nil {
		return nil, err
	}
	if d, err = r.cut(d, digits); err != nil {
		return nil, err
	}
	whole, in, err := typ.Convert(ctx, d)
	if err != nil || in == sql.InRange {
		return whole, err
	}
	kind := "BIGINT"
	if types.IsUnsigned(typ) {
		kind = "BIGINT UNSIGNED"
	}
	return nil, mysql.NewSQLError(mysql.ERDataOutOfRange, "22003", "%s value is out of range in '%s'", kind, r)
}

func (r *rounding) double(f float64, digits int32) float64 {
	unit := math.Pow10(int(max(digits, -digits)))
	scaled := f * unit
	if digits < 0 {
		scaled = f / unit
	}
	switch {
	case math.IsInf(scaled, 0) || math.IsNaN(scaled): // more digits than f has
		return f
	case r.truncate:
		scaled = math.Trunc(scaled)
	default:
		scaled = math.RoundToEven(scaled)
	}
	if digits < 0 {
		if scaled == 0 {
			return 0
		}
		return scaled * unit
	}
	return scaled / unit
}

// spanNumber is a time as the number hhmmss, with fractions.
func spanNumber(v any) (float64, error) {
	t, err := types.Time.ConvertToTimespan(v)
	if err != nil {
		return 0, err
	}
	const second, minute, hour = 1_000_000, 60_000_000, 3_600_000_000
	n := int64(t) // microseconds
	return float64(n/hour*10_000+n%hour/minute*100+n%minute/second) + float64(n%second)/second, nil
}

// doubleOf is the value of an expression as the DOUBLE that a function of numbers takes it for; what is no number warns.
func doubleOf(ctx *sql.Context, v any, e sql.Expression) (float64, error) {
	typ := e.Type(ctx)
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return 0, err
	}
	switch {
	case types.IsTimespan(typ):
		return spanNumber(v)
	case types.IsBlobType(typ):
		if _, ok := e.(*expression.Literal); ok { // x'ff'; cells are texts
			if bytes, ok := v.([]byte); ok {
				n := uint64(0) // of the last eight, as in MySQL
				for _, b := range bytes {
					n = n<<8 | uint64(b)
				}
				return float64(n), nil
			}
		}
	}
	if err != nil {
		return 0, err
	}
	f, _, err := types.Float64.Convert(ctx, v)
	if err != nil {
		if !sql.ErrTruncatedIncorrect.Is(err) {
			return 0, err
		}
		ctx.Warn(mysql.ERTruncatedWrongValue, "%s", err.Error())
	}
	n, _ := f.(float64)
	return n, nil
}
