package zonebloom_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonebloom"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/internal/testkit/indextable"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

const zoneRows = 16

func supported(tb *indextable.Table, visit func(i int, c indextable.Column)) {
	for i, c := range tb.Columns {
		if zonebloom.Supported(c.Type) {
			visit(i, c)
		}
	}
}

// checkSegments compares what the segments of an index leave with the rows that match.
func checkSegments(t *testing.T, tb *indextable.Table, d *table.Dataset, i int, c indextable.Column) {
	kept, asked := uint64(0), uint64(0)
	for _, e := range tb.Entries(t, d, "f_"+c.Name) {
		info, ok := indexes.KindOf(e.DetailsType)
		require.True(t, ok && info.Kind == indexes.Bloom && info.Readable(e.Version), "%s version %d", e.DetailsType, e.Version)
		s, err := zonebloom.Open(context.Background(), store.NewDir(tb.Store, indexes.SegmentDir(tb.Root, e.UUID), nil),
			zonebloom.Spec{Version: e.Version, Fragments: e.Fragments, Type: c.Type, Cache: store.NewCache(0)})
		require.NoError(t, err)
		require.True(t, s.HasNullBitmap())
		for _, f := range indextable.Filters(i) {
			if !slices.Contains([]string{"eq", "in", "null"}, f.Kind) {
				continue
			}
			_, want := tb.Matches(t, d, f.Expr)
			r, _ := predicate.Bounds(f.Expr, i+1)
			res, err := s.SearchRanges(context.Background(), r)
			require.NoError(t, err)
			n, _ := res.Addrs.Count()
			kept, asked = kept+n, asked+indextable.FragmentRows*uint64(res.Fragments.GetCardinality())
			held := 0
			for _, a := range want {
				if res.Fragments.Contains(a.Fragment()) {
					require.True(t, res.Addrs.Contains(a), "%s loses %s", f.SQL, a)
					held++
				}
			}
			require.True(t, !res.Exact || int(n) == held, f.SQL)
			require.Equal(t, f.Kind == "null", res.Exact)
		}
	}
	t.Logf("%s: %d of %d rows kept", c.Name, kept, asked)
	if len(c.Pool) > 2 {
		require.Less(t, kept*10, asked*9, c.Name)
	}
}

// Segments that pylance built lose nothing; it builds them for the types that Supported names and no other.
func TestReadsReference(t *testing.T) {
	tb := indextable.New(t, 1)
	var builds []indextable.Build
	for _, c := range tb.Columns {
		builds = append(builds, indextable.Build{Column: c.Name, Kind: "bloomfilter", Name: "f_" + c.Name, Params: map[string]any{"number_of_items": zoneRows, "probability": 0.01}})
	}
	refused := tb.ReferenceBuild(t, builds)
	for _, c := range tb.Columns {
		require.Equal(t, zonebloom.Supported(c.Type), refused["f_"+c.Name] == "", "%s: %s", c.Name, refused["f_"+c.Name])
	}
	d := tb.Latest(t)
	supported(tb, func(i int, c indextable.Column) { checkSegments(t, tb, d, i, c) })
}

// build indexes the live rows of some fragments.
func build(t testing.TB, tb *indextable.Table, c indextable.Column, fragments *roaring.Bitmap) table.IndexEntry {
	ctx, id := context.Background(), uuid.New()
	b, err := zonebloom.NewBuilder(ctx, store.NewDir(tb.Store, indexes.SegmentDir(tb.Root, id), nil), c.Type, zonebloom.Options{Items: zoneRows, Probability: 0.01})
	require.NoError(t, err)
	last := int64(-1)
	rd, err := tb.D.Rows(ctx, table.ScanOptions{Columns: []string{c.Name}, RowAddress: true, BatchRows: 50})
	require.NoError(t, err)
	defer rd.Close()
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		var offsets []uint32
		addrs := rec.Column(1).(*array.Uint64).Uint64Values()
		for _, a := range addrs {
			offsets = append(offsets, rowaddr.Addr(a).Offset())
		}
		if f := rowaddr.Addr(addrs[0]).Fragment(); fragments.Contains(f) {
			if int64(f) != last {
				require.NoError(t, b.Begin(f))
				last = int64(f)
			}
			require.NoError(t, b.Append(rec.Column(0), offsets))
		}
		rec.Release()
	}
	w, err := b.Finish(ctx)
	require.NoError(t, err)
	e, err := indexes.NewEntry(indexes.Bloom, id, "f_"+c.Name, []int32{tb.Field(c.Name)}, w.Fragments, nil, []table.IndexFile{{Path: w.File.Name, Size: w.File.Size}})
	require.NoError(t, err)
	return e
}

