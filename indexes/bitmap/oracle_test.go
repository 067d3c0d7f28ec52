package bitmap_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/store"
	"lancesql/internal/predicate"
	"lancesql/internal/testkit/indextable"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// openEntries opens the segments of an index from their entries alone.
func openEntries(t testing.TB, tb *indextable.Table, d *table.Dataset, c indextable.Column) []*bitmap.Segment {
	var out []*bitmap.Segment
	for _, e := range tb.Entries(t, d, "b_"+c.Name) {
		info, ok := indexes.KindOf(e.DetailsType)
		require.True(t, ok && info.Kind == indexes.Bitmap && info.Readable(e.Version), "%s version %d", e.DetailsType, e.Version)
		s, err := bitmap.Open(context.Background(), store.NewDir(tb.Store, indexes.SegmentDir(tb.Root, e.UUID), nil),
			bitmap.Spec{Version: e.Version, Fragments: e.Fragments, Type: c.Type, Cache: store.NewCache(0)})
		require.NoError(t, err)
		out = append(out, s)
	}
	return out
}

// checkAnswers compares what segments answer with the live rows that match.
func checkAnswers(t *testing.T, tb *indextable.Table, d *table.Dataset, c int, segs []*bitmap.Segment) {
	covered := roaring.New()
	for _, s := range segs {
		covered.Or(s.Coverage())
	}
	require.EqualValues(t, len(d.Fragments()), covered.GetCardinality())
	_, live := tb.Matches(t, d, predicate.Const{Value: true})
	alive := rowaddr.NewTreemap()
	alive.AddMany(live)
	for _, f := range indextable.Filters(c) {
		_, want := tb.Matches(t, d, f.Expr)
		r, exact := predicate.Bounds(f.Expr, c+1)
		require.True(t, exact)
		got := rowaddr.NewTreemap()
		for _, s := range segs {
			res, err := s.SearchRanges(context.Background(), r)
			require.NoError(t, err)
			require.True(t, res.Exact)
			got.Or(res.Addrs)
		}
		got.And(alive)
		require.Equal(t, slices.Collect(got.All()), want, f.SQL)
	}
}

func supported(tb *indextable.Table, visit func(i int, c indextable.Column)) {
	for i, c := range tb.Columns {
		if bitmap.Supported(c.Type) {
			visit(i, c)
		}
	}
}

// Segments that pylance built give us exact answers, also after it appended rows and brought the index up to date.
func TestReadsReference(t *testing.T) {
	tb := indextable.New(t, 1)
	var builds []indextable.Build
	supported(tb, func(_ int, c indextable.Column) {
		builds = append(builds, indextable.Build{Column: c.Name, Kind: "bitmap", Name: "b_" + c.Name})
	})
	require.Empty(t, tb.ReferenceBuild(t, builds))
	d := tb.Latest(t)
	supported(tb, func(i int, c indextable.Column) { checkAnswers(t, tb, d, i, openEntries(t, tb, d, c)) })
	tb.ReferenceRun(t, "append", map[string]int{"rows": 100}, new(map[string]any))
	tb.ReferenceRun(t, "optimize", map[string]int{}, new(map[string]any))
	d = tb.Latest(t)
	require.Len(t, d.Fragments(), indextable.Fragments+1)
	supported(tb, func(i int, c indextable.Column) { checkAnswers(t, tb, d, i, openEntries(t, tb, d, c)) })
}

// build indexes the live rows of some fragments.
func build(t testing.TB, tb *indextable.Table, c indextable.Column, fragments *roaring.Bitmap) table.IndexEntry {
	ctx, id := context.Background(), uuid.New()
	b, err := bitmap.NewBuilder(store.NewDir(tb.Store, indexes.SegmentDir(tb.Root, id), nil), c.Type, bitmap.Options{MemoryMax: 3000, Scratch: tb.Store})
	require.NoError(t, err)
	rd, err := tb.D.Rows(ctx, table.ScanOptions{Columns: []string{c.Name}, RowAddress: true, BatchRows: 50})
	require.NoError(t, err)
	defer rd.Close()
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		var addrs []rowaddr.Addr
		for _, a := range rec.Column(1).(*array.Uint64).Uint64Values() {
			addrs = append(addrs, rowaddr.Addr(a))
		}
		if fragments.Contains(addrs[0].Fragment()) {
			require.NoError(t, b.Append(ctx, rec.Column(0), addrs))
		}
		rec.Release()
	}
	w, err := b.Finish(ctx)
	require.NoError(t, err)
	e, err := indexes.NewEntry(indexes.Bitmap, id, "b_"+c.Name, []int32{tb.Field(c.Name)}, fragments, nil, []table.IndexFile{{Path: w.File.Name, Size: w.File.Size}})
	require.NoError(t, err)
	return e
}

