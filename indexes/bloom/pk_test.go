package bloom

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func rowOf(t testing.TB, types []arrow.DataType, cells ...any) (arrow.RecordBatch, []int) {
	t.Helper()
	var fields []arrow.Field
	var cols []int
	for i, typ := range types {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("k", i), Type: typ, Nullable: true})
		cols = append(cols, i)
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, arrow.NewSchema(fields, nil), []arrowx.Row{cells})
	require.NoError(t, err)
	return rec, cols
}

// TestHashVectors are the vectors of the MemWAL fact sheet.
func TestHashVectors(t *testing.T) {
	i32, i64, text, bin := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, arrow.BinaryTypes.Binary
	require.Equal(t, uint64(0xd1fba762150c532c), sipHash13(nil))
	for _, v := range []struct {
		types []arrow.DataType
		cells []any
		hash  uint64
		block int
		bits  []int
	}{
		{[]arrow.DataType{i64}, []any{int64(10)}, 0x54fe547feaf614e5, 339, []int{16, 8, 13, 12, 29, 6, 7, 8}},
		{[]arrow.DataType{i64}, []any{int64(11)}, 0xba8811db05e00d97, -1, nil},
		{[]arrow.DataType{i64}, []any{int64(12)}, 0x453e12b5249997d7, -1, nil},
		{[]arrow.DataType{i64}, []any{int64(1)}, 0x7467d6524c084857, -1, nil},
		{[]arrow.DataType{text}, []any{"abcde"}, 0x02f45de2e963d9e5, 11, []int{30, 18, 23, 13, 7, 16, 0, 30}},
		{[]arrow.DataType{bin}, []any{[]byte("abcde")}, 0x9b328c2c0edda54e, -1, nil},
		{[]arrow.DataType{i32}, []any{int32(7)}, 0x173136168bf50efb, 92, []int{22, 15, 25, 21, 4, 12, 11, 16}},
		{[]arrow.DataType{i32, text}, []any{int32(1), "x"}, 0x47d9182163d484b3, 287, []int{23, 9, 27, 18, 4, 13, 12, 8}},
		{[]arrow.DataType{i32, text}, []any{int32(-2), "y"}, 0x5cf78f1f342664e1, -1, nil},
		{[]arrow.DataType{i32, text}, []any{int32(1), "w\x00z"}, 0x4fd150a63163c143, -1, nil},
	} {
		rec, cols := rowOf(t, v.types, v.cells...)
		hashes, err := Hashes(rec, cols)
		require.NoError(t, err)
		require.Equal(t, []uint64{v.hash}, hashes, "%v", v.cells)
		p := NewPK()
		require.False(t, p.MayHold(v.hash))
		require.NoError(t, p.AddBatch(rec, cols))
		require.True(t, p.MayHold(v.hash))
		if v.bits == nil {
			continue
		}
		want := make([]byte, pkBytes)
		for word, bit := range v.bits {
			want[v.block*32+word*4+bit/8] |= 1 << (bit % 8)
		}
		require.Equal(t, want, p.f.Bytes())
	}
	rec, cols := rowOf(t, []arrow.DataType{i64}, nil)
	hashes, err := Hashes(rec, cols)
	require.NoError(t, err)
	require.Equal(t, sipHash13([]byte{1}), hashes[0])
}

func TestPKFile(t *testing.T) {
	ctx := t.Context()
	dir := store.NewDir(objstore.NewMem(), "9f3a01bc_gen_4", nil)
	_, err := ReadPK(ctx, dir)
	require.ErrorIs(t, err, errs.ErrNotFound)
	p := NewPK()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	rng := rand.New(rand.NewSource(3))
	for range 8192 {
		b.Append(rng.Int63())
	}
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "k", Type: arrow.PrimitiveTypes.Int64}}, nil), []arrow.Array{b.NewArray()}, 8192)
	require.NoError(t, p.AddBatch(rec, []int{0}))
	info, err := p.Write(ctx, dir)
	require.NoError(t, err)
	require.EqualValues(t, 32768, info.Size)
	back, err := ReadPK(ctx, dir)
	require.NoError(t, err)
	require.True(t, bytes.Equal(p.f.bits, back.f.bits))
	hashes, err := Hashes(rec, []int{0})
	require.NoError(t, err)
	for _, h := range hashes {
		require.True(t, back.MayHold(h)) // I1
	}
	wrong := 0
	for range 100_000 {
		if back.MayHold(rng.Uint64()) {
			wrong++
		}
	}
	require.Less(t, wrong, 20, "false answers of 100,000")

	_, err = store.NewDir(objstore.NewMem(), "x", nil).Put(ctx, PKFile, make([]byte, 10))
	require.NoError(t, err)
	short := store.NewDir(objstore.NewMem(), "y", nil)
	_, err = short.Put(ctx, PKFile, make([]byte, 32767))
	require.NoError(t, err)
	_, err = ReadPK(ctx, short)
	require.ErrorIs(t, err, errs.ErrCorruption)
	long := store.NewDir(objstore.NewMem(), "z", nil)
	_, err = long.Put(ctx, PKFile, make([]byte, 32769))
	require.NoError(t, err)
	_, err = ReadPK(ctx, long)
	require.ErrorIs(t, err, errs.ErrLimit)
}

func TestTrusted(t *testing.T) {
	require.True(t, Trusted([]arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.Binary}))
	require.False(t, Trusted(nil))
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint64, arrow.BinaryTypes.LargeString, arrow.FixedWidthTypes.Date32} {
		require.False(t, Trusted([]arrow.DataType{arrow.PrimitiveTypes.Int32, typ}))
		rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "k", Type: typ}}, nil), []arrow.Array{array.NewBuilder(memory.DefaultAllocator, typ).NewArray()}, 0)
		_, err := Hashes(rec, []int{0})
		require.ErrorIs(t, err, errs.ErrUnsupported)
	}
}

func ExamplePK() {
	p := NewPK()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues([]string{"a", "b"}, nil)
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "k", Type: arrow.BinaryTypes.String}}, nil), []arrow.Array{b.NewArray()}, 2)
	fmt.Println(p.AddBatch(rec, []int{0}))
	hashes, _ := Hashes(rec, []int{0})
	fmt.Println(p.MayHold(hashes[0]), p.MayHold(12345))
	// Output:
	// <nil>
	// true false
}
