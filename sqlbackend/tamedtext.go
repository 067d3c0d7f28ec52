package sqlbackend

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// exponentMost is an exponent that takes every number beyond the range of all types.
const exponentMost = 400

var longExponent = regexp.MustCompile(`^(\s*[+-]?(?:\d+\.?\d*|\.\d+)[eE])([+-]?)(\d{4,})`)

// tamed is a text of a number whose exponent is no greater than exponentMost: the frontend ends over greater ones, and a DECIMAL
// would take a digit for each.
func tamed(v any) any {
	if text, ok := v.(string); ok && isWild(text) {
		m := longExponent.FindStringSubmatchIndex(text)
		return text[:m[6]] + strconv.Itoa(exponentMost) + text[m[7]:]
	}
	return v
}

// isWild reports whether a value is a text that tamed changes.
func isWild(v any) bool {
	text, ok := v.(string)
	if !ok {
		return false
	}
	m := longExponent.FindStringSubmatchIndex(text)
	if m == nil {
		return false
	}
	n, err := strconv.Atoi(text[m[6]:m[7]]) // zeros may be in front
	return err != nil || n > exponentMost
}

// toDecimal is a value as a DECIMAL with all its digits.
func toDecimal(v any) (*apd.Decimal, error) {
	return types.InternalDecimalType.ConvertToDecimal(tamed(v))
}

// tamedTexts makes texts that are compared with a DECIMAL tame.
func tamedTexts(ctx *sql.Context, operands []sql.Expression) []sql.Expression {
	exact := func(e sql.Expression) bool { return e.Resolved() && types.IsDecimal(e.Type(ctx)) }
	if !slices.ContainsFunc(operands, exact) {
		return nil
	}
	var out []sql.Expression
	for i, e := range operands {
		if _, done := e.(*tamedText); done || !e.Resolved() || !types.IsText(e.Type(ctx)) {
			continue
		}
		if l, ok := e.(*expression.Literal); ok {
			if !isWild(l.Value()) {
				continue
			}
		}
		if out == nil {
			out = slices.Clone(operands)
		}
		out[i] = &tamedText{e}
	}
	return out
}

// tamedText is an operand that becomes a DECIMAL.
type tamedText struct{ sql.Expression }

// Eval implements sql.Expression.
func (t *tamedText) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := t.Expression.Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	if v, err = sql.UnwrapAny(ctx, v); err != nil {
		return nil, err
	}
	return tamed(v), nil
}

// Children implements sql.Expression.
func (t *tamedText) Children() []sql.Expression { return []sql.Expression{t.Expression} }

// WithChildren implements sql.Expression.
func (t *tamedText) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(t, len(c), 1)
	}
	return &tamedText{c[0]}, nil
}
