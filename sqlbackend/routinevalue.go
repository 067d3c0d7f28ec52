package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// convertVariable makes a value one of the type of a variable, as an assignment to a column does: what does not fit is an error, or
// without a strict sql_mode the nearest value and a warning. from is the type the value has; nil if it is not known.
func convertVariable(ctx *sql.Context, name string, to sql.Type, v any, from sql.Type) (any, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil || v == nil {
		return nil, err
	}
	if v, err = shownValue(ctx, to, v, from); err != nil {
		return nil, err
	}
	if takesNumbers(to) {
		if v, err = temporalNumber(ctx, to, v, from); err != nil {
			return nil, err
		}
	}
	strict := sqlMode(ctx).Strict()
	if !strict {
		near, warning := nearest(ctx, to, v)
		if warning != 0 {
			warnAdjusted(ctx, warning, &sql.Column{Name: name, Type: to}, v, 1)
			v = near
		}
	}
	var c any
	in := sql.InRange
	if rounding, ok := to.(sql.RoundingNumberType); ok {
		c, in, err = rounding.ConvertRound(ctx, v)
	} else {
		c, in, err = to.Convert(ctx, v)
	}
	switch {
	case err != nil && types.ErrLengthBeyondLimit.Is(err):
		return nil, newError(1406, "Data too long for column '%s' at row 1", name)
	case err != nil && sql.IsNumberType(to) && (sql.ErrTruncatedIncorrect.Is(err) || sql.ErrInvalidValue.Is(err) || types.ErrConvertingToDecimal.Is(err)):
		if strict {
			return nil, newError(1366, "Incorrect %s value: '%v' for column '%s' at row 1", numberWord(to), v, name)
		}
		ctx.Warn(1366, "Incorrect %s value: '%v' for column '%s' at row 1", numberWord(to), v, name)
		if c == nil {
			c = to.Zero()
		}
		return c, nil
	case err != nil && strict:
		if refused := refusal(ctx, name, to, v, 1); refused != nil {
			return nil, refused
		}
		if types.IsEnum(to) || types.IsSet(to) {
			return nil, newError(1265, "Data truncated for column '%s' at row 1", name)
		}
		return nil, err
	case err != nil:
		ctx.Warn(1265, "Data truncated for column '%s' at row 1", name)
		return to.Zero(), nil
	case in != sql.InRange && strict:
		return nil, newError(1264, "Out of range value for column '%s' at row 1", name)
	case in != sql.InRange:
		warnAdjusted(ctx, 1264, &sql.Column{Name: name, Type: to}, v, 1)
	}
	return sql.UnwrapAny(ctx, c)
}

// shownValue is a value as a client would see it, if a text is made of it, and that of a member of ENUM or SET, which is a number
// otherwise.
func shownValue(ctx *sql.Context, to sql.Type, v any, from sql.Type) (any, error) {
	if from == nil || from == types.Null {
		return v, nil
	}
	_, text := to.(sql.StringType)
	members := (types.IsEnum(from) || types.IsSet(from)) && !sql.IsNumberType(to)
	if !text && !members {
		return v, nil
	}
	switch v.(type) {
	case string, []byte:
		if !members {
			return v, nil
		}
	}
	s, err := from.SQL(ctx, nil, v)
	if err != nil {
		return nil, err
	}
	return s.ToString(), nil
}

func numberWord(t sql.Type) string {
	switch {
	case types.IsDecimal(t):
		return "decimal"
	case types.IsFloat(t):
		return "double"
	}
	return "integer"
}

// setUser assigns a user variable. As in MySQL it holds no dates, times and members of ENUM and SET, but what is shown of them.
func setUser(ctx *sql.Context, name string, v any, typ sql.Type) error {
	if v == nil || typ == nil || sql.IsNumberType(typ) { // Why: what computes a number does not always know how many digits it has
		return ctx.SetUserVariable(ctx, name, v, types.ApproximateTypeFromValue(v))
	}
	if types.IsTime(typ) || types.IsTimespan(typ) || types.IsEnum(typ) || types.IsSet(typ) {
		shown, err := shownValue(ctx, types.LongText, v, typ)
		if err != nil {
			return err
		}
		return ctx.SetUserVariable(ctx, name, shown, types.ApproximateTypeFromValue(shown))
	}
	return ctx.SetUserVariable(ctx, name, v, typ)
}
