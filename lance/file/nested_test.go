package file_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// nestedTypes are one of each way that layers can follow each other.
func nestedTypes() []arrow.DataType {
	i32, str := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String
	st := arrow.StructOf(arrow.Field{Name: "a", Type: i32, Nullable: true}, arrow.Field{Name: "b", Type: str, Nullable: true})
	return []arrow.DataType{
		arrow.ListOf(i32), arrow.LargeListOf(str), arrow.ListOf(arrow.FixedWidthTypes.Boolean), st, arrow.ListOf(st),
		arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64)), arrow.MapOf(str, i32),
		arrow.ListOf(arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32)),
		arrow.StructOf(arrow.Field{Name: "l", Type: arrow.ListOf(st), Nullable: true}, arrow.Field{Name: "w", Type: &arrow.FixedSizeBinaryType{ByteWidth: 300}, Nullable: true}),
		arrow.StructOf(arrow.Field{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.FixedWidthTypes.Timestamp_us}), Nullable: true}),
		arrow.ListOf(&arrow.FixedSizeBinaryType{ByteWidth: 260}), arrow.ListOf(arrow.BinaryTypes.LargeBinary),
	}
}

// fillNested appends a random value.
func fillNested(b array.Builder, nullable bool, nulls int, rng *rand.Rand) {
	if nullable && rng.Intn(100) < nulls {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.MapBuilder:
		b.Append(true)
		for range rng.Intn(4) {
			fillNested(b.KeyBuilder(), false, nulls, rng)
			fillNested(b.ItemBuilder(), true, nulls, rng)
		}
	case *array.ListBuilder:
		b.Append(true)
		fillItems(b.ValueBuilder(), nulls, rng)
	case *array.LargeListBuilder:
		b.Append(true)
		fillItems(b.ValueBuilder(), nulls, rng)
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			fillNested(b.ValueBuilder(), true, nulls, rng)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range b.Type().(*arrow.StructType).Fields() {
			fillNested(b.FieldBuilder(i), f.Nullable, nulls, rng)
		}
	case *array.Int32Builder:
		b.Append(int32(rng.Intn(1000)))
	case *array.Int64Builder:
		b.Append(rng.Int63())
	case *array.Float32Builder:
		b.Append(rng.Float32())
	case *array.BooleanBuilder:
		b.Append(rng.Intn(2) == 0)
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(rng.Int63()))
	case *array.StringBuilder:
		b.Append(fmt.Sprintf("value %d", rng.Intn(5000)))
	case *array.BinaryBuilder:
		b.Append(make([]byte, rng.Intn(400)))
	case *array.FixedSizeBinaryBuilder:
		v := make([]byte, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		rng.Read(v)
		b.Append(v)
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}

func fillItems(b array.Builder, nulls int, rng *rand.Rand) {
	n := rng.Intn(5)
	if rng.Intn(100) == 0 {
		n = rng.Intn(3000)
	}
	for range n {
		fillNested(b, true, nulls, rng)
	}
}

func nestedColumn(typ arrow.DataType, rows, nulls int, rng *rand.Rand) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, typ)
	defer b.Release()
	for range rows {
		fillNested(b, true, nulls, rng)
	}
	return b.NewArray()
}

// nestedBatch has a column of few nulls, one of many, one of none and one of nothing else.
func nestedBatch(typ arrow.DataType, rows int, rng *rand.Rand) (*arrow.Schema, []arrow.Array) {
	var fields []arrow.Field
	var cols []arrow.Array
	for _, nulls := range []int{0, 8, 60, 100} {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("nulls", nulls), Type: typ, Nullable: true})
		cols = append(cols, nestedColumn(typ, rows, nulls, rng))
	}
	return arrow.NewSchema(fields, nil), cols
}

// checkNested scans, reads ranges and takes from a file.
func checkNested(t *testing.T, data []byte, cols []arrow.Array, rng *rand.Rand) {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	ctx := context.Background()
	r, err := file.Open(ctx, &memSource{data: data}, file.ReaderOptions{Allocator: mem})
	require.NoError(t, err)
	rows := cols[0].Len()
	from := rng.Intn(rows)
	for _, span := range [][3]int{{0, rows, 1 + rng.Intn(500)}, {from, from + rng.Intn(rows-from) + 1, 1 + rng.Intn(5000)}} {
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
				require.True(t, array.SliceEqual(c, int64(at), int64(at)+rec.NumRows(), rec.Column(i), 0, rec.NumRows()), "rows from %d of column %d", at, i)
			}
			at += int(rec.NumRows())
			rec.Release()
		}
		require.Equal(t, span[1], at)
		require.NoError(t, scan.Close())
	}
	var wanted []uint64
	for row := rng.Intn(7); row < rows; row += 1 + rng.Intn(1+rows/20) {
		wanted = append(wanted, uint64(row))
	}
	rec, err := r.Take(ctx, r.Schema().Fields, nil, wanted)
	require.NoError(t, err)
	defer rec.Release()
	for i, c := range cols {
		for k, row := range wanted {
			require.True(t, array.SliceEqual(c, int64(row), int64(row)+1, rec.Column(i), int64(k), int64(k)+1), "row %d of column %d", row, i)
		}
	}
}

