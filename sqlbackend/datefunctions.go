package sqlbackend

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

const (
	dayMicros     = 24 * 60 * 60 * 1_000_000
	timeMaxMicros = (838*3600 + 59*60 + 59) * 1_000_000
	epochDays     = 719528 // TO_DAYS('1970-01-01')
	shortYears    = 70     // two digits below it are years of this century
)

// dateFunctions are the functions of dates and times that the frontend lacks.
func dateFunctions() []sql.Function {
	return []sql.Function{
		newScalar("makedate", 2, 2, always(types.Date), makeDate),
		newScalar("maketime", 3, 3, func(ctx *sql.Context, args []sql.Expression) sql.Type {
			return newTimeType(timeDigits(args[2].Type(ctx)))
		}, makeTime),
		newScalar("sec_to_time", 1, 1, func(ctx *sql.Context, args []sql.Expression) sql.Type {
			return newTimeType(timeDigits(args[0].Type(ctx)))
		}, secondsToTime),
		newScalar("to_seconds", 1, 1, always(types.Int64), toSeconds),
		newScalar("period_add", 2, 2, always(types.Int64), periodAdd),
		newScalar("period_diff", 2, 2, always(types.Int64), periodDiff),
		addTimeFunction("addtime", 1),
		addTimeFunction("subtime", -1),
		newScalar("utc_date", 0, 0, always(types.Date), func(ctx *sql.Context, _ []any) (any, error) {
			return ctx.QueryTime().UTC().Truncate(24 * time.Hour), nil
		}),
		sql.FunctionN{Name: "utc_time", Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			return nowOf("utc_time", args, newTimeType, func(now time.Time) any {
				return types.Timespan(now.Sub(now.Truncate(24 * time.Hour)).Microseconds())
			})
		}},
	}
}

// timestampFunction is TIMESTAMP(x), TIMESTAMP(x, time), and UTC_TIMESTAMP with the digits it says.
func timestampFunction(name string) (sql.Function, bool) {
	switch name {
	case "timestamp":
	case "curdate", "current_date":
		return sql.Function0{Name: name, Fn: func(ctx *sql.Context) sql.Expression {
			return &shown{function.NewCurrDate(ctx), func(*sql.Context, sql.Expression) sql.Type { return types.Date }}
		}}, true
	case "utc_timestamp":
		return sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			return nowOf(name, args, func(digits int) sql.Type { return types.MustCreateDatetimeType(sqltypes.Datetime, digits) },
				func(now time.Time) any { return now })
		}}, true
	default:
		return nil, false
	}
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if len(args) != 2 {
			e, err := function.NewDatetime(ctx, args...)
			if err != nil {
				return nil, err
			}
			return &shown{e, momentType}, nil
		}
		return &scalar{name: name, args: args, typ: func(ctx *sql.Context, args []sql.Expression) sql.Type {
			return types.MustCreateDatetimeType(sqltypes.Datetime, max(timeDigits(args[0].Type(ctx)), timeDigits(args[1].Type(ctx))))
		}, eval: func(ctx *sql.Context, args []any) (any, error) {
			at, ok := datetimeOf(ctx, args[0])
			d, isTime, ok2 := momentOf(ctx, args[1])
			if !ok || !ok2 || !isTime {
				return nil, nil
			}
			return inCalendar(at.Add(time.Duration(d) * time.Microsecond)), nil
		}}, nil
	}}, true
}

// momentType is the type of TIMESTAMP of one argument: a DATETIME with the digits of that.
func momentType(ctx *sql.Context, e sql.Expression) sql.Type {
	digits := types.MaxDatetimePrecision
	if c := e.Children(); len(c) == 1 {
		l, literal := c[0].(*expression.Literal)
		text, isText := "", false
		if literal {
			text, isText = l.Value().(string)
		}
		switch t := c[0].Type(ctx); {
		case isText:
			_, fraction, _ := strings.Cut(text, ".")
			digits = min(len(fraction), types.MaxDatetimePrecision)
		case isTemporal(t), types.IsNumber(t):
			digits = timeDigits(t)
		default: // a text, or a parameter that is not known yet
			return e.Type(ctx)
		}
	} else if t := e.Type(ctx); types.IsTime(t) { // it is evaluated already
		return t
	}
	return types.MustCreateDatetimeType(sqltypes.Datetime, digits)
}

