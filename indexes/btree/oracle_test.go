package btree_test

import (
	"encoding/json"
	"math/rand"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

const tableRoot = "t.lance"

func localStore(t testing.TB, dir string) objstore.Store {
	t.Helper()
	st, err := objstore.OpenLocal(vfs.Default, dir)
	require.NoError(t, err)
	return st
}

// openSegment opens the segment of an entry as the engine does.
func openSegment(t testing.TB, st objstore.Store, e table.IndexEntry) *btree.Index {
	t.Helper()
	info, ok := indexes.KindOf(e.DetailsType)
	require.True(t, ok)
	require.Equal(t, indexes.BTree, info.Kind)
	require.True(t, info.Readable(e.Version))
	o := btree.OpenOptions{Fragments: e.Fragments}
	for _, f := range e.Files {
		switch f.Path {
		case btree.DataFile:
			o.DataSize = f.Size
		case btree.LookupFile:
			o.LookupSize = f.Size
		}
	}
	x, err := btree.Open(t.Context(), store.NewDir(st, indexes.SegmentDir(tableRoot, e.UUID), nil), o)
	require.NoError(t, err)
	return x
}

// covered reads one column of the live rows of some fragments, with their addresses.
func covered(t testing.TB, d *table.Dataset, field int32, in *roaring.Bitmap) (arrow.Array, []rowaddr.Addr) {
	t.Helper()
	var parts []arrow.Array
	var addrs []rowaddr.Addr
	for _, f := range d.Fragments() {
		if !in.Contains(uint32(f.ID)) {
			continue
		}
		dead, err := d.Deletions(t.Context(), f)
		require.NoError(t, err)
		scan, err := d.ScanFragment(t.Context(), f, []int32{field}, 0, f.PhysicalRows, 0)
		require.NoError(t, err)
		for {
			first, rec, err := scan.Next()
			if err != nil {
				break
			}
			var live []int
			for i := range int(rec.NumRows()) {
				if o := uint32(first) + uint32(i); dead == nil || !dead.Contains(o) {
					live = append(live, i)
					addrs = append(addrs, rowaddr.New(uint32(f.ID), o))
				}
			}
			part, err := arrowx.TakeArray(alloc(), rec.Column(0), live)
			require.NoError(t, err)
			parts = append(parts, part)
			rec.Release()
		}
		require.NoError(t, scan.Close())
	}
	all, err := array.Concatenate(parts, alloc())
	require.NoError(t, err)
	return all, addrs
}

// requireAnswers compares answers of a segment, less the dead rows, with the evaluation over a scan.
func requireAnswers(t *testing.T, d *table.Dataset, x *btree.Index, field int32, rng *rand.Rand, queries int) {
	t.Helper()
	values, addrs := covered(t, d, field, x.Coverage())
	at := make(map[rowaddr.Addr]bool, len(addrs))
	for _, a := range addrs {
		at[a] = true
	}
	ask := func(a asked) {
		t.Helper()
		r, err := x.Search(t.Context(), a.q)
		require.NoError(t, err)
		var got, expect []rowaddr.Addr
		for addr := range r.Addrs.All() {
			if at[addr] {
				got = append(got, addr)
			}
		}
		mask, err := predicate.Eval(a.e, func(int) arrow.Array { return values }, values.Len())
		require.NoError(t, err)
		for _, i := range mask.Indices(nil) {
			expect = append(expect, addrs[i])
		}
		slices.Sort(expect)
		require.Equal(t, expect, got, "%#v", a.q)
	}
	for range queries {
		ask(draw(values.DataType(), rng))
		if v := arrowx.Value(values, rng.Intn(values.Len())); v != nil {
			ask(asked{indexes.Equals(v), predicate.Compare{Op: predicate.Eq, Value: v}})
			ask(bounds(indexes.Bound{Value: v}, indexes.Bound{}))
			ask(bounds(indexes.Bound{}, indexes.Bound{Value: v, Exclusive: true}))
		}
	}
}

// requireTheirs opens every BTREE segment of a table that pylance indexed and compares it with scans.
func requireTheirs(t *testing.T, st objstore.Store, queries int) (segments int) {
	t.Helper()
	d, err := table.Open(t.Context(), st, tableRoot)
	require.NoError(t, err)
	entries, err := d.Indexes()
	require.NoError(t, err)
	for _, e := range entries {
		info, _ := indexes.KindOf(e.DetailsType)
		if info.Kind != indexes.BTree {
			continue
		}
		x := openSegment(t, st, e)
		requireAnswers(t, d, x, e.Fields[0], rand.New(rand.NewSource(int64(e.Fields[0]))), queries)
		require.NoError(t, x.Close())
		segments++
	}
	return segments
}

// TestReadsTheirs: indexes over all types that pylance wrote, after appends and deletes, and after it extended them.
func TestReadsTheirs(t *testing.T) {
	oracle.Python(t)
	dir := t.TempDir()
	path := filepath.Join(dir, tableRoot)
	oracle.RunPython(t, "scalar_index.py", "make", path, "BTREE", strconv.Itoa(9000))
	st := localStore(t, dir)
	require.Equal(t, 26, requireTheirs(t, st, 15))
	oracle.RunPython(t, "scalar_index.py", "extend", path)
	require.GreaterOrEqual(t, requireTheirs(t, st, 10), 26)
}

// TestGolden reads the indexes checked in, which scalar_index.py made with pylance ("make t.lance BTREE 200 --golden").
func TestGolden(t *testing.T) {
	st := localStore(t, filepath.Join(oracle.Root(t), "testdata", "golden", "btree"))
	require.Equal(t, 5, requireTheirs(t, st, 30))
}

// makeTable writes two fragments with a column per type and returns the newest version.
func makeTable(t testing.TB, st objstore.Store, rows int) *table.Dataset {
	t.Helper()
	names := []string{"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "utf8",
		"large_utf8", "binary", "large_binary", "fixed5", "date32", "date64", "time32", "time64", "timestamp_us", "timestamp_ns",
		"duration", "decimal128", "decimal256"}
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}
	for i, typ := range types() {
		fields = append(fields, arrow.Field{Name: names[i], Type: typ, Nullable: true})
	}
	sc := arrow.NewSchema(fields, nil)
	s, err := schema.FromArrow(sc)
	require.NoError(t, err)
	d, err := table.Create(t.Context(), st, tableRoot, s, table.CreateOptions{})
	require.NoError(t, err)
	rng := rand.New(rand.NewSource(5))
	for from := 0; from < rows; from += rows / 2 {
		cols := []arrow.Array{cellsOf(t, fields[0].Type)}
		ids := array.NewInt64Builder(alloc())
		for i := range rows / 2 {
			ids.Append(int64(from + i))
		}
		cols[0] = ids.NewArray()
		for _, typ := range types() {
			if typ.ID() == arrow.DATE64 { // whole days, or the reference's own conversions disagree
				cells := make([]any, rows/2)
				for i := range cells {
					cells[i] = arrow.Date64(rng.Intn(100) * 86_400_000)
				}
				cols = append(cols, cellsOf(t, typ, cells...))
				continue
			}
			cols = append(cols, randomArray(t, typ, rng, rows/2, 10))
		}
		rec := array.NewRecordBatch(sc, cols, int64(rows/2))
		d, err = d.Append(t.Context(), table.Records(sc, rec), table.WriteOptions{})
		require.NoError(t, err)
	}
	return d
}

