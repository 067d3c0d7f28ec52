package sqlbackend

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Functions that write numbers in other ways: the frontend reads texts as numbers with decimals, and knows no numbers beyond 64 bits.

// digitFunction returns CONV, BIN, OCT, HEX and FORMAT.
func digitFunction(name string) (sql.Function, bool) {
	base := func(build func(*sql.Context, sql.Expression) sql.Expression, to int64) (sql.Function, bool) {
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			return &ownValue{build(ctx, e), func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
				return inBase(ctx, row, args[0], 10, to)
			}}
		}}, true
	}
	switch name {
	case "bin":
		return base(function.NewBin, 2)
	case "oct":
		return base(function.NewOct, 8)
	case "conv":
		return sql.Function3{Name: name, Fn: func(ctx *sql.Context, a, b, c sql.Expression) sql.Expression {
			return &ownValue{function.NewConv(ctx, a, b, c), func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
				from, ok, err := wholeOperand(ctx, row, args[1], name)
				if err != nil || !ok {
					return nil, err
				}
				to, ok, err := wholeOperand(ctx, row, args[2], name)
				if err != nil || !ok {
					return nil, err
				}
				return inBase(ctx, row, args[0], from, to)
			}}
		}}, true
	case "hex":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			if typ := e.Type(ctx); types.IsJSON(typ) || types.IsTime(typ) || types.IsTimespan(typ) {
				e = asPlain(ctx, e)
			}
			return &ownValue{function.NewHex(ctx, e), hexOf}
		}}, true
	case "format":
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := function.NewFormat(ctx, args...)
			if err != nil {
				return nil, err
			}
			return &ownValue{e, formatted}, nil
		}}, true
	}
	return nil, false
}

// inBase is CONV(e, from, to). A base below 0 is one of numbers with a sign.
func inBase(ctx *sql.Context, row sql.Row, e sql.Expression, from, to int64) (any, error) {
	valid := func(base int64) bool { return base >= 2 && base <= 36 || base <= -2 && base >= -36 }
	v, err := anyOperand(ctx, row, e)
	if err != nil || v == nil || !valid(from) || !valid(to) {
		return nil, err
	}
	text, ok, err := "", false, error(nil)
	if _, literal := e.(*expression.Literal); types.IsBit(e.Type(ctx)) || literal && ofBytes(ctx, e) {
		f, _, err := realOperand(ctx, row, e, "conv") // of x'ff' and b'1' the number
		if err != nil {
			return nil, err
		}
		text, from = strconv.FormatFloat(f, 'f', 0, 64), 10
		if n, whole := v.(uint64); whole {
			text = strconv.FormatUint(n, 10)
		}
	} else if text, ok, err = textOperand(ctx, row, e); err != nil || !ok {
		return nil, err
	}
	if text == "" {
		return nil, nil
	}
	n := leadingDigits(text, from)
	out := strconv.FormatUint(n, int(max(to, -to)))
	if to < 0 {
		out = strconv.FormatInt(int64(n), int(-to))
	}
	return strings.ToUpper(out), nil
}

// leadingDigits is the number a text begins with in a base, the nearest of 64 bits.
func leadingDigits(text string, base int64) uint64 {
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	end := 0
	for end < len(text) {
		if _, err := strconv.ParseUint(text[end:end+1], int(max(base, -base)), 64); err != nil {
			break
		}
		end++
	}
	n, err := strconv.ParseUint(text[:end], int(max(base, -base)), 64)
	if end == 0 {
		return 0
	}
	switch {
	case base < 0 && negative:
		return uint64(-int64(min(n, 1<<63)))
	case base < 0:
		return min(n, math.MaxInt64)
	case err != nil: // beyond 64 bits
		return math.MaxUint64
	case negative:
		return -n
	}
	return n
}

