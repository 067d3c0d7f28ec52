package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// scalar is a function of the values of its arguments, NULL if one of them is.
type scalar struct {
	name string
	args []sql.Expression
	typ  func(ctx *sql.Context, args []sql.Expression) sql.Type
	eval func(ctx *sql.Context, args []any) (any, error) // nil is NULL
}

// newScalar makes the function of a name that takes least to most arguments.
func newScalar(name string, least, most int, typ func(*sql.Context, []sql.Expression) sql.Type, eval func(*sql.Context, []any) (any, error)) sql.Function {
	return sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) < least || len(args) > most {
			return nil, sql.ErrInvalidArgumentNumber.New(strings.ToUpper(name), least, len(args))
		}
		return &scalar{name: name, args: args, typ: typ, eval: eval}, nil
	}}
}

// always is the type of a function whose arguments do not decide it.
func always(t sql.Type) func(*sql.Context, []sql.Expression) sql.Type {
	return func(*sql.Context, []sql.Expression) sql.Type { return t }
}

// Resolved implements sql.Expression.
func (s *scalar) Resolved() bool {
	for _, a := range s.args {
		if !a.Resolved() {
			return false
		}
	}
	return true
}

// String implements sql.Expression.
func (s *scalar) String() string {
	texts := make([]string, len(s.args))
	for i, a := range s.args {
		texts[i] = a.String()
	}
	return s.name + "(" + strings.Join(texts, ",") + ")"
}

// FunctionName implements sql.FunctionExpression.
func (s *scalar) FunctionName() string { return s.name }

// Description implements sql.FunctionExpression.
func (s *scalar) Description() string { return "" }

// Type implements sql.Expression.
func (s *scalar) Type(ctx *sql.Context) sql.Type { return s.typ(ctx, s.args) }

// IsNullable implements sql.Expression.
func (s *scalar) IsNullable(*sql.Context) bool { return true }

// Eval implements sql.Expression.
func (s *scalar) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	values := make([]any, len(s.args))
	null := false
	for i, a := range s.args {
		v, err := a.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		if v, err = sql.UnwrapAny(ctx, v); err != nil {
			return nil, err
		}
		values[i], null = v, null || v == nil
	}
	if null {
		return nil, nil
	}
	return s.eval(ctx, values)
}

// Children implements sql.Expression.
func (s *scalar) Children() []sql.Expression { return s.args }

// WithChildren implements sql.Expression.
func (s *scalar) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != len(s.args) {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(c), len(s.args))
	}
	return &scalar{name: s.name, args: c, typ: s.typ, eval: s.eval}, nil
}

// CollationCoercibility implements sql.CollationCoercible.
func (s *scalar) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	if st, ok := s.Type(ctx).(sql.StringType); ok {
		return st.Collation(), 4
	}
	return sql.Collation_binary, 5
}

// vectorDim is VECTOR_DIM: how many numbers a vector has.
func vectorDim(_ *sql.Context, args []any) (any, error) {
	b, ok := args[0].([]byte)
	if !ok || len(b)%4 != 0 {
		return nil, sql.ErrInvalidType.New(args[0])
	}
	return int64(len(b) / 4), nil
}