// indexColumn builds a segment over all live rows of a column and returns its entry.
func indexColumn(t testing.TB, st objstore.Store, d *table.Dataset, f *schema.Field, in *roaring.Bitmap, o btree.Options) table.IndexEntry {
	t.Helper()
	values, addrs := covered(t, d, f.ID, in)
	s, err := btree.NewSorter(values.DataType(), 0, nil)
	require.NoError(t, err)
	ids := make([]uint64, len(addrs))
	for i, a := range addrs {
		ids[i] = uint64(a)
	}
	require.NoError(t, s.Add(btree.Batch{Values: values, IDs: ids}))
	id := uuid.New()
	sum, err := btree.Build(t.Context(), store.NewDir(st, indexes.SegmentDir(tableRoot, id), nil), values.DataType(), s.Stream(), o)
	require.NoError(t, err)
	var files []table.IndexFile
	for _, info := range sum.Files {
		files = append(files, table.IndexFile{Path: info.Name, Size: info.Size})
	}
	e, err := indexes.NewEntry(indexes.BTree, id, f.Name+"_idx", []int32{f.ID}, in, nil, files)
	require.NoError(t, err)
	return e
}

func allFragments(d *table.Dataset) *roaring.Bitmap {
	b := roaring.New()
	for _, f := range d.Fragments() {
		b.Add(uint32(f.ID))
	}
	return b
}

