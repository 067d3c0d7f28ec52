package table

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// Widens says whether every value of from is a value of to, so that CastColumn loses nothing: integers to integers of
// more bits that keep the sign, or to floats that hold them exactly; float to double; (Large)Utf8 and (Large)Binary to
// the large form; decimals to more digits of the same scale.
func Widens(from, to arrow.DataType) bool {
	if d, ok := from.(arrow.DecimalType); ok {
		e, ok := to.(arrow.DecimalType)
		return ok && from.ID() == arrow.DECIMAL128 && to.ID() == arrow.DECIMAL128 &&
			e.GetScale() == d.GetScale() && e.GetPrecision() >= d.GetPrecision()
	}
	switch from.ID() {
	case arrow.STRING:
		return to.ID() == arrow.LARGE_STRING
	case arrow.BINARY:
		return to.ID() == arrow.LARGE_BINARY
	case arrow.FLOAT32:
		return to.ID() == arrow.FLOAT64
	}
	a, b := integerKind(from), integerKind(to)
	if a.bits == 0 {
		return false
	}
	switch to.ID() {
	case arrow.FLOAT32:
		return a.bits <= 16
	case arrow.FLOAT64:
		return a.bits <= 32
	}
	return b.bits > a.bits && (b.signed || !a.signed)
}

type integer struct {
	bits   int
	signed bool
}

func integerKind(t arrow.DataType) integer {
	switch t.ID() {
	case arrow.INT8:
		return integer{8, true}
	case arrow.INT16:
		return integer{16, true}
	case arrow.INT32:
		return integer{32, true}
	case arrow.INT64:
		return integer{64, true}
	case arrow.UINT8:
		return integer{8, false}
	case arrow.UINT16:
		return integer{16, false}
	case arrow.UINT32:
		return integer{32, false}
	case arrow.UINT64:
		return integer{64, false}
	}
	return integer{}
}

// widen converts a to a type that Widens allows.
func widen(mem memory.Allocator, a arrow.Array, to arrow.DataType) (arrow.Array, error) {
	switch a := a.(type) {
	case *array.Int8:
		return widenNumber(mem, a, a.Int8Values(), to)
	case *array.Int16:
		return widenNumber(mem, a, a.Int16Values(), to)
	case *array.Int32:
		return widenNumber(mem, a, a.Int32Values(), to)
	case *array.Uint8:
		return widenNumber(mem, a, a.Uint8Values(), to)
	case *array.Uint16:
		return widenNumber(mem, a, a.Uint16Values(), to)
	case *array.Uint32:
		return widenNumber(mem, a, a.Uint32Values(), to)
	case *array.Float32:
		return widenNumber(mem, a, a.Float32Values(), to)
	case *array.String:
		b := array.NewLargeStringBuilder(mem)
		defer b.Release()
		return appendEach(a, b, a.Value)
	case *array.Binary:
		b := array.NewBinaryBuilder(mem, arrow.BinaryTypes.LargeBinary)
		defer b.Release()
		return appendEach(a, b, a.Value)
	case *array.Decimal128:
		t, ok := to.(*arrow.Decimal128Type)
		if !ok {
			break
		}
		b := array.NewDecimal128Builder(mem, t)
		defer b.Release()
		return appendEach(a, b, a.Value)
	}
	return nil, fmt.Errorf("cast of %s to %s: %w", a.DataType(), to, errs.ErrUnsupported)
}

// appendEach copies a into b.
func appendEach[T any, B interface {
	array.Builder
	Append(T)
}](a arrow.Array, b B, value func(int) T) (arrow.Array, error) {
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(value(i))
		}
	}
	return b.NewArray(), nil
}

type number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

func widenNumber[T number](mem memory.Allocator, a arrow.Array, from []T, to arrow.DataType) (arrow.Array, error) {
	b := array.NewBuilder(mem, to)
	defer b.Release()
	switch b := b.(type) {
	case *array.Int16Builder:
		return appendEach(a, b, func(i int) int16 { return int16(from[i]) })
	case *array.Int32Builder:
		return appendEach(a, b, func(i int) int32 { return int32(from[i]) })
	case *array.Int64Builder:
		return appendEach(a, b, func(i int) int64 { return int64(from[i]) })
	case *array.Uint16Builder:
		return appendEach(a, b, func(i int) uint16 { return uint16(from[i]) })
	case *array.Uint32Builder:
		return appendEach(a, b, func(i int) uint32 { return uint32(from[i]) })
	case *array.Uint64Builder:
		return appendEach(a, b, func(i int) uint64 { return uint64(from[i]) })
	case *array.Float32Builder:
		return appendEach(a, b, func(i int) float32 { return float32(from[i]) })
	case *array.Float64Builder:
		return appendEach(a, b, func(i int) float64 { return float64(from[i]) })
	}
	return nil, fmt.Errorf("cast of %s to %s: %w", a.DataType(), to, errs.ErrUnsupported)
}
