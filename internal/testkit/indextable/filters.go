package indextable

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"lancesql/internal/predicate"
)

// Filter is one question about a column.
type Filter struct {
	Column string
	Expr   predicate.Expr
	SQL    string // for the reference
	Kind   string // eq, range, in, prefix, null, notnull, other
}

// Filters lists questions about column number c (of Columns): every comparison with every value of its pool, sets,
// ranges, NULL, prefixes of text, and negations.
func Filters(c int) []Filter {
	col := Columns()[c]
	at := c + 1 // the id comes first
	name := "`" + col.Name + "`"
	var out []Filter
	add := func(kind string, e predicate.Expr, sql string) {
		out = append(out, Filter{Column: col.Name, Expr: e, SQL: sql, Kind: kind})
	}
	add("null", predicate.IsNull{Column: at}, name+" IS NULL")
	add("notnull", predicate.Not{Term: predicate.IsNull{Column: at}}, name+" IS NOT NULL")
	ops := map[predicate.Op]string{predicate.Eq: "=", predicate.Ne: "!=", predicate.Lt: "<", predicate.Le: "<=", predicate.Gt: ">", predicate.Ge: ">="}
	for i, v := range col.Pool {
		lit := Literal(col.Type, v)
		for op := predicate.Eq; op <= predicate.Ge; op++ {
			kind := "range"
			switch op {
			case predicate.Eq:
				kind = "eq"
			case predicate.Ne:
				kind = "other"
			}
			add(kind, predicate.Compare{Column: at, Op: op, Value: v}, name+" "+ops[op]+" "+lit)
		}
		last := col.Pool[len(col.Pool)-1-i]
		add("in", predicate.In{Column: at, Values: []any{v, last}}, name+" IN ("+lit+", "+Literal(col.Type, last)+")")
		add("range", predicate.And{Terms: []predicate.Expr{predicate.Compare{Column: at, Op: predicate.Ge, Value: v}, predicate.Compare{Column: at, Op: predicate.Le, Value: last}}},
			name+" >= "+lit+" AND "+name+" <= "+Literal(col.Type, last))
		if s, ok := v.(string); ok && s != "" && len(s) < 100 {
			e, _ := predicate.HasPrefix(at, s)
			add("prefix", e, name+" LIKE "+quote(s+"%"))
		}
	}
	return out
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Literal writes a cell in the reference's SQL, with exactly the column's type.
func Literal(t arrow.DataType, v any) string {
	cast := func(text, typ string) string { return "arrow_cast(" + text + ", '" + typ + "')" }
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case string:
		if t.ID() == arrow.LARGE_STRING {
			return cast(quote(v), "LargeUtf8")
		}
		return quote(v)
	case []byte:
		text := "X'" + hex.EncodeToString(v) + "'"
		switch t.ID() {
		case arrow.LARGE_BINARY:
			return cast(text, "LargeBinary")
		case arrow.FIXED_SIZE_BINARY:
			return cast(text, fmt.Sprintf("FixedSizeBinary(%d)", len(v)))
		}
		return text
	case float32:
		return cast(quote(float(float64(v))), "Float32")
	case float64:
		return cast(quote(float(v)), "Float64")
	case arrow.Date32:
		return cast(cast(strconv.Itoa(int(v)), "Int32"), "Date32")
	case arrow.Time64:
		return cast(strconv.FormatInt(int64(v), 10), "Time64(Microsecond)")
	case arrow.Timestamp:
		if t.(*arrow.TimestampType).TimeZone != "" {
			return cast(strconv.FormatInt(int64(v), 10), `Timestamp(Microsecond, Some("UTC"))`)
		}
		return cast(strconv.FormatInt(int64(v), 10), "Timestamp(Microsecond, None)")
	case arrow.Duration:
		return cast(strconv.FormatInt(int64(v), 10), "Duration(Microsecond)")
	case decimal128.Num:
		d := t.(*arrow.Decimal128Type)
		return cast(quote(v.ToString(d.Scale)), fmt.Sprintf("Decimal128(%d, %d)", d.Precision, d.Scale))
	case decimal256.Num:
		d := t.(*arrow.Decimal256Type)
		return cast(quote(v.ToString(d.Scale)), fmt.Sprintf("Decimal256(%d, %d)", d.Precision, d.Scale))
	default:
		names := map[arrow.Type]string{arrow.INT8: "Int8", arrow.INT16: "Int16", arrow.INT32: "Int32", arrow.INT64: "Int64",
			arrow.UINT8: "UInt8", arrow.UINT16: "UInt16", arrow.UINT32: "UInt32", arrow.UINT64: "UInt64"}
		return cast(quote(fmt.Sprint(v)), names[t.ID()])
	}
}

func float(v float64) string {
	switch {
	case math.IsInf(v, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
	case v != v:
		return "NaN"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
