package sqlbackend

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// clockFunction returns HOUR, MINUTE, SECOND, MICROSECOND and TIME_TO_SEC, whose argument is a time, of a day or not, and WEEK. The
// frontend takes a text for a date in the first ones, and knows two of WEEK's eight modes.
func clockFunction(name string) (sql.Function, bool) {
	part := func(of func(micros int64) int64) (sql.Function, bool) {
		return newScalar(name, 1, 1, always(types.Int32), func(ctx *sql.Context, args []any) (any, error) {
			t, ok := clockOf(ctx, args[0])
			if !ok {
				return nil, nil
			}
			return int32(of(max(int64(t), -int64(t)))), nil
		}), true
	}
	const second, minute, hour = 1_000_000, 60_000_000, 3_600_000_000
	switch name {
	case "hour":
		return part(func(n int64) int64 { return n / hour })
	case "minute":
		return part(func(n int64) int64 { return n / minute % 60 })
	case "second":
		return part(func(n int64) int64 { return n / second % 60 })
	case "microsecond":
		return part(func(n int64) int64 { return n % second })
	case "time_to_sec":
		return newScalar(name, 1, 1, always(types.Int64), func(ctx *sql.Context, args []any) (any, error) {
			t, ok := clockOf(ctx, args[0])
			if !ok {
				return nil, nil
			}
			return int64(t) / second, nil
		}), true
	case "week":
		return newScalar(name, 1, 2, always(types.Int32), weekOf), true
	case extractName:
		return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if len(args) != 2 {
				return nil, sql.ErrInvalidArgumentNumber.New("EXTRACT", 2, len(args))
			}
			return newExtraction(ctx, args[0], args[1])
		}}, true
	}
	return nil, false
}

// clockOf is a value as a time: the time of day of a date. What is none is false, with a warning.
func clockOf(ctx *sql.Context, v any) (types.Timespan, bool) {
	if n, ok := int64Of(v); ok {
		v = n
	}
	switch v := v.(type) {
	case types.Timespan:
		return v, true
	case time.Time:
		return ofDay(v), true
	case int64:
		if date, ok := dateOfDigits(v).(string); ok && v >= 10_000_000_000 {
			return clockOf(ctx, date)
		}
	case string:
		text := strings.TrimSpace(v)
		if text == "" {
			ctx.Warn(1292, "Truncated incorrect time value: ''")
			return 0, false
		}
		if datelike(text) {
			if c, _, err := types.DatetimeMaxPrecision.Convert(quiet(ctx), dateOfDigits(text)); err == nil {
				if at, ok := c.(time.Time); ok {
					return ofDay(at), true
				}
			}
		}
	}
	s, err := types.Time.ConvertToTimespan(withoutDays(v))
	if err != nil {
		ctx.Warn(1292, "Truncated incorrect time value: '%v'", v)
		return 0, false
	}
	return s, true
}

// datelike reports whether a text can be a date and a time, as against a time, which may have a sign.
func datelike(text string) bool {
	return strings.ContainsAny(text, " T") || strings.Count(strings.TrimLeft(text, "-"), "-") > 1
}

func ofDay(at time.Time) types.Timespan {
	return types.Timespan((int64(at.Hour())*3600+int64(at.Minute())*60+int64(at.Second()))*1_000_000 + int64(at.Nanosecond()/1000))
}

// weekOf is WEEK(date [, mode]). Of the mode's bits the first says that weeks begin on Monday, the second that days before the first week
// belong to the last one of the year before, the third, turned over for weeks that begin on Monday, that the first week begins in the
// year, not that four days of it are in it.
func weekOf(ctx *sql.Context, args []any) (any, error) {
	at, ok := datetimeOf(ctx, args[0])
	if !ok {
		return nil, nil
	}
	mode := int64(0)
	if len(args) > 1 {
		mode, _ = wholeOf(ctx, args[1])
	} else if v, err := ctx.GetSessionVariable(ctx, "default_week_format"); err == nil {
		mode, _ = int64Of(v)
	}
	monday, whole, complete := mode&1 != 0, mode&2 != 0, mode&4 == 0
	if monday {
		complete = !complete
	}
	weekday := func(year int) int { // of the first of January, from the day weeks begin with
		first := int(time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC).Weekday())
		if monday {
			first = (first + 6) % 7
		}
		return first
	}
	late := func(first int) bool { // the first week begins after the first days of the year
		return complete && first != 0 || !complete && first >= 4
	}
	days := func(year int) int {
		return time.Date(year, time.December, 31, 0, 0, 0, 0, time.UTC).YearDay()
	}
	year, first, day := at.Year(), weekday(at.Year()), at.YearDay()-1
	if at.Month() == time.January && at.Day() <= 7-first && late(first) {
		if !whole {
			return int32(0), nil
		}
		year--
		first, day = weekday(year), day+days(year)
	}
	if late(first) {
		day -= 7 - first
	} else {
		day += first
	}
	if whole && day >= 52*7 {
		if next := weekday(year + 1); !late(next) && at.Year() == year {
			return int32(1), nil
		}
	}
	return int32(day/7 + 1), nil
}