// hexOf is HEX. What is beyond 64 bits is the greatest number of them.
func hexOf(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	v, err := anyOperand(ctx, row, args[0])
	if err != nil || v == nil {
		return nil, err
	}
	f, isFloat := toFloat(v)
	d, isDecimal := v.(*apd.Decimal)
	if !isFloat && !isDecimal {
		if types.IsEnum(args[0].Type(ctx)) || types.IsSet(args[0].Type(ctx)) {
			text, _, err := textOperand(ctx, row, args[0])
			return strings.ToUpper(hexText(text)), err
		}
		return function.NewHex(ctx, expression.NewLiteral(v, args[0].Type(ctx))).Eval(ctx, nil)
	}
	if isDecimal {
		if f, err = strconv.ParseFloat(d.Text('E'), 64); err != nil {
			f = math.Inf(1)
		}
	}
	switch {
	case f <= -1<<63 || f >= 1<<64:
		return strings.Repeat("F", 16), nil
	case f < 0:
		return strings.ToUpper(strconv.FormatUint(uint64(int64(f-0.5)), 16)), nil
	}
	return strings.ToUpper(strconv.FormatUint(uint64(f+0.5), 16)), nil
}

// hexText is a text's bytes.
func hexText(text string) string {
	var out strings.Builder
	for i := range len(text) {
		if text[i] < 0x10 {
			out.WriteByte('0')
		}
		out.WriteString(strconv.FormatUint(uint64(text[i]), 16))
	}
	return out.String()
}

// formatted is FORMAT. Numbers of more digits than a double or a BIGINT has are written here, with the separators that the frontend has
// for others.
func formatted(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	v, err := anyOperand(ctx, row, args[0])
	if err != nil || v == nil {
		return nil, err
	}
	operands := []sql.Expression{nil, nil}
	places, ok, err := wholeOperand(ctx, row, args[1], "format")
	if err != nil || !ok {
		return nil, err
	}
	const most = 30
	places = max(min(places, most), 0)
	operands[1] = expression.NewLiteral(places, types.Int64)
	if len(args) > 2 {
		name, err := anyOperand(ctx, row, args[2])
		if err != nil {
			return nil, err
		}
		operands = append(operands, expression.NewLiteral(name, types.LongText))
	}
	number := new(big.Rat)
	if exact, ok := exactOf(v); ok {
		number = exact
	} else {
		f, ok, err := realOf(ctx, v, args[0], "format")
		if err != nil || !ok {
			return nil, err
		}
		number.SetString(strconv.FormatFloat(f, 'f', -1, 64)) // its shortest digits, as MySQL rounds them
	}
	digits := number.FloatString(int(places)) // rounds half away from zero
	plain := strings.Trim(digits, "-0.") == ""
	if plain {
		digits = strings.TrimPrefix(digits, "-")
	}
	sample, err := formatSample(ctx, operands)
	if err != nil || sample == "" {
		return nil, err
	}
	return inGroups(digits, sample), nil
}

// formatSample is what FORMAT of the frontend writes of 1234567.5 in a locale.
func formatSample(ctx *sql.Context, operands []sql.Expression) (string, error) {
	operands[0], operands[1] = expression.NewLiteral(1234567.5, types.Float64), expression.NewLiteral(int64(1), types.Int64)
	e, err := function.NewFormat(ctx, operands...)
	if err != nil {
		return "", err
	}
	v, err := e.Eval(ctx, nil)
	text, _ := v.(string)
	return text, err
}

// inGroups writes a number as the sample of 1234567.5 is written.
func inGroups(digits, sample string) string {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(digits, "-"), ".")
	between := func(from, to string) string {
		_, rest, ok := strings.Cut(sample, from)
		if before, _, found := strings.Cut(rest, to); ok && found {
			return before
		}
		return ""
	}
	last, point := between("4", "5"), between("7", "5") // 1,234,567.5 or 12,34,567.5
	size := 3
	if between("2", "3") != "" {
		size, last = 2, between("2", "3")
	}
	out := whole
	if last != "" && len(whole) > 3 {
		out = whole[len(whole)-3:]
		for whole = whole[:len(whole)-3]; len(whole) > size; whole = whole[:len(whole)-size] {
			out = whole[len(whole)-size:] + last + out
		}
		out = whole + last + out
	}
	if strings.HasPrefix(digits, "-") {
		out = "-" + out
	}
	if fraction != "" {
		if _, n := utf8.DecodeRuneInString(point); n == 0 {
			point = "."
		}
		out += point + fraction
	}
	return out
}
