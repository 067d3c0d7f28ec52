package sqlbackend

import (
	"math"
	"math/big"
	"math/bits"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// checkedArithmetic is +, - and * of integers with an error where the result is no BIGINT, or, if an operand is
// unsigned, no BIGINT UNSIGNED. The frontend's own wraps around, and clamps unsigned operands next to signed ones.
type checkedArithmetic struct {
	*expression.Arithmetic
	unsigned bool
}

// checkArithmetic returns e checked if it is arithmetic of integers.
func checkArithmetic(ctx *sql.Context, a *expression.Arithmetic) (sql.Expression, bool) {
	switch a.Op {
	case sqlparser.PlusStr, sqlparser.MinusStr, sqlparser.MultStr:
	default:
		return a, false
	}
	for _, c := range a.Children() {
		if _, interval := c.(expression.TimeDeltaExpression); interval || !types.IsInteger(c.Type(ctx)) {
			return a, false
		}
	}
	return &checkedArithmetic{Arithmetic: a, unsigned: types.IsUnsigned(a.Left().Type(ctx)) || types.IsUnsigned(a.Right().Type(ctx))}, true
}

// WithChildren implements sql.Expression.
func (c *checkedArithmetic) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := c.Arithmetic.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &checkedArithmetic{Arithmetic: e.(*expression.Arithmetic), unsigned: c.unsigned}, nil
}

// IsValueExpression implements sql.ValueExpression: rows only.
func (c *checkedArithmetic) IsValueExpression(*sql.Context) bool { return false }

// Eval implements sql.Expression.
func (c *checkedArithmetic) Eval(ctx *sql.Context, row sql.Row) (interface{}, error) {
	l, err := c.Left().Eval(ctx, row)
	if err != nil || l == nil {
		return nil, err
	}
	r, err := c.Right().Eval(ctx, row)
	if err != nil || r == nil {
		return nil, err
	}
	a, ok := int64Of(l)
	b, ok2 := int64Of(r)
	if ok && ok2 {
		if n, ok := c.small(a, b); ok && (n >= 0 || !c.unsigned) {
			return c.typed(ctx, n), nil
		}
	}
	x, ok := bigOf(l)
	y, ok2 := bigOf(r)
	if !ok || !ok2 {
		return c.Arithmetic.Eval(ctx, row)
	}
	return c.large(ctx, x, y)
}

// small is the result if it is an int64.
func (c *checkedArithmetic) small(a, b int64) (int64, bool) {
	switch c.Op {
	case sqlparser.PlusStr:
		n := a + b
		return n, (n > a) == (b > 0)
	case sqlparser.MinusStr:
		n := a - b
		return n, (n < a) == (b > 0)
	default:
		hi, lo := bits.Mul64(magnitude(a), magnitude(b))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		if (a < 0) != (b < 0) {
			return -int64(lo), true
		}
		return int64(lo), true
	}
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func (c *checkedArithmetic) large(ctx *sql.Context, x, y *big.Int) (interface{}, error) {
	n := new(big.Int)
	switch c.Op {
	case sqlparser.PlusStr:
		n.Add(x, y)
	case sqlparser.MinusStr:
		n.Sub(x, y)
	default:
		n.Mul(x, y)
	}
	switch {
	case n.IsInt64() && (n.Sign() >= 0 || !c.unsigned || signedSubtraction(ctx)):
		return c.typed(ctx, n.Int64()), nil
	case n.IsUint64() && types.IsUnsigned(c.Type(ctx)):
		// Why not where one operand is signed: the frontend takes such a result for a BIGINT and would clamp it.
		return n.Uint64(), nil
	}
	kind := "BIGINT"
	if c.unsigned {
		kind = "BIGINT UNSIGNED"
	}
	return nil, mysql.NewSQLError(mysql.ERDataOutOfRange, "22003", "%s value is out of range in '%s'", kind, c.String())
}

// typed gives a number the Go type of the expression's type.
func (c *checkedArithmetic) typed(ctx *sql.Context, n int64) any {
	if types.IsUnsigned(c.Type(ctx)) && n >= 0 {
		return uint64(n)
	}
	return n
}

// signedSubtraction reports whether sql_mode has NO_UNSIGNED_SUBTRACTION.
func signedSubtraction(ctx *sql.Context) bool {
	return strings.Contains(sql.LoadSqlMode(ctx).String(), "NO_UNSIGNED_SUBTRACTION")
}

func int64Of(v any) (int64, bool) {
	switch n := v.(type) {
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case bool:
		if n {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func bigOf(v any) (*big.Int, bool) {
	if u, ok := v.(uint64); ok {
		return new(big.Int).SetUint64(u), true
	}
	n, ok := int64Of(v)
	return big.NewInt(n), ok
}
