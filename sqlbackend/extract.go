package sqlbackend

import (
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// extractName is the function that stands for EXTRACT(unit FROM value). The frontend's own takes a time of day for no date and NULL, and
// counts weeks in a way of its own.
const extractName = "lancesql extract"

// clockUnits are the units of a time, from the largest, as EXTRACT has them alone (HOUR) and from one to another (DAY_SECOND).
func clockUnits() []string { return []string{"day", "hour", "minute", "second", "microsecond"} }

// extractCall is the call that stands for an EXTRACT.
func extractCall(n *sqlparser.ExtractFuncExpr) sqlparser.Expr {
	return call(extractName, sqlparser.NewStrVal([]byte(n.Unit)), n.Expr)
}

// extraction is EXTRACT(unit FROM value), an integer.
type extraction struct {
	*scalar
	unit string
}

var _ sql.FunctionExpression = (*extraction)(nil)

func newExtraction(ctx *sql.Context, unit, value sql.Expression) (sql.Expression, error) {
	name, err := unit.Eval(ctx, nil)
	if err != nil {
		return nil, err
	}
	text, _ := name.(string)
	text = strings.ToLower(text)
	of, ok := extractOf(text)
	if !ok {
		return nil, newError(1064, "You have an error in your SQL syntax: unknown unit '%s'", text)
	}
	return &extraction{&scalar{name: "extract", args: []sql.Expression{value}, typ: always(types.Int64), eval: of}, text}, nil
}

// String implements sql.Expression.
func (e *extraction) String() string {
	return "EXTRACT(" + strings.ToUpper(e.unit) + " FROM " + e.args[0].String() + ")"
}

// WithChildren implements sql.Expression.
func (e *extraction) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(e, len(c), 1)
	}
	s := *e.scalar
	s.args = c
	return &extraction{&s, e.unit}, nil
}

// extractOf returns what EXTRACT computes for a unit; false if there is no such unit.
func extractOf(unit string) (func(ctx *sql.Context, args []any) (any, error), bool) {
	part := func(of func(at time.Time) int) (func(ctx *sql.Context, args []any) (any, error), bool) {
		return func(ctx *sql.Context, args []any) (any, error) {
			at, ok := datetimeOf(ctx, args[0])
			switch {
			case ok:
				return int64(of(at)), nil
			case at.Equal(types.ZeroTime):
				return int64(0), nil
			}
			return nil, nil
		}, true
	}
	switch unit {
	case "year":
		return part(time.Time.Year)
	case "year_month":
		return part(func(at time.Time) int { return at.Year()*100 + int(at.Month()) })
	case "quarter":
		return part(func(at time.Time) int { return (int(at.Month()) + 2) / 3 })
	case "month":
		return part(func(at time.Time) int { return int(at.Month()) })
	case "day":
		return part(time.Time.Day)
	case "week":
		return func(ctx *sql.Context, args []any) (any, error) {
			at, ok := datetimeOf(ctx, args[0])
			if !ok && at.Equal(types.ZeroTime) {
				return int64(1), nil // the zero date is in a first week
			}
			if !ok {
				return nil, nil
			}
			week, err := weekOf(ctx, []any{at})
			if n, ok := week.(int32); ok {
				return int64(n), err
			}
			return nil, err
		}, true
	}
	first, last, _ := strings.Cut(unit, "_")
	if last == "" {
		last = first
	}
	from, to := slices.Index(clockUnits(), first), slices.Index(clockUnits(), last)
	if from < 0 || to < from {
		return nil, false
	}
	return func(ctx *sql.Context, args []any) (any, error) {
		day, t, ok := dayAndClock(ctx, args[0])
		if !ok {
			return nil, nil
		}
		n, sign := int64(t), int64(1)
		if n < 0 {
			n, sign = -n, -1
		}
		parts := [...]int64{int64(day), n / 3_600_000_000, n / 60_000_000 % 60, n / 1_000_000 % 60, n % 1_000_000}
		v := parts[from]
		for i := from + 1; i <= to; i++ {
			base := int64(100)
			if i == len(parts)-1 {
				base = 1_000_000
			}
			v = v*base + parts[i]
		}
		return sign * v, nil
	}, true
}

// dayAndClock is a value as a time, and the day of the month it is on if it is a date.
func dayAndClock(ctx *sql.Context, v any) (day int, clock types.Timespan, ok bool) {
	if n, ok := int64Of(v); ok {
		v = n
	}
	switch v := v.(type) {
	case time.Time:
		day = v.Day()
	case string, int64:
		if text, isText := v.(string); isText && !datelike(strings.TrimSpace(text)) {
			break
		}
		if c, _, err := types.DatetimeMaxPrecision.Convert(quiet(ctx), dateOfDigits(v)); err == nil {
			if at, isDate := c.(time.Time); isDate && !at.Equal(types.ZeroTime) {
				day = at.Day()
			}
		}
	}
	clock, ok = clockOf(ctx, v)
	return day, clock, ok
}
