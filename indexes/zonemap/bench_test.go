package zonemap_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/zonemap"
	"lancesql/internal/predicate"
)

const benchRows = 1 << 16

// benchColumns are arrays as a merge sees them.
func benchColumns(b *testing.B) map[string]arrow.Array {
	rng := rand.New(rand.NewPCG(1, 2))
	cells := func(f func() any, nulls float64) []any {
		out := make([]any, benchRows)
		for i := range out {
			if rng.Float64() >= nulls {
				out[i] = f()
			}
		}
		return out
	}
	of := func(t arrow.DataType, nulls float64, f func() any) arrow.Array {
		return arrayOf(b, memory.DefaultAllocator, t, cells(f, nulls))
	}
	return map[string]arrow.Array{
		"int32":       of(arrow.PrimitiveTypes.Int32, 0, func() any { return rng.Int32() }),
		"int64":       of(arrow.PrimitiveTypes.Int64, 0, func() any { return rng.Int64() }),
		"int64 nulls": of(arrow.PrimitiveTypes.Int64, 0.2, func() any { return rng.Int64() }),
		"float64":     of(arrow.PrimitiveTypes.Float64, 0, func() any { return rng.NormFloat64() }),
		"text":        of(arrow.BinaryTypes.String, 0, func() any { return fmt.Sprintf("Customer#%09d", rng.IntN(1e6)) }),
		"comment":     of(arrow.BinaryTypes.String, 0.1, func() any { return fmt.Sprintf("%x furiously even deposits", rng.Uint64()) }),
		"decimal128":  of(&arrow.Decimal128Type{Precision: 15, Scale: 2}, 0, func() any { return decimal128.FromI64(rng.Int64N(1e7)) }),
		"bool":        of(arrow.FixedWidthTypes.Boolean, 0.1, func() any { return rng.IntN(2) == 0 }),
	}
}

// BenchmarkBuild is the cost of zone maps while rows are written; ns/row.
func BenchmarkBuild(b *testing.B) {
	for name, a := range benchColumns(b) {
		b.Run(name, func(b *testing.B) {
			z, err := zonemap.NewBuilder(a.DataType(), zonemap.Options{})
			require.NoError(b, err)
			for b.Loop() {
				for at := 0; at < benchRows; at += 4096 {
					part := array.NewSlice(a, int64(at), int64(at+4096))
					if err := z.Append(part, uint64(at)); err != nil {
						b.Fatal(err)
					}
					part.Release()
				}
				z.Finish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		})
	}
}

// BenchmarkPrune is the cost of asking 100,000 zones: 800 million rows; ns/zone.
func BenchmarkPrune(b *testing.B) {
	const zones = 100_000
	rng := rand.New(rand.NewPCG(3, 4))
	number := func(i int) any { return int64(i*100 + rng.IntN(100)) }
	text := func(i int) any { return fmt.Sprintf("key-%09d", i*100+rng.IntN(100)) }
	for _, c := range []struct {
		name   string
		typ    arrow.DataType
		value  func(i int) any
		filter predicate.Expr
	}{
		{"int64 =", arrow.PrimitiveTypes.Int64, number, predicate.Compare{Op: predicate.Eq, Value: int64(5_000_050)}},
		{"int64 range 1 %", arrow.PrimitiveTypes.Int64, number, predicate.And{Terms: []predicate.Expr{
			predicate.Compare{Op: predicate.Ge, Value: int64(5_000_000)}, predicate.Compare{Op: predicate.Lt, Value: int64(5_100_000)}}}},
		{"int64 in 100", arrow.PrimitiveTypes.Int64, number, predicate.In{Values: hundred()}},
		{"text =", arrow.BinaryTypes.String, text, predicate.Compare{Op: predicate.Eq, Value: "key-005000050"}},
	} {
		cells := make([]any, 2*zones)
		for i := range cells {
			cells[i] = c.value(i / 2)
		}
		z, err := zonemap.NewBuilder(c.typ, zonemap.Options{RowsPerZone: 2})
		require.NoError(b, err)
		require.NoError(b, z.Append(arrayOf(b, memory.DefaultAllocator, c.typ, cells), 0))
		s := segment(b, c.typ, []zonemap.Part{{Stats: z.Finish()}}, 0)
		require.Equal(b, zones, s.Zones())
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				r, _ := predicate.Bounds(c.filter, 0)
				if _, err := s.Prune(r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/zones, "ns/zone")
		})
	}
}

func hundred() []any {
	var out []any
	for i := range 100 {
		out = append(out, int64(i*100_000))
	}
	return out
}
