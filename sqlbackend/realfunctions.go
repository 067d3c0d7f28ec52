package sqlbackend

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// Functions of doubles. The frontend takes for numbers what Go can make numbers of, which a date, a JSON value or a literal x'ff' is
// not, and has infinities for results.

// realFunction returns functions whose operands are doubles, whatever they are, and functions of the frontend that take texts, whatever
// they are.
func realFunction(name string) (sql.Function, bool) {
	switch name {
	case "acos", "asin", "atan", "atan2", "cos", "cot", "degrees", "ln", "log", "log10", "log2", "pow", "power",
		"radians", "sin", "sqrt", "tan", "abs":
		return withOperands(name, nil, asNumber, func(e sql.Expression) sql.Expression { return &finite{e} })
	case "exp":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			return &finite{&ownValue{function.NewExp(ctx, e), func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
				f, ok, err := realOperand(ctx, row, args[0], name)
				if err != nil || !ok {
					return nil, err
				}
				return math.Exp(f), nil
			}}}
		}}, true
	case "sign":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			return &ownValue{function.NewSign(ctx, e), func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
				f, ok, err := realOperand(ctx, row, args[0], name)
				switch {
				case err != nil || !ok:
					return nil, err
				case f > 0:
					return int8(1), nil
				case f < 0:
					return int8(-1), nil
				}
				return int8(0), nil
			}}
		}}, true
	case "bit_count":
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression {
			return &ownValue{function.NewBitCount(ctx, e), bitCount}
		}}, true
	case "from_base64":
		return withOperands(name, nil, asPlain, func(e sql.Expression) sql.Expression { return &ownValue{e, fromBase64} })
	case "unhex":
		return withOperands(name, nil, asPlain, func(e sql.Expression) sql.Expression { return &ownValue{e, unhex} })
	case "crc32", "md5", "sha", "sha1", "ascii", "ord", "reverse", "upper", "ucase", "lower", "lcase", "quote", "soundex",
		"to_base64", "compress", "instr", "replace", "find_in_set", "length", "octet_length", "char_length",
		"character_length", "bit_length", "inet_aton", "inet6_aton", "is_ipv4", "is_ipv6", "is_uuid", "uuid_to_bin":
		return withOperands(name, nil, asPlain, nil)
	case "substring_index":
		return withOperands(name, []int{0, 1}, asPlain, nil)
	case "sha2":
		return withOperands(name, []int{0}, asPlain, nil)
	}
	return nil, false
}

// bitCount is BIT_COUNT: of all 64 bits of a number, or of a string of bytes.
func bitCount(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	v, err := anyOperand(ctx, row, args[0])
	if err != nil || v == nil {
		return nil, err
	}
	count := 0
	switch v := v.(type) {
	case []byte:
		for _, b := range v {
			count += bits.OnesCount8(b)
		}
		return int32(count), nil
	case uint64:
		return int32(bits.OnesCount64(v)), nil
	}
	n, ok, err := wholeOperand(ctx, row, args[0], "bit_count")
	if err != nil || !ok {
		return nil, err
	}
	return int32(bits.OnesCount64(uint64(n))), nil
}

// fromBase64 is FROM_BASE64: NULL of a text that is none.
func fromBase64(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	text, ok, err := textOperand(ctx, row, args[0])
	if err != nil || !ok {
		return nil, err
	}
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\n\r", r) {
			return -1
		}
		return r
	}, text)
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, nil
	}
	return out, nil
}

// unhex is UNHEX: NULL, with a warning, of a text that is none.
func unhex(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	text, ok, err := textOperand(ctx, row, args[0])
	if err != nil || !ok {
		return nil, err
	}
	digits := text
	if len(digits)%2 != 0 {
		digits = "0" + digits
	}
	out, err := hex.DecodeString(digits)
	if err != nil {
		ctx.Warn(1411, "Incorrect string value: '%s' for function unhex", text)
		return nil, nil
	}
	return out, nil
}

