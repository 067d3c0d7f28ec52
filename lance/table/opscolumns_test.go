package table

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
)

// times computes id * n as Int64.
func times(n int64) func(rec arrow.RecordBatch) (arrow.Array, error) {
	return func(rec arrow.RecordBatch) (arrow.Array, error) {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		defer b.Release()
		ids := rec.Column(rec.Schema().FieldIndices("id")[0]).(*array.Int64)
		for i := range ids.Len() {
			b.Append(ids.Value(i) * n)
		}
		return b.NewArray(), nil
	}
}

func TestColumns(t *testing.T) {
	ctx := context.Background()
	i64 := arrow.PrimitiveTypes.Int64
	d := create(t, objstore.NewMem(), CreateOptions{})
	d = add(t, d, arrowx.Row{int64(1), "a"}, arrowx.Row{int64(2), nil})
	d = add(t, d, arrowx.Row{int64(3), "c"})
	d, _, err := d.DeleteWhere(ctx, idIs(1))
	require.NoError(t, err)
	old := d
	d, err = d.AddColumns(ctx, []NewColumn{
		{Field: arrow.Field{Name: "n", Type: arrow.BinaryTypes.Binary, Nullable: true}},
		{Field: arrow.Field{Name: "twice", Type: i64}, Compute: times(2)},
		{Field: arrow.Field{Name: "thrice", Type: i64, Nullable: true}, Compute: times(3)},
	}, []string{"id"})
	require.NoError(t, err)
	require.Equal(t, []string{"[2 <nil> <nil> 4 6]", "[3 c <nil> 6 9]"}, all(t, d))
	require.Len(t, d.Fragment(0).Files, 2, "one new file for both")
	d = add(t, d, arrowx.Row{int64(4), "d", []byte("x"), int64(8), nil})

	d, err = d.RenameColumn(ctx, "twice", "double")
	require.NoError(t, err)
	d, err = d.DropColumns(ctx, "n", "thrice")
	require.NoError(t, err)
	require.Equal(t, []string{"id", "name", "double"}, names(d))
	require.Equal(t, []string{"[2 <nil> 4]", "[3 c 6]", "[4 d 8]"}, all(t, d))
	_, err = d.SetNullable(ctx, "name", false)
	require.ErrorIs(t, err, errs.ErrInvalid, "there is a NULL")
	d, err = d.SetNullable(ctx, "double", true)
	require.NoError(t, err)
	require.True(t, d.Schema().FieldByName("double").Nullable)
	d, _, err = d.DeleteWhere(ctx, predicate.IsNull{Column: 1})
	require.NoError(t, err)
	d, err = d.SetNullable(ctx, "name", false)
	require.NoError(t, err)
	require.False(t, d.Schema().FieldByName("name").Nullable)
	require.Equal(t, []string{"[3 c 6]", "[4 d 8]"}, all(t, d))

	d, err = d.CastColumn(ctx, "name", arrow.BinaryTypes.LargeString)
	require.NoError(t, err)
	require.Equal(t, arrow.LARGE_STRING, arrowSchema(t, d).Field(1).Type.ID())
	require.Equal(t, []string{"[3 c 6]", "[4 d 8]"}, all(t, d))
	same, err := d.CastColumn(ctx, "name", arrow.BinaryTypes.LargeString)
	require.NoError(t, err)
	require.Same(t, d, same)
	d = commit(t, d, CreateIndex{New: []IndexEntry{indexOn("by_double", d.Schema().FieldByName("double").ID, 0)}})

	fails := map[string]struct {
		err  error
		want error
	}{}
	try := func(name string, want error, call func() (*Dataset, error)) {
		_, err := call()
		fails[name] = struct{ err, want error }{err, want}
	}
	col := func(name string, nullable bool, compute func(arrow.RecordBatch) (arrow.Array, error)) []NewColumn {
		return []NewColumn{{Field: arrow.Field{Name: name, Type: i64, Nullable: nullable}, Compute: compute}}
	}
	boom := errors.New("boom")
	try("no columns", errs.ErrInvalid, func() (*Dataset, error) { return d.AddColumns(ctx, nil, nil) })
	try("exists", errs.ErrExists, func() (*Dataset, error) { return d.AddColumns(ctx, col("id", true, nil), nil) })
	try("twice", errs.ErrInvalid, func() (*Dataset, error) {
		return d.AddColumns(ctx, append(col("q", true, nil), col("q", true, nil)...), nil)
	})
	try("no type", errs.ErrInvalid, func() (*Dataset, error) { return d.AddColumns(ctx, []NewColumn{{}}, nil) })
	try("required and null", errs.ErrInvalid, func() (*Dataset, error) { return d.AddColumns(ctx, col("q", false, nil), nil) })
	try("reads what is not there", errs.ErrInvalid, func() (*Dataset, error) { return d.AddColumns(ctx, col("q", true, times(1)), []string{"x"}) })
	try("computing fails", boom, func() (*Dataset, error) {
		return d.AddColumns(ctx, col("q", true, func(arrow.RecordBatch) (arrow.Array, error) { return nil, boom }), nil)
	})
	try("drop unknown", errs.ErrInvalid, func() (*Dataset, error) { return d.DropColumns(ctx, "x") })
	try("drop all", errs.ErrInvalid, func() (*Dataset, error) { return d.DropColumns(ctx, "id", "name", "double") })
	try("drop key", errs.ErrInvalid, func() (*Dataset, error) { return d.DropColumns(ctx, "id") })
	try("rename unknown", errs.ErrInvalid, func() (*Dataset, error) { return d.RenameColumn(ctx, "x", "y") })
	try("rename to another", errs.ErrExists, func() (*Dataset, error) { return d.RenameColumn(ctx, "id", "name") })
	try("alter unknown", errs.ErrInvalid, func() (*Dataset, error) { return d.SetNullable(ctx, "x", false) })
	try("cast unknown", errs.ErrInvalid, func() (*Dataset, error) { return d.CastColumn(ctx, "x", i64) })
	try("narrow", errs.ErrInvalid, func() (*Dataset, error) { return d.CastColumn(ctx, "id", arrow.PrimitiveTypes.Int32) })
	try("cast to nothing", errs.ErrInvalid, func() (*Dataset, error) { return d.CastColumn(ctx, "name", nil) })
	try("cast indexed", errs.ErrInvalid, func() (*Dataset, error) { return d.CastColumn(ctx, "double", arrow.PrimitiveTypes.Float64) })
	for name, f := range fails {
		require.ErrorIs(t, f.err, f.want, name)
	}
	// Values are computed anew over rows that came meanwhile.
	latest, err := old.AddColumns(ctx, col("late", false, times(5)), []string{"id"})
	require.NoError(t, err)
	require.Equal(t, []string{"[3 c 6 15]", "[4 d 8 20]"}, all(t, latest))
}

