package sqlbackend

import (
	"slices"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Dates and times as numbers: MySQL stores 20240229101112 where the frontend stores seconds since 1970, or refuses.

// isTemporal recognises types of dates and times.
func isTemporal(t sql.Type) bool { return types.IsTime(t) || isTimeType(t) || types.IsTimespan(t) }

// takesNumbers recognises types of numbers to which a date is a number of digits. YEAR takes the year of it.
func takesNumbers(t sql.Type) bool {
	return types.IsNumber(t) && !types.IsYear(t) || types.IsBit(t)
}

// temporalNumber is what a type of numbers is given for a value of a type of dates and times; v itself if it is of another one.
func temporalNumber(ctx *sql.Context, to sql.Type, v any, from sql.Type) (any, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return nil, err
	}
	whole := types.IsInteger(to) || types.IsBit(to)
	switch at := v.(type) {
	case time.Time:
		if from == nil || !types.IsTime(from) {
			from = types.DatetimeMaxPrecision
		}
		if whole && !types.IsDateType(from) {
			from, v = types.Datetime, at.Round(time.Second)
		}
		return (&dateValue{expression.NewLiteral(v, from)}).Eval(ctx, nil)
	case string:
		if from != nil && types.IsTime(from) { // functions of the frontend whose values are not of their type
			return (&dateValue{expression.NewLiteral(v, from)}).Eval(ctx, nil)
		}
	case types.Timespan:
		typ, ok := from.(timeType)
		if !ok {
			typ = timeType{digits: types.MaxDatetimePrecision}
		}
		if whole {
			typ.digits = 0
		}
		n, err := (&timeNumber{expression.NewLiteral(at, typ)}).Eval(ctx, nil)
		if d, ok := n.(*apd.Decimal); ok && err == nil {
			reduced, _ := new(apd.Decimal).Reduce(d)
			return reduced, nil
		}
		return n, err
	}
	return v, nil
}

// givenNumber is a date or time that is stored in a column of numbers.
type givenNumber struct {
	sql.Expression
	to sql.Type
}

// Type implements sql.Expression.
func (g *givenNumber) Type(*sql.Context) sql.Type { return g.to }

// Eval implements sql.Expression.
func (g *givenNumber) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := g.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	return temporalNumber(ctx, g.to, v, g.Expression.Type(ctx))
}

// Children implements sql.Expression.
func (g *givenNumber) Children() []sql.Expression { return []sql.Expression{g.Expression} }

// WithChildren implements sql.Expression.
func (g *givenNumber) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(g, len(c), 1)
	}
	return &givenNumber{c[0], g.to}, nil
}

// asNumberOf returns what is given to a column of that type in place of dates and times.
func asNumberOf(to sql.Type) convert {
	return func(ctx *sql.Context, e sql.Expression) (sql.Expression, bool) {
		if !e.Resolved() {
			return e, false
		}
		if isTemporal(e.Type(ctx)) {
			return &givenNumber{e, to}, true
		}
		if types.IsInteger(to) {
			return asLargeNumber(ctx, e)
		}
		return e, false
	}
}

// givenTo is what is given to something of a type of numbers in place of a date or time, else e itself.
func givenTo(ctx *sql.Context, to sql.Type, e sql.Expression) sql.Expression {
	if takesNumbers(to) && e.Resolved() && isTemporal(e.Type(ctx)) {
		return &givenNumber{e, to}
	}
	return e
}

// textsInto gives user variables what is shown of dates and times, of which they hold none. The plan is one whose fields have their
// places.
func textsInto(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	into, ok := n.(*plan.Into)
	if !ok || len(into.IntoVars) == 0 {
		return n, transform.SameTree, nil
	}
	schema := into.Child.Schema(ctx)
	if !slices.ContainsFunc(schema, func(c *sql.Column) bool { return inVariables(c.Type) }) {
		return n, transform.SameTree, nil
	}
	fields := make([]sql.Expression, len(schema))
	for i, c := range schema {
		fields[i] = expression.NewGetField(i, c.Type, c.Name, c.Nullable)
		if inVariables(c.Type) {
			fields[i] = &timeText{fields[i]}
		}
	}
	out, err := into.WithChildren(ctx, plan.NewProject(ctx, fields, into.Child))
	return out, transform.NewTree, err
}