// nowOf is a function of the time of the statement, UTC, with as many digits as its argument says.
func nowOf(name string, args []sql.Expression, typ func(digits int) sql.Type, value func(now time.Time) any) (sql.Expression, error) {
	digits := 0
	switch len(args) {
	case 0:
	case 1:
		n, ok := literalInt(nil, args[0])
		if !ok || n < 0 {
			return nil, newError(1064, "You have an error in your SQL syntax: %s takes a number of digits", strings.ToUpper(name))
		}
		if digits = n; digits > types.MaxDatetimePrecision {
			return nil, newError(1426, "Too-big precision %d specified for '%s'. Maximum is 6.", n, name)
		}
	default:
		return nil, sql.ErrInvalidArgumentNumber.New(strings.ToUpper(name), 1, len(args))
	}
	unit := time.Second
	for range digits {
		unit /= 10
	}
	return &scalar{name: name, args: args, typ: always(typ(digits)), eval: func(ctx *sql.Context, _ []any) (any, error) {
		return value(ctx.QueryTime().UTC().Truncate(unit)), nil
	}}, nil
}

// wholeOf rounds a number to the nearest integer; false if it has none of 64 bits.
func wholeOf(ctx *sql.Context, v any) (int64, bool) {
	c, in, err := types.Int64.Convert(quiet(ctx), v)
	n, ok := c.(int64)
	return n, ok && in == sql.InRange && (err == nil || sql.ErrTruncatedIncorrect.Is(err))
}

// secondsOf is a number of seconds as microseconds, rounded; false if it is none or beyond all times.
func secondsOf(v any) (int64, bool) {
	d, err := toDecimal(v)
	if err != nil || d == nil {
		return 0, false
	}
	micros := new(apd.Decimal)
	if _, err := sql.DecimalCtx.Mul(micros, d, apd.New(1_000_000, 0)); err != nil {
		return 0, false
	}
	whole := new(apd.Decimal)
	c := sql.DecimalCtx
	c.Rounding = apd.RoundHalfUp
	if _, err := c.RoundToIntegralValue(whole, micros); err != nil {
		return 0, false
	}
	n, err := whole.Int64()
	if err != nil { // Why: every time is far below what 64 bits hold
		if whole.Negative {
			return -1 << 62, true
		}
		return 1 << 62, true
	}
	return n, true
}

// inTime is microseconds as a TIME, the first or last one with a warning if there is none.
func inTime(ctx *sql.Context, micros int64, what any) any {
	if micros > timeMaxMicros || micros < -timeMaxMicros {
		ctx.Warn(1292, "Truncated incorrect time value: '%v'", what)
		micros = max(min(micros, timeMaxMicros), -timeMaxMicros)
	}
	return types.Timespan(micros)
}

// inCalendar is a point in time of the years 0 to 9999, or NULL.
func inCalendar(t time.Time) any {
	if t.Year() < 0 || t.Year() > 9999 {
		return nil
	}
	return t
}

func makeDate(ctx *sql.Context, args []any) (any, error) {
	year, ok := wholeOf(ctx, args[0])
	day, ok2 := wholeOf(ctx, args[1])
	if !ok || !ok2 || year < 0 || year > 9999 || day <= 0 || day > 366*10_000 {
		return nil, nil
	}
	return inCalendar(time.Date(int(fullYear(year)), 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(day-1))), nil
}

// fullYear reads years of two digits as MySQL does.
func fullYear(y int64) int64 {
	switch {
	case y < shortYears:
		return y + 2000
	case y < 100:
		return y + 1900
	}
	return y
}

func makeTime(ctx *sql.Context, args []any) (any, error) {
	hour, ok := wholeOf(ctx, args[0])
	minute, ok2 := wholeOf(ctx, args[1])
	second, ok3 := secondsOf(args[2])
	if !ok2 || !ok3 || minute < 0 || minute > 59 || second < 0 || second >= 60_000_000 {
		return nil, nil
	}
	what := fmt.Sprintf("%v:%02d:%02d", args[0], minute, second/1_000_000)
	if !ok || hour > 1000 || hour < -1000 {
		hour = 1000
		if text := fmt.Sprint(args[0]); text[0] == '-' {
			hour = -1000
		}
	}
	micros := minute*60_000_000 + second
	if hour < 0 {
		micros = -micros
	}
	return inTime(ctx, hour*3_600_000_000+micros, what), nil
}