func TestWidening(t *testing.T) {
	ctx := context.Background()
	types := []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString,
		arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.FixedWidthTypes.Date32,
		&arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.Decimal128Type{Precision: 20, Scale: 2}, &arrow.Decimal128Type{Precision: 20, Scale: 3},
	}
	cells := []any{int8(-7), int16(-7), int32(-7), int64(-7), uint8(7), uint16(7), uint32(7), uint64(7), float32(0.5), 0.5,
		"é", "é", []byte("b"), []byte("b"), arrow.Date32(3), decimal128.FromI64(1234), decimal128.FromI64(1234), decimal128.FromI64(1234)}
	wider := 0
	for i, from := range types {
		for k, to := range types {
			if i == k || !Widens(from, to) {
				continue
			}
			wider++
			s := arrow.NewSchema([]arrow.Field{{Name: "v", Type: from, Nullable: true}}, nil)
			rec := batch(t, s, arrowx.Row{cells[i]}, arrowx.Row{nil})
			d, err := create(t, objstore.NewMem(), CreateOptions{}).Overwrite(ctx, Records(s, rec), WriteOptions{})
			require.NoError(t, err)
			want := all(t, d)
			d, err = d.CastColumn(ctx, "v", to)
			require.NoError(t, err, "%s to %s", from, to)
			require.True(t, arrow.TypeEqual(to, arrowSchema(t, d).Field(0).Type))
			require.Equal(t, want, all(t, d), "%s to %s", from, to)
		}
	}
	require.Equal(t, 32, wider)
}

func TestCompact(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	row := func(i int) arrowx.Row { return arrowx.Row{int64(i), fmt.Sprint("n", i)} }
	for i := range 12 {
		d = add(t, d, row(3*i), row(3*i+1), row(3*i+2))
	}
	d = commit(t, d, CreateIndex{New: []IndexEntry{indexOn("a", 0, 3, 4, 5), indexOn("b", 1, 5, 6, 7)}})
	d, _, err := d.DeleteWhere(ctx, predicate.In{Column: 0, Values: []any{int64(0), int64(10), int64(11), int64(33), int64(34), int64(35)}})
	require.NoError(t, err)
	live := all(t, d)
	same, done, err := d.Compact(ctx, CompactOptions{FragmentRows: 1, MaxDeletedFraction: 0.9})
	require.NoError(t, err)
	require.Same(t, d, same)
	require.Zero(t, done)

	kept, done, err := d.Compact(ctx, CompactOptions{KeepIndexed: true})
	require.NoError(t, err)
	require.Len(t, done.Moves, 2)
	done.Moves = nil
	require.Equal(t, Compacted{Groups: 2, FragmentsRemoved: 6, FragmentsAdded: 2, Rows: 17}, done, "0-2 and 8-10; 11 is gone")
	require.Equal(t, []uint32{3, 4, 5}, covered(t, kept, "a"))
	require.Equal(t, []uint64{3, 4, 5, 6, 7, 12, 13}, fragmentIDs(kept))
	require.ElementsMatch(t, live, all(t, kept))

	// 3 and 4, 5, 6 and 7 have different indexes. 5 is alone and full.
	next, done, err := kept.Compact(ctx, CompactOptions{FragmentRows: 8})
	require.NoError(t, err)
	require.Len(t, done.Moves, 2)
	done.Moves = nil
	require.Equal(t, Compacted{Groups: 2, FragmentsRemoved: 4, FragmentsAdded: 2, Rows: 10}, done)
	require.Equal(t, []uint32{5}, covered(t, next, "a"))
	require.Equal(t, []uint32{5}, covered(t, next, "b"))
	require.ElementsMatch(t, live, all(t, next))

	// A group that is larger than a fragment is cut; order is kept.
	last, done, err := next.Compact(ctx, CompactOptions{FragmentRows: 20})
	require.NoError(t, err)
	require.Equal(t, 1, done.Groups)
	require.ElementsMatch(t, live, all(t, last))
	again, done, err := last.Compact(ctx, CompactOptions{FragmentRows: 20})
	require.NoError(t, err)
	require.Zero(t, done)
	require.Same(t, last, again)

	// Over a concurrent delete the groups are made anew.
	gone, _, err := last.DeleteWhere(ctx, idBelow(20))
	require.NoError(t, err)
	over, _, err := last.Compact(ctx, CompactOptions{})
	require.NoError(t, err)
	require.ElementsMatch(t, all(t, gone), all(t, over))
	require.Zero(t, over.Stats().PhysicalRows-over.Stats().LiveRows)
}
