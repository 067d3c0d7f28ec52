package bitmap

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// A key is a value as bytes whose order is the value's: whole numbers, temporal values and booleans as big-endian
// int64 with the sign bit flipped, uint64 as it is, floats by the total order of their float64, decimals big-endian with
// the sign bit flipped, text and binary as they are. NULL has no key.

// Supported reports whether columns of type t can have a bitmap index.
func Supported(t arrow.DataType) bool { return arrowx.Supported(t) }

func appendInt(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
}

func appendFloat(dst []byte, v float64) []byte {
	s := int64(math.Float64bits(v))
	return appendInt(dst, s^int64(uint64(s>>63)>>1))
}

// appender returns the function that appends the key of cell i of a, which is not NULL.
func appender(a arrow.Array) (func(dst []byte, i int) []byte, error) {
	switch a := a.(type) {
	case *array.Boolean:
		return func(d []byte, i int) []byte {
			if a.Value(i) {
				return appendInt(d, 1)
			}
			return appendInt(d, 0)
		}, nil
	case *array.Int8:
		return ints(a.Int8Values()), nil
	case *array.Int16:
		return ints(a.Int16Values()), nil
	case *array.Int32:
		return ints(a.Int32Values()), nil
	case *array.Int64:
		return ints(a.Int64Values()), nil
	case *array.Uint8:
		return ints(a.Uint8Values()), nil
	case *array.Uint16:
		return ints(a.Uint16Values()), nil
	case *array.Uint32:
		return ints(a.Uint32Values()), nil
	case *array.Uint64:
		values := a.Uint64Values()
		return func(d []byte, i int) []byte { return binary.BigEndian.AppendUint64(d, values[i]) }, nil
	case *array.Date32:
		return ints(a.Date32Values()), nil
	case *array.Date64:
		return ints(a.Date64Values()), nil
	case *array.Time32:
		return ints(a.Time32Values()), nil
	case *array.Time64:
		return ints(a.Time64Values()), nil
	case *array.Timestamp:
		return ints(a.TimestampValues()), nil
	case *array.Duration:
		return ints(a.DurationValues()), nil
	case *array.Float32:
		values := a.Float32Values()
		return func(d []byte, i int) []byte { return appendFloat(d, float64(values[i])) }, nil
	case *array.Float64:
		values := a.Float64Values()
		return func(d []byte, i int) []byte { return appendFloat(d, values[i]) }, nil
	case *array.String:
		return func(d []byte, i int) []byte { return append(d, a.Value(i)...) }, nil
	case *array.LargeString:
		return func(d []byte, i int) []byte { return append(d, a.Value(i)...) }, nil
	case *array.Binary:
		return func(d []byte, i int) []byte { return append(d, a.Value(i)...) }, nil
	case *array.LargeBinary:
		return func(d []byte, i int) []byte { return append(d, a.Value(i)...) }, nil
	case *array.FixedSizeBinary:
		return func(d []byte, i int) []byte { return append(d, a.Value(i)...) }, nil
	case *array.Decimal128:
		return func(d []byte, i int) []byte {
			v := a.Value(i)
			d = binary.BigEndian.AppendUint64(d, uint64(v.HighBits())^1<<63)
			return binary.BigEndian.AppendUint64(d, v.LowBits())
		}, nil
	case *array.Decimal256:
		return func(d []byte, i int) []byte {
			words := a.Value(i).Array() // least significant first
			d = binary.BigEndian.AppendUint64(d, words[3]^1<<63)
			for w := 2; w >= 0; w-- {
				d = binary.BigEndian.AppendUint64(d, words[w])
			}
			return d
		}, nil
	default:
		return nil, fmt.Errorf("bitmap index of type %s: %w", a.DataType(), errs.ErrUnsupported)
	}
}

func ints[T ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32](values []T) func(dst []byte, i int) []byte {
	return func(d []byte, i int) []byte { return appendInt(d, int64(values[i])) }
}

// cellOf is the value of a key, as arrowx.Row describes cells of type t.
func cellOf(t arrow.DataType, key string) any {
	at := func(i int) uint64 { return binary.BigEndian.Uint64([]byte(key[8*i : 8*i+8])) }
	whole := func() int64 { return int64(at(0) ^ 1<<63) }
	float := func() float64 { s := whole(); return math.Float64frombits(uint64(s ^ int64(uint64(s>>63)>>1))) }
	switch t.ID() {
	case arrow.BOOL:
		return whole() != 0
	case arrow.INT8:
		return int8(whole())
	case arrow.INT16:
		return int16(whole())
	case arrow.INT32:
		return int32(whole())
	case arrow.INT64:
		return whole()
	case arrow.UINT8:
		return uint8(whole())
	case arrow.UINT16:
		return uint16(whole())
	case arrow.UINT32:
		return uint32(whole())
	case arrow.UINT64:
		return at(0)
	case arrow.DATE32:
		return arrow.Date32(whole())
	case arrow.DATE64:
		return arrow.Date64(whole())
	case arrow.TIME32:
		return arrow.Time32(whole())
	case arrow.TIME64:
		return arrow.Time64(whole())
	case arrow.TIMESTAMP:
		return arrow.Timestamp(whole())
	case arrow.DURATION:
		return arrow.Duration(whole())
	case arrow.FLOAT32:
		return float32(float())
	case arrow.FLOAT64:
		return float()
	case arrow.STRING, arrow.LARGE_STRING:
		return key
	case arrow.DECIMAL128:
		return decimal128.New(int64(at(0)^1<<63), at(1))
	case arrow.DECIMAL256:
		return decimal256.New(at(0)^1<<63, at(1), at(2), at(3))
	default: // binary
		return []byte(key)
	}
}
