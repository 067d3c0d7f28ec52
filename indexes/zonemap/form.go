package zonemap

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"lancesql/internal/arrowx"
)

// form says how the bounds of a column are kept in memory. Values are kept as keys whose order is the column's, so that
// pruning has one loop for numbers and one for the rest.
type form uint8

const (
	formNone form = iota // no bounds, counts only
	formKey              // int64 keys: numbers of up to 8 bytes, temporal values, booleans, floats by total order
	formText             // string keys: text and binary as they are, decimals as big-endian bytes with the sign flipped
)

// Float keys of the infinities; keys outside belong to NaNs.
const (
	keyPosInf = 0x7ff0000000000000
	keyNegInf = -keyPosInf - 1
)

// formOf returns the form of a type. Types without bounds are those for which Lance 14 writes none.
func formOf(t arrow.DataType) form {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return formKey
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.DECIMAL128, arrow.DECIMAL256:
		return formText
	default:
		return formNone
	}
}

func isFloat(t arrow.DataType) bool {
	return t.ID() == arrow.FLOAT16 || t.ID() == arrow.FLOAT32 || t.ID() == arrow.FLOAT64
}

func isDecimal(t arrow.DataType) bool {
	return t.ID() == arrow.DECIMAL128 || t.ID() == arrow.DECIMAL256
}

// Supports reports whether bounds are kept for a column of type t. Zone maps of other types only count NULLs.
func Supports(t arrow.DataType) bool { return formOf(t) != formNone }

// SeedsByDefault is the reference's default for the use_seeds of a new index: seeds spare a scan of wide values.
// Spec: zone map index, "Index Details".
func SeedsByDefault(t arrow.DataType) bool {
	if fixed, ok := t.(arrow.FixedWidthDataType); ok {
		return fixed.BitWidth() > 64
	}
	return true
}

// floatKey orders floats as IEEE's total order does: -NaN < -inf < -0 < +0 < +inf < NaN.
func floatKey(v float64) int64 {
	s := int64(math.Float64bits(v))
	return s ^ int64(uint64(s>>63)>>1)
}

func keyFloat(k int64) float64 {
	return math.Float64frombits(uint64(k ^ int64(uint64(k>>63)>>1)))
}

// uintKey keeps the order of unsigned numbers in signed ones.
func uintKey(v uint64) int64 { return int64(v ^ 1<<63) }

func decimal128Key(v decimal128.Num) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(v.HighBits())^1<<63)
	binary.BigEndian.PutUint64(b[8:], v.LowBits())
	return string(b[:])
}

func decimal256Key(v decimal256.Num) string {
	var b [32]byte
	words := v.Array() // least significant first
	binary.BigEndian.PutUint64(b[:], words[3]^1<<63)
	for i := 1; i < 4; i++ {
		binary.BigEndian.PutUint64(b[8*i:], words[3-i])
	}
	return string(b[:])
}

func keyDecimal128(k string) decimal128.Num {
	b := []byte(k)
	return decimal128.New(int64(binary.BigEndian.Uint64(b)^1<<63), binary.BigEndian.Uint64(b[8:]))
}

func keyDecimal256(k string) decimal256.Num {
	b := []byte(k)
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return decimal256.New(at(0)^1<<63, at(1), at(2), at(3))
}

// keyOf returns the key of a cell of a column of type t, in the form's member. ok is false for a cell of another Go
// type. NaN has a key outside the infinities.
func keyOf(t arrow.DataType, v any) (key int64, text string, ok bool) {
	switch x := v.(type) {
	case bool:
		if x {
			key = 1
		}
		return key, "", t.ID() == arrow.BOOL
	case int8:
		return int64(x), "", t.ID() == arrow.INT8
	case int16:
		return int64(x), "", t.ID() == arrow.INT16
	case int32:
		return int64(x), "", t.ID() == arrow.INT32
	case int64:
		return x, "", t.ID() == arrow.INT64
	case uint8:
		return int64(x), "", t.ID() == arrow.UINT8
	case uint16:
		return int64(x), "", t.ID() == arrow.UINT16
	case uint32:
		return int64(x), "", t.ID() == arrow.UINT32
	case uint64:
		return uintKey(x), "", t.ID() == arrow.UINT64
	case float32:
		return floatKey(float64(x)), "", t.ID() == arrow.FLOAT32
	case float64:
		return floatKey(x), "", t.ID() == arrow.FLOAT64
	case arrow.Date32:
		return int64(x), "", t.ID() == arrow.DATE32
	case arrow.Date64:
		return int64(x), "", t.ID() == arrow.DATE64
	case arrow.Time32:
		return int64(x), "", t.ID() == arrow.TIME32
	case arrow.Time64:
		return int64(x), "", t.ID() == arrow.TIME64
	case arrow.Timestamp:
		return int64(x), "", t.ID() == arrow.TIMESTAMP
	case arrow.Duration:
		return int64(x), "", t.ID() == arrow.DURATION
	case string:
		return 0, x, t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING
	case []byte:
		return 0, string(x), t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY
	case decimal128.Num:
		return 0, decimal128Key(x), t.ID() == arrow.DECIMAL128
	case decimal256.Num:
		return 0, decimal256Key(x), t.ID() == arrow.DECIMAL256
	}
	return 0, "", false
}

// cellOf is the inverse of keyOf, for types that arrowx has cells of; others give nil.
func cellOf(t arrow.DataType, key int64, text string) any {
	if !arrowx.Supported(t) {
		return nil
	}
	switch t.ID() {
	case arrow.BOOL:
		return key != 0
	case arrow.INT8:
		return int8(key)
	case arrow.INT16:
		return int16(key)
	case arrow.INT32:
		return int32(key)
	case arrow.INT64:
		return key
	case arrow.UINT8:
		return uint8(key)
	case arrow.UINT16:
		return uint16(key)
	case arrow.UINT32:
		return uint32(key)
	case arrow.UINT64:
		return uint64(key) ^ 1<<63
	case arrow.FLOAT32:
		return float32(keyFloat(key))
	case arrow.FLOAT64:
		return keyFloat(key)
	case arrow.DATE32:
		return arrow.Date32(key)
	case arrow.DATE64:
		return arrow.Date64(key)
	case arrow.TIME32:
		return arrow.Time32(key)
	case arrow.TIME64:
		return arrow.Time64(key)
	case arrow.TIMESTAMP:
		return arrow.Timestamp(key)
	case arrow.DURATION:
		return arrow.Duration(key)
	case arrow.STRING, arrow.LARGE_STRING:
		return text
	case arrow.BINARY, arrow.LARGE_BINARY:
		return []byte(text)
	case arrow.DECIMAL128:
		return keyDecimal128(text)
	case arrow.DECIMAL256:
		return keyDecimal256(text)
	}
	return nil
}
