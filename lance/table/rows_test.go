package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/schema"
)

// rowsOf is a batch of testSchema: ids from, …, to-1, names prefix<id>, every tenth name null.
func rowsOf(t testing.TB, prefix string, from, to int) arrow.RecordBatch {
	t.Helper()
	s, err := testSchema(t).Arrow()
	require.NoError(t, err)
	rows := make([]arrowx.Row, 0, to-from)
	for i := from; i < to; i++ {
		var name any
		if i%10 != 0 {
			name = fmt.Sprint(prefix, i)
		}
		rows = append(rows, arrowx.Row{int64(i), name})
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rows)
	require.NoError(t, err)
	return rec
}

// fragment writes a data file with the given batches.
func fragment(t testing.TB, d *Dataset, batches ...arrow.RecordBatch) *Fragment {
	t.Helper()
	ctx := context.Background()
	w, err := d.NewFragmentWriter(ctx)
	require.NoError(t, err)
	for _, rec := range batches {
		require.NoError(t, w.Write(rec))
	}
	f, err := w.Finish(ctx)
	require.NoError(t, err)
	return f
}

// scan returns the live rows as text, in storage order.
func scan(t testing.TB, d *Dataset, fieldIDs ...int32) []string {
	t.Helper()
	r, err := d.Scan(context.Background(), fieldIDs)
	require.NoError(t, err)
	defer r.Close()
	out := []string{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		for i := range int(rec.NumRows()) {
			out = append(out, fmt.Sprint(arrowx.RowOf(rec, i)...))
		}
		rec.Release()
	}
}

func TestRowsThroughVersions(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 0, 5), rowsOf(t, "a", 5, 12))}})
	v2 := d
	d = commit(t, d, Update{UpdatedFragments: []*Fragment{deleteRows(t, d, 0, 1, 11)},
		NewFragments: []*Fragment{fragment(t, d, rowsOf(t, "b", 1, 2))}})
	require.Equal(t, uint64(11), d.CountRows())
	want := []string{}
	for _, i := range []int{0, 2, 3, 4, 5, 6, 7, 8, 9, 10} {
		if i%10 == 0 {
			want = append(want, fmt.Sprint(int64(i), nil))
		} else {
			want = append(want, fmt.Sprint(int64(i), fmt.Sprint("a", i)))
		}
	}
	want = append(want, fmt.Sprint(int64(1), "b1"))
	require.Equal(t, want, scan(t, d, 0, 1))
	require.Equal(t, want, scan(t, reopen(t, st), 0, 1))
	require.Len(t, scan(t, v2, 0), 12)
	require.Len(t, scan(t, d), 11, "no columns: rows are counted")
	require.Equal(t, fmt.Sprint("b1", int64(1)), scan(t, d, 1, 0)[10], "columns in the wanted order")

	rec, err := d.TakeFragment(ctx, d.Fragment(0), []int32{1, 0}, []uint32{1, 4})
	require.NoError(t, err)
	defer rec.Release()
	require.Equal(t, arrowx.Row{"a1", int64(1)}, arrowx.RowOf(rec, 0), "deleted rows are still there")
	require.Equal(t, arrowx.Row{"a4", int64(4)}, arrowx.RowOf(rec, 1))
	_, err = d.TakeFragment(ctx, d.Fragment(0), []int32{0}, []uint32{4, 4})
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = d.TakeFragment(ctx, d.Fragment(0), []int32{0}, []uint32{12})
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = d.ScanFragment(ctx, d.Fragment(0), []int32{5}, 0, 1, 0)
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func TestScanFragmentOffsets(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 0, 100))}})
	for _, fields := range [][]int32{{0, 1}, {}} {
		r, err := d.ScanFragment(ctx, d.Fragment(0), fields, 17, 1000, 10)
		require.NoError(t, err)
		next := uint64(17)
		for {
			first, rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, next, first)
			require.LessOrEqual(t, rec.NumRows(), int64(10))
			require.Equal(t, int64(len(fields)), rec.NumCols())
			if len(fields) > 0 {
				require.Equal(t, int64(first), rec.Column(0).(*array.Int64).Value(0))
			}
			next += uint64(rec.NumRows())
			rec.Release()
		}
		require.Equal(t, uint64(100), next)
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		_, _, err = r.Next()
		require.ErrorIs(t, err, errs.ErrClosed)
	}
}