func secondsToTime(ctx *sql.Context, args []any) (any, error) {
	n, ok := secondsOf(args[0])
	if !ok {
		ctx.Warn(1292, "Truncated incorrect time value: '%v'", args[0])
	}
	return inTime(ctx, n, args[0]), nil
}

func toSeconds(ctx *sql.Context, args []any) (any, error) {
	t, ok := datetimeOf(ctx, args[0])
	if !ok {
		return nil, nil
	}
	return t.Unix() + epochDays*24*60*60, nil
}

// datetimeOf converts a value to a point in time; the zero date and what is no date are false, with a warning for the latter.
func datetimeOf(ctx *sql.Context, v any) (time.Time, bool) {
	v = dateOfDigits(v)
	c, _, err := types.DatetimeMaxPrecision.Convert(quiet(ctx), v)
	t, ok := c.(time.Time)
	if err != nil || !ok {
		ctx.Warn(1292, "Incorrect datetime value: '%v'", v)
		return time.Time{}, false
	}
	return t, !t.Equal(types.ZeroTime)
}

// shortMoment is a text that is taken for a date or a time, as far as it can be one. Why: the frontend looks at all beginnings of a text,
// which takes hours for some.
func shortMoment(text string) string {
	const most = 255
	if len(text) <= most {
		return text
	}
	return text[:offsetOf(text, most/utf8.UTFMax, false)]
}

// dateOfDigits writes an integer, or a text of digits, that is YYMMDD, YYYYMMDD, YYMMDDhhmmss or YYYYMMDDhhmmss, as a date with
// separators; 0 is the zero date. Others stay.
func dateOfDigits(v any) any {
	text, ok := v.(string)
	if short := shortMoment(text); ok && len(short) < len(text) {
		return dateOfDigits(short)
	}
	if n, isInt := int64Of(v); isInt {
		switch text, ok = strconv.FormatInt(n, 10), true; {
		case n == 0:
			return types.ZeroDateStr
		case n > 0 && n < 1_000_000:
			text = fmt.Sprintf("%06d", n)
		case n >= 100_000_000 && n < 1_000_000_000_000:
			text = fmt.Sprintf("%012d", n)
		}
	}
	if !ok || strings.TrimLeft(text, "0123456789") != "" {
		return v
	}
	date, clock := text, ""
	if at := len(text) - len("hhmmss"); at == 6 || at == 8 {
		date, clock = text[:at], " "+text[at:at+2]+":"+text[at+2:at+4]+":"+text[at+4:]
	}
	switch len(date) {
	case 6:
		year, _ := strconv.Atoi(date[:2]) // two digits, as above
		date = fmt.Sprintf("%04d-%s-%s", fullYear(int64(year)), date[2:4], date[4:])
	case 8:
		date = date[:4] + "-" + date[4:6] + "-" + date[6:]
	}
	layout := time.DateOnly
	if clock != "" {
		layout = time.DateTime
	}
	if _, err := time.Parse(layout, date+clock); err != nil {
		return v // no date
	}
	return date + clock
}

var withDate = regexp.MustCompile(`^\s*\d+[-/.]\d+[-/.]\d+`)

// momentOf reads a time or a point in time: microseconds since midnight or since 1970. False if it is neither.
func momentOf(ctx *sql.Context, v any) (micros int64, isTime, ok bool) {
	text, isText := v.(string)
	if b, isBytes := v.([]byte); isBytes {
		text, isText = string(b), true
		v = text
	}
	if n, isInt := int64Of(v); isInt && n > 9_999_999_999 {
		v = dateOfDigits(n)
		text, isText = v.(string)
	}
	if _, isPoint := v.(time.Time); isPoint || isText && withDate.MatchString(text) {
		t, ok := datetimeOf(ctx, v)
		return t.UnixMicro(), false, ok
	}
	s, err := types.Time.ConvertToTimespan(withoutDays(v))
	if err != nil {
		ctx.Warn(1292, "Truncated incorrect time value: '%v'", v)
		return 0, true, false
	}
	return int64(s), true, true
}

