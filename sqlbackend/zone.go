package sqlbackend

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// TIMESTAMP columns hold points in time. A session sees them as wall-clock readings of its time_zone, which is what the
// frontend computes with; the two meet where rows are encoded and decoded.

// zone returns the session's time zone if it matters to the table: nil if the table has no TIMESTAMP column or the zone
// is UTC.
func (t *tableInfo) zone(ctx context.Context) *time.Location {
	sctx, ok := ctx.(*sql.Context)
	if !ok || t.zoned == nil || sctx.Session == nil {
		return nil
	}
	v, err := sctx.Session.GetSessionVariable(sctx, "time_zone")
	if err != nil {
		return nil
	}
	name, _ := v.(string)
	loc := location(name)
	if loc == time.UTC || loc.String() == "UTC" {
		return nil
	}
	return loc
}

// location reads a value of time_zone: SYSTEM, an offset, or a name. UTC if it is none of them.
func location(name string) *time.Location {
	if strings.EqualFold(name, "SYSTEM") {
		return time.Local
	}
	if offset, ok := parseOffset(name); ok {
		if offset == 0 {
			return time.UTC
		}
		return time.FixedZone(name, offset)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return loc
}

// parseOffset reads +hh:mm or -hh:mm, in seconds.
func parseOffset(s string) (int, bool) {
	if len(s) < 2 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	h, m, ok := strings.Cut(s[1:], ":")
	hours, err := strconv.Atoi(h)
	minutes, err2 := strconv.Atoi(m)
	if !ok || err != nil || err2 != nil {
		return 0, false
	}
	seconds := hours*3600 + minutes*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// toUTC turns a wall-clock reading of loc, as the frontend writes it, into the point in time.
func toUTC(v any, loc *time.Location) any {
	w, ok := v.(time.Time)
	if !ok || w.Equal(types.ZeroTime) {
		return v
	}
	return time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), w.Nanosecond(), loc).UTC()
}

// fromUTC is the inverse of toUTC.
func fromUTC(v any, loc *time.Location) any {
	p, ok := v.(time.Time)
	if !ok || p.Equal(types.ZeroTime) {
		return v
	}
	w := p.In(loc)
	return time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), w.Nanosecond(), time.UTC)
}

// encodeCell turns a frontend cell, not nil, into the column's Arrow cell.
func (t *tableInfo) encodeCell(ctx context.Context, column int, v any, zone *time.Location) (any, error) {
	if zone != nil && t.zoned[column] {
		c, err := convertTo[time.Time](ctx, t.schema.Schema[column].Type, v)
		if err != nil {
			return nil, err
		}
		v = toUTC(c, zone)
	}
	return t.codecs[column].encode(ctx, v)
}

// readingOf is a TIMESTAMP as the wall-clock reading that it is to the frontend here. Why: UNIX_TIMESTAMP takes every
// value of type TIMESTAMP for UTC.
type readingOf struct {
	sql.Expression
}

// Type implements sql.Expression.
func (r *readingOf) Type(ctx *sql.Context) sql.Type {
	precision := 0
	if t, ok := r.Expression.Type(ctx).(sql.DatetimeType); ok {
		precision = t.Precision()
	}
	return types.MustCreateDatetimeType(sqltypes.Datetime, precision)
}

// Children implements sql.Expression.
func (r *readingOf) Children() []sql.Expression { return []sql.Expression{r.Expression} }

// WithChildren implements sql.Expression.
func (r *readingOf) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(r, len(c), 1)
	}
	return &readingOf{c[0]}, nil
}

// zonedUnixTimestamp returns UNIX_TIMESTAMP of a TIMESTAMP's reading; false if it needs no change.
func zonedUnixTimestamp(ctx *sql.Context, u *function.UnixTimestamp) (sql.Expression, bool) {
	if u.Date == nil || !types.IsTimestampType(u.Date.Type(ctx)) {
		return u, false
	}
	zoned := *u // keeps the type, which tells the digits of the fraction
	zoned.Date = &readingOf{u.Date}
	return &zoned, true
}