func TestRoundTripNested(t *testing.T) {
	for i, typ := range nestedTypes() {
		for _, rows := range []int{1, 7, 700} {
			for _, o := range []file.WriterOptions{{}, {Version: file.V21(), MaxPageBytes: 4000}, {MaxPageBytes: 30_000}} {
				if typ.ID() == arrow.MAP && o.Version == file.V21() {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s-%d", typ, rows, o.Version, o.MaxPageBytes), func(t *testing.T) {
					rng := newRand(int64(rows + i))
					sc, cols := nestedBatch(typ, rows, rng)
					whole := array.NewRecordBatch(sc, cols, int64(rows))
					cut := int64(rng.Intn(rows))
					data, _ := write(t, sc, o, whole.NewSlice(0, cut), whole.NewSlice(cut, int64(rows)))
					checkNested(t, data, cols, rng)
				})
			}
		}
	}
}

// TestOracleReadsNested has pylance compare our nested files with the truth.
func TestOracleReadsNested(t *testing.T) {
	oracle.Python(t)
	dir := t.TempDir()
	n := 0
	for i, typ := range nestedTypes() {
		for _, o := range []file.WriterOptions{{}, {Version: file.V21(), MaxPageBytes: 6000}} {
			if typ.ID() == arrow.MAP && o.Version == file.V21() {
				continue
			}
			sc, cols := nestedBatch(typ, 500, newRand(int64(i)))
			name := fmt.Sprintf("%02d-%s", i, o.Version)
			data, _ := write(t, sc, o, array.NewRecordBatch(sc, cols, 500))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".lance"), data, 0o644))
			writeIPC(t, filepath.Join(dir, name+".arrow"), oracleCase{name: name, sc: sc, cols: cols})
			n++
		}
	}
	verdicts := runOracle(t, "check", dir)
	require.Len(t, verdicts, n)
	for name, verdict := range verdicts {
		if verdict != "ok" {
			t.Errorf("%s: %s", name, verdict)
		}
	}
}

// TestTakeOfListsReadsOnlyItsChunks takes single rows of a list column with thousands of chunks.
func TestTakeOfListsReadsOnlyItsChunks(t *testing.T) {
	const rows = 20_000
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	defer b.Release()
	rng := newRand(3)
	for range rows {
		b.Append(true)
		for range 10 {
			b.ValueBuilder().(*array.Int64Builder).Append(rng.Int63())
		}
	}
	col := b.NewArray()
	sc := arrow.NewSchema([]arrow.Field{{Name: "l", Type: col.DataType(), Nullable: true}}, nil)
	data, _ := write(t, sc, file.WriterOptions{}, array.NewRecordBatch(sc, []arrow.Array{col}, rows))
	r, src := open(t, data)
	ctx := context.Background()
	take := func(wanted ...uint64) {
		rec, err := r.Take(ctx, r.Schema().Fields, nil, wanted)
		require.NoError(t, err)
		for i, row := range wanted {
			require.True(t, array.SliceEqual(col, int64(row), int64(row)+1, rec.Column(0), int64(i), int64(i)+1))
		}
		rec.Release()
	}
	take(1, 9_000, 19_999) // page plans
	src.reads, src.bytes = 0, 0
	take(100)
	require.LessOrEqual(t, src.bytes, 40<<10)
	src.reads, src.bytes = 0, 0
	take(200, 9_500, 19_000)
	require.LessOrEqual(t, src.bytes, 120<<10)
	require.LessOrEqual(t, src.reads, 6)
}