// newTimeOf is the time of a time or point in time, to the microsecond.
func newTimeOf(name string, e sql.Expression) sql.Expression {
	return &scalar{name: name, args: []sql.Expression{e}, typ: always(types.Time), eval: func(ctx *sql.Context, v []any) (any, error) {
		micros, isTime, ok := momentOf(ctx, v[0])
		if !ok {
			return nil, nil
		}
		if !isTime {
			micros = (micros%dayMicros + dayMicros) % dayMicros
		}
		return types.Timespan(micros), nil
	}}
}

// addTimeFunction is ADDTIME or SUBTIME: its result has the type of the first argument, text if that has none of times.
func addTimeFunction(name string, sign int64) sql.Function {
	kind := func(ctx *sql.Context, args []sql.Expression) sql.Type {
		first := args[0].Type(ctx)
		digits := max(timeDigits(first), timeDigits(args[1].Type(ctx)))
		if _, ok := first.(types.TimeType); ok {
			return newTimeType(digits)
		}
		if types.IsDatetimeType(first) || types.IsTimestampType(first) {
			return types.MustCreateDatetimeType(sqltypes.Datetime, digits)
		}
		return types.MustCreateStringWithDefaults(sqltypes.VarChar, int64(len("-9999-12-31 23:59:59.999999")))
	}
	return sql.Function2{Name: name, Fn: func(_ *sql.Context, a, b sql.Expression) sql.Expression {
		s := &scalar{name: name, args: []sql.Expression{a, b}, typ: kind}
		s.eval = func(ctx *sql.Context, v []any) (any, error) {
			micros, isTime, ok := momentOf(ctx, v[0])
			d, ok2 := int64(0), false
			if ok {
				var alsoTime bool
				d, alsoTime, ok2 = momentOf(ctx, v[1])
				ok2 = ok2 && alsoTime
			}
			if !ok || !ok2 {
				return nil, nil
			}
			micros += sign * d
			if isTime {
				t := inTime(ctx, micros, v[0])
				if _, ok := v[0].(types.Timespan); ok {
					return t, nil
				}
				return spanText(t.(types.Timespan)), nil
			}
			at := time.UnixMicro(micros).UTC()
			if inCalendar(at) == nil {
				ctx.Warn(1441, "Datetime function: %s field overflow", name)
				return nil, nil
			}
			if _, ok := v[0].(time.Time); ok {
				return at, nil
			}
			if at.Nanosecond() == 0 {
				return at.Format(time.DateTime), nil
			}
			return at.Format("2006-01-02 15:04:05.000000"), nil
		}
		return s
	}}
}

// spanText writes a time, with microseconds if there are any.
func spanText(t types.Timespan) string {
	sign, n := "", int64(t)
	if n < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%02d:%02d:%02d", sign, n/3_600_000_000, n/60_000_000%60, n/1_000_000%60)
	if n%1_000_000 != 0 {
		text += fmt.Sprintf(".%06d", n%1_000_000)
	}
	return text
}

// monthOf is a period YYMM or YYYYMM as a number of months.
func monthOf(ctx *sql.Context, v any, function string) (int64, error) {
	p, ok := wholeOf(ctx, v)
	if month := p % 100; !ok || p < 0 || p != 0 && (month < 1 || month > 12) || p > 999_912 {
		return 0, newError(1210, "Incorrect arguments to %s", function)
	}
	if p == 0 {
		return 0, nil
	}
	return fullYear(p/100)*12 + p%100 - 1, nil
}

func periodAdd(ctx *sql.Context, args []any) (any, error) {
	month, err := monthOf(ctx, args[0], "period_add")
	if err != nil {
		return nil, err
	}
	n, ok := wholeOf(ctx, args[1])
	if !ok || n > 1<<31 || n < -(1<<31) || month+n < 0 {
		return nil, newError(1210, "Incorrect arguments to period_add")
	}
	if month += n; month == 0 {
		return int64(0), nil
	}
	return fullYear(month/12)*100 + month%12 + 1, nil
}

func periodDiff(ctx *sql.Context, args []any) (any, error) {
	a, err := monthOf(ctx, args[0], "period_diff")
	if err != nil {
		return nil, err
	}
	b, err := monthOf(ctx, args[1], "period_diff")
	return a - b, err
}
