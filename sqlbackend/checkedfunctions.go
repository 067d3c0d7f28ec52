package sqlbackend

import (
	"encoding/json"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	jsonfunctions "github.com/dolthub/go-mysql-server/sql/expression/function/json"
	"github.com/dolthub/go-mysql-server/sql/expression/function/vector"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The frontend trusts that operands of these functions are what they should be.

// textName is the function that stands for the operand of CONVERT(x USING c).
const textName = "lancesql text"

// checkedFunction returns a function whose operands are looked at before the frontend sees them.
func checkedFunction(name string) (sql.Function, bool) {
	one := func(build func(*sql.Context, sql.Expression) sql.Expression, by func(*sql.Context, sql.Expression) sql.Expression) (sql.Function, bool) {
		return sql.Function1{Name: name, Fn: func(ctx *sql.Context, e sql.Expression) sql.Expression { return build(ctx, by(ctx, e)) }}, true
	}
	vectors := func(build func(*sql.Context, sql.Expression, sql.Expression) sql.Expression) (sql.Function, bool) {
		return sql.Function2{Name: name, Fn: func(ctx *sql.Context, a, b sql.Expression) sql.Expression {
			return build(ctx, asVector(ctx, a), asVector(ctx, b))
		}}, true
	}
	asText := func(_ *sql.Context, e sql.Expression) sql.Expression { return &asPlainText{e} }
	switch name {
	case "distance":
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if len(args) == 3 {
				args = []sql.Expression{asVector(ctx, args[0]), asVector(ctx, args[1]), args[2]}
			}
			return vector.NewGenericDistance(ctx, args...)
		}}, true
	case "string_to_vector", "to_vector", "vec_fromtext":
		return one(vector.NewStringToVector, asVector)
	case "vector_to_string", "from_vector", "vec_totext":
		return one(vector.NewVectorToString, asVector)
	case "vec_distance", "vec_distance_l2_squared":
		return vectors(vector.NewL2SquaredDistance)
	case "vec_distance_euclidean":
		return vectors(vector.NewEuclideanDistance)
	case "vec_distance_cosine":
		return vectors(vector.NewCosineDistance)
	case "ltrim":
		return one(function.NewLeftTrim, asText)
	case "rtrim":
		return one(function.NewRightTrim, asText)
	case textName:
		return one(func(_ *sql.Context, e sql.Expression) sql.Expression { return e }, asText)
	case "unix_timestamp":
		return sql.FunctionN{Name: name, Fn: newUnixTimestamp}, true
	case "json_value":
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := jsonfunctions.NewJsonValue(ctx, args...)
			if err != nil {
				return nil, err
			}
			return &ownValue{e, func(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
				return valueAt(ctx, row, e, args)
			}}, nil
		}}, true
	case "json_extract":
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			e, err := jsonfunctions.NewJSONExtract(ctx, args...)
			if err != nil || len(args) < 3 {
				return e, err
			}
			return &ownValue{e, extracted}, nil
		}}, true
	case "now", "current_timestamp", "localtime", "localtimestamp":
		return digitsFunction(name, function.NewNow)
	case "sysdate":
		return digitsFunction(name, function.NewSysdate)
	}
	return nil, false
}

// digitsFunction is a function of the clock, which takes nothing but a literal number of digits.
func digitsFunction(name string, build func(*sql.Context, ...sql.Expression) (sql.Expression, error)) (sql.Function, bool) {
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if err := clockDigits(name, args); err != nil {
			return nil, err
		}
		return build(ctx, args...)
	}}, true
}

// clockDigits is an error if a function of the clock is given anything but a literal number of digits.
func clockDigits(name string, args []sql.Expression) error {
	ok := len(args) < 2
	for _, a := range args {
		l, literal := a.(*expression.Literal)
		_, number := int64Of(valueOf(l))
		ok = ok && literal && number
	}
	if !ok {
		return sql.ErrSyntaxError.New("syntax error near '" + name + "'")
	}
	return nil
}

// valueOf is a literal's value, nil if there is none.
func valueOf(l *expression.Literal) any {
	if l == nil {
		return nil
	}
	return l.Value()
}

// vectorOperand is an operand of a function of vectors: a vector, or a text that is one. The frontend has no vectors without numbers
// and does not look whether it gets one.
type vectorOperand struct{ sql.Expression }

