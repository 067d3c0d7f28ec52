package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
)

// batch makes rows under a schema.
func batch(t testing.TB, s *arrow.Schema, rows ...arrowx.Row) arrow.RecordBatch {
	t.Helper()
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rows)
	require.NoError(t, err)
	return rec
}

func arrowSchema(t testing.TB, d *Dataset) *arrow.Schema {
	t.Helper()
	s, err := d.Schema().Arrow()
	require.NoError(t, err)
	return s
}

// add appends rows through the public call.
func add(t testing.TB, d *Dataset, rows ...arrowx.Row) *Dataset {
	t.Helper()
	s := arrowSchema(t, d)
	next, err := d.Append(context.Background(), Records(s, batch(t, s, rows...)), WriteOptions{})
	require.NoError(t, err)
	return next
}

// read is all rows of a reader as text; err of the reader is required to be nil.
func read(t testing.TB, r arrowx.BatchReader, err error) []string {
	t.Helper()
	require.NoError(t, err)
	defer r.Close()
	out := []string{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		require.NotZero(t, rec.NumRows())
		require.True(t, rec.Schema().Equal(r.Schema()), "%s\n%s", rec.Schema(), r.Schema())
		out = append(out, lines(rec)...)
		rec.Release()
	}
}

func lines(rec arrow.RecordBatch) []string {
	out := []string{}
	for i := range int(rec.NumRows()) {
		out = append(out, fmt.Sprint(arrowx.RowOf(rec, i)))
	}
	return out
}

// all is every row with every column as text.
func all(t testing.TB, d *Dataset) []string {
	t.Helper()
	r, err := d.Rows(context.Background(), ScanOptions{})
	return read(t, r, err)
}

func idIs(id int64) predicate.Expr {
	return predicate.Compare{Column: 0, Op: predicate.Eq, Value: id}
}

func idBelow(id int64) predicate.Expr {
	return predicate.Compare{Column: 0, Op: predicate.Lt, Value: id}
}

func TestAppendAndScan(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	s := arrowSchema(t, d)
	same, err := d.Append(ctx, Records(s), WriteOptions{})
	require.NoError(t, err)
	require.Same(t, d, same, "nothing to append")
	reordered := arrow.NewSchema([]arrow.Field{s.Field(1), s.Field(0)}, nil)
	d, err = d.Append(ctx, Records(reordered, batch(t, reordered, arrowx.Row{"a", int64(1)}, arrowx.Row{nil, int64(2)}),
		batch(t, reordered, arrowx.Row{"c", int64(3)})), WriteOptions{FragmentRows: 2})
	require.NoError(t, err)
	require.Equal(t, []uint64{0, 1}, fragmentIDs(d))
	onlyKey := arrow.NewSchema(s.Fields()[:1], nil)
	d, err = d.Append(ctx, Records(onlyKey, batch(t, onlyKey, arrowx.Row{int64(4)}), batch(t, onlyKey)), WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"[1 a]", "[2 <nil>]", "[3 c]", "[4 <nil>]"}, all(t, d))

	rows := func(o ScanOptions) []string {
		r, err := d.Rows(ctx, o)
		return read(t, r, err)
	}
	require.Equal(t, []string{"[c 3 4294967296]"}, rows(ScanOptions{Columns: []string{"name", "id"}, RowAddress: true,
		Filter: predicate.Compare{Column: 1, Op: predicate.Gt, Value: "b"}}))
	require.Equal(t, []string{"[2]", "[4]"}, rows(ScanOptions{Columns: []string{"id"}, Filter: predicate.IsNull{Column: 1}}))
	require.Equal(t, []string{"[2 <nil>]", "[3 c]"}, rows(ScanOptions{Offset: 1, Limit: 2}))
	require.Equal(t, []string{"[4 <nil>]"}, rows(ScanOptions{Offset: 3, BatchRows: 1}))
	require.Empty(t, rows(ScanOptions{Offset: 4}))
	require.Equal(t, []string{"[]", "[]", "[]"}, rows(ScanOptions{NoColumns: true, Filter: idBelow(4)}))
	require.Equal(t, []string{"[4294967296]"}, rows(ScanOptions{NoColumns: true, RowAddress: true, Filter: idIs(3)}))

	for name, o := range map[string]ScanOptions{
		"column": {Columns: []string{"x"}}, "filter": {Filter: predicate.IsNull{Column: 9}}, "limit": {Limit: -1},
		"both": {NoColumns: true, Columns: []string{"id"}},
	} {
		_, err := d.Rows(ctx, o)
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
	r, err := d.Rows(ctx, ScanOptions{Filter: predicate.Compare{Column: 0, Op: predicate.Eq, Value: "text"}})
	require.NoError(t, err)
	_, err = r.Next()
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.NoError(t, r.Close())
}

