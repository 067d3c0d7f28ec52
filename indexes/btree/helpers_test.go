package btree_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
)

// types are all types an index can have.
func types() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
		arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String,
		arrow.BinaryTypes.LargeString, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary,
		&arrow.FixedSizeBinaryType{ByteWidth: 5}, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Timestamp_us,
		&arrow.TimestampType{Unit: arrow.Nanosecond}, arrow.FixedWidthTypes.Duration_ms,
		&arrow.Decimal128Type{Precision: 20, Scale: 3}, &arrow.Decimal256Type{Precision: 60, Scale: 2},
	}
}

// edges are the values of a type that are easy to get wrong.
func edges(t arrow.DataType) []any {
	long := strings.Repeat("x", 3000)
	switch t := t.(type) {
	case *arrow.BooleanType:
		return []any{false, true}
	case *arrow.Int8Type:
		return []any{int8(-128), int8(-1), int8(0), int8(127)}
	case *arrow.Int16Type:
		return []any{int16(math.MinInt16), int16(-1), int16(0), int16(math.MaxInt16)}
	case *arrow.Int32Type:
		return []any{int32(math.MinInt32), int32(-1), int32(0), int32(math.MaxInt32)}
	case *arrow.Int64Type:
		return []any{int64(math.MinInt64), int64(-1), int64(0), int64(math.MaxInt64)}
	case *arrow.Uint8Type:
		return []any{uint8(0), uint8(255)}
	case *arrow.Uint16Type:
		return []any{uint16(0), uint16(math.MaxUint16)}
	case *arrow.Uint32Type:
		return []any{uint32(0), uint32(math.MaxUint32)}
	case *arrow.Uint64Type:
		return []any{uint64(0), uint64(1 << 63), uint64(math.MaxUint64)}
	case *arrow.Float32Type:
		return []any{float32(math.Inf(-1)), float32(math.Copysign(0, -1)), float32(0), float32(math.Inf(1)), float32(math.NaN()),
			math.Float32frombits(0xffc00001), float32(math.MaxFloat32), float32(-1)}
	case *arrow.Float64Type:
		return []any{math.Inf(-1), math.Copysign(0, -1), 0.0, math.Inf(1), math.NaN(), math.Float64frombits(0xfff8000000000001),
			math.MaxFloat64, math.SmallestNonzeroFloat64, -1.0}
	case *arrow.StringType, *arrow.LargeStringType:
		return []any{"", "\x00", "a", "a\x00", "ab", "é", "12345678", "123456789", "12345678\x00", long, long + "y"}
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		return []any{[]byte{}, []byte{0}, []byte{0, 0}, []byte{0xff}, []byte("abc"), []byte(long)}
	case *arrow.FixedSizeBinaryType:
		return []any{make([]byte, t.ByteWidth), []byte("\xff\xff\xff\xff\xff")}
	case *arrow.Decimal128Type:
		return []any{decimal128.FromI64(-1), decimal128.FromI64(0), decimal128.FromI64(1), decimal128.New(1, 0), decimal128.New(-1, 0)}
	case *arrow.Decimal256Type:
		return []any{decimal256.FromI64(-1), decimal256.FromI64(0), decimal256.New(0, 0, 1, 0), decimal256.New(math.MaxUint64, 0, 0, 0)}
	}
	return nil
}

// number makes a cell of a type from a small number, in its order.
func number(t arrow.DataType, n int) any {
	switch t.(type) {
	case *arrow.BooleanType:
		return n%2 == 0
	case *arrow.Int8Type:
		return int8(n)
	case *arrow.Int16Type:
		return int16(n)
	case *arrow.Int32Type:
		return int32(n)
	case *arrow.Int64Type:
		return int64(n)
	case *arrow.Uint8Type:
		return uint8(n + 100)
	case *arrow.Uint16Type:
		return uint16(n + 100)
	case *arrow.Uint32Type:
		return uint32(n + 100)
	case *arrow.Uint64Type:
		return uint64(n + 100)
	case *arrow.Float32Type:
		return float32(n) / 2
	case *arrow.Float64Type:
		return float64(n) / 2
	case *arrow.StringType, *arrow.LargeStringType:
		return fmt.Sprint("value ", n)
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		return fmt.Append(nil, "value ", n)
	case *arrow.FixedSizeBinaryType:
		return fmt.Appendf(nil, "%05d", n+1000)
	case *arrow.Date32Type:
		return arrow.Date32(n)
	case *arrow.Date64Type:
		return arrow.Date64(n)
	case *arrow.Time32Type:
		return arrow.Time32(n)
	case *arrow.Time64Type:
		return arrow.Time64(n)
	case *arrow.TimestampType:
		return arrow.Timestamp(n * 1_000_000)
	case *arrow.DurationType:
		return arrow.Duration(n)
	case *arrow.Decimal128Type:
		return decimal128.FromI64(int64(n))
	case *arrow.Decimal256Type:
		return decimal256.FromI64(int64(n))
	}
	return nil
}

// cell draws a cell: NULL, an edge or one of a few numbers.
func cell(t arrow.DataType, rng *rand.Rand, nulls int) any {
	if rng.Intn(100) < nulls {
		return nil
	}
	if e := edges(t); len(e) > 0 && rng.Intn(4) == 0 {
		return e[rng.Intn(len(e))]
	}
	return number(t, rng.Intn(120)-60)
}

func cellsOf(t testing.TB, typ arrow.DataType, cells ...any) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, typ)
	defer b.Release()
	for _, c := range cells {
		require.NoError(t, arrowx.Append(b, c))
	}
	return b.NewArray()
}

// randomArray draws n cells.
func randomArray(t testing.TB, typ arrow.DataType, rng *rand.Rand, n, nulls int) arrow.Array {
	cells := make([]any, n)
	for i := range cells {
		cells[i] = cell(typ, rng, nulls)
	}
	return cellsOf(t, typ, cells...)
}

// counting returns the ids from, from+1, ...
func counting(from uint64, n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = from + uint64(i)
	}
	return ids
}

// batches is a stream of the given ones.
func batches(list ...btree.Batch) btree.Stream {
	return func(context.Context) (btree.Batch, error) {
		if len(list) == 0 {
			return btree.Batch{}, io.EOF
		}
		b := list[0]
		list = list[1:]
		return b, nil
	}
}

// build sorts and writes values with the ids 0, 1, ... and opens the segment.
func build(t testing.TB, values arrow.Array, o btree.Options) *btree.Index {
	t.Helper()
	s, err := btree.NewSorter(values.DataType(), 0, nil)
	require.NoError(t, err)
	for from := 0; from < values.Len(); from += 1000 {
		to := min(values.Len(), from+1000)
		part := array.NewSlice(values, int64(from), int64(to))
		require.NoError(t, s.Add(btree.Batch{Values: part, IDs: counting(uint64(from), to-from)}))
		part.Release()
	}
	dir := store.NewDir(objstore.NewMem(), "x", nil)
	sum, err := btree.Build(t.Context(), dir, values.DataType(), s.Stream(), o)
	require.NoError(t, err)
	require.EqualValues(t, values.Len(), sum.Rows)
	require.EqualValues(t, values.NullN(), sum.Nulls)
	x, err := btree.Open(t.Context(), dir, btree.OpenOptions{DataSize: sum.Files[0].Size, LookupSize: sum.Files[1].Size})
	require.NoError(t, err)
	return x
}

func memDir() store.Dir { return store.NewDir(objstore.NewMem(), "x", nil) }

func alloc() memory.Allocator { return memory.DefaultAllocator }
