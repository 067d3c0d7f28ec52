package file_test

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/lance/file"
)

// checkFile scans and takes from a file and compares with the columns it was made from.
func checkFile(t *testing.T, data []byte, sc *arrow.Schema, cols []arrow.Array, rng *rand.Rand) {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	src := &memSource{data: data}
	ctx := context.Background()
	r, err := file.Open(ctx, src, file.ReaderOptions{Allocator: mem})
	require.NoError(t, err)
	rows := cols[0].Len()
	require.EqualValues(t, rows, r.Rows())
	from := rng.Intn(rows)
	for _, span := range [][3]int{{0, rows, 1000}, {from, from + rng.Intn(rows-from) + 1, 1 + rng.Intn(5000)}} {
		scan, err := r.Scan(ctx, r.Schema().Fields, nil, uint64(span[0]), uint64(span[1]), span[2])
		require.NoError(t, err)
		at := span[0]
		for {
			rec, err := scan.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			for i, c := range cols {
				requireSame(t, c, at, at+int(rec.NumRows()), rec.Column(i))
			}
			at += int(rec.NumRows())
			rec.Release()
		}
		require.Equal(t, span[1], at)
		require.NoError(t, scan.Close())
	}
	var wanted []uint64
	step := 1 + rows/(1+rng.Intn(50))
	for row := rng.Intn(step); row < rows; row += 1 + rng.Intn(step) {
		wanted = append(wanted, uint64(row))
	}
	rec, err := r.Take(ctx, r.Schema().Fields, nil, wanted)
	require.NoError(t, err)
	defer rec.Release()
	for i, c := range cols {
		for k, row := range wanted {
			if w, g := cell(c, int(row)), cell(rec.Column(i), k); w != g {
				t.Fatalf("take row %d of column %s: got %q, want %q", row, sc.Field(i).Name, clip(g), clip(w))
			}
		}
	}
}

// makeBatch generates columns of every pattern and nullness of one type.
func makeBatch(typ arrow.DataType, rows int, rng *rand.Rand) (*arrow.Schema, []arrow.Array) {
	var fields []arrow.Field
	var cols []arrow.Array
	for _, p := range patternsOf(typ) {
		if p == "huge" && rows > 100 {
			continue
		}
		for _, nulls := range []string{"none", "some", "half", "all"} {
			c := column{typ: typ, nulls: nulls, pattern: p}
			fields = append(fields, arrow.Field{Name: c.name(), Type: typ, Nullable: nulls != "none" || typ.ID() == arrow.NULL})
			cols = append(cols, generate(c, rows, rng))
		}
	}
	return arrow.NewSchema(fields, nil), cols
}

func TestRoundTripEveryType(t *testing.T) {
	for _, v := range []file.Version{file.V20(), file.V21(), file.V22()} {
		for _, typ := range flatTypes {
			for _, rows := range []int{1, 2, 5, 1000, 1025} {
				if !soak() && (rows == 2 || rows == 1000 || rows == 1 && v != file.V22()) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", v, typ, rows), func(t *testing.T) {
					rng := rand.New(rand.NewSource(int64(rows)))
					sc, cols := makeBatch(typ, rows, rng)
					rec := array.NewRecordBatch(sc, cols, int64(rows))
					data, _ := write(t, sc, file.WriterOptions{Version: v}, rec)
					checkFile(t, data, sc, cols, rng)
				})
			}
		}
	}
}

// TestRoundTripManyPages cuts 100 000 rows into small batches (slices of a larger array, some empty) and small pages.
func TestRoundTripManyPages(t *testing.T) {
	const rows = 100_000
	types := []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int16, arrow.FixedWidthTypes.Boolean,
		arrow.BinaryTypes.String, arrow.BinaryTypes.LargeBinary, &arrow.Decimal128Type{Precision: 20, Scale: 3},
		arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Boolean), arrow.PrimitiveTypes.Float64}
	for _, page := range []int{0, 100_000} {
		for _, typ := range types {
			t.Run(fmt.Sprintf("%s/%d", typ, page), func(t *testing.T) {
				rng := rand.New(rand.NewSource(int64(page)))
				var cols []arrow.Array
				var fields []arrow.Field
				for _, nulls := range []string{"none", "some", "half"} {
					for _, p := range []string{"random", "runs", "lowcard"} {
						c := column{typ: typ, nulls: nulls, pattern: p}
						fields = append(fields, arrow.Field{Name: c.name(), Type: typ, Nullable: true})
						cols = append(cols, generate(c, rows, rng))
					}
				}
				sc := arrow.NewSchema(fields, nil)
				whole := array.NewRecordBatch(sc, cols, rows)
				var recs []arrow.RecordBatch
				for from := 0; from < rows; {
					to := min(rows, from+rng.Intn(3000))
					recs = append(recs, whole.NewSlice(int64(from), int64(to)))
					from = to
				}
				data, sum := write(t, sc, file.WriterOptions{MaxPageBytes: page}, recs...)
				require.EqualValues(t, rows, sum.Rows)
				checkFile(t, data, sc, cols, rng)
			})
		}
	}
}
