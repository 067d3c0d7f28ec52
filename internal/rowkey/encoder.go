package rowkey

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Encoder encodes tuples of fixed column types. It is immutable and safe for concurrent use.
type Encoder struct{ types []arrow.DataType }

// NewEncoder returns an encoder for key columns of the given types in key order. The types are those of the
// specification's tuple encoding: signed and unsigned integers, Date32, Date64, Boolean, (Large)Utf8,
// (Large)Binary, FixedSizeBinary; others are errs.ErrUnsupported, an empty list errs.ErrInvalid.
// Spec: MemWAL, "Primary-key sidecars".
func NewEncoder(types []arrow.DataType) (*Encoder, error) { return newEncoder(types, Encodable) }

// NewOrderEncoder is NewEncoder for arranging rows, which takes every type whose values have an order: also floats (-0 equals
// +0, NaN is above all), decimals of one scale, timestamps, times and durations. Its Keys are not those of an index.
func NewOrderEncoder(types []arrow.DataType) (*Encoder, error) { return newEncoder(types, orderable) }

func newEncoder(types []arrow.DataType, may func(arrow.DataType) bool) (*Encoder, error) {
	if len(types) == 0 {
		return nil, fmt.Errorf("key of no columns: %w", errs.ErrInvalid)
	}
	for i, t := range types {
		if !may(t) {
			return nil, fmt.Errorf("key column %d of type %s: %w", i, t, errs.ErrUnsupported)
		}
	}
	return &Encoder{types: append([]arrow.DataType(nil), types...)}, nil
}

// Encodable reports whether a column of type t may be part of a key.
func Encodable(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.UINT64, arrow.DATE32, arrow.DATE64, arrow.STRING, arrow.LARGE_STRING, arrow.BINARY,
		arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return true
	default:
		return false
	}
}

func orderable(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128, arrow.DECIMAL256, arrow.TIMESTAMP, arrow.TIME32, arrow.TIME64, arrow.DURATION:
		return true
	default:
		return Encodable(t)
	}
}

// Row encodes the cells at positions cols (in key order) of r. errs.ErrInvalid when a position is out of
// range, the count is not the encoder's or a cell has another Go type than its column.
func (e *Encoder) Row(r arrowx.Row, cols []int) (Key, error) {
	if len(cols) != len(e.types) {
		return "", fmt.Errorf("%d columns for a key of %d: %w", len(cols), len(e.types), errs.ErrInvalid)
	}
	buf := make([]byte, 0, 32)
	for i, c := range cols {
		if c < 0 || c >= len(r) {
			return "", fmt.Errorf("key column %d of a row of %d cells: %w", c, len(r), errs.ErrInvalid)
		}
		var ok bool
		if buf, ok = appendCell(buf, e.types[i], r[c]); !ok {
			return "", fmt.Errorf("a %T in key column %d of type %s: %w", r[c], c, e.types[i], errs.ErrInvalid)
		}
	}
	return Key(buf), nil
}

// Tuple encodes cells, which are a prefix of the key columns or all of them: the bound of a range.
func (e *Encoder) Tuple(cells ...any) (Key, error) {
	if len(cells) > len(e.types) {
		return "", fmt.Errorf("%d cells for a key of %d: %w", len(cells), len(e.types), errs.ErrInvalid)
	}
	buf := make([]byte, 0, 32)
	for i, v := range cells {
		var ok bool
		if buf, ok = appendCell(buf, e.types[i], v); !ok {
			return "", fmt.Errorf("a %T in key column %d of type %s: %w", v, i, e.types[i], errs.ErrInvalid)
		}
	}
	return Key(buf), nil
}

func appendCell(dst []byte, t arrow.DataType, v any) ([]byte, bool) {
	if v == nil {
		return AppendNull(dst), true
	}
	switch t.ID() {
	case arrow.BOOL:
		x, ok := v.(bool)
		return AppendBool(dst, x), ok
	case arrow.INT8:
		x, ok := v.(int8)
		return AppendInt64(dst, int64(x)), ok
	case arrow.INT16:
		x, ok := v.(int16)
		return AppendInt64(dst, int64(x)), ok
	case arrow.INT32:
		x, ok := v.(int32)
		return AppendInt64(dst, int64(x)), ok
	case arrow.INT64:
		x, ok := v.(int64)
		return AppendInt64(dst, x), ok
	case arrow.DATE32:
		x, ok := v.(arrow.Date32)
		return AppendInt64(dst, int64(x)), ok
	case arrow.DATE64:
		x, ok := v.(arrow.Date64)
		return AppendInt64(dst, int64(x)), ok
	case arrow.UINT8:
		x, ok := v.(uint8)
		return AppendUint64(dst, uint64(x)), ok
	case arrow.UINT16:
		x, ok := v.(uint16)
		return AppendUint64(dst, uint64(x)), ok
	case arrow.UINT32:
		x, ok := v.(uint32)
		return AppendUint64(dst, uint64(x)), ok
	case arrow.UINT64:
		x, ok := v.(uint64)
		return AppendUint64(dst, x), ok
	case arrow.STRING, arrow.LARGE_STRING:
		x, ok := v.(string)
		return AppendString(dst, x), ok
	case arrow.BINARY, arrow.LARGE_BINARY:
		x, ok := v.([]byte)
		return AppendBytes(dst, x), ok
	case arrow.FIXED_SIZE_BINARY:
		x, ok := v.([]byte)
		return AppendBytes(dst, x), ok && len(x) == t.(*arrow.FixedSizeBinaryType).ByteWidth
	case arrow.FLOAT32:
		x, ok := v.(float32)
		return AppendFloat64(dst, float64(x)), ok
	case arrow.FLOAT64:
		x, ok := v.(float64)
		return AppendFloat64(dst, x), ok
	case arrow.DECIMAL128:
		x, ok := v.(decimal128.Num)
		return AppendDecimal128(dst, x), ok
	case arrow.DECIMAL256:
		x, ok := v.(decimal256.Num)
		return AppendDecimal256(dst, x), ok
	case arrow.TIMESTAMP:
		x, ok := v.(arrow.Timestamp)
		return AppendTimestamp(dst, int64(x)), ok
	case arrow.TIME32:
		x, ok := v.(arrow.Time32)
		return AppendInt64(dst, int64(x)), ok
	case arrow.TIME64:
		x, ok := v.(arrow.Time64)
		return AppendInt64(dst, int64(x)), ok
	case arrow.DURATION:
		x, ok := v.(arrow.Duration)
		return AppendInt64(dst, int64(x)), ok
	default:
		return dst, false
	}
}

