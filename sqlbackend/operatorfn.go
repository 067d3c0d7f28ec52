package sqlbackend

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/errs"
)

// operator is an expression that stands for an operator the frontend lacks.
type operator struct {
	name string
	args []sql.Expression
	typ  func(ctx *sql.Context, args []sql.Expression) sql.Type
	eval func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error)
	acts bool // more than its value matters: it must be evaluated once for each row
}

var (
	_ sql.FunctionExpression         = (*operator)(nil)
	_ sql.NonDeterministicExpression = (*operator)(nil)
)

// FunctionName implements sql.FunctionExpression.
func (o *operator) FunctionName() string { return o.name }

// Description implements sql.FunctionExpression.
func (o *operator) Description() string { return "an operator" }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (o *operator) IsNonDeterministic() bool { return o.acts }

// Resolved implements sql.Expression.
func (o *operator) Resolved() bool {
	for _, a := range o.args {
		if !a.Resolved() {
			return false
		}
	}
	return true
}

// String implements fmt.Stringer.
func (o *operator) String() string {
	parts := make([]string, len(o.args))
	for i, a := range o.args {
		parts[i] = a.String()
	}
	if o.name == memberName && len(parts) == 2 { // which may stand in a definition
		return "(" + parts[0] + " MEMBER OF(" + parts[1] + "))"
	}
	return o.name + "(" + strings.Join(parts, ",") + ")"
}

// Type implements sql.Expression.
func (o *operator) Type(ctx *sql.Context) sql.Type { return o.typ(ctx, o.args) }

// IsNullable implements sql.Expression.
func (o *operator) IsNullable(*sql.Context) bool { return true }

// Children implements sql.Expression.
func (o *operator) Children() []sql.Expression { return o.args }

// WithChildren implements sql.Expression.
func (o *operator) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != len(o.args) {
		return nil, sql.ErrInvalidChildrenNumber.New(o, len(c), len(o.args))
	}
	with := *o
	with.args = c
	return &with, nil
}

// Eval implements sql.Expression.
func (o *operator) Eval(ctx *sql.Context, row sql.Row) (any, error) { return o.eval(ctx, row, o.args) }

func ofType(t sql.Type) func(*sql.Context, []sql.Expression) sql.Type {
	return func(*sql.Context, []sql.Expression) sql.Type { return t }
}

// operatorFunction returns the function that stands for an operator.
func operatorFunction(name string) (sql.Function, bool) {
	build := func(o operator, count int) (sql.Function, bool) {
		o.name = name
		return sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if len(args) != count {
				return nil, sql.ErrInvalidArgumentNumber.New(name, count, len(args))
			}
			with := o
			with.args = args
			return &with, nil
		}}, true
	}
	switch name {
	case keyExpressionName:
		return build(operator{typ: ofType(types.Int64), eval: func(*sql.Context, sql.Row, []sql.Expression) (any, error) {
			return nil, fmt.Errorf("%s is not evaluated: %w", keyExpressionName, errs.ErrUnsupported)
		}}, 1)
	case literalName:
		return sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if l, ok := args[0].(*expression.Literal); ok && len(args) == 1 {
				return &plainLiteral{l}, nil
			}
			return nil, sql.ErrInvalidArgumentNumber.New(name, 1, len(args))
		}}, true
	case bitNotName:
		return build(operator{typ: bitNotType, eval: bitNot}, 1)
	case placeName:
		return build(operator{typ: ofType(types.Int64), eval: evalPlace}, 3)
	case onName:
		return build(onFunction(), 2)
	case memberName:
		return build(operator{typ: ofType(types.Boolean), eval: memberOf}, 2)
	case intervalName:
		return build(operator{typ: ofType(types.Int64), eval: compoundInterval}, 2)
	case anyName, allName:
		return build(operator{typ: ofType(types.Boolean), eval: func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
			return compareMany(ctx, row, args, name == allName)
		}}, 3)
	case rollupName:
		return build(operator{typ: ofType(types.Int64), eval: func(*sql.Context, sql.Row, []sql.Expression) (any, error) { return nil, nil }}, 0)
	case variableName:
		return build(operator{typ: variableType, eval: readVariable, acts: true}, 2)
	case jsonValueName:
		return sql.FunctionN{Name: name, Fn: newJSONValue}, true
	case "current_role":
		return build(operator{typ: ofType(types.LongText), eval: func(ctx *sql.Context, _ sql.Row, _ []sql.Expression) (any, error) {
			return currentRole(ctx), nil
		}}, 0)
	case assignName:
		return sql.FunctionN{Name: name, Fn: newAssignment}, true
	}
	return nil, false
}

// literalText is the value of a text literal; empty if e is none.
func literalText(e sql.Expression) string {
	if l, ok := e.(*expression.Literal); ok {
		if s, ok := l.Value().(string); ok {
			return s
		}
	}
	return ""
}