// requireUsed has pylance compare answers with and without our indexes, and see that its plans use them.
func requireUsed(t *testing.T, path string, columns int) {
	t.Helper()
	var verdicts map[string]string
	out := oracle.RunPython(t, "scalar_index.py", "check", path, "BTREE")
	require.NoError(t, json.Unmarshal(out, &verdicts), "%s", out)
	require.Len(t, verdicts, columns)
	for column, verdict := range verdicts {
		if verdict != "ok" {
			t.Errorf("%s: %s", column, verdict)
		}
	}
}

// TestTheyReadOurs: pylance uses indexes of ours over all types, then extends and remaps them, and we read the result.
func TestTheyReadOurs(t *testing.T) {
	oracle.Python(t)
	dir := t.TempDir()
	path := filepath.Join(dir, tableRoot)
	st := localStore(t, dir)
	d := makeTable(t, st, 9000)
	var op table.CreateIndex
	segments := 0
	for i, f := range d.Schema().Fields[1:] {
		covers := []*roaring.Bitmap{allFragments(d)}
		if i%3 == 0 { // two segments of one index
			covers = []*roaring.Bitmap{roaring.BitmapOf(0), roaring.BitmapOf(1)}
		}
		for _, cover := range covers {
			op.New = append(op.New, indexColumn(t, st, d, f, cover, btree.Options{}))
			segments++
		}
	}
	d, err := d.Commit(t.Context(), op)
	require.NoError(t, err)
	_, _, err = d.DeleteWhere(t.Context(), predicate.Compare{Op: predicate.Lt, Value: int64(40)})
	require.NoError(t, err)
	requireUsed(t, path, 25)
	require.Equal(t, segments, requireTheirs(t, st, 5))

	oracle.RunPython(t, "scalar_index.py", "compact", path)
	oracle.RunPython(t, "scalar_index.py", "extend", path)
	requireUsed(t, path, 25)
	require.GreaterOrEqual(t, requireTheirs(t, st, 5), 25)
}

// TestTheyReadCorners: pages of NULLs only, one value over several pages, very long values, a segment without rows.
func TestTheyReadCorners(t *testing.T) {
	oracle.Python(t)
	dir := t.TempDir()
	st := localStore(t, dir)
	const rows = 9000
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}
	for _, f := range []struct {
		name string
		typ  arrow.DataType
	}{{"int64", arrow.PrimitiveTypes.Int64}, {"int32", arrow.PrimitiveTypes.Int32}, {"utf8", arrow.BinaryTypes.String}} {
		fields = append(fields, arrow.Field{Name: f.name, Type: f.typ, Nullable: true})
	}
	sc := arrow.NewSchema(fields, nil)
	s, err := schema.FromArrow(sc)
	require.NoError(t, err)
	d, err := table.Create(t.Context(), st, tableRoot, s, table.CreateOptions{})
	require.NoError(t, err)
	b := array.NewRecordBuilder(alloc(), sc)
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).AppendNull()
		b.Field(2).(*array.Int32Builder).Append(42)
		if i%100 == 0 {
			b.Field(3).(*array.StringBuilder).Append(strings.Repeat("long ", 20_000) + strconv.Itoa(i%300))
		} else {
			b.Field(3).(*array.StringBuilder).Append("")
		}
	}
	d, err = d.Append(t.Context(), table.Records(sc, b.NewRecordBatch()), table.WriteOptions{})
	require.NoError(t, err)
	var op table.CreateIndex
	for _, f := range d.Schema().Fields[1:] {
		op.New = append(op.New, indexColumn(t, st, d, f, allFragments(d), btree.Options{}))
		id := uuid.New()
		typ, err := f.DataType()
		require.NoError(t, err)
		_, err = btree.Build(t.Context(), store.NewDir(st, indexes.SegmentDir(tableRoot, id), nil), typ, batches(), btree.Options{})
		require.NoError(t, err)
		e, err := indexes.NewEntry(indexes.BTree, id, f.Name+"_idx", []int32{f.ID}, roaring.New(), nil, nil)
		require.NoError(t, err)
		op.New = append(op.New, e)
	}
	_, err = d.Commit(t.Context(), op)
	require.NoError(t, err)
	requireUsed(t, filepath.Join(dir, tableRoot), 3)
}
