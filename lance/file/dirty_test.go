package file_test

import (
	"context"
	"errors"
	"io"
	"math/rand"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/lance/file"
)

// dirtyAllocator hands out memory full of garbage and spoils what is freed, as an allocator that reuses memory may.
type dirtyAllocator struct{ memory.Allocator }

func spoil(b []byte) {
	for i := range b {
		b[i] = 0xa5
	}
}

func (d dirtyAllocator) Allocate(n int) []byte {
	b := d.Allocator.Allocate(n)
	spoil(b)
	return b
}

func (d dirtyAllocator) Reallocate(n int, b []byte) []byte {
	out := d.Allocate(n)
	copy(out, b)
	spoil(b)
	return out
}

func (d dirtyAllocator) Free(b []byte) {
	spoil(b)
	d.Allocator.Free(b)
}

// TestDirtyMemory reads every type into memory that is not cleared.
func TestDirtyMemory(t *testing.T) {
	const rows = 3000
	i32 := arrow.PrimitiveTypes.Int32
	types := []arrow.DataType{arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32,
		&arrow.Decimal128Type{Precision: 20}, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeBinary, arrow.FixedSizeListOf(3, i32),
		arrow.FixedSizeListOf(5, arrow.FixedWidthTypes.Boolean), arrow.FixedSizeListOf(100, i32), &arrow.FixedSizeBinaryType{ByteWidth: 300}}
	var picked []uint64
	for row := uint64(0); row < rows; row += 7 {
		picked = append(picked, row)
	}
	for _, typ := range types {
		for _, nulls := range []string{"none", "some", "half", "all"} {
			for _, pattern := range []string{"constant", "random", "small", "runs", "lowcard", "mid", "long"} {
				c := column{typ, nulls, pattern}
				sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: typ, Nullable: true}}, nil)
				want := generate(c, rows, rand.New(rand.NewSource(7)))
				data, _ := write(t, sc, file.WriterOptions{}, array.NewRecordBatch(sc, []arrow.Array{want}, rows))
				r, err := file.Open(context.Background(), &memSource{data: data}, file.ReaderOptions{Allocator: dirtyAllocator{memory.DefaultAllocator}})
				require.NoError(t, err)
				t.Run(c.name(), func(t *testing.T) {
					scan, err := r.Scan(context.Background(), r.Schema().Fields, nil, 0, rows, 700)
					require.NoError(t, err)
					for at := 0; ; at += 700 {
						rec, err := scan.Next()
						if errors.Is(err, io.EOF) {
							break
						}
						require.NoError(t, err)
						requireSame(t, want, at, at+int(rec.NumRows()), rec.Column(0))
						rec.Release()
					}
					require.NoError(t, scan.Close())
					rec, err := r.Take(context.Background(), r.Schema().Fields, nil, picked)
					require.NoError(t, err)
					defer rec.Release()
					for k, row := range picked {
						requireSame(t, want, int(row), int(row)+1, array.NewSlice(rec.Column(0), int64(k), int64(k)+1))
					}
				})
			}
		}
	}
}
