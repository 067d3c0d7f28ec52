package sqlbackend

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/proto/query"

	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// span is a half-open interval of keys; an empty bound is open. point marks the whole key of at most one row.
type span struct {
	lo, hi rowkey.Key
	point  bool
}

// scansFor turns index ranges into scans that return at least the rows of the ranges, each row once and, if the
// key is ordered, in key order.
//
// Bounds are widened where a literal has no exact counterpart in the column's type; the frontend's filter, which
// stays above the look-up, removes what is too much (I3).
func (t *tableInfo) scansFor(ctx context.Context, x *Index, ranges sql.MySQLRangeCollection) ([]lsm.ScanSpec, error) {
	spans := make([]span, 0, len(ranges))
	points := true
	for _, r := range ranges {
		s, empty, err := t.spanFor(ctx, x, r)
		if err != nil {
			return nil, err
		}
		if empty {
			continue
		}
		points = points && s.point
		spans = append(spans, s)
	}
	if len(spans) == 0 {
		return nil, nil
	}
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(string(a.lo), string(b.lo)) })
	if points && x.primary {
		keys := make([]rowkey.Key, 0, len(spans))
		for _, s := range spans {
			if len(keys) == 0 || keys[len(keys)-1] != s.lo {
				keys = append(keys, s.lo)
			}
		}
		return []lsm.ScanSpec{{Keys: keys}}, nil
	}
	merged := spans[:1]
	for _, s := range spans[1:] {
		last := &merged[len(merged)-1]
		if last.hi == "" || s.lo <= last.hi {
			if last.hi != "" && (s.hi == "" || s.hi > last.hi) {
				last.hi = s.hi
			}
			continue
		}
		merged = append(merged, s)
	}
	scans := make([]lsm.ScanSpec, len(merged))
	for i, s := range merged {
		r := lsm.KeyRange{Lo: s.lo, Hi: s.hi}
		if x.primary {
			scans[i].Range = &r
		} else {
			scans[i].Index = &lsm.IndexRange{Index: x.slot, Range: r}
		}
	}
	return scans, nil
}

// spanFor encloses one range: equal leading parts, then at most one bounded part.
func (t *tableInfo) spanFor(ctx context.Context, x *Index, r sql.MySQLRange) (s span, empty bool, err error) {
	cells, empty := t.equalParts(ctx, x, r)
	if empty {
		return s, true, nil
	}
	if i := len(cells); i < len(r) && i < len(x.key.parts) {
		column := x.key.parts[i].column
		lo, okLo := t.boundCell(ctx, column, r[i].LowerBound)
		hi, okHi := t.boundCell(ctx, column, r[i].UpperBound)
		return t.boundedSpan(x, cells, column, lo, okLo, hi, okHi)
	}
	k, err := x.key.encode(cells)
	if err != nil {
		return s, false, err
	}
	if len(cells) == len(x.key.parts) {
		return span{lo: k, hi: after(k), point: true}, false, nil
	}
	return span{lo: k, hi: after(k)}, false, nil
}

// equalParts is the cells to which the leading parts of all rows of a range are equal; empty if there is no such row.
func (t *tableInfo) equalParts(ctx context.Context, x *Index, r sql.MySQLRange) (cells []any, empty bool) {
	for i, part := range r {
		if i >= len(x.key.parts) {
			break
		}
		column := x.key.parts[i].column
		if isNullCut(part.UpperBound) {
			if _, null := part.UpperBound.(sql.AboveNull); !null || !t.schema.Schema[column].Nullable || x.key.hidden < 0 {
				return nil, true
			}
			cells = append(cells, nil)
			continue
		}
		if t.equalsNone(ctx, column, part) {
			return nil, true
		}
		lo, okLo := t.boundCell(ctx, column, part.LowerBound)
		_, okHi := t.boundCell(ctx, column, part.UpperBound)
		if !okLo || !okHi || !isPoint(ctx, part) {
			break
		}
		cells = append(cells, lo)
	}
	return cells, false
}