func TestScanOfNothing(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	require.Empty(t, scan(t, d, 0, 1))
	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 0, 5))}})
	r, err := d.ScanFragment(ctx, d.Fragment(0), []int32{0}, 3, 3, 0)
	require.NoError(t, err)
	_, _, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, r.Close())
	_, err = d.ScanFragment(ctx, d.Fragment(0), []int32{0}, 4, 3, 0)
	require.ErrorIs(t, err, errs.ErrInvalid)
	rec, err := d.TakeFragment(ctx, d.Fragment(0), []int32{0, 1}, nil)
	require.NoError(t, err)
	require.Zero(t, rec.NumRows())
	rec.Release()
}

// A field that a fragment's files do not have reads as null; one that must not be null is corruption.
func TestFieldAddedLater(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 0, 3))}})
	wide := testSchema(t)
	wide.Fields = append(wide.Fields, &schema.Field{ID: 2, Name: "extra", LogicalType: "int32", Nullable: true})
	d.state.schema = wide
	require.Equal(t, []string{fmt.Sprint(int64(0), nil, nil), fmt.Sprint(int64(1), "a1", nil), fmt.Sprint(int64(2), "a2", nil)}, scan(t, d, 0, 1, 2))
	rec, err := d.TakeFragment(ctx, d.Fragment(0), []int32{2}, []uint32{2})
	require.NoError(t, err)
	defer rec.Release()
	require.True(t, rec.Column(0).IsNull(0))
	require.Equal(t, arrow.INT32, rec.Column(0).DataType().ID())

	wide.Fields[2].Nullable = false
	_, err = d.ScanFragment(ctx, d.Fragment(0), []int32{2}, 0, 1, 0)
	require.ErrorIs(t, err, errs.ErrCorruption)
}

func TestWriterEnds(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	w, err := d.NewFragmentWriter(ctx)
	require.NoError(t, err)
	_, err = w.Finish(ctx)
	require.ErrorIs(t, err, errs.ErrInvalid, "no rows")
	require.ErrorIs(t, w.Write(rowsOf(t, "a", 0, 1)), errs.ErrClosed)
	w, err = d.NewFragmentWriter(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Write(rowsOf(t, "a", 0, 1)))
	w.Abort()
	w.Abort()
	for _, name := range objects(t, st) {
		require.NotContains(t, name, "data/")
	}
}

