package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func sampleSchema() *arrow.Schema {
	md := arrow.NewMetadata([]string{"rows_per_zone"}, []string{"8192"})
	return arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.Binary, Nullable: true}}, &md)
}

// sample has rows n = from..to, s = text of n, every fifth NULL.
func sample(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sampleSchema())
	defer b.Release()
	for i := from; i < to; i++ {
		if i%5 == 0 {
			b.Field(0).AppendNull()
			b.Field(1).AppendNull()
			continue
		}
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.BinaryBuilder).Append(fmt.Append(nil, "row ", i))
	}
	return b.NewRecordBatch()
}

func TestFile(t *testing.T) {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "t.lance/_indices/x", nil)
	w, err := dir.Create(ctx, "a.lance", sampleSchema())
	require.NoError(t, err)
	require.NoError(t, w.Write(sample(0, 3000)))
	n, err := w.AddBuffer([]byte("hello"))
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.NoError(t, w.Write(sample(3000, 9000)))
	n, err = w.AddBuffer(nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	w.SetMetadata("rows_per_zone", "17")
	w.SetMetadata("null_bitmap", "1")
	_, err = dir.Open(ctx, "a.lance", 0)
	require.ErrorIs(t, err, errs.ErrNotFound) // I1
	info, err := w.Finish(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 9000, info.Rows)

	_, err = dir.Open(ctx, "a.lance", info.Size+1)
	require.ErrorIs(t, err, errs.ErrCorruption)
	r, err := dir.Open(ctx, info.Name, info.Size)
	require.NoError(t, err)
	rows, err := r.Number("rows_per_zone", 8192, 1, 100)
	require.NoError(t, err)
	require.EqualValues(t, 17, rows)
	_, err = r.Number("rows_per_zone", 8192, 1, 16)
	require.ErrorIs(t, err, errs.ErrCorruption)
	rows, err = r.Number("none", 8192, 1, 16)
	require.NoError(t, err)
	require.EqualValues(t, 8192, rows)
	b, err := r.Buffer(ctx, 1, 5)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	_, err = r.Buffer(ctx, 1, 4)
	require.ErrorIs(t, err, errs.ErrLimit)
	_, err = r.Buffer(ctx, 3, 4)
	require.ErrorIs(t, err, errs.ErrInvalid)
	b, err = r.Buffer(ctx, 2, 4)
	require.NoError(t, err)
	require.Empty(t, b)

	cols, err := r.Columns("s", "n")
	require.NoError(t, err)
	require.NoError(t, r.Require(cols, 1, arrow.PrimitiveTypes.Int64))
	require.ErrorIs(t, r.Require(cols, 0, arrow.PrimitiveTypes.Int64), errs.ErrCorruption)
	_, err = r.Columns("missing")
	require.ErrorIs(t, err, errs.ErrCorruption)
	at := 2990
	require.NoError(t, r.Read(ctx, cols, 2990, 3500, 100, func(rec arrow.RecordBatch) error {
		for i := range int(rec.NumRows()) {
			if at%5 == 0 {
				require.True(t, rec.Column(0).IsNull(i))
			} else {
				require.Equal(t, fmt.Sprint("row ", at), string(rec.Column(0).(*array.Binary).Value(i)))
				require.EqualValues(t, at, rec.Column(1).(*array.Int64).Value(i))
			}
			at++
		}
		return nil
	}))
	require.Equal(t, 3500, at)

	w, err = dir.Create(ctx, "a.lance", sampleSchema())
	require.NoError(t, err)
	require.NoError(t, w.Write(sample(0, 10)))
	_, err = w.Finish(ctx)
	require.ErrorIs(t, err, errs.ErrExists)
}

func TestEmptyFile(t *testing.T) {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "", nil)
	w, err := dir.Create(ctx, "empty.lance", sampleSchema())
	require.NoError(t, err)
	_, err = w.Finish(ctx)
	require.NoError(t, err)
	r, err := dir.Open(ctx, "empty.lance", 0)
	require.NoError(t, err)
	require.Zero(t, r.Rows())
	cols, err := r.Columns("n")
	require.NoError(t, err)
	scan, err := r.Scan(ctx, cols, 0, 0, 10)
	require.NoError(t, err)
	_, err = scan.Next()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, scan.Close())

	w, err = dir.Create(ctx, "gone.lance", sampleSchema())
	require.NoError(t, err)
	w.Abort()
	_, err = dir.Open(ctx, "gone.lance", 0)
	require.ErrorIs(t, err, errs.ErrNotFound)
	_, err = dir.Put(ctx, "raw", []byte{1, 2})
	require.NoError(t, err)
	_, err = dir.Put(ctx, "raw", []byte{1, 2})
	require.ErrorIs(t, err, errs.ErrExists)
	raw, err := dir.Get(ctx, "raw", 2)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2}, raw)
	_, err = dir.Get(ctx, "raw", 1)
	require.True(t, errors.Is(err, errs.ErrLimit))
}

func TestCache(t *testing.T) {
	c := store.NewCache(100)
	a, b := c.NewOwner(), c.NewOwner()
	for i := range uint64(4) {
		c.Put(a, i, i, 20)
	}
	c.Put(b, 0, "b", 20)
	_, ok := c.Get(a, 0) // now the most recently used
	require.True(t, ok)
	c.Put(b, 1, "b1", 25)
	_, ok = c.Get(a, 1)
	require.False(t, ok)
	_, ok = c.Get(a, 0)
	require.True(t, ok)
	require.LessOrEqual(t, c.Bytes(), int64(100)) // I4
	c.Put(b, 2, "large", 26)
	_, ok = c.Get(b, 2)
	require.False(t, ok)
	c.Put(b, 1, "again", 10)
	v, _ := c.Get(b, 1)
	require.Equal(t, "again", v)
	c.Drop(b)
	_, ok = c.Get(b, 1)
	require.False(t, ok)
	c.Drop(a)
	require.Zero(t, c.Bytes())
}

func Example() {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "t.lance/_indices/7", nil)
	w, _ := dir.Create(ctx, "zonemap.lance", sampleSchema())
	_ = w.Write(sample(1, 5))
	info, err := w.Finish(ctx)
	fmt.Println(info.Name, info.Rows, err)
	// Output: zonemap.lance 4 <nil>
}