func TestInputsThatDoNotFit(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := add(t, create(t, st, CreateOptions{}), arrowx.Row{int64(1), "a"})
	before := objects(t, st)
	field := func(name string, typ arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: typ, Nullable: true}
	}
	i64, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	for name, fields := range map[string][]arrow.Field{
		"no columns":   {},
		"no key":       {field("name", text)},
		"unknown":      {field("id", i64), field("other", i64)},
		"type":         {field("id", arrow.PrimitiveTypes.Int32), field("name", text)},
		"column twice": {field("id", i64), field("id", i64)},
	} {
		s := arrow.NewSchema(fields, nil)
		_, err := d.Append(ctx, Records(s), WriteOptions{})
		require.ErrorIs(t, err, errs.ErrInvalid, name)
		_, _, err = d.MergeInsert(ctx, Records(s), MergeOptions{})
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
	s := arrow.NewSchema([]arrow.Field{field("id", i64), field("name", text)}, nil)
	_, err := d.Append(ctx, Records(s, batch(t, s, arrowx.Row{int64(5), nil}), batch(t, s, arrowx.Row{nil, nil})), WriteOptions{FragmentRows: 1})
	require.ErrorIs(t, err, errs.ErrInvalid, "NULL in a required column")
	other := arrow.NewSchema([]arrow.Field{field("id", i64), field("nom", text)}, nil)
	_, err = d.Append(ctx, Records(s, batch(t, other, arrowx.Row{int64(5), nil})), WriteOptions{})
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.Equal(t, before, objects(t, st), "nothing is left of failed writes")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = d.Append(gone, Records(s, batch(t, s, arrowx.Row{int64(5), nil})), WriteOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestOverwriteRows(t *testing.T) {
	ctx := context.Background()
	d := add(t, create(t, objstore.NewMem(), CreateOptions{Config: map[string]string{"k": "v"}}), arrowx.Row{int64(1), "a"})
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64}}, nil)
	next, err := d.Overwrite(ctx, Records(s, batch(t, s, arrowx.Row{1.5}, arrowx.Row{2.5})), WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"[1.5]", "[2.5]"}, all(t, next))
	require.Equal(t, map[string]string{"k": "v"}, next.Config())
	// On a handle that is old by now: the later overwrite stands.
	last, err := d.Overwrite(ctx, Records(s), WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, next.Version()+1, last.Version())
	require.Empty(t, all(t, last))
	require.Equal(t, []string{"[1.5]", "[2.5]"}, all(t, next))
	_, err = d.Overwrite(ctx, Records(arrow.NewSchema(nil, nil)), WriteOptions{})
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func TestTake(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	for i := range int64(3) {
		rows := []arrowx.Row{}
		for k := range int64(10) {
			rows = append(rows, arrowx.Row{10*i + k, fmt.Sprint("n", 10*i+k)})
		}
		d = add(t, d, rows...)
	}
	d, _, err := d.DeleteWhere(ctx, predicate.In{Column: 0, Values: []any{int64(0), int64(3), int64(4), int64(19), int64(20)}})
	require.NoError(t, err)
	live := all(t, d)
	require.Len(t, live, 25)
	positions := []uint64{24, 0, 7, 7, 6, 15, 16, 1}
	rec, err := d.Take(ctx, nil, positions)
	require.NoError(t, err)
	for i, p := range positions {
		require.Equal(t, live[p], lines(rec)[i])
	}
	rec.Release()
	ascending, err := d.Take(ctx, []string{"name"}, []uint64{2, 3})
	require.NoError(t, err)
	require.Equal(t, []string{"[n5]", "[n6]"}, lines(ascending))
	ascending.Release()
	none, err := d.Take(ctx, nil, nil)
	require.NoError(t, err)
	require.Zero(t, none.NumRows())
	require.Equal(t, int64(2), none.NumCols())
	none.Release()
	_, err = d.Take(ctx, nil, []uint64{0, 25})
	require.ErrorIs(t, err, errs.ErrInvalid)
	for _, a := range []rowaddr.Addr{rowaddr.New(0, 3), rowaddr.New(0, 10), rowaddr.New(7, 0)} {
		_, err = d.TakeAddresses(ctx, nil, []rowaddr.Addr{a})
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
}

func TestDeleteAndUpdateWhere(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	for i := range int64(3) {
		d = add(t, d, arrowx.Row{10 * i, "a"}, arrowx.Row{10*i + 1, "b"}, arrowx.Row{10*i + 2, nil})
	}
	same, done, err := d.DeleteWhere(ctx, idIs(99))
	require.NoError(t, err)
	require.Same(t, d, same)
	require.Equal(t, Changed{}, done)

	first := d
	d, done, err = d.DeleteWhere(ctx, predicate.Or{Terms: []predicate.Expr{idBelow(10), idIs(21)}})
	require.NoError(t, err)
	require.Equal(t, Changed{Deleted: 4}, done)
	require.Equal(t, []uint64{1, 2}, fragmentIDs(d), "an empty fragment goes")
	double := func(rec arrow.RecordBatch) (arrow.Array, error) {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		defer b.Release()
		for i := range int(rec.NumRows()) {
			b.Append(fmt.Sprint(rec.Column(0).(*array.Int64).Value(i)))
		}
		return b.NewArray(), nil
	}
	d, done, err = d.UpdateWhere(ctx, predicate.Not{Term: predicate.IsNull{Column: 1}}, []Assignment{{Column: "name", Compute: double}})
	require.NoError(t, err)
	require.Equal(t, Changed{Updated: 3}, done)
	require.Equal(t, []string{"[12 <nil>]", "[22 <nil>]", "[10 10]", "[11 11]", "[20 20]"}, all(t, d))
	tx, err := d.Transaction(ctx)
	require.NoError(t, err)
	require.Equal(t, []uint32{1}, tx.Op.(Update).FieldsForPreservingFragBitmap)
	d, done, err = d.UpdateWhere(ctx, idIs(22), []Assignment{{Column: "id", Value: int64(5)}, {Column: "name", Value: "five"}})
	require.NoError(t, err)
	require.Equal(t, Changed{Updated: 1}, done)
	d, _, err = d.UpdateWhere(ctx, idIs(11), []Assignment{{Column: "name"}})
	require.NoError(t, err)
	require.Equal(t, []string{"[12 <nil>]", "[10 10]", "[20 20]", "[5 five]", "[11 <nil>]"}, all(t, d))

	// A handle that is old: what it deletes it deletes from the newest.
	d, _, err = first.DeleteWhere(ctx, idIs(12))
	require.NoError(t, err)
	require.Equal(t, []string{"[10 10]", "[20 20]", "[5 five]", "[11 <nil>]"}, all(t, d))
	d, done, err = first.DeleteWhere(ctx, idIs(10)) // moved meanwhile: found where it is now
	require.NoError(t, err)
	require.Equal(t, Changed{Deleted: 1}, done)
	require.Equal(t, []string{"[20 20]", "[5 five]", "[11 <nil>]"}, all(t, d))

	for name, set := range map[string][]Assignment{
		"nothing": nil, "column": {{Column: "x"}}, "twice": {{Column: "id", Value: int64(1)}, {Column: "id", Value: int64(1)}},
		"type": {{Column: "id", Value: "x"}}, "required": {{Column: "id"}},
		"computed": {{Column: "id", Compute: double}},
		"absent":   {{Column: "id", Compute: func(arrow.RecordBatch) (arrow.Array, error) { return nil, nil }}},
	} {
		_, _, err := d.UpdateWhere(ctx, predicate.Const{Value: true}, set)
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
	_, _, err = d.DeleteWhere(ctx, nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
	last, done, err := d.DeleteWhere(ctx, predicate.Const{Value: true})
	require.NoError(t, err)
	require.Equal(t, Changed{Deleted: 3}, done)
	require.Empty(t, last.Fragments())
	wide, err := last.AddColumns(ctx, []NewColumn{{Field: arrow.Field{Name: "z", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}}, nil)
	require.NoError(t, err)
	wide = add(t, wide, arrowx.Row{int64(1), nil, nil})
	_, err = wide.DropColumns(ctx, "name")
	require.NoError(t, err)
	_, _, err = d.DeleteWhere(ctx, idIs(20))
	require.ErrorIs(t, err, errs.ErrSchemaChanged, "column numbers would mean something else")
}

func TestMergeInsert(t *testing.T) {
	ctx := context.Background()
	base := add(t, create(t, objstore.NewMem(), CreateOptions{}), arrowx.Row{int64(1), "a"}, arrowx.Row{int64(2), "b"}, arrowx.Row{int64(3), nil})
	s := arrowSchema(t, base)
	src := func() arrowx.BatchReader {
		return Records(s, batch(t, s, arrowx.Row{int64(9), "new"}), batch(t, s, arrowx.Row{int64(2), "B"}, arrowx.Row{int64(3), "C"}))
	}
	for _, c := range []struct {
		name string
		o    MergeOptions
		want []string
		done Changed
	}{
		{"upsert", MergeOptions{}, []string{"[1 a]", "[2 B]", "[3 C]", "[9 new]"}, Changed{Updated: 2, Inserted: 1}},
		{"insert", MergeOptions{KeepMatched: true}, []string{"[1 a]", "[2 b]", "[3 <nil>]", "[9 new]"}, Changed{Inserted: 1}},
		{"update", MergeOptions{SkipNotMatched: true, On: []string{"id"}}, []string{"[1 a]", "[2 B]", "[3 C]"}, Changed{Updated: 2}},
		{"replace", MergeOptions{DeleteNotInSource: true}, []string{"[2 B]", "[3 C]", "[9 new]"}, Changed{Updated: 2, Inserted: 1, Deleted: 1}},
		{"delete", MergeOptions{KeepMatched: true, SkipNotMatched: true, DeleteNotInSource: true}, []string{"[2 b]", "[3 <nil>]"}, Changed{Deleted: 1}},
		{"nothing", MergeOptions{KeepMatched: true, SkipNotMatched: true}, []string{"[1 a]", "[2 b]", "[3 <nil>]"}, Changed{}},
		{"by name", MergeOptions{On: []string{"name"}}, []string{"[1 a]", "[2 b]", "[3 <nil>]", "[9 new]", "[2 B]", "[3 C]"}, Changed{Inserted: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := objstore.NewMem()
			d := add(t, create(t, st, CreateOptions{}), arrowx.Row{int64(1), "a"}, arrowx.Row{int64(2), "b"}, arrowx.Row{int64(3), nil})
			next, done, err := d.MergeInsert(ctx, src(), c.o)
			require.NoError(t, err)
			require.Equal(t, c.done, done)
			require.Equal(t, c.want, all(t, next))
			if done == (Changed{}) {
				require.Same(t, d, next)
			}
		})
	}

	// Columns the source does not have keep their values in updated rows and are NULL in inserted ones.
	ids := arrow.NewSchema(s.Fields()[:1], nil)
	d, done, err := base.MergeInsert(ctx, Records(ids, batch(t, ids, arrowx.Row{int64(2)}, arrowx.Row{int64(7)})), MergeOptions{})
	require.NoError(t, err)
	require.Equal(t, Changed{Updated: 1, Inserted: 1}, done)
	require.Equal(t, []string{"[1 a]", "[3 <nil>]", "[2 b]", "[7 <nil>]"}, all(t, d))

	// NULL matches nothing, not even NULL.
	d, done, err = d.MergeInsert(ctx, Records(s, batch(t, s, arrowx.Row{int64(20), nil}, arrowx.Row{int64(21), nil})), MergeOptions{On: []string{"name"}})
	require.NoError(t, err)
	require.Equal(t, Changed{Inserted: 2}, done)
	_, _, err = d.MergeInsert(ctx, Records(s, batch(t, s, arrowx.Row{int64(1), "x"}, arrowx.Row{int64(1), "y"})), MergeOptions{})
	require.ErrorIs(t, err, errs.ErrInvalid, "a key twice")
	_, _, err = d.MergeInsert(ctx, Records(s), MergeOptions{On: []string{"what"}})
	require.ErrorIs(t, err, errs.ErrInvalid)
	f := arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64}}, nil)
	floats, err := d.Overwrite(ctx, Records(f), WriteOptions{})
	require.NoError(t, err)
	_, _, err = floats.MergeInsert(ctx, Records(f, batch(t, f, arrowx.Row{1.0})), MergeOptions{})
	require.ErrorIs(t, err, errs.ErrInvalid, "no primary key")
	_, _, err = floats.MergeInsert(ctx, Records(f, batch(t, f, arrowx.Row{1.0})), MergeOptions{On: []string{"f"}})
	require.ErrorIs(t, err, errs.ErrUnsupported)
}

func TestTagsAndTime(t *testing.T) {
	ctx := context.Background()
	start := time.Unix(1_700_000_000, 0)
	at := clock.NewManual(start)
	st := objstore.NewMemClock(at)
	d := create(t, st, CreateOptions{Options: Options{Clock: at}})
	for i := range int64(4) {
		at.Advance(time.Hour)
		d = add(t, d, arrowx.Row{i, "x"})
	}
	versions, err := d.Versions(ctx)
	require.NoError(t, err)
	require.Len(t, versions, 5)
	require.Equal(t, uint64(2), versions[2].Rows)
	require.True(t, versions[2].Timestamp.Equal(start.Add(2*time.Hour)))
	old, err := OpenAsOf(ctx, st, testRoot, start.Add(150*time.Minute))
	require.NoError(t, err)
	require.Equal(t, uint64(3), old.Version())
	_, err = d.AsOf(ctx, start.Add(-time.Second))
	require.ErrorIs(t, err, errs.ErrNotFound)

	require.NoError(t, d.CreateTag(ctx, "v1.0", 2))
	require.ErrorIs(t, d.CreateTag(ctx, "v1.0", 3), errs.ErrExists)
	require.ErrorIs(t, d.CreateTag(ctx, "x", 9), errs.ErrNotFound)
	for _, name := range []string{"", "a/b", ".x", "x.", "a..b", "a b", "x.lock"} {
		require.ErrorIs(t, d.CreateTag(ctx, name, 1), errs.ErrInvalid, name)
	}
	require.NoError(t, d.CreateTag(ctx, "b", 4))
	require.NoError(t, d.MoveTag(ctx, "b", 3))
	require.ErrorIs(t, d.MoveTag(ctx, "c", 3), errs.ErrNotFound)
	tags, err := d.ListTags(ctx)
	require.NoError(t, err)
	require.Len(t, tags, 2)
	require.Equal(t, "b", tags[0].Name)
	require.Equal(t, uint64(3), tags[0].Version)
	require.True(t, tags[0].Created.Equal(at.Now()))
	tagged, err := d.OpenTag(ctx, "v1.0")
	require.NoError(t, err)
	require.Equal(t, uint64(2), tagged.Version())

	removed, err := d.CleanupOlderThan(ctx, 90*time.Minute)
	require.NoError(t, err)
	require.NotEmpty(t, removed)
	versions, err = d.Versions(ctx)
	require.NoError(t, err)
	left := []uint64{}
	for _, v := range versions {
		left = append(left, v.Version)
	}
	require.Equal(t, []uint64{2, 3, 4, 5}, left, "tagged, tagged, young, newest")
	require.NoError(t, d.DeleteTag(ctx, "b"))
	require.ErrorIs(t, d.DeleteTag(ctx, "b"), errs.ErrNotFound)
	_, err = d.OpenTag(ctx, "b")
	require.ErrorIs(t, err, errs.ErrNotFound)
	_, err = d.CleanupOlderThan(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"[0 x]"}, all(t, tagged))
	_, err = OpenAsOf(ctx, st, testRoot, start.Add(2*time.Hour))
	require.NoError(t, err)
	require.NoError(t, st.Put(ctx, testRoot+"/_refs/tags/bad.json", []byte("{")))
	_, err = d.ListTags(ctx)
	require.ErrorIs(t, err, errs.ErrCorruption)
	require.NoError(t, st.Put(ctx, testRoot+"/_refs/tags/bad.json", []byte(`{"branch":"dev","version":2,"manifestSize":1}`)))
	_, err = d.OpenTag(ctx, "bad")
	require.ErrorIs(t, err, errs.ErrNotFound)
	require.True(t, slices.ContainsFunc(mustTags(t, d), func(t Tag) bool { return t.Branch == "dev" }))
}

func mustTags(t *testing.T, d *Dataset) []Tag {
	t.Helper()
	tags, err := d.ListTags(context.Background())
	require.NoError(t, err)
	return tags
}
