package sqlbackend

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// ownValue is a function of the frontend whose value is computed here: the frontend's panics on some operands, or takes them for
// something else than MySQL does. All that is known of the call without its value is the frontend's.
type ownValue struct {
	sql.Expression
	eval func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error)
}

var _ sql.FunctionExpression = (*ownValue)(nil)

// FunctionName implements sql.FunctionExpression.
func (o *ownValue) FunctionName() string {
	if f, ok := o.Expression.(sql.FunctionExpression); ok {
		return strings.ToLower(f.FunctionName())
	}
	return ""
}

// Description implements sql.FunctionExpression.
func (o *ownValue) Description() string { return "" }

// Eval implements sql.Expression.
func (o *ownValue) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	return o.eval(ctx, row, o.Children())
}

// WithChildren implements sql.Expression.
func (o *ownValue) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := o.Expression.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &ownValue{e, o.eval}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (o *ownValue) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, o.Expression)
}

// anyOperand is the value of an operand, taken out of whatever holds it; nil is NULL.
func anyOperand(ctx *sql.Context, row sql.Row, e sql.Expression) (any, error) {
	v, err := e.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	return sql.UnwrapAny(ctx, v)
}

// textOperand is an operand as the text MySQL takes it for; false if it is NULL.
func textOperand(ctx *sql.Context, row sql.Row, e sql.Expression) (string, bool, error) {
	v, err := anyOperand(ctx, row, e)
	if err != nil || v == nil {
		return "", false, err
	}
	typ := e.Type(ctx)
	if showsDigits(typ) { // their digits are those of the type
		shown, err := (&timeText{expression.NewLiteral(v, typ)}).Eval(ctx, nil)
		text, ok := shown.(string)
		return text, ok, err
	}
	switch v := v.(type) {
	case string:
		return v, true, nil
	case []byte:
		return string(v), true, nil
	case bool:
		if v {
			return "1", true, nil
		}
		return "0", true, nil
	case types.GeometryValue:
		return string(v.Serialize()), true, nil
	}
	text, _, err := types.ConvertToCollatedString(quiet(ctx), v, typ)
	return text, err == nil, err
}

// ofBytes reports whether an operand is a string of bytes, whose characters are bytes.
func ofBytes(ctx *sql.Context, e sql.Expression) bool {
	typ := e.Type(ctx)
	_, geometry := typ.(sql.SpatialColumnType)
	return types.IsBinaryType(typ) || geometry
}

// wholeOperand is an operand as an integer, rounded as MySQL rounds it and the nearest of 64 bits; false if it is NULL. Of a text it
// is the number it begins with.
func wholeOperand(ctx *sql.Context, row sql.Row, e sql.Expression, name string) (int64, bool, error) {
	v, err := anyOperand(ctx, row, e)
	if err != nil || v == nil {
		return 0, false, err
	}
	switch v := v.(type) {
	case uint64:
		return int64(min(v, math.MaxInt64)), true, nil
	case string:
		return leadingWhole(ctx, v), true, nil
	case float32, float64:
		f, _ := toFloat(v)
		return nearestInt(math.Round(f)), true, nil
	case *apd.Decimal:
		rounded, err := sql.DecimalRound(v, 0)
		if err != nil {
			return 0, false, err
		}
		n, err := rounded.Int64()
		if err != nil { // beyond 64 bits
			n = math.MaxInt64
			if v.Negative {
				n = math.MinInt64
			}
		}
		return n, true, nil
	}
	if n, ok := int64Of(v); ok {
		return n, true, nil
	}
	f, ok, err := realOf(ctx, v, e, name)
	return nearestInt(math.Round(f)), ok, err
}

// nearestInt is a whole double as an integer of 64 bits, the nearest if it is beyond all.
func nearestInt(f float64) int64 {
	switch {
	case f >= 1<<63:
		return math.MaxInt64
	case f <= -1<<63:
		return math.MinInt64
	}
	return int64(f)
}

// leadingWhole is the integer a text begins with, with a warning if the text is more than that.
func leadingWhole(ctx *sql.Context, text string) int64 {
	from := strings.TrimLeft(text, " \t\n\v\f\r")
	end := 0
	if from != "" && (from[0] == '-' || from[0] == '+') {
		end = 1
	}
	for end < len(from) && from[end] >= '0' && from[end] <= '9' {
		end++
	}
	if strings.TrimSpace(from[end:]) != "" || end == 0 {
		ctx.Warn(mysql.ERTruncatedWrongValue, "Truncated incorrect INTEGER value: '%s'", text)
	}
	n, _ := strconv.ParseInt(from[:end], 10, 64) // of too many digits the nearest, of none 0
	return n
}

