package file_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// workedFile is the three-row file of the format notes.
func workedFile(t testing.TB) ([]byte, arrow.RecordBatch) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	b.Field(0).(*array.Float64Builder).AppendValues([]float64{1, 2, 3}, nil)
	b.Field(1).(*array.StringBuilder).AppendValues([]string{"a", "b", ""}, []bool{true, true, false})
	b.Field(2).(*array.Float64Builder).AppendValues([]float64{1.5, 2.5, 3.5}, nil)
	rec := b.NewRecordBatch()
	data, _ := write(t, sc, file.WriterOptions{}, rec)
	return data, rec
}

// The page buffers of the worked file, byte for byte.
func TestWorkedFile(t *testing.T) {
	data, _ := workedFile(t)
	for at, want := range map[int]string{
		0x000: "30000000",
		0x040: "0000 18000000 fefe 000000000000f03f 0000000000000040 0000000000000840",
		0x080: "40000000",
		0x0c0: "0300 0600 14000000 000000000100fefe 10000000 11000000 12000000 12000000 61624848 fefefefe",
		0x100: "30000000",
		0x140: "0000 18000000 fefe 000000000000f83f",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(want, " ", ""))
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(b), hex.EncodeToString(data[at:at+len(b)]), "at %#x", at)
	}
	require.Equal(t, "LANC", string(data[len(data)-4:]))
	require.Equal(t, []byte{2, 0, 2, 0}, data[len(data)-8:len(data)-4])
}

func TestTakeReadsOnlyItsChunks(t *testing.T) {
	const rows = 200_000
	c := column{arrow.PrimitiveTypes.Int64, "none", "random"}
	sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.typ}}, nil)
	data, _ := write(t, sc, file.WriterOptions{}, array.NewRecordBatch(sc, []arrow.Array{generate(c, rows, newRand(1))}, rows))
	r, src := open(t, data)
	take := func(rows ...uint64) {
		rec, err := r.Take(context.Background(), r.Schema().Fields, nil, rows)
		require.NoError(t, err)
		rec.Release()
	}
	take(0) // loads the page's chunk index
	src.reads, src.bytes = 0, 0
	take(5, 6, 100_000)
	require.Equal(t, 2, src.reads)
	require.Less(t, src.bytes, 20_000)
}

func TestWriterRefuses(t *testing.T) {
	i32 := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}}, nil)
	s, err := schema.FromArrow(i32)
	require.NoError(t, err)
	w, err := file.NewWriter(io.Discard, s, file.WriterOptions{})
	require.NoError(t, err)
	_, err = w.Finish()
	require.ErrorIs(t, err, errs.ErrInvalid, "a file without rows")

	w, err = file.NewWriter(io.Discard, s, file.WriterOptions{})
	require.NoError(t, err)
	for _, c := range []column{{arrow.PrimitiveTypes.Int64, "none", "small"}, {arrow.PrimitiveTypes.Int32, "some", "small"}} {
		sc := arrow.NewSchema([]arrow.Field{{Name: "a", Type: c.typ, Nullable: true}}, nil)
		err := w.Write(array.NewRecordBatch(sc, []arrow.Array{generate(c, 50, newRand(3))}, 50))
		require.ErrorIs(t, err, errs.ErrInvalid, c.name())
	}
	_, err = file.NewWriter(io.Discard, s, file.WriterOptions{Version: file.Version{Major: 2, Minor: 3}})
	require.ErrorIs(t, err, errs.ErrUnsupported)

	boom := errors.New("disk on fire")
	w, err = file.NewWriter(failWriter{boom}, s, file.WriterOptions{})
	require.NoError(t, err)
	c := column{arrow.PrimitiveTypes.Int32, "none", "small"}
	require.NoError(t, w.Write(array.NewRecordBatch(i32, []arrow.Array{generate(c, 50, newRand(3))}, 50)))
	_, err = w.Finish()
	require.ErrorIs(t, err, boom)
}

type failWriter struct{ err error }

func (f failWriter) Write([]byte) (int, error) { return 0, f.err }

// TestProjection reads fields in another order, by explicit columns, and none at all.
func TestProjection(t *testing.T) {
	data, rec := workedFile(t)
	r, _ := open(t, data)
	ctx := context.Background()
	f := r.Schema().Fields
	got, err := r.Take(ctx, []*schema.Field{f[2], f[0]}, nil, []uint64{1})
	require.NoError(t, err)
	requireSame(t, rec.Column(2), 1, 2, got.Column(0))
	requireSame(t, rec.Column(0), 1, 2, got.Column(1))
	got, err = r.Take(ctx, f[:1], map[int32]int32{0: 2}, []uint64{0})
	require.NoError(t, err)
	requireSame(t, rec.Column(2), 0, 1, got.Column(0))
	scan, err := r.Scan(ctx, nil, nil, 1, 3, 10)
	require.NoError(t, err)
	batch, err := scan.Next()
	require.NoError(t, err)
	require.EqualValues(t, 2, batch.NumRows())
	_, err = scan.Next()
	require.Equal(t, io.EOF, err)
	for _, bad := range []map[int32]int32{{}, {0: 3}, {0: -1}, {0: 1}} {
		_, err = r.Take(ctx, f[:1], bad, []uint64{0})
		require.Error(t, err, "%v", bad)
	}
	_, err = r.Take(ctx, f, nil, []uint64{2, 1})
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = r.Scan(ctx, f, nil, 0, 4, 10)
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func ExampleWriter() {
	sc := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}}, nil)
	s, _ := schema.FromArrow(sc)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	b.Field(0).(*array.Int32Builder).AppendValues([]int32{10, 20, 30}, nil)
	var buf bytes.Buffer
	w, _ := file.NewWriter(&buf, s, file.WriterOptions{})
	_ = w.Write(b.NewRecordBatch())
	sum, _ := w.Finish()
	r, _ := file.Open(context.Background(), &memSource{data: buf.Bytes()}, file.ReaderOptions{})
	rec, _ := r.Take(context.Background(), r.Schema().Fields, nil, []uint64{2})
	fmt.Println(sum.Rows, r.Version(), rec.Column(0))
	// Output: 3 2.2 [30]
}