// asVector is an operand that is looked at. What is sure to be a vector stays: an index is found by it.
func asVector(ctx *sql.Context, e sql.Expression) sql.Expression {
	if _, is := e.Type(ctx).(types.VectorType); is {
		return e
	}
	checked := &vectorOperand{e}
	if _, literal := e.(*expression.Literal); literal {
		if _, err := checked.Eval(ctx, nil); err == nil {
			return e
		}
	}
	return checked
}

// Eval implements sql.Expression.
func (o *vectorOperand) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := anyOperand(ctx, row, o.Expression)
	if err != nil || v == nil {
		return nil, err
	}
	switch given := v.(type) {
	case []float32:
		if len(given) > 0 {
			return v, nil
		}
	case []byte:
		if len(given) > 0 && len(given)%4 == 0 {
			return v, nil
		}
	case string:
		var numbers []float32
		if err := json.Unmarshal([]byte(given), &numbers); err == nil && len(numbers) > 0 {
			return v, nil
		}
	case sql.JSONWrapper:
		inner, err := given.ToInterface(ctx)
		if err != nil {
			return nil, err
		}
		if list, ok := inner.([]any); ok && len(list) > 0 {
			return v, nil
		}
	}
	text, _, err := textOperand(ctx, row, o.Expression)
	if err != nil {
		return nil, err
	}
	const most = 64
	return nil, newError(6138, "Data cannot be converted to a valid vector: '%.*s'", most, text)
}

// Children implements sql.Expression.
func (o *vectorOperand) Children() []sql.Expression { return []sql.Expression{o.Expression} }

// WithChildren implements sql.Expression.
func (o *vectorOperand) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(o, len(c), 1)
	}
	return &vectorOperand{c[0]}, nil
}

// asPlainText is an operand as a text, which it is already if it is a string.
type asPlainText struct{ sql.Expression }

// isString reports whether the operand needs nothing. A vector is a string of bytes that takes no collation.
func (t *asPlainText) isString(ctx *sql.Context) bool {
	typ := t.Expression.Type(ctx)
	_, is := typ.(sql.StringType)
	_, isVector := typ.(types.VectorType)
	return is && !isVector
}

// Type implements sql.Expression.
func (t *asPlainText) Type(ctx *sql.Context) sql.Type {
	switch {
	case t.isString(ctx):
		return t.Expression.Type(ctx)
	case ofBytes(ctx, t.Expression):
		return types.LongBlob
	}
	id, _ := sql.GetCoercibility(ctx, t.Expression)
	if id == sql.Collation_binary || id == sql.Collation_Unspecified {
		id = sql.Collation_Default
	}
	return types.CreateLongText(id)
}

// Eval implements sql.Expression.
func (t *asPlainText) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if t.isString(ctx) {
		return t.Expression.Eval(ctx, row)
	}
	text, ok, err := textOperand(ctx, row, t.Expression)
	if err != nil || !ok {
		return nil, err
	}
	if ofBytes(ctx, t.Expression) {
		return []byte(text), nil
	}
	return text, nil
}

// Children implements sql.Expression.
func (t *asPlainText) Children() []sql.Expression { return []sql.Expression{t.Expression} }

// WithChildren implements sql.Expression.
func (t *asPlainText) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(t, len(c), 1)
	}
	return &asPlainText{c[0]}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (t *asPlainText) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	if t.isString(ctx) {
		return sql.GetCoercibility(ctx, t.Expression)
	}
	if typ, ok := t.Type(ctx).(sql.StringType); ok {
		return typ.Collation(), 4
	}
	return sql.Collation_binary, 5
}