// Segments of ours are used by pylance, whose answers are those of its scan.
func TestReferenceReads(t *testing.T) {
	tb := indextable.New(t, 2)
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
	var filters []indextable.Filter
	supported(tb, func(i int, c indextable.Column) {
		checkSegments(t, tb, d, i, c)
		filters = append(filters, indextable.Sample(indextable.Filters(i), 3, i)...)
	})
	used := 0
	for k, a := range tb.ReferenceQuery(t, filters) {
		f := filters[k]
		require.Empty(t, a.Error, f.SQL)
		if a.Used("f_" + f.Column) {
			used++
		} else {
			require.NotContains(t, []string{"eq", "in", "null"}, f.Kind, "%s: not used\n%s", f.SQL, a.Plan)
		}
		require.Equal(t, a.Scanned, a.Indexed, "%s\n%s", f.SQL, a.Plan)
	}
	require.Greater(t, used*4, len(filters))
}

func goldenBytes(t testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join(oracle.Root(t), "testdata", "golden", "indexes", name))
	require.NoError(t, err)
	return b
}

func open(b []byte, typ arrow.DataType) (*zonebloom.Segment, error) {
	st := objstore.NewMem()
	_ = st.PutIfAbsent(context.Background(), zonebloom.FileName, b)
	return zonebloom.Open(context.Background(), store.NewDir(st, "", nil), zonebloom.Spec{Fragments: roaring.BitmapOf(0, 1), Type: typ})
}

// A file that Lance 14.0.2 wrote: texts v00, v00, v00, v01, … over two fragments of 50 rows, NULL at 3, 10, 17, … and 60 to 79,
// zones of ten live rows (testdata/oracle/indexes.py golden).
func TestGolden(t *testing.T) {
	s, err := open(goldenBytes(t, "bloomfilter_s.lance"), arrow.BinaryTypes.String)
	require.NoError(t, err)
	require.Equal(t, 9, s.Zones())
	for value, offsets := range map[string][]rowaddr.Addr{"v00": {0}, "v12": {37, 36}, "v30": {rowaddr.New(1, 40)}} {
		res, err := s.Search(context.Background(), indexes.Equals(value))
		require.NoError(t, err)
		for _, a := range offsets {
			require.True(t, res.Addrs.Contains(a), value)
		}
		n, _ := res.Addrs.Count()
		require.Less(t, n, uint64(40), value)
	}
	res, err := s.Search(context.Background(), indexes.IsNull{})
	require.NoError(t, err)
	require.True(t, res.Exact && res.Addrs.Contains(10) && res.Addrs.Contains(rowaddr.New(1, 15)) && !res.Addrs.Contains(3))
}

func ask(b []byte) {
	for _, typ := range []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64} {
		if s, err := open(b, typ); err == nil {
			for _, q := range []indexes.Query{indexes.Equals("v12"), indexes.Equals(1.0), indexes.IsNull{}} {
				_, _ = s.Search(context.Background(), q)
			}
		}
	}
}

// Damage is an error or another answer, never a panic.
func TestDamagedFiles(t *testing.T) {
	b := goldenBytes(t, "bloomfilter_s.lance")
	for i := 0; i < len(b); i += damageStep() {
		c := slices.Clone(b)
		c[i] ^= 1 << (i % 8)
		ask(c)
		if i%5 == 0 {
			ask(b[:i])
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add(goldenBytes(f, "bloomfilter_s.lance"))
	f.Add(goldenBytes(f, "bloomfilter_f.lance"))
	f.Fuzz(func(_ *testing.T, b []byte) { ask(b) })
}

// pylance takes segments of ours into the ones it writes.
func TestReferenceUpdatesOurs(t *testing.T) {
	tb := indextable.New(t, 5)
	var op table.CreateIndex
	supported(tb, func(_ int, c indextable.Column) { op.New = append(op.New, build(t, tb, c, roaring.BitmapOf(0, 1, 2))) })
	_, err := tb.D.Commit(context.Background(), op)
	require.NoError(t, err)
	tb.ReferenceRun(t, "append", map[string]int{"rows": 100}, new(map[string]any))
	tb.ReferenceRun(t, "optimize", map[string]int{}, new(map[string]any))
	d := tb.Latest(t)
	supported(tb, func(i int, c indextable.Column) {
		covered := roaring.New()
		for _, e := range tb.Entries(t, d, "f_"+c.Name) {
			covered.Or(e.Fragments)
		}
		require.EqualValues(t, indextable.Fragments+1, covered.GetCardinality(), c.Name)
		checkSegments(t, tb, d, i, c)
	})
}

// damageStep is the distance of the bytes that are damaged.
func damageStep() int {
	if os.Getenv("LANCESQL_SOAK") != "" {
		return 1
	}
	return 3
}