// bitNotType is BIGINT UNSIGNED, or that of the bytes that are inverted.
func bitNotType(ctx *sql.Context, args []sql.Expression) sql.Type {
	if _, literal := args[0].(*expression.Literal); !literal && types.IsBinaryType(args[0].Type(ctx)) {
		return args[0].Type(ctx)
	}
	return types.Uint64 // that of a literal x'0f' or b'1' as well
}

// bitNot is ~x.
func bitNot(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	v, err := args[0].Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	if v, err = sql.UnwrapAny(ctx, v); err != nil {
		return nil, err
	}
	if b, ok := v.([]byte); ok {
		if bitNotType(ctx, args) == types.Uint64 {
			n := uint64(0)
			for _, c := range b[max(len(b)-8, 0):] {
				n = n<<8 | uint64(c)
			}
			return ^n, nil
		}
		out := make([]byte, len(b))
		for i := range b {
			out[i] = ^b[i]
		}
		return out, nil
	}
	if u, ok := v.(uint64); ok {
		return ^u, nil
	}
	if d, ok := toFloat(v); ok && d >= 1<<63 {
		return ^uint64(min(d, 1<<64-2048)), nil
	}
	var n any
	if t, ok := types.Int64.(sql.RoundingNumberType); ok {
		n, _, err = t.ConvertRound(ctx, v)
	} else {
		n, _, err = types.Int64.Convert(ctx, v)
	}
	i, ok := n.(int64)
	if err != nil && !ok {
		return nil, err
	}
	return ^uint64(i), nil
}

// memberOf is value MEMBER OF (json).
func memberOf(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	value, err := args[0].Eval(ctx, row)
	if err != nil || value == nil {
		return nil, err
	}
	list, err := args[1].Eval(ctx, row)
	if err != nil || list == nil {
		return nil, err
	}
	doc, _, err := types.JSON.Convert(ctx, list)
	if err != nil {
		return nil, newError(3141, "Invalid JSON text in argument 2 to function member of.")
	}
	if value, err = plainJSON(ctx, value); err != nil {
		return nil, err
	}
	in, err := plainJSON(ctx, doc)
	if err != nil {
		return nil, err
	}
	elements, ok := in.(types.JsonArray)
	if !ok {
		elements = types.JsonArray{in}
	}
	for _, e := range elements {
		if (e == nil) != (value == nil) {
			continue
		}
		c, err := types.CompareJSON(ctx, value, e)
		if err != nil {
			return nil, err
		}
		if c == 0 {
			return true, nil
		}
	}
	return false, nil
}

// plainJSON is a value as JSON knows it. Texts are texts, whatever is in them.
func plainJSON(ctx *sql.Context, v any) (any, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case sql.JSONWrapper:
		return v.ToInterface(ctx)
	case []byte:
		return string(v), nil
	case string:
		return v, nil
	}
	if isNumber(v) {
		return v, nil
	}
	if b, ok := v.(bool); ok {
		return b, nil
	}
	text, _, err := types.LongText.Convert(ctx, v)
	return text, err
}

// compoundInterval is how many of the smallest unit an interval such as '1:30' MINUTE_SECOND is.
func compoundInterval(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	v, err := args[0].Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	if v, _, err = types.LongText.Convert(ctx, v); err != nil {
		return nil, err
	}
	text, _, err := sql.Unwrap[string](ctx, v)
	if err != nil {
		return nil, err
	}
	n, ok := countInterval(text, literalText(args[1]))
	if !ok {
		return nil, nil // as of any interval too large
	}
	return n, nil
}

// countInterval reads numbers between other characters, the last one for the smallest unit. False if there are too many
// digits.
func countInterval(text, unit string) (int64, bool) {
	const microseconds = 1_000_000
	var sizes []int64 // of the units, in the smallest
	switch unit {
	case "year_month":
		sizes = []int64{12, 1}
	case "day_hour":
		sizes = []int64{24, 1}
	case "day_minute":
		sizes = []int64{24 * 60, 60, 1}
	case "day_second":
		sizes = []int64{24 * 3600, 3600, 60, 1}
	case "hour_minute", "minute_second":
		sizes = []int64{60, 1}
	case "hour_second":
		sizes = []int64{3600, 60, 1}
	case "day_microsecond":
		sizes = []int64{24 * 3600 * microseconds, 3600 * microseconds, 60 * microseconds, microseconds, 1}
	case "hour_microsecond":
		sizes = []int64{3600 * microseconds, 60 * microseconds, microseconds, 1}
	case "minute_microsecond":
		sizes = []int64{60 * microseconds, microseconds, 1}
	case "second_microsecond":
		sizes = []int64{microseconds, 1}
	default:
		return 0, false
	}
	text = strings.TrimSpace(text)
	rest, negative := strings.CutPrefix(text, "-")
	numbers := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if len(numbers) > len(sizes) {
		numbers = numbers[:len(sizes)]
	}
	sum := int64(0)
	for i, n := range numbers {
		size := sizes[len(sizes)-len(numbers)+i]
		if size == 1 && strings.HasSuffix(unit, "_microsecond") { // a fraction
			n = (n + "000000")[:max(len(n), 6)]
		}
		v, err := strconv.ParseInt(n, 10, 64)
		if err != nil || v > (1<<62)/size || sum > 1<<62-v*size {
			return 0, false
		}
		sum += v * size
	}
	if negative {
		sum = -sum
	}
	return sum, true
}