// boundedSpan is the span of the equal parts cells followed by a part between lo and hi, both inclusive.
func (t *tableInfo) boundedSpan(x *Index, cells []any, column int, lo any, okLo bool, hi any, okHi bool) (s span, empty bool, err error) {
	start, err := x.key.encode(cells)
	if err != nil {
		return s, false, err
	}
	s = span{lo: start, hi: after(start)}
	if !t.rangeable(x, column) {
		return s, false, nil
	}
	if okLo {
		if s.lo, err = x.key.encode(append(slices.Clone(cells), lo)); err != nil {
			return s, false, err
		}
	}
	if okHi {
		k, err := x.key.encode(append(slices.Clone(cells), hi))
		if err != nil {
			return s, false, err
		}
		s.hi = after(k)
	}
	return s, s.hi != "" && s.lo >= s.hi, nil
}

// rangeable reports whether the order of a column's key bytes is the order of the frontend's comparison.
// ENUM and SET compare as text in MySQL but sort as numbers.
func (t *tableInfo) rangeable(x *Index, column int) bool {
	typ := t.schema.Schema[column].Type
	if types.IsEnum(typ) || types.IsSet(typ) {
		return false
	}
	for _, p := range x.key.parts {
		if p.column == column {
			return orderedKeyPart(typ, p.length)
		}
	}
	return false
}

func isNullCut(c sql.MySQLRangeCut) bool {
	switch c.(type) {
	case sql.AboveNull, sql.BelowNull:
		return true
	default:
		return false
	}
}

// isPoint reports whether a part is one value: from just below to just above it.
func isPoint(ctx context.Context, part sql.MySQLRangeColumnExpr) bool {
	lo, ok := part.LowerBound.(sql.Below)
	hi, ok2 := part.UpperBound.(sql.Above)
	if !ok || !ok2 {
		return false
	}
	n, err := part.Typ.Compare(ctx, lo.Key, hi.Key)
	return err == nil && n == 0
}

// equalsNone reports whether a part is one number or time that no cell of its column is equal to. Why not a wider range:
// in a join that looks rows up, the frontend has no filter above the look-up.
func (t *tableInfo) equalsNone(ctx context.Context, column int, part sql.MySQLRangeColumnExpr) bool {
	typ := t.schema.Schema[column].Type
	switch typ.Type() {
	case query.Type_DECIMAL, query.Type_FLOAT32, query.Type_DATE, query.Type_DATETIME, query.Type_TIMESTAMP, query.Type_TIME:
	default: // other types get their own values from the frontend, see boundType
		return false
	}
	if !isPoint(ctx, part) {
		return false
	}
	v := sql.GetMySQLRangeCutKey(part.LowerBound)
	if v == nil || !comparable(typ, v) {
		return false
	}
	_, exact := t.exactCell(ctx, column, v)
	return !exact
}

// boundCell converts a range bound to the column's type, rounding to the nearest value; false for no bound, or none
// that can be trusted.
func (t *tableInfo) boundCell(ctx context.Context, column int, cut sql.MySQLRangeCut) (any, bool) {
	if cut == nil || !sql.MySQLRangeCutIsBinding(cut) {
		return nil, false
	}
	v := sql.GetMySQLRangeCutKey(cut)
	if v == nil || !comparable(t.schema.Schema[column].Type, v) {
		return nil, false
	}
	cell, in, ok := t.nearest(ctx, column, v)
	return cell, ok && in == sql.InRange
}

// nearest converts a value to the column's type, rounding to the nearest cell, and says whether it is beyond all of them;
// false if it is no value of the kind.
func (t *tableInfo) nearest(ctx context.Context, column int, v any) (any, sql.ConvertInRange, bool) {
	typ := t.schema.Schema[column].Type
	var c any
	var in sql.ConvertInRange
	var err error
	if rt, ok := typ.(sql.RoundingNumberType); ok {
		c, in, err = rt.ConvertRound(quiet(ctx), v)
	} else {
		c, in, err = typ.Convert(quiet(ctx), v)
	}
	if err != nil || c == nil || in != sql.InRange {
		return nil, in, err == nil && c != nil
	}
	cell, err := t.encodeCell(ctx, column, c, t.zone(ctx))
	return cell, in, err == nil
}