func TestGeneration(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	const root = "t.lance/_mem_wal/s/0123abcd_gen_4"
	d, err := CreateGeneration(ctx, st, root, testSchema(t), []arrow.RecordBatch{rowsOf(t, "a", 1, 5), rowsOf(t, "b", 3, 4)}, roaring.BitmapOf(2))
	require.NoError(t, err)
	require.Equal(t, uint64(1), d.Version())
	require.Equal(t, uint64(4), d.CountRows())
	require.Equal(t, flagDeletionFiles, d.state.m.ReaderFeatureFlags)
	f := d.Fragments()[0]
	require.Zero(t, f.ID)
	require.Equal(t, DeletionBitmap, f.Deletion.Kind, "small or not")
	require.Equal(t, uint64(1), f.Deletion.ReadVersion)
	again, err := Open(ctx, st, root)
	require.NoError(t, err)
	require.Equal(t, []string{"1 a1", "2 a2", "4 a4", "3 b3"}, spaced(scan(t, again, 0, 1)))

	_, err = CreateGeneration(ctx, st, root, testSchema(t), []arrow.RecordBatch{rowsOf(t, "a", 0, 5)}, nil)
	require.ErrorIs(t, err, errs.ErrExists)
	_, err = CreateGeneration(ctx, st, "g2", testSchema(t), nil, nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = CreateGeneration(ctx, st, "g3", testSchema(t), []arrow.RecordBatch{rowsOf(t, "a", 0, 2)}, roaring.BitmapOf(0, 1))
	require.ErrorIs(t, err, errs.ErrInvalid)
	d, err = CreateGeneration(ctx, st, "g4", testSchema(t), []arrow.RecordBatch{rowsOf(t, "a", 0, 2)}, nil)
	require.NoError(t, err)
	require.Nil(t, d.Fragments()[0].Deletion)
	require.Zero(t, d.state.m.ReaderFeatureFlags)
}

func spaced(list []string) []string {
	for i, s := range list {
		for k := range s { // fmt.Sprint leaves out the space between a number and a string
			if s[k] < '0' || s[k] > '9' {
				if s[k] != ' ' {
					list[i] = s[:k] + " " + s[k:]
				}
				break
			}
		}
	}
	return list
}

// Every batch handed out is the caller's to release, and nothing else is held.
func TestNoLeaks(t *testing.T) {
	ctx := context.Background()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 0, 3000))}})
	commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 1, 7, 2999)}})
	d, err := OpenWith(ctx, st, testRoot, Options{Allocator: mem})
	require.NoError(t, err)
	require.Len(t, scan(t, d, 1, 0), 2997)
	r, err := d.ScanFragment(ctx, d.Fragment(0), []int32{0, 1}, 0, 3000, 100)
	require.NoError(t, err)
	_, rec, err := r.Next()
	require.NoError(t, err)
	rec.Release()
	require.NoError(t, r.Close(), "ended early")
	rec, err = d.TakeFragment(ctx, d.Fragment(0), []int32{1}, []uint32{5, 2000})
	require.NoError(t, err)
	rec.Release()
}

// union is what is deleted in a fragment already, and more.
func union(t testing.TB, d *Dataset, id uint64, more ...uint32) []uint32 {
	t.Helper()
	set, err := d.Deletions(context.Background(), d.Fragment(id))
	require.NoError(t, err)
	all := roaring.BitmapOf(more...)
	if set != nil {
		all.Or(set)
	}
	return all.ToArray()
}

// withNulls widens rec to the schema of d: further columns are null.
func withNulls(t testing.TB, d *Dataset, rec arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	s, err := d.Schema().Arrow()
	require.NoError(t, err)
	cols := append([]arrow.Array(nil), rec.Columns()...)
	for i := len(cols); i < s.NumFields(); i++ {
		cols = append(cols, arrowx.Nulls(memory.DefaultAllocator, s.Field(i).Type, int(rec.NumRows())))
	}
	return array.NewRecordBatch(s, cols, rec.NumRows())
}

// One handle, many readers: results are equal and the race detector is content.
func TestConcurrentReaders(t *testing.T) {
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 0, 500)), fragment(t, d, rowsOf(t, "a", 500, 900))}})
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 1, 7)}})
	want := scan(t, d, 0, 1)
	fresh, err := OpenWith(context.Background(), st, testRoot, Options{CachedFiles: 1})
	require.NoError(t, err)
	results := make(chan []string, 8)
	for range cap(results) {
		go func() {
			var out []string
			r, err := fresh.Scan(context.Background(), []int32{0, 1})
			for err == nil {
				var rec arrow.RecordBatch
				if rec, err = r.Next(); err == nil {
					for i := range int(rec.NumRows()) {
						out = append(out, fmt.Sprint(arrowx.RowOf(rec, i)...))
					}
					rec.Release()
				}
			}
			results <- out
		}()
	}
	for range cap(results) {
		require.Equal(t, want, <-results)
	}
}