// newUnixTimestamp is UNIX_TIMESTAMP. The frontend evaluates an operand without columns to learn its digits, with no session, and takes
// what it gets for a text.
func newUnixTimestamp(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	if len(args) != 1 {
		return function.NewUnixTimestamp(ctx, args...)
	}
	arg := args[0]
	if l, ok := arg.(*expression.Literal); ok {
		if b, ok := l.Value().([]byte); ok {
			arg = expression.NewLiteral(string(b), types.LongText)
		}
		return function.NewUnixTimestamp(ctx, arg)
	}
	constant, queries := true, false
	transform.InspectExpr(ctx, arg, func(_ *sql.Context, e sql.Expression) bool {
		switch e.(type) {
		case *expression.GetField, *function.Now, *function.ConvertTz:
			constant = false
		case sql.ExpressionWithNodes, *expression.BindVar, *expression.ProcedureParam:
			queries = true
		}
		return false
	})
	if _, dated := arg.Type(ctx).(sql.DatetimeType); dated || !constant {
		return function.NewUnixTimestamp(ctx, arg)
	}
	typ := decimalOf(13, types.MaxDatetimePrecision)
	if types.IsInteger(arg.Type(ctx)) {
		typ = types.Int64
	} else if v, err := constantOperand(ctx, arg, queries); err == nil && v != nil {
		if e, err := function.NewUnixTimestamp(ctx, asMoment(v, arg.Type(ctx))); err == nil {
			typ = e.Type(ctx)
		}
	}
	return &scalar{name: "unix_timestamp", args: args, typ: always(typ), eval: func(ctx *sql.Context, args []any) (any, error) {
		e, err := function.NewUnixTimestamp(ctx, asMoment(args[0], arg.Type(ctx)))
		if err != nil {
			return nil, err
		}
		v, err := e.Eval(ctx, nil)
		if err != nil || v == nil {
			return nil, err
		}
		c, _, err := typ.Convert(quiet(ctx), v)
		return c, err
	}}, nil
}

// constantOperand is the value of an operand without columns; nil if it is of a query, which is not planned yet.
func constantOperand(ctx *sql.Context, e sql.Expression, queries bool) (any, error) {
	if queries {
		return nil, nil
	}
	return anyOperand(ctx, nil, e)
}

// asMoment is a value as the literal of a date.
func asMoment(v any, typ sql.Type) sql.Expression {
	switch v := v.(type) {
	case []byte:
		return expression.NewLiteral(string(v), types.LongText)
	case string:
		return expression.NewLiteral(v, types.LongText)
	}
	if types.IsText(typ) || types.IsEnum(typ) || types.IsSet(typ) {
		typ = types.Int64
	}
	if text, ok := dateOfDigits(v).(string); ok {
		return expression.NewLiteral(text, types.LongText)
	}
	return expression.NewLiteral(v, typ)
}

// valueAt is JSON_VALUE(doc, path) with the path as a text.
func valueAt(ctx *sql.Context, row sql.Row, call sql.Expression, args []sql.Expression) (any, error) {
	path, ok, err := textOperand(ctx, row, args[1])
	if err != nil || !ok {
		return nil, err
	}
	doc, err := anyOperand(ctx, row, args[0])
	if err != nil || doc == nil {
		return nil, err
	}
	if b, ok := doc.([]byte); ok {
		doc = string(b)
	}
	e, err := call.WithChildren(ctx, expression.NewLiteral(doc, args[0].Type(ctx)), expression.NewLiteral(path, types.LongText))
	if err != nil {
		return nil, err
	}
	return e.Eval(ctx, nil)
}

// extracted is JSON_EXTRACT(doc, path, path ...): an array of what there is.
func extracted(ctx *sql.Context, row sql.Row, args []sql.Expression) (any, error) {
	doc, err := anyOperand(ctx, row, args[0])
	if err != nil || doc == nil {
		return nil, err
	}
	var list []any
	for _, p := range args[1:] {
		path, err := anyOperand(ctx, row, p)
		if err != nil || path == nil {
			return nil, err
		}
		one, err := jsonfunctions.NewJSONExtract(ctx, expression.NewLiteral(doc, args[0].Type(ctx)), expression.NewLiteral(path, p.Type(ctx)))
		if err != nil {
			return nil, err
		}
		v, err := one.Eval(ctx, nil)
		if err != nil {
			return nil, err
		}
		found, ok := v.(sql.JSONWrapper)
		if !ok || found == nil {
			continue
		}
		inner, err := found.ToInterface(ctx)
		if err != nil {
			return nil, err
		}
		if text, ok := path.(string); ok && (strings.Contains(text, "*")) {
			if all, ok := inner.([]any); ok { // one path of many values
				list = append(list, all...)
				continue
			}
		}
		list = append(list, inner)
	}
	if list == nil {
		return nil, nil
	}
	return types.JSONDocument{Val: list}, nil
}