func TestWriterRefusesNested(t *testing.T) {
	list := arrow.ListOf(arrow.PrimitiveTypes.Int32)
	for name, c := range map[string]struct {
		f arrow.Field
		v file.Version
	}{
		"list in 2.0": {arrow.Field{Name: "x", Type: list}, file.V20()},
		"map in 2.1":  {arrow.Field{Name: "x", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)}, file.V21()},
		"blob":        {arrow.Field{Name: "x", Type: arrow.BinaryTypes.LargeBinary, Metadata: arrow.NewMetadata([]string{schema.KeyBlob}, []string{"true"})}, file.V22()},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{c.f}, nil))
			require.NoError(t, err)
			_, err = file.NewWriter(io.Discard, s, file.WriterOptions{Version: c.v})
			require.ErrorIs(t, err, errs.ErrUnsupported)
			require.ErrorContains(t, err, "x")
		})
	}
	inner := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32})
	sc := arrow.NewSchema([]arrow.Field{{Name: "s", Type: inner, Nullable: true}}, nil)
	s, err := schema.FromArrow(sc)
	require.NoError(t, err)
	w, err := file.NewWriter(io.Discard, s, file.WriterOptions{})
	require.NoError(t, err)
	b := array.NewStructBuilder(memory.DefaultAllocator, inner)
	defer b.Release()
	b.Append(true)
	b.FieldBuilder(0).AppendNull()
	require.ErrorIs(t, w.Write(array.NewRecordBatch(sc, []arrow.Array{b.NewArray()}, 1)), errs.ErrInvalid)
}

func TestVersionsRefusedByName(t *testing.T) {
	sc, cols := makeBatch(arrow.PrimitiveTypes.Int32, 5, newRand(1))
	data, _ := write(t, sc, file.WriterOptions{}, array.NewRecordBatch(sc, cols, 5))
	for name, footer := range map[string][4]byte{"legacy format 0.1": {0, 0, 2, 0}, "2.3": {2, 0, 3, 0}, "9.1": {9, 0, 1, 0}} {
		copy(data[len(data)-8:], footer[:])
		_, err := file.Open(context.Background(), &memSource{data: data}, file.ReaderOptions{})
		require.ErrorIs(t, err, errs.ErrUnsupported)
		require.ErrorContains(t, err, name)
	}
}

// TestStructListWithin reads a fixed-size list of structs in a struct, as the reference writes and does not read it, by
// scan in several batch sizes and by take.
func TestStructListWithin(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "struct_of_fsl_struct.lance"))
	require.NoError(t, err)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	r, err := file.Open(context.Background(), &memSource{data: data}, file.ReaderOptions{Allocator: mem})
	require.NoError(t, err)
	want := []string{`{"a":1,"f":[{"x":1,"y":1},{"x":2,"y":2}]}`, `null`, `{"a":null,"f":null}`, `{"a":3,"f":[null,{"x":4,"y":4}]}`}
	text := func(a arrow.Array) (out []string) {
		for i := range a.Len() {
			if a.IsNull(i) {
				out = append(out, "null")
				continue
			}
			b, err := json.Marshal(a.GetOneForMarshal(i))
			require.NoError(t, err)
			out = append(out, string(b))
		}
		return out
	}
	for _, batch := range []int{1, 3, 10} {
		rd, err := r.Scan(context.Background(), r.Schema().Fields, nil, 0, r.Rows(), batch)
		require.NoError(t, err)
		var got []string
		for rec, err := rd.Next(); !errors.Is(err, io.EOF); rec, err = rd.Next() {
			require.NoError(t, err)
			got = append(got, text(rec.Column(0))...)
			rec.Release()
		}
		require.NoError(t, rd.Close())
		require.Equal(t, want, got)
	}
	rec, err := r.Take(context.Background(), r.Schema().Fields, nil, []uint64{1, 3})
	require.NoError(t, err)
	require.Equal(t, []string{want[1], want[3]}, text(rec.Column(0)))
	rec.Release()
}

// TestBlobDescriptors reads a blob v2 column, whose values are descriptors, and refuses to write one.
func TestBlobDescriptors(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "blob_v2.lance"))
	require.NoError(t, err)
	r, _ := open(t, data)
	rec, err := r.Take(context.Background(), r.Schema().Fields, nil, []uint64{0, 1, 2, 4})
	require.NoError(t, err)
	defer rec.Release()
	text, err := json.Marshal(rec.Column(1))
	require.NoError(t, err)
	require.JSONEq(t, `[{"kind":0,"position":0,"size":1,"blob_id":0,"blob_uri":""}, null,
		{"kind":1,"position":0,"size":200000,"blob_id":1,"blob_uri":""}, {"kind":2,"position":0,"size":5000000,"blob_id":2,"blob_uri":""}]`, string(text))
	_, err = file.NewWriter(io.Discard, r.Schema(), file.WriterOptions{})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	require.ErrorContains(t, err, "blob v2")
}

// TestListWithoutPages: version 2.0 lists whose column lost its pages were once built as structs.
func TestListWithoutPages(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join(oracle.Root(t), "testdata", "golden", "corpus", "files", "nested-9.2.0.lance"))
	require.NoError(t, err)
	for _, at := range []int{14287, 16727} {
		for bit := range 8 {
			data := append([]byte(nil), golden...)
			data[at] ^= 1 << bit
			readSome(t, data)
		}
	}
}