// attach commits indexes of ours over all columns, some in two segments.
func attach(t testing.TB, tb *indextable.Table) *table.Dataset {
	var op table.CreateIndex
	supported(tb, func(i int, c indextable.Column) {
		if i%2 == 0 {
			op.New = append(op.New, build(t, tb, c, roaring.BitmapOf(0, 1, 2)))
		} else {
			op.New = append(op.New, build(t, tb, c, roaring.BitmapOf(0, 1)), build(t, tb, c, roaring.BitmapOf(2)))
		}
	})
	d, err := tb.D.Commit(context.Background(), op)
	require.NoError(t, err)
	return d
}

// Segments of ours are used by pylance, whose answers are those of its scan.
func TestReferenceReads(t *testing.T) {
	tb := indextable.New(t, 2)
	d := attach(t, tb)
	var filters []indextable.Filter
	supported(tb, func(i int, c indextable.Column) {
		checkAnswers(t, tb, d, i, openEntries(t, tb, d, c))
		filters = append(filters, indextable.Sample(indextable.Filters(i), 4, i)...)
	})
	used := 0
	for k, a := range tb.ReferenceQuery(t, filters) {
		f := filters[k]
		require.Empty(t, a.Error, f.SQL)
		if a.Used("b_" + f.Column) {
			used++
		} else {
			require.Contains(t, []string{"other", "prefix"}, f.Kind, "%s: not used\n%s", f.SQL, a.Plan)
		}
		require.Equal(t, a.Scanned, a.Indexed, "%s\n%s", f.SQL, a.Plan)
	}
	require.Greater(t, used*2, len(filters))
}

// lancedb for Node uses segments of ours with the answers of pylance's scan, and we use those it builds.
func TestLanceDB(t *testing.T) {
	tb := indextable.New(t, 3)
	attach(t, tb)
	var filters []indextable.Filter
	supported(tb, func(i int, c indextable.Column) {
		if c.Name != "decimal256" { // 0.39 has no such literal
			filters = append(filters, indextable.Sample(indextable.Filters(i), 9, i)...)
		}
	})
	scans := tb.ReferenceQuery(t, filters)
	used := 0
	for k, a := range tb.LanceDBQuery(t, filters) {
		f := filters[k]
		require.Empty(t, a.Error, f.SQL)
		if a.Used("b_" + f.Column) {
			used++
		}
		require.Equal(t, scans[k].Scanned, a.Indexed, "%s\n%s", f.SQL, a.Plan)
	}
	require.Greater(t, used*2, len(filters))

	tb = indextable.New(t, 4)
	var builds []indextable.Build
	supported(tb, func(_ int, c indextable.Column) {
		builds = append(builds, indextable.Build{Column: c.Name, Kind: "bitmap", Name: "b_" + c.Name})
	})
	refused := tb.LanceDBBuild(t, builds)
	t.Logf("refused: %v", refused)
	d := tb.Latest(t)
	built := 0
	supported(tb, func(i int, c indextable.Column) {
		if refused["b_"+c.Name] == "" {
			built++
			checkAnswers(t, tb, d, i, openEntries(t, tb, d, c))
		}
	})
	require.Greater(t, built, 8)
}

// pylance takes segments of ours into the ones it writes.
func TestReferenceUpdatesOurs(t *testing.T) {
	tb := indextable.New(t, 5)
	attach(t, tb)
	tb.ReferenceRun(t, "append", map[string]int{"rows": 100}, new(map[string]any))
	tb.ReferenceRun(t, "optimize", map[string]int{}, new(map[string]any))
	d := tb.Latest(t)
	supported(tb, func(i int, c indextable.Column) { checkAnswers(t, tb, d, i, openEntries(t, tb, d, c)) })
}
