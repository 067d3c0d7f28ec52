package sqlbackend

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The zero date, 0000-00-00, is to the frontend the day before the year 0, -0001-11-30, which MySQL has no other use for,
// and is stored as that (decision 0011).

func isZeroDate(v any) bool {
	d, ok := v.(time.Time)
	return ok && d.Equal(types.ZeroTime)
}

// refusesZeroDates reports whether the session's sql_mode makes zero dates an error, of a statement without IGNORE.
func refusesZeroDates(ctx *sql.Context) bool {
	if c := connOf(ctx); c != nil && c.stmt.lenient {
		return false
	}
	mode := sql.LoadSqlMode(ctx)
	return mode.Strict() && mode.ModeEnabled("NO_ZERO_DATE")
}

// refuseZeroDates is the error of a row that brings a zero date, if sql_mode forbids it (1292). One that stays where it was
// is none: old is the row before an UPDATE, otherwise nil. rowNumber is for the message, 1-based.
func (t *tableInfo) refuseZeroDates(ctx *sql.Context, old, row sql.Row, rowNumber int64) error {
	for _, c := range t.dated {
		if c >= len(row) || !isZeroDate(row[c]) || old != nil && isZeroDate(old[c]) || !refusesZeroDates(ctx) {
			continue
		}
		kind, text := "datetime", "0000-00-00 00:00:00"
		if types.IsDateType(t.schema.Schema[c].Type) {
			kind, text = "date", types.ZeroDateStr
		}
		return newError(1292, "Incorrect %s value: '%s' for column '%s' at row %d", kind, text, t.schema.Schema[c].Name, max(rowNumber, 1))
	}
	return nil
}