// compareMany is x op ANY (subquery) and x op ALL (subquery): NULL unless one comparison decides it, if one is unknown.
func compareMany(ctx *sql.Context, row sql.Row, args []sql.Expression, all bool) (any, error) {
	sub, ok := args[2].(*plan.Subquery)
	if !ok {
		return nil, sql.ErrUnsupportedFeature.New("ANY and ALL of anything but a subquery")
	}
	if n := len(sub.Query.Schema(ctx)); n != 1 {
		return nil, sql.ErrInvalidOperandColumns.New(1, n)
	}
	values, err := sub.EvalMultiple(ctx, row)
	if err != nil {
		return nil, err
	}
	left, err := args[1].Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	l, rightType := comparand(left, args[1].Type(ctx)), sub.Type(ctx)
	unknown := false
	for _, v := range values {
		cmp, err := comparisonOf(literalText(args[0]), l, comparand(v, rightType))
		if err != nil {
			return nil, err
		}
		exact, _, err := exactOne(ctx, cmp)
		if err != nil {
			return nil, err
		}
		is, err := sql.EvaluateCondition(ctx, exact, nil)
		if err != nil {
			return nil, err
		}
		switch {
		case is == nil:
			unknown = true
		case sql.IsTrue(is) != all:
			return !all, nil
		}
	}
	if unknown {
		return nil, nil
	}
	return all, nil
}

// comparand is a value as an operand of a comparison.
func comparand(v any, t sql.Type) sql.Expression {
	if types.IsDecimal(t) {
		t = types.InternalDecimalType
	}
	return expression.NewLiteral(v, t)
}

func comparisonOf(op string, l, r sql.Expression) (sql.Expression, error) {
	switch op {
	case sqlparser.EqualStr:
		return expression.NewEquals(l, r), nil
	case sqlparser.NotEqualStr:
		return expression.NewNot(expression.NewEquals(l, r)), nil
	case sqlparser.LessThanStr:
		return expression.NewLessThan(l, r), nil
	case sqlparser.LessEqualStr:
		return expression.NewLessThanOrEqual(l, r), nil
	case sqlparser.GreaterThanStr:
		return expression.NewGreaterThan(l, r), nil
	case sqlparser.GreaterEqualStr:
		return expression.NewGreaterThanOrEqual(l, r), nil
	}
	return nil, sql.ErrUnsupportedFeature.New(op + " ANY")
}

// variableType is that of the value a query assigns to a user variable.
func variableType(ctx *sql.Context, args []sql.Expression) sql.Type {
	switch t := args[1].Type(ctx); {
	case types.IsInteger(t):
		return types.Int64
	case types.IsDecimal(t), types.IsFloat(t):
		return types.InternalDecimalType
	}
	return types.LongText
}

// readVariable is @name.
func readVariable(ctx *sql.Context, _ sql.Row, args []sql.Expression) (any, error) {
	_, v, err := ctx.GetUserVariable(ctx, literalText(args[0]))
	if err != nil || v == nil {
		return nil, err
	}
	typed, _, err := variableType(ctx, args).Convert(quiet(ctx), v)
	return typed, err
}

// newAssignment makes @name := value. A third argument says how: "once" or "grouped", see assignsOnce.
func newAssignment(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	kind := ""
	if len(args) == 3 {
		kind = literalText(args[2])
	}
	if len(args) < 2 {
		return nil, sql.ErrInvalidArgumentNumber.New(assignName, 2, len(args))
	}
	if kind == "grouped" {
		return nil, sql.ErrUnsupportedFeature.New("assignment of user variables in a query that groups rows or sorts by them")
	}
	var once *sync.Once
	if kind == "once" {
		once = &sync.Once{}
	}
	return &operator{
		name: assignName, args: args[:2], acts: true,
		typ: func(ctx *sql.Context, args []sql.Expression) sql.Type { return args[1].Type(ctx) },
		eval: func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
			v, err := args[1].Eval(ctx, row)
			if err != nil {
				return nil, err
			}
			if v, err = sql.UnwrapAny(ctx, v); err != nil {
				return nil, err
			}
			kept, typ := v, args[1].Type(ctx)
			if types.IsTime(typ) && v != nil { // variables hold no dates
				shown, err := typ.SQL(ctx, nil, v)
				if err != nil {
					return nil, err
				}
				kept, typ = shown.ToString(), types.Text
			}
			set := func() { err = ctx.SetUserVariable(ctx, literalText(args[0]), kept, typ) }
			if once != nil {
				once.Do(set)
			} else {
				set()
			}
			return v, err
		},
	}, nil
}
