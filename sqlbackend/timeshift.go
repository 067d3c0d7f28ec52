package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// DATE_ADD and its like beside times and fractions. The frontend takes a TIME for a time of day, so that it wraps at midnight, and
// rounds the seconds of an interval.

// shift is DATE_ADD, or another function or operator that adds an interval.
type shift struct {
	name  string
	sign  int64 // of the interval
	infix bool  // it was written with + or -
	build func(*sql.Context, ...sql.Expression) (sql.Expression, error)
}

// function is the SQL function of a shift.
func (s shift) function() sql.Function {
	return sql.FunctionN{Name: s.name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) == 2 {
			if e, ok, err := s.exact(ctx, args[0], args[1]); ok || err != nil {
				return e, err
			}
		}
		e, err := s.build(ctx, args...)
		if err != nil {
			return nil, err
		}
		return &shown{e, shiftedType}, nil
	}}
}

// exact is the shift of a TIME, or by seconds with fractions; false if it is another one.
func (s shift) exact(ctx *sql.Context, date, interval sql.Expression) (sql.Expression, bool, error) {
	i, ok := interval.(*expression.Interval)
	if !ok || !date.Resolved() || !i.Child.Resolved() {
		return nil, false, nil
	}
	out := &shifted{shift: s, date: date, amount: i.Child, unit: i.Unit}
	fractions := withFractions(ctx, i)
	switch {
	case isTime(ctx, date) && timeInterval(i):
		out.sum = &timeSum{Expression: date, interval: fractions, sign: s.sign}
	case fractions != i:
		e, err := s.build(ctx, date, fractions)
		if err != nil {
			return nil, false, err
		}
		out.sum = &shown{e, shiftedType}
	default:
		return nil, false, nil
	}
	return out, true, nil
}

// shiftOf is x + INTERVAL or x - INTERVAL as a shift, if it is one that shift.exact knows. Definitions have it, whose text is not
// rewritten.
func shiftOf(ctx *sql.Context, e sql.Expression) (sql.Expression, bool, error) {
	a, ok := e.(*expression.Arithmetic)
	if !ok {
		return nil, false, nil
	}
	switch a.Op {
	case sqlparser.PlusStr:
		date, interval := a.LeftChild, a.RightChild
		if isInterval(date) {
			date, interval = interval, date
		}
		return shift{"date_add", 1, true, function.NewDateAdd}.exact(ctx, date, interval)
	case sqlparser.MinusStr:
		return shift{"date_sub", -1, true, function.NewDateSub}.exact(ctx, a.LeftChild, a.RightChild)
	}
	return nil, false, nil
}

// shifted is a date or time and an interval. It shows what was written, not what computes it: it may stand in a definition.
type shifted struct {
	shift
	date, amount sql.Expression
	unit         string
	sum          sql.Expression
}

var _ sql.FunctionExpression = (*shifted)(nil)

// FunctionName implements sql.FunctionExpression.
func (s *shifted) FunctionName() string { return s.name }

// Description implements sql.FunctionExpression.
func (s *shifted) Description() string { return "adds an interval to a date or time" }

// Resolved implements sql.Expression.
func (s *shifted) Resolved() bool { return s.date.Resolved() && s.amount.Resolved() }

// String implements sql.Expression.
func (s *shifted) String() string {
	interval := "INTERVAL " + s.amount.String() + " " + s.unit
	switch {
	case !s.infix:
		return s.name + "(" + s.date.String() + "," + interval + ")"
	case s.sign < 0:
		return "(" + s.date.String() + " - " + interval + ")"
	}
	return "(" + s.date.String() + " + " + interval + ")"
}

// Type implements sql.Expression.
func (s *shifted) Type(ctx *sql.Context) sql.Type { return s.sum.Type(ctx) }

// IsNullable implements sql.Expression.
func (s *shifted) IsNullable(*sql.Context) bool { return true }

// Eval implements sql.Expression.
func (s *shifted) Eval(ctx *sql.Context, row sql.Row) (any, error) { return s.sum.Eval(ctx, row) }

// Children implements sql.Expression. The interval is not among them: the frontend refuses one in a place it does not know.
func (s *shifted) Children() []sql.Expression { return []sql.Expression{s.date, s.amount} }

// WithChildren implements sql.Expression.
func (s *shifted) WithChildren(ctx *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 2 {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(c), 2)
	}
	e, ok, err := s.exact(ctx, c[0], expression.NewInterval(c[1], s.unit))
	if ok || err != nil {
		return e, err
	}
	if e, err = s.build(ctx, c[0], expression.NewInterval(c[1], s.unit)); err != nil {
		return nil, err
	}
	return &shown{e, shiftedType}, nil
}

