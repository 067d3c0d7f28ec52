package sqlbackend

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// Choices between dates and times have the digits of what is chosen from: the frontend says six, or has none of TIME.

// dateChoice returns a function that chooses one of its arguments; it leaves alone what has others than dates and times.
func dateChoice(name string) (sql.Function, bool) {
	from := 0 // the arguments that are chosen from
	switch name {
	case "greatest", "least", "coalesce", "ifnull":
	case "if":
		from = 1
	default:
		return nil, false
	}
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		theirs := func() (sql.Expression, error) {
			if f, ok := numberFunction(name); ok {
				return f.NewInstance(ctx, args)
			}
			if len(args) != 3 {
				return nil, sql.ErrInvalidArgumentNumber.New("if", 3, len(args))
			}
			return function.NewIf(ctx, args[0], args[1], args[2]), nil
		}
		if len(args) <= from {
			return theirs()
		}
		t, ok := chosenType(ctx, args[from:])
		switch {
		case !ok:
			return theirs()
		case name == "greatest" || name == "least":
			return &scalar{name: name, args: args, typ: func(ctx *sql.Context, args []sql.Expression) sql.Type {
				if now, ok := chosenType(ctx, args); ok {
					return now
				}
				return t
			}, eval: func(_ *sql.Context, args []any) (any, error) { return extremeOf(args, name == "greatest") }}, nil
		}
		e, err := theirs()
		if err != nil {
			return nil, err
		}
		if s, ok := e.(*shown); ok {
			e = s.Expression
		}
		return &shown{e, func(ctx *sql.Context, e sql.Expression) sql.Type {
			if args := e.Children(); len(args) > from {
				if now, ok := chosenType(ctx, args[from:]); ok {
					return now
				}
			}
			return t
		}}, nil
	}}, true
}

// chosenType is the type of a choice between dates, or between times; false if there are others.
func chosenType(ctx *sql.Context, args []sql.Expression) (sql.Type, bool) {
	digits, dates, times, moments := 0, 0, 0, 0
	for _, a := range args {
		if a == nil || !a.Resolved() {
			return nil, false
		}
		switch t := a.Type(ctx); {
		case t == types.Null:
			continue
		case types.IsDateType(t):
			dates++
		case types.IsTime(t):
			moments++
			digits = max(digits, timeDigits(t))
		case isTimeType(t), types.IsTimespan(t):
			times++
			digits = max(digits, timeDigits(t))
		default:
			return nil, false
		}
	}
	switch {
	case times > 0 && dates+moments == 0:
		return newTimeType(digits), true
	case times > 0 || dates+moments == 0:
		return nil, false
	case moments == 0:
		return types.Date, true
	}
	return types.MustCreateDatetimeType(sqltypes.Datetime, digits), true
}

// extremeOf is the last or the first of dates or of times.
func extremeOf(args []any, last bool) (any, error) {
	best := args[0]
	for _, v := range args[1:] {
		order := 0
		switch v := v.(type) {
		case time.Time:
			if b, ok := best.(time.Time); ok {
				order = v.Compare(b)
			}
		case types.Timespan:
			if b, ok := best.(types.Timespan); ok {
				order = v.Compare(b)
			}
		}
		if last && order > 0 || !last && order < 0 {
			best = v
		}
	}
	return best, nil
}