// cellAppender appends the key bytes of cell i of one column.
type cellAppender func(dst []byte, i int) []byte

// Batch encodes the key of every row of rec; cols are its key columns in key order. The keys of one call
// share one allocation. errs.ErrInvalid when the columns are not of the encoder's types.
func (e *Encoder) Batch(rec arrow.RecordBatch, cols []int) ([]Key, error) {
	if len(cols) != len(e.types) {
		return nil, fmt.Errorf("%d columns for a key of %d: %w", len(cols), len(e.types), errs.ErrInvalid)
	}
	appenders := make([]cellAppender, len(cols))
	for i, c := range cols {
		if c < 0 || c >= int(rec.NumCols()) {
			return nil, fmt.Errorf("key column %d of a batch of %d: %w", c, rec.NumCols(), errs.ErrInvalid)
		}
		a := rec.Column(c)
		if a.DataType().ID() != e.types[i].ID() {
			return nil, fmt.Errorf("key column %d is %s, not %s: %w", c, a.DataType(), e.types[i], errs.ErrInvalid)
		}
		appenders[i] = appenderOf(a)
	}
	n := int(rec.NumRows())
	buf, ends := make([]byte, 0, n*9*len(cols)), make([]int, n)
	for r := range n {
		for i, c := range cols {
			if rec.Column(c).IsNull(r) {
				buf = AppendNull(buf)
			} else {
				buf = appenders[i](buf, r)
			}
		}
		ends[r] = len(buf)
	}
	all, keys, from := Key(buf), make([]Key, n), 0
	for r, end := range ends {
		keys[r], from = all[from:end], end
	}
	return keys, nil
}

// appenderOf returns the typed appender of a, whose type is orderable.
func appenderOf(a arrow.Array) cellAppender {
	switch a := a.(type) {
	case *array.Boolean:
		return func(d []byte, i int) []byte { return AppendBool(d, a.Value(i)) }
	case *array.Int8:
		return signed(a.Int8Values())
	case *array.Int16:
		return signed(a.Int16Values())
	case *array.Int32:
		return signed(a.Int32Values())
	case *array.Int64:
		return signed(a.Int64Values())
	case *array.Date32:
		return signed(a.Date32Values())
	case *array.Date64:
		return signed(a.Date64Values())
	case *array.Uint8:
		return unsigned(a.Uint8Values())
	case *array.Uint16:
		return unsigned(a.Uint16Values())
	case *array.Uint32:
		return unsigned(a.Uint32Values())
	case *array.Uint64:
		return unsigned(a.Uint64Values())
	case *array.String:
		return func(d []byte, i int) []byte { return AppendString(d, a.Value(i)) }
	case *array.LargeString:
		return func(d []byte, i int) []byte { return AppendString(d, a.Value(i)) }
	case *array.Binary:
		return func(d []byte, i int) []byte { return AppendBytes(d, a.Value(i)) }
	case *array.LargeBinary:
		return func(d []byte, i int) []byte { return AppendBytes(d, a.Value(i)) }
	case *array.FixedSizeBinary:
		return func(d []byte, i int) []byte { return AppendBytes(d, a.Value(i)) }
	case *array.Float32:
		return func(d []byte, i int) []byte { return AppendFloat64(d, float64(a.Value(i))) }
	case *array.Float64:
		return func(d []byte, i int) []byte { return AppendFloat64(d, a.Value(i)) }
	case *array.Decimal128:
		return func(d []byte, i int) []byte { return AppendDecimal128(d, a.Value(i)) }
	case *array.Decimal256:
		return func(d []byte, i int) []byte { return AppendDecimal256(d, a.Value(i)) }
	case *array.Timestamp:
		return signed(a.TimestampValues())
	case *array.Time32:
		return signed(a.Time32Values())
	case *array.Time64:
		return signed(a.Time64Values())
	case *array.Duration:
		return signed(a.DurationValues())
	default: // excluded by newEncoder
		return func(d []byte, _ int) []byte { return AppendNull(d) }
	}
}

func signed[T ~int8 | ~int16 | ~int32 | ~int64](values []T) cellAppender {
	return func(d []byte, i int) []byte { return AppendInt64(d, int64(values[i])) }
}

func unsigned[T ~uint8 | ~uint16 | ~uint32 | ~uint64](values []T) cellAppender {
	return func(d []byte, i int) []byte { return AppendUint64(d, uint64(values[i])) }
}