func isTime(ctx *sql.Context, e sql.Expression) bool {
	return e.Resolved() && types.IsTimespan(e.Type(ctx)) || e.Resolved() && isTimeType(e.Type(ctx))
}

// timeInterval reports whether an interval is one of hours or less, with which a TIME stays one.
func timeInterval(i *expression.Interval) bool {
	if o, ok := i.Child.(*operator); ok && o.name == intervalName && strings.HasPrefix(literalText(o.args[1]), "day_") {
		return false
	}
	switch i.Unit {
	case "HOUR", "MINUTE", "SECOND", "MICROSECOND":
		return true
	}
	return false
}

// timeSum is a TIME and an interval as a TIME; NULL if there is none.
type timeSum struct {
	sql.Expression
	interval *expression.Interval
	sign     int64
}

// Type implements sql.Expression.
func (t *timeSum) Type(ctx *sql.Context) sql.Type {
	return newTimeType(max(timeDigitsOf(ctx, t.Expression), intervalDigits(t.interval)))
}

// Eval implements sql.Expression.
func (t *timeSum) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := t.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	d, err := t.interval.EvalDelta(ctx, row)
	if err != nil || d == nil {
		return nil, err
	}
	at, err := types.Time.ConvertToTimespan(v)
	if err != nil {
		return nil, err
	}
	const hours = 2 * timeMaxMicros / 3_600_000_000 // more than any two times are apart
	if max(d.Hours, -d.Hours) > hours || max(d.Minutes, -d.Minutes) > hours*60 || max(d.Seconds, -d.Seconds) > hours*3600 {
		return overflownTime(ctx), nil
	}
	n := int64(at) + t.sign*(d.Hours*3_600_000_000+d.Minutes*60_000_000+d.Seconds*1_000_000+d.Microseconds)
	if n > timeMaxMicros || n < -timeMaxMicros {
		return overflownTime(ctx), nil
	}
	return types.Timespan(n), nil
}

func overflownTime(ctx *sql.Context) any {
	ctx.Warn(1441, "Datetime function: time field overflow")
	return nil
}

// withFractions makes an interval of seconds with fractions one of microseconds.
func withFractions(ctx *sql.Context, i *expression.Interval) *expression.Interval {
	if i.Unit != "SECOND" || !i.Child.Resolved() {
		return i
	}
	digits := 0
	switch t := i.Child.Type(ctx).(type) {
	case sql.DecimalType:
		digits = min(int(t.Scale()), types.MaxDatetimePrecision)
	default:
		if types.IsFloat(t) || strings.Contains(literalText(i.Child), ".") {
			digits = types.MaxDatetimePrecision
		}
	}
	if digits == 0 {
		return i
	}
	return expression.NewInterval(&inMicroseconds{i.Child, digits}, "MICROSECOND")
}

// intervalDigits is how many digits of fractions of a second an interval has.
func intervalDigits(e sql.Expression) int {
	i, ok := e.(*expression.Interval)
	if !ok || !strings.Contains(i.Unit, "MICROSECOND") {
		return 0
	}
	if m, ok := i.Child.(*inMicroseconds); ok {
		return m.digits
	}
	return types.MaxDatetimePrecision
}

// inMicroseconds is a number of seconds as one of microseconds.
type inMicroseconds struct {
	sql.Expression
	digits int // behind the point
}

// Type implements sql.Expression.
func (m *inMicroseconds) Type(*sql.Context) sql.Type { return types.Int64 }

// Eval implements sql.Expression.
func (m *inMicroseconds) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := m.Expression.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	n, ok := secondsOf(v)
	if !ok {
		return m.plain(ctx, v)
	}
	return n, nil
}

// plain is what is no number: as much of it as is one.
func (m *inMicroseconds) plain(ctx *sql.Context, v any) (any, error) {
	c, _, err := types.Float64.Convert(quiet(ctx), v)
	f, ok := c.(float64)
	if !ok || err != nil && !sql.ErrTruncatedIncorrect.Is(err) {
		return nil, err
	}
	return int64(f * 1_000_000), nil
}

// Children implements sql.Expression.
func (m *inMicroseconds) Children() []sql.Expression { return []sql.Expression{m.Expression} }

// WithChildren implements sql.Expression.
func (m *inMicroseconds) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(m, len(c), 1)
	}
	return &inMicroseconds{c[0], m.digits}, nil
}
