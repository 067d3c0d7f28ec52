package e2e

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// kind is a column type with a generator of its values. Values are compared in a canonical text: what SQL prints, but
// floats in Go's shortest form and bytes in hexadecimal.
type kind struct {
	sql     string
	class   class
	digits  int                    // fractional digits of temporal types
	gen     func(r *rand.Rand) any // a driver argument
	special []any                  // edge values, drawn now and then
}

type class int

const (
	integer class = iota
	single
	double
	decimal
	text
	bytesOf
	date
	datetime
)

func intKind(sql string, low, high int64) kind {
	return kind{sql: sql, class: integer, special: []any{low, high, int64(0)}, gen: func(r *rand.Rand) any {
		span := uint64(high) - uint64(low)
		if span == math.MaxUint64 {
			return int64(r.Uint64())
		}
		return int64(uint64(low) + r.Uint64N(span+1))
	}}
}

func uintKind(sql string, high uint64) kind {
	return kind{sql: sql, class: integer, special: []any{uint64(0), high, high/2 + 1}, gen: func(r *rand.Rand) any {
		if high == math.MaxUint64 {
			return r.Uint64()
		}
		return r.Uint64N(high + 1)
	}}
}

// words is what text columns are made of: plain, accented, four-byte, quotes, line ends, percent and underscore.
func words() []string {
	return []string{"alpha", "Beta", "ÇA", "ß", "日本", "𝄞", "'", "\"", "\\", "\n", "%", "_", "0", "tail"}
}

func textKind(sql string, runesMax int) kind {
	return kind{sql: sql, class: text, special: []any{"", "x", "NULL"}, gen: func(r *rand.Rand) any {
		return randomText(r, runesMax)
	}}
}

func randomText(r *rand.Rand, runesMax int) string {
	var b []rune
	for want := r.IntN(runesMax) + 1; len(b) < want; {
		b = append(b, []rune(words()[r.IntN(len(words()))])...)
	}
	if len(b) > runesMax {
		b = b[:runesMax]
	}
	return string(b)
}