// withOperands is a function of the frontend with operands replaced, all or those in some places, and perhaps its result.
func withOperands(name string, at []int, operand func(*sql.Context, sql.Expression) sql.Expression, result func(sql.Expression) sql.Expression) (sql.Function, bool) {
	i := slices.IndexFunc(function.BuiltIns, func(f sql.Function) bool { return f.FunctionName() == name })
	if i < 0 {
		return nil, false
	}
	builtin := function.BuiltIns[i]
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		operands := slices.Clone(args)
		for i, a := range operands {
			if at == nil || slices.Contains(at, i) {
				operands[i] = operand(ctx, a)
			}
		}
		e, err := builtin.NewInstance(ctx, operands)
		if err != nil || result == nil {
			return e, err
		}
		return result(e), nil
	}}, true
}

// asPlain is an operand as a text. A string is one.
func asPlain(ctx *sql.Context, e sql.Expression) sql.Expression {
	text := &asPlainText{e}
	if e.Resolved() && text.isString(ctx) {
		return e
	}
	return text
}

// asNumber is an operand as a double. A number is one, or better.
func asNumber(ctx *sql.Context, e sql.Expression) sql.Expression {
	if e.Resolved() && types.IsNumber(e.Type(ctx)) && !types.IsBit(e.Type(ctx)) {
		return e
	}
	if e.Resolved() && (isTimeType(e.Type(ctx)) || types.IsTime(e.Type(ctx))) {
		return timeAsNumber(ctx, e)
	}
	return &asReal{e}
}

// asReal is an operand as a double, if it is no number.
type asReal struct{ sql.Expression }

// isNumber reports whether the operand needs nothing.
func (r *asReal) isNumber(ctx *sql.Context) bool {
	typ := r.Expression.Type(ctx)
	return types.IsNumber(typ) && !types.IsBit(typ) || typ == types.Null
}

// Type implements sql.Expression.
func (r *asReal) Type(ctx *sql.Context) sql.Type {
	if r.isNumber(ctx) {
		return r.Expression.Type(ctx)
	}
	return types.Float64
}

// Eval implements sql.Expression.
func (r *asReal) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if r.isNumber(ctx) {
		return r.Expression.Eval(ctx, row)
	}
	f, ok, err := realOperand(ctx, row, r.Expression, "a number function")
	if err != nil || !ok {
		return nil, err
	}
	return f, nil
}

// Children implements sql.Expression.
func (r *asReal) Children() []sql.Expression { return []sql.Expression{r.Expression} }

// WithChildren implements sql.Expression.
func (r *asReal) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(r, len(c), 1)
	}
	return &asReal{c[0]}, nil
}

// finite is a function of numbers whose result is one of its type, or an error.
type finite struct{ sql.Expression }

var _ sql.FunctionExpression = (*finite)(nil)

// FunctionName implements sql.FunctionExpression.
func (f *finite) FunctionName() string {
	if e, ok := f.Expression.(sql.FunctionExpression); ok {
		return e.FunctionName()
	}
	return ""
}

// Description implements sql.FunctionExpression.
func (f *finite) Description() string { return "" }

// Eval implements sql.Expression.
func (f *finite) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := f.Expression.Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	kind := ""
	switch v := v.(type) {
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			kind = "DOUBLE"
		}
	case int64:
		if v == math.MinInt64 { // which has no absolute value, and no other function has integers
			kind = "BIGINT"
		}
	}
	if kind != "" {
		return nil, mysql.NewSQLError(mysql.ERDataOutOfRange, "22003", "%s value is out of range in '%s'", kind, f.String())
	}
	return v, nil
}

// WithChildren implements sql.Expression.
func (f *finite) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	e, err := f.Expression.WithChildren(ctx, c...)
	if err != nil {
		return nil, err
	}
	return &finite{e}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (f *finite) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, f.Expression)
}
