package arrowx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"lancesql/internal/errs"
)

// Supported reports whether cells of type t have a Go form (see Row; Date64 and Time32 have one as well).
func Supported(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.UINT64, arrow.FLOAT32, arrow.FLOAT64, arrow.STRING, arrow.LARGE_STRING, arrow.BINARY,
		arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64,
		arrow.TIMESTAMP, arrow.DURATION, arrow.DECIMAL128, arrow.DECIMAL256:
		return true
	case arrow.FIXED_SIZE_LIST:
		return t.(*arrow.FixedSizeListType).Elem().ID() == arrow.FLOAT32
	default:
		return false
	}
}

// vectorOf is cell i of a fixed-size list of float32 as little-endian bytes; an element that is NULL is 0.
func vectorOf(a *array.FixedSizeList, i int) any {
	values, ok := a.ListValues().(*array.Float32)
	if !ok {
		return nil
	}
	from, to := a.ValueOffsets(i)
	out := make([]byte, 0, 4*(to-from))
	for k := from; k < to; k++ {
		x := float32(0)
		if values.IsValid(int(k)) {
			x = values.Value(int(k))
		}
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// appendVector appends little-endian float32s to a fixed-size list of them; false if v is something else.
func appendVector(b *array.FixedSizeListBuilder, v any) (bool, error) {
	x, ok := v.([]byte)
	values, floats := b.ValueBuilder().(*array.Float32Builder)
	if !ok || !floats {
		return false, nil
	}
	if n := int(b.Type().(*arrow.FixedSizeListType).Len()); len(x) != 4*n {
		return true, fmt.Errorf("%d bytes for a vector of %d: %w", len(x), n, errs.ErrInvalid)
	}
	b.Append(true)
	for ; len(x) > 0; x = x[4:] {
		values.Append(math.Float32frombits(binary.LittleEndian.Uint32(x)))
	}
	return true, nil
}

// Value returns cell i of a as described at Row, nil for NULL. Strings and binaries are copies, so the cell
// outlives a. i must be in range. A type that is not Supported reads as nil: ask once per schema, not per cell.
func Value(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Int8:
		return a.Value(i)
	case *array.Int16:
		return a.Value(i)
	case *array.Int32:
		return a.Value(i)
	case *array.Int64:
		return a.Value(i)
	case *array.Uint8:
		return a.Value(i)
	case *array.Uint16:
		return a.Value(i)
	case *array.Uint32:
		return a.Value(i)
	case *array.Uint64:
		return a.Value(i)
	case *array.Float32:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.String:
		return strings.Clone(a.Value(i))
	case *array.LargeString:
		return strings.Clone(a.Value(i))
	case *array.Binary:
		return cloneBytes(a.Value(i))
	case *array.LargeBinary:
		return cloneBytes(a.Value(i))
	case *array.FixedSizeBinary:
		return cloneBytes(a.Value(i))
	case *array.FixedSizeList:
		return vectorOf(a, i)
	case *array.Date32:
		return a.Value(i)
	case *array.Date64:
		return a.Value(i)
	case *array.Time32:
		return a.Value(i)
	case *array.Time64:
		return a.Value(i)
	case *array.Timestamp:
		return a.Value(i)
	case *array.Duration:
		return a.Value(i)
	case *array.Decimal128:
		return a.Value(i)
	case *array.Decimal256:
		return a.Value(i)
	default:
		return nil
	}
}

// cloneBytes copies b and never returns nil: an empty binary is not NULL.
func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	return bytes.Clone(b)
}

// Append appends the cell v (see Row; nil appends NULL) to b. errs.ErrInvalid when v is not the Go type of
// b's column, errs.ErrUnsupported when the column has none.
func Append(b array.Builder, v any) error {
	if v == nil {
		b.AppendNull()
		return nil
	}
	ok := false
	switch b := b.(type) {
	case *array.BooleanBuilder:
		ok = put[bool](b, v)
	case *array.Int8Builder:
		ok = put[int8](b, v)
	case *array.Int16Builder:
		ok = put[int16](b, v)
	case *array.Int32Builder:
		ok = put[int32](b, v)
	case *array.Int64Builder:
		ok = put[int64](b, v)
	case *array.Uint8Builder:
		ok = put[uint8](b, v)
	case *array.Uint16Builder:
		ok = put[uint16](b, v)
	case *array.Uint32Builder:
		ok = put[uint32](b, v)
	case *array.Uint64Builder:
		ok = put[uint64](b, v)
	case *array.Float32Builder:
		ok = put[float32](b, v)
	case *array.Float64Builder:
		ok = put[float64](b, v)
	case *array.StringBuilder:
		ok = put[string](b, v)
	case *array.LargeStringBuilder:
		ok = put[string](b, v)
	case *array.BinaryBuilder: // also LargeBinary
		ok = put[[]byte](b, v)
	case *array.FixedSizeBinaryBuilder:
		var x []byte
		if x, ok = v.([]byte); ok {
			width := b.Type().(*arrow.FixedSizeBinaryType).ByteWidth
			if len(x) != width {
				return fmt.Errorf("%d bytes for a column of %d: %w", len(x), width, errs.ErrInvalid)
			}
			b.Append(x)
		}
	case *array.FixedSizeListBuilder:
		var err error
		if ok, err = appendVector(b, v); err != nil {
			return err
		}
	case *array.Date32Builder:
		ok = put[arrow.Date32](b, v)
	case *array.Date64Builder:
		ok = put[arrow.Date64](b, v)
	case *array.Time32Builder:
		ok = put[arrow.Time32](b, v)
	case *array.Time64Builder:
		ok = put[arrow.Time64](b, v)
	case *array.TimestampBuilder:
		ok = put[arrow.Timestamp](b, v)
	case *array.DurationBuilder:
		ok = put[arrow.Duration](b, v)
	case *array.Decimal128Builder:
		ok = put[decimal128.Num](b, v)
	case *array.Decimal256Builder:
		ok = put[decimal256.Num](b, v)
	default:
		return fmt.Errorf("cell of type %s: %w", b.Type(), errs.ErrUnsupported)
	}
	if !ok {
		return fmt.Errorf("a %T for a column of type %s: %w", v, b.Type(), errs.ErrInvalid)
	}
	return nil
}

func put[T any](b interface{ Append(T) }, v any) bool {
	x, ok := v.(T)
	if ok {
		b.Append(x)
	}
	return ok
}