func bytesKind(sql string, bytesMax int, exact bool) kind {
	k := kind{sql: sql, class: bytesOf, gen: func(r *rand.Rand) any {
		n := r.IntN(bytesMax + 1)
		if exact {
			n = bytesMax
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		return b
	}}
	if !exact {
		k.special = []any{[]byte{}, []byte{0}, []byte{0xff, 0, 0x80}}
	}
	return k
}

func decimalKind(precision, scale int) kind {
	text := func(whole, fraction string) string {
		if scale == 0 {
			return whole
		}
		return whole + "." + fraction
	}
	nines := text(strings.Repeat("9", precision-scale), strings.Repeat("9", scale))
	zero := text("0", strings.Repeat("0", scale))
	return kind{sql: fmt.Sprintf("DECIMAL(%d,%d)", precision, scale), class: decimal, special: []any{nines, "-" + nines, zero},
		gen: func(r *rand.Rand) any {
			digits := func(n int) string {
				b := make([]byte, n)
				for i := range b {
					b[i] = byte('0' + r.IntN(10))
				}
				return string(b)
			}
			whole := strings.TrimLeft(digits(r.IntN(precision-scale)+1), "0")
			if whole == "" {
				whole = "0"
			}
			s := text(whole, digits(scale))
			if r.IntN(2) == 0 && strings.Trim(s, "0.") != "" {
				s = "-" + s
			}
			return s
		}}
}

func dateKind() kind {
	return kind{sql: "DATE", class: date, special: []any{"1000-01-01", "9999-12-31", "1970-01-01", "1969-12-31"}, gen: func(r *rand.Rand) any {
		return time.Unix(r.Int64N(4e9)-1e9, 0).UTC().Format(time.DateOnly)
	}}
}

// datetimeKind is DATETIME or TIMESTAMP with the given fractional digits; low and high bound the seconds.
func datetimeKind(name string, digits int, low, high int64) kind {
	sql := name
	if digits > 0 {
		sql = fmt.Sprintf("%s(%d)", name, digits)
	}
	k := kind{sql: sql, class: datetime, digits: digits}
	spell := func(seconds, micros int64) string { return spellTime(seconds*1e6+micros, digits) }
	step := int64(math.Pow10(6 - digits))
	k.special = []any{spell(low, 0), spell(high, 0)}
	k.gen = func(r *rand.Rand) any {
		return spell(low+r.Int64N(high-low), r.Int64N(1e6)/step*step)
	}
	return k
}

// spellTime prints microseconds since 1970 as MySQL does with the given fractional digits.
func spellTime(micros int64, digits int) string {
	t := time.UnixMicro(micros).UTC()
	layout := "2006-01-02 15:04:05"
	if digits > 0 {
		layout += "." + strings.Repeat("0", digits)
	}
	return t.Format(layout)
}

// allKinds is every type that the first milestone supports.
func allKinds() []kind {
	year := func(y int) int64 { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC).Unix() }
	return []kind{
		intKind("TINYINT", math.MinInt8, math.MaxInt8), uintKind("TINYINT UNSIGNED", math.MaxUint8),
		intKind("SMALLINT", math.MinInt16, math.MaxInt16), uintKind("SMALLINT UNSIGNED", math.MaxUint16),
		intKind("MEDIUMINT", -1<<23, 1<<23-1), uintKind("MEDIUMINT UNSIGNED", 1<<24-1),
		intKind("INT", math.MinInt32, math.MaxInt32), uintKind("INT UNSIGNED", math.MaxUint32),
		intKind("BIGINT", math.MinInt64, math.MaxInt64), uintKind("BIGINT UNSIGNED", math.MaxUint64),
		{sql: "BOOL", class: integer, gen: func(r *rand.Rand) any { return int64(r.IntN(2)) }},
		{sql: "FLOAT", class: single, special: []any{0.0, -0.5, 65536.0}, gen: func(r *rand.Rand) any {
			return float64(r.IntN(4000)-2000) / 4 // short in binary and decimal, so that text keeps it
		}},
		{sql: "DOUBLE", class: double, special: []any{0.0, 1e300, -1e-300}, gen: func(r *rand.Rand) any {
			return (r.Float64() - 0.5) * math.Pow10(r.IntN(30)-15)
		}},
		decimalKind(10, 2), decimalKind(38, 10), decimalKind(65, 30), decimalKind(5, 0),
		textKind("CHAR(12)", 12), textKind("VARCHAR(40)", 40), textKind("TEXT", 300), textKind("VARCHAR(40) COLLATE utf8mb4_bin", 40),
		bytesKind("BINARY(8)", 8, true), bytesKind("VARBINARY(40)", 40, false), bytesKind("BLOB", 400, false),
		dateKind(),
		datetimeKind("DATETIME", 0, year(1000), year(9999)), datetimeKind("DATETIME", 3, year(1000), year(9999)), datetimeKind("DATETIME", 6, year(1000), year(9999)),
		datetimeKind("TIMESTAMP", 0, year(1971), year(2038)), datetimeKind("TIMESTAMP", 6, year(1971), year(2038)),
	}
}

// value draws a value: mostly from the generator, sometimes an edge.
func (k kind) value(r *rand.Rand) any {
	if len(k.special) > 0 && r.IntN(20) == 0 {
		return k.special[r.IntN(len(k.special))]
	}
	return k.gen(r)
}

// argText is the canonical text of a driver argument.
func (k kind) argText(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return k.sqlText(strconv.FormatFloat(v, 'g', -1, 64))
	case []byte:
		return hex.EncodeToString(v)
	default:
		return fmt.Sprint(v)
	}
}

// sqlText is the canonical text of what SQL printed.
func (k kind) sqlText(s string) string {
	switch k.class {
	case single, double:
		bits := 64
		if k.class == single {
			bits = 32
		}
		f, err := strconv.ParseFloat(s, bits)
		if err != nil {
			return "not a number: " + s
		}
		if f == 0 {
			f = 0 // one zero
		}
		return strconv.FormatFloat(f, 'g', -1, bits)
	case bytesOf:
		return hex.EncodeToString([]byte(s))
	default:
		return s
	}
}

// lanceText is the canonical text of a cell that a Lance reader gave, of the given Arrow type; the readers print stored
// integers for temporal types.
func (k kind) lanceText(arrowType, s string) string {
	number := func() int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return math.MinInt64
		}
		return n
	}
	switch {
	case arrowType == "bool":
		return map[string]string{"true": "1", "false": "0"}[s]
	case arrowType == "date32":
		return time.Unix(number()*86400, 0).UTC().Format(time.DateOnly)
	case strings.HasPrefix(arrowType, "timestamp[us"):
		return spellTime(number(), k.digits)
	case strings.HasPrefix(arrowType, "timestamp[ms"):
		return spellTime(number()*1000, k.digits)
	case strings.HasPrefix(arrowType, "timestamp[s"):
		return spellTime(number()*1000000, k.digits)
	case k.class == bytesOf:
		return s // already hexadecimal
	default:
		return k.sqlText(s)
	}
}
