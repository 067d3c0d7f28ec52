package rows

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"lancesql/internal/arrowx"
)

// Schema returns one nullable column per type, named like the type.
func Schema() *arrow.Schema {
	types := []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
		arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String,
		arrow.BinaryTypes.LargeString, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary,
		&arrow.FixedSizeBinaryType{ByteWidth: 3}, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us,
		&arrow.TimestampType{Unit: arrow.Microsecond}, arrow.FixedWidthTypes.Duration_us,
		&arrow.Decimal128Type{Precision: 20, Scale: 4}, &arrow.Decimal256Type{Precision: 60, Scale: 10},
	}
	fields := make([]arrow.Field, len(types))
	for i, t := range types {
		fields[i] = arrow.Field{Name: t.Name(), Type: t, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// Random returns n rows of schema; nulls is the share of NULL cells in nullable columns.
func Random(rng *rand.Rand, schema *arrow.Schema, n int, nulls float64) []arrowx.Row {
	out := make([]arrowx.Row, n)
	for i := range out {
		out[i] = make(arrowx.Row, schema.NumFields())
		for c, f := range schema.Fields() {
			if !f.Nullable || rng.Float64() >= nulls {
				out[i][c] = Cell(rng, f.Type)
			}
		}
	}
	return out
}

// Cell returns a random cell of type t, nil for a type without a Go form.
func Cell(rng *rand.Rand, t arrow.DataType) any {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return rng.IntN(2) == 0
	case *arrow.Int8Type:
		return int8(integer(rng))
	case *arrow.Int16Type:
		return int16(integer(rng))
	case *arrow.Int32Type:
		return int32(integer(rng))
	case *arrow.Int64Type:
		return integer(rng)
	case *arrow.Uint8Type:
		return uint8(integer(rng))
	case *arrow.Uint16Type:
		return uint16(integer(rng))
	case *arrow.Uint32Type:
		return uint32(integer(rng))
	case *arrow.Uint64Type:
		return uint64(integer(rng))
	case *arrow.Float32Type:
		return float32(float(rng))
	case *arrow.Float64Type:
		return float(rng)
	case *arrow.StringType, *arrow.LargeStringType:
		return strings.ToValidUTF8(string(text(rng, rng.IntN(6))), "é")
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		return text(rng, rng.IntN(6))
	case *arrow.FixedSizeBinaryType:
		return text(rng, t.ByteWidth)
	case *arrow.Date32Type:
		return arrow.Date32(integer(rng))
	case *arrow.Date64Type:
		return arrow.Date64(integer(rng))
	case *arrow.Time64Type:
		return arrow.Time64(integer(rng))
	case *arrow.TimestampType:
		return arrow.Timestamp(integer(rng))
	case *arrow.DurationType:
		return arrow.Duration(integer(rng))
	case *arrow.Decimal128Type:
		return decimal128.New(integer(rng)%3, uint64(integer(rng)))
	case *arrow.Decimal256Type:
		return decimal256.New(uint64(integer(rng)%3), uint64(integer(rng)), 0, uint64(integer(rng)))
	default:
		return nil
	}
}

func integer(rng *rand.Rand) int64 {
	switch rng.IntN(8) {
	case 0:
		return int64(rng.Uint64())
	case 1:
		return []int64{math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, -128, 127, 255}[rng.IntN(7)]
	default:
		return rng.Int64N(7) - 3
	}
}

func float(rng *rand.Rand) float64 {
	return []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, math.NaN(), math.Inf(1), math.Inf(-1),
		math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, float64(float32(rng.NormFloat64()))}[rng.IntN(13)]
}

func text(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = []byte{0, 1, 'a', 'b', 0xff}[rng.IntN(5)]
	}
	return b
}
