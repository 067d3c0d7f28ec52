package file_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/lance/file"
	"lancesql/lance/schema"
)

const benchRows = 500_000

func benchColumns() []column {
	i64, str := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	return []column{{i64, "none", "random"}, {i64, "some", "random"}, {i64, "some", "small"}, {arrow.PrimitiveTypes.Int32, "none", "sequential"},
		{str, "none", "random"}, {str, "some", "lowcard"}, {str, "none", "runs"}, {arrow.FixedWidthTypes.Boolean, "some", "random"},
		{&arrow.Decimal128Type{Precision: 20, Scale: 3}, "some", "random"}}
}

// BenchmarkScan reads one column at a time. With LANCESQL_BENCH_DIR set, the files are also left there, so that other
// readers can be timed on them.
func BenchmarkScan(b *testing.B) {
	for _, c := range benchColumns() {
		sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.typ, Nullable: true}}, nil)
		arr := generate(c, benchRows, rand.New(rand.NewSource(1)))
		data, _ := write(b, sc, file.WriterOptions{}, array.NewRecordBatch(sc, []arrow.Array{arr}, benchRows))
		if dir := os.Getenv("LANCESQL_BENCH_DIR"); dir != "" {
			require.NoError(b, os.WriteFile(fmt.Sprintf("%s/%s-%s-%s.lance", dir, c.typ.Name(), c.pattern, c.nulls), data, 0o644))
		}
		r, _ := open(b, data)
		b.Run(c.name(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scan, err := r.Scan(context.Background(), r.Schema().Fields, nil, 0, benchRows, 8192)
				require.NoError(b, err)
				for {
					rec, err := scan.Next()
					if err == io.EOF {
						break
					}
					require.NoError(b, err)
					rec.Release()
				}
				require.NoError(b, scan.Close())
			}
			b.ReportMetric(float64(benchRows)*float64(b.N)/1e6/b.Elapsed().Seconds(), "Mrows/s")
			b.ReportMetric(float64(len(data))/1e6, "MB")
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, c := range benchColumns() {
		sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.typ, Nullable: true}}, nil)
		s, err := schema.FromArrow(sc)
		require.NoError(b, err)
		rec := array.NewRecordBatch(sc, []arrow.Array{generate(c, benchRows, rand.New(rand.NewSource(1)))}, benchRows)
		b.Run(c.name(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var buf bytes.Buffer
				w, err := file.NewWriter(&buf, s, file.WriterOptions{})
				require.NoError(b, err)
				require.NoError(b, w.Write(rec))
				_, err = w.Finish()
				require.NoError(b, err)
			}
			b.ReportMetric(float64(benchRows)*float64(b.N)/1e6/b.Elapsed().Seconds(), "Mrows/s")
		})
	}
}

func BenchmarkTake(b *testing.B) {
	for _, c := range benchColumns() {
		sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.typ, Nullable: true}}, nil)
		arr := generate(c, benchRows, rand.New(rand.NewSource(1)))
		data, _ := write(b, sc, file.WriterOptions{}, array.NewRecordBatch(sc, []arrow.Array{arr}, benchRows))
		r, _ := open(b, data)
		b.Run(c.name(), func(b *testing.B) {
			b.ReportAllocs()
			rng := rand.New(rand.NewSource(2))
			for b.Loop() {
				rec, err := r.Take(context.Background(), r.Schema().Fields, nil, []uint64{uint64(rng.Intn(benchRows))})
				require.NoError(b, err)
				rec.Release()
			}
		})
	}
}
