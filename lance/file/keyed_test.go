package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// keyedColumn is a dictionary array of some distinct values; nulls is in percent.
func keyedColumn(t testing.TB, typ *arrow.DictionaryType, rows, distinct, nulls int, seed int64) arrow.Array {
	t.Helper()
	rng := newRand(seed)
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, typ)
	defer b.Release()
	for range rows {
		if rng.Intn(100) < nulls {
			b.AppendNull()
			continue
		}
		k := rng.Intn(distinct)
		switch b := b.(type) {
		case *array.BinaryDictionaryBuilder:
			require.NoError(t, b.AppendString(fmt.Sprintf("a rather long item number %d", k)))
		case *array.Int64DictionaryBuilder:
			require.NoError(t, b.Append(int64(k)*1_000_003))
		default:
			t.Fatalf("no values for %T", b)
		}
	}
	return b.NewArray()
}

func packedColumn(rows int, nullable bool, seed int64) arrow.Array {
	st := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Float64},
		arrow.Field{Name: "c", Type: arrow.PrimitiveTypes.Uint8})
	b := array.NewStructBuilder(memory.DefaultAllocator, st)
	defer b.Release()
	rng := newRand(seed)
	for range rows {
		if nullable && rng.Intn(4) == 0 {
			b.AppendNull()
			continue
		}
		b.Append(true)
		b.FieldBuilder(0).(*array.Int32Builder).Append(rng.Int31())
		b.FieldBuilder(1).(*array.Float64Builder).Append(rng.Float64())
		b.FieldBuilder(2).(*array.Uint8Builder).Append(uint8(rng.Intn(256)))
	}
	return b.NewArray()
}

// keyedBatch has Arrow dictionary columns of several kinds and, if packed is set, packed structs.
func keyedBatch(t testing.TB, rows int, packed bool) (*arrow.Schema, []arrow.Array) {
	var cols []arrow.Array
	for i, typ := range []*arrow.DictionaryType{
		{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String},
		{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.PrimitiveTypes.Int64}} {
		for _, nulls := range []int{0, 30, 100} {
			cols = append(cols, keyedColumn(t, typ, rows, 100, nulls, int64(i+nulls)))
		}
	}
	var fields []arrow.Field
	for i, c := range cols {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("d", i), Type: c.DataType(), Nullable: true})
	}
	list := arrow.ListOf(cols[0].DataType())
	offs := make([]int32, rows+1)
	for i := range offs {
		offs[i] = int32(i)
	}
	d := array.NewData(list, rows, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offs))}, []arrow.ArrayData{cols[1].Data()}, 0, 0)
	cols = append(cols, array.NewListData(d))
	fields = append(fields, arrow.Field{Name: "list", Type: list, Nullable: true})
	if packed {
		md := arrow.NewMetadata([]string{schema.KeyPacked}, []string{"true"})
		cols = append(cols, packedColumn(rows, false, 5))
		fields = append(fields, arrow.Field{Name: "packed", Type: cols[len(cols)-1].DataType(), Nullable: true, Metadata: md})
	}
	return arrow.NewSchema(fields, nil), cols
}

func TestRoundTripKeyedAndPacked(t *testing.T) {
	for _, o := range []file.WriterOptions{{}, {Version: file.V21(), MaxPageBytes: 9000}} {
		for _, rows := range []int{1, 5, 3000} {
			t.Run(fmt.Sprintf("%s/%d", o.Version, rows), func(t *testing.T) {
				sc, cols := keyedBatch(t, rows, true)
				data, _ := write(t, sc, o, array.NewRecordBatch(sc, cols, int64(rows)))
				r, _ := open(t, data)
				got := plainBatch(t, r, rows)
				for i, c := range cols {
					requireSameText(t, c, got.Column(i))
				}
			})
		}
	}
	st := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "s", Type: arrow.BinaryTypes.String})
	mixed := nestedColumn(st, 800, 20, newRand(4))
	sc := arrow.NewSchema([]arrow.Field{{Name: "p", Type: st, Nullable: true,
		Metadata: arrow.NewMetadata([]string{schema.KeyPacked}, []string{"true"})}}, nil)
	mixedData, _ := write(t, sc, file.WriterOptions{MaxPageBytes: 5000}, array.NewRecordBatch(sc, []arrow.Array{mixed}, 800))
	reader, _ := open(t, mixedData)
	requireSameText(t, mixed, plainBatch(t, reader, 800).Column(0))

	sc = arrow.NewSchema([]arrow.Field{{Name: "p", Type: packedColumn(1, true, 1).DataType(), Nullable: true,
		Metadata: arrow.NewMetadata([]string{schema.KeyPacked}, []string{"true"})}}, nil)
	col := packedColumn(500, true, 9)
	data, _ := write(t, sc, file.WriterOptions{}, array.NewRecordBatch(sc, []arrow.Array{col}, 500))
	r, _ := open(t, data)
	requireSameText(t, col, plainBatch(t, r, 500).Column(0))
}

// plainBatch scans a whole file as one batch.
func plainBatch(t *testing.T, r *file.Reader, rows int) arrow.RecordBatch {
	t.Helper()
	scan, err := r.Scan(t.Context(), r.Schema().Fields, nil, 0, uint64(rows), rows)
	require.NoError(t, err)
	rec, err := scan.Next()
	require.NoError(t, err)
	require.EqualValues(t, rows, rec.NumRows())
	require.NoError(t, scan.Close())
	return rec
}

// requireSameText compares values by their text: dictionaries of equal arrays may differ.
func requireSameText(t *testing.T, want, got arrow.Array) {
	t.Helper()
	require.True(t, arrow.TypeEqual(want.DataType(), got.DataType()), "%s, want %s", got.DataType(), want.DataType())
	require.Equal(t, want.NullN(), got.NullN())
	for i := range want.Len() {
		if w, g := want.ValueStr(i), got.ValueStr(i); w != g {
			t.Fatalf("row %d: %s, want %s", i, g, w)
		}
	}
}

// TestOracleReadsKeyedAndPacked has pylance compare dictionary columns and packed structs of ours with the truth.
func TestOracleReadsKeyedAndPacked(t *testing.T) {
	oracle.Python(t)
	dir := t.TempDir()
	// One page each: pylance 14 appends the dictionaries of pages to each other, and 8-bit keys then overflow.
	for _, o := range []file.WriterOptions{{}, {Version: file.V21()}} {
		sc, cols := keyedBatch(t, 1200, true)
		name := "keyed-" + o.Version.String()
		data, _ := write(t, sc, o, array.NewRecordBatch(sc, cols, 1200))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".lance"), data, 0o644))
		writeIPC(t, filepath.Join(dir, name+".arrow"), oracleCase{name: name, sc: sc, cols: cols})
	}
	for name, verdict := range runOracle(t, "check", dir) {
		if verdict != "ok" {
			t.Errorf("%s: %s", name, verdict)
		}
	}
}
