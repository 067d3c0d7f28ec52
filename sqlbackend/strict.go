package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// takesTexts reports whether values of a column are numbers or times, which are also given as texts.
func takesTexts(t sql.Type) bool {
	return (sql.IsNumberType(t) || types.IsDecimal(t) || types.IsYear(t) || types.IsTime(t) || types.IsTimespan(t) || isTimeType(t)) && !types.IsBit(t)
}

// refusal is MySQL's error in strict mode for a text that a column of numbers or times cannot hold; nil for other values. The
// frontend takes an empty text for 0 and does not name the column.
func refusal(ctx *sql.Context, column string, typ sql.Type, v any, row int64) error {
	text, ok := v.(string)
	if !ok || !takesTexts(typ) {
		return nil
	}
	if kind := timeWord(typ); kind != "" {
		if _, _, err := typ.Convert(quiet(ctx), text); err != nil || strings.TrimSpace(text) == "" {
			return newError(1292, "Incorrect %s value: '%s' for column '%s' at row %d", kind, text, column, row)
		}
		return nil
	}
	number := numberAtStart.FindString(text)
	switch {
	case number != "" && strings.TrimSpace(text[len(number):]) == "":
		return nil
	case number == "" && !types.IsFloat(typ):
		return newError(1366, "Incorrect %s value: '%s' for column '%s' at row %d", numberWord(typ), text, column, row)
	}
	return newError(1265, "Data truncated for column '%s' at row %d", column, row)
}

// timeWord is what MySQL's errors call values of a type of times; empty for other types.
func timeWord(t sql.Type) string {
	switch {
	case types.IsDateType(t):
		return "date"
	case types.IsTime(t):
		return "datetime"
	case types.IsTimespan(t), isTimeType(t):
		return "time"
	}
	return ""
}