// exactCell converts a literal to a cell of the column only if the two are equal in every sense.
func (t *tableInfo) exactCell(ctx context.Context, column int, v any) (any, bool) {
	typ := t.schema.Schema[column].Type
	if v == nil || !comparable(typ, v) {
		return nil, false
	}
	c, in, err := typ.Convert(quiet(ctx), v)
	if err != nil || in != sql.InRange || c == nil || !sameValue(ctx, typ, v, c) {
		return nil, false
	}
	cell, err := t.encodeCell(ctx, column, c, t.zone(ctx))
	return cell, err == nil
}

// quiet is a context in which conversions leave no warnings on the session.
func quiet(ctx context.Context) context.Context {
	if sctx, ok := ctx.(*sql.Context); ok && sctx.Context != nil {
		return sctx.Context
	}
	return ctx
}

// comparable reports whether MySQL compares a column with a literal of this Go type by the column's own order,
// so that a converted literal finds what the comparison finds.
func comparable(typ sql.Type, v any) bool {
	switch typ.Type() {
	case query.Type_CHAR, query.Type_VARCHAR, query.Type_TEXT, query.Type_BINARY, query.Type_VARBINARY, query.Type_BLOB:
		switch v.(type) { // a number compares with text as a number: '01' = 1
		case string, []byte:
			return true
		}
		return false
	case query.Type_ENUM, query.Type_SET:
		switch v.(type) {
		case string, uint16, uint64:
			return true
		}
		return false
	case query.Type_DATE, query.Type_DATETIME, query.Type_TIMESTAMP:
		switch v.(type) {
		case string, time.Time:
			return true
		}
		return false
	case query.Type_TIME:
		switch v.(type) {
		case string, types.Timespan:
			return true
		}
		return false
	case query.Type_DECIMAL, query.Type_INT64, query.Type_UINT64, query.Type_BIT:
		switch f := v.(type) { // beyond 53 bits, many values equal one double
		case float64:
			return typ.Type() != query.Type_DECIMAL && math.Abs(f) < 1<<53
		case float32:
			return typ.Type() != query.Type_DECIMAL && math.Abs(float64(f)) < 1<<53
		}
		return isNumber(v)
	case query.Type_FLOAT32, query.Type_FLOAT64, query.Type_YEAR:
		return isNumber(v)
	default:
		return isNumber(v)
	}
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, *apd.Decimal:
		return true
	default:
		return false
	}
}

// sameValue reports whether a literal and its converted form are the same value.
func sameValue(ctx context.Context, typ sql.Type, literal, converted any) bool {
	switch l := literal.(type) {
	case string:
		switch c := converted.(type) {
		case string:
			return l == c
		case []byte:
			return l == string(c)
		case time.Time:
			n, err := types.DatetimeMaxRange.Compare(quiet(ctx), l, c)
			return err == nil && n == 0
		case types.Timespan:
			n, err := types.Time.Compare(quiet(ctx), l, c)
			return err == nil && n == 0
		}
		return false
	case []byte:
		c, ok := converted.([]byte)
		return ok && string(l) == string(c)
	case time.Time:
		c, ok := converted.(time.Time)
		return ok && l.Equal(c)
	case types.Timespan:
		return converted == literal
	}
	if f, ok := toFloat(literal); ok {
		c, ok := toFloat(converted)
		return ok && f == c && (typ.Type() != query.Type_FLOAT32 || f == float64(float32(f)))
	}
	a, err := toDecimal(literal)
	if err != nil || a == nil {
		return false
	}
	b, err := toDecimal(converted)
	return err == nil && b != nil && a.Cmp(b) == 0
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}