// realOperand is an operand as a double; false if it is NULL. Of a text it is the number it begins with, of a date its digits.
func realOperand(ctx *sql.Context, row sql.Row, e sql.Expression, name string) (float64, bool, error) {
	v, err := anyOperand(ctx, row, e)
	if err != nil || v == nil {
		return 0, false, err
	}
	return realOf(ctx, v, e, name)
}

// realOf is the value of an operand as a double.
func realOf(ctx *sql.Context, v any, e sql.Expression, name string) (float64, bool, error) {
	switch v := v.(type) {
	case float32, float64:
		f, _ := toFloat(v)
		return f, true, nil
	case uint64:
		return float64(v), true, nil
	case *apd.Decimal:
		f, err := strconv.ParseFloat(v.Text('E'), 64)
		return f, err == nil, err
	case string:
		if types.IsTime(e.Type(ctx)) { // CURDATE() and its like
			if at, ok := momentIn(ctx, v); ok {
				return realOf(ctx, at, e, name)
			}
		}
		return leadingReal(ctx, v), true, nil
	case []byte:
		if _, literal := e.(*expression.Literal); !literal {
			return leadingReal(ctx, string(v)), true, nil
		}
		n := uint64(0) // x'ff' next to numbers
		for _, c := range v[max(len(v)-8, 0):] {
			n = n<<8 | uint64(c)
		}
		return float64(n), true, nil
	case time.Time:
		digits, err := (&dateValue{expression.NewLiteral(v, e.Type(ctx))}).Eval(ctx, nil)
		if err != nil {
			return 0, false, err
		}
		if _, again := digits.(time.Time); again { // a day of a type that is no date
			return float64(dateDigits(v)), true, nil
		}
		return realOf(ctx, digits, e, name)
	case types.Timespan:
		n := int64(v)
		sign := 1.0
		if n < 0 {
			n, sign = -n, -1
		}
		seconds := n / 1_000_000
		whole := seconds/3600*10_000 + seconds/60%60*100 + seconds%60
		return sign * (float64(whole) + float64(n%1_000_000)/1e6), true, nil
	case types.GeometryValue:
		return 0, false, newError(1210, "Incorrect arguments to %s", name)
	case sql.JSONWrapper:
		inner, err := v.ToInterface(ctx)
		if err != nil {
			return 0, false, err
		}
		switch inner := inner.(type) {
		case bool, float64, int64, uint64, *apd.Decimal, string:
			return realOf(ctx, inner, e, name)
		}
		ctx.Warn(3156, "Invalid JSON value for CAST to DOUBLE from column %s at row 1", name)
		return 0, true, nil
	}
	if n, ok := int64Of(v); ok {
		return float64(n), true, nil
	}
	c, _, err := types.Float64.Convert(quiet(ctx), v)
	f, ok := c.(float64)
	if err != nil && !sql.ErrTruncatedIncorrect.Is(err) || !ok {
		return 0, false, newError(1210, "Incorrect arguments to %s", name)
	}
	return f, true, nil
}

// leadingReal is the number a text begins with, with a warning if the text is more than that. What is beyond all doubles is the
// greatest.
func leadingReal(ctx *sql.Context, text string) float64 {
	from := strings.TrimLeft(text, " \t\n\v\f\r")
	end := realLength(from)
	if strings.TrimSpace(from[end:]) != "" || end == 0 {
		ctx.Warn(mysql.ERTruncatedWrongValue, "Truncated incorrect DOUBLE value: '%s'", text)
	}
	f, _ := strconv.ParseFloat(from[:end], 64)
	return max(min(f, math.MaxFloat64), -math.MaxFloat64)
}

// realLength is how many bytes of a text are the number it begins with.
func realLength(s string) int {
	digits := func(at int) int {
		for at < len(s) && s[at] >= '0' && s[at] <= '9' {
			at++
		}
		return at
	}
	at := 0
	if s != "" && (s[0] == '-' || s[0] == '+') {
		at = 1
	}
	whole := digits(at)
	end := whole
	if end < len(s) && s[end] == '.' {
		end = digits(end + 1)
		if end == whole+1 && whole == at {
			return 0 // a point alone
		}
	}
	if end == at {
		return 0
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		exponent := end + 1
		if exponent < len(s) && (s[exponent] == '-' || s[exponent] == '+') {
			exponent++
		}
		if last := digits(exponent); last > exponent {
			end = last
		}
	}
	return end
}
