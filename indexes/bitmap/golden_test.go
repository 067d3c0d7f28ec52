package bitmap_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/rowaddr"
)

func goldenBytes(t testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join(oracle.Root(t), "testdata", "golden", "indexes", name))
	require.NoError(t, err)
	return b
}

func open(b []byte, typ arrow.DataType) (*bitmap.Segment, error) {
	st := objstore.NewMem()
	_ = st.PutIfAbsent(context.Background(), bitmap.FileName, b)
	return bitmap.Open(context.Background(), store.NewDir(st, "", nil), bitmap.Spec{Fragments: roaring.BitmapOf(0, 1), Type: typ})
}

// Files that Lance 14.0.2 wrote (testdata/oracle/indexes.py golden): texts v00, v00, v00, v01, … and i*i-50 over two
// fragments of 50 rows without the deleted ones.
func TestGolden(t *testing.T) {
	ctx := context.Background()
	live := func(i int) bool { return !(i >= 3 && i < 7 || i == 9 || i >= 20 && i < 31 || i == 49 || i == 50) }
	at := func(i int) rowaddr.Addr { return rowaddr.New(uint32(i/50), uint32(i%50)) }
	s, err := open(goldenBytes(t, "bitmap_s.lance"), arrow.BinaryTypes.String)
	require.NoError(t, err)
	var nulls []rowaddr.Addr
	values := map[string][]rowaddr.Addr{}
	for i := range 100 {
		switch {
		case !live(i):
		case i%7 == 3 || i >= 60 && i < 80:
			nulls = append(nulls, at(i))
		default:
			v := fmt.Sprintf("v%02d", i/3)
			values[v] = append(values[v], at(i))
		}
	}
	require.Equal(t, len(values)+1, s.Keys())
	res, err := s.Search(ctx, indexes.IsNull{})
	require.NoError(t, err)
	require.Equal(t, nulls, slices.Collect(res.Addrs.All()))
	for v, want := range values {
		res, err := s.Search(ctx, indexes.Equals(v))
		require.NoError(t, err)
		require.Equal(t, want, slices.Collect(res.Addrs.All()), v)
	}
	d, err := open(goldenBytes(t, "bitmap_d.lance"), &arrow.Decimal128Type{Precision: 12, Scale: 2})
	require.NoError(t, err)
	res, err = d.Search(ctx, indexes.Range{High: indexes.Bound{Value: decimal128.FromI64(0)}})
	require.NoError(t, err)
	require.Equal(t, []rowaddr.Addr{0, 1, 2, 7}, slices.Collect(res.Addrs.All()))
	// Two keys are NaN: one of another sign and payload first, the usual one last. Both are NaN here.
	f, err := open(goldenBytes(t, "bitmap_f.lance"), arrow.PrimitiveTypes.Float64)
	require.NoError(t, err)
	res, err = f.Search(ctx, indexes.Range{Low: indexes.Bound{Value: 99.0, Exclusive: true}})
	require.NoError(t, err)
	require.Equal(t, []rowaddr.Addr{0, 1, 2, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 19}, slices.Collect(res.Addrs.All()))
}

// Our file of the same rows holds the same keys and bitmaps.
func TestWritesWhatLanceWrites(t *testing.T) {
	ctx := context.Background()
	theirs, err := open(goldenBytes(t, "bitmap_s.lance"), arrow.BinaryTypes.String)
	require.NoError(t, err)
	st := objstore.NewMem()
	dir := store.NewDir(st, "", nil)
	b, err := bitmap.NewBuilder(dir, arrow.BinaryTypes.String, bitmap.Options{})
	require.NoError(t, err)
	require.NoError(t, b.AddSegment(ctx, theirs, nil))
	w, err := b.Finish(ctx)
	require.NoError(t, err)
	r, err := dir.Open(ctx, w.File.Name, w.File.Size)
	require.NoError(t, err)
	stats, ok := r.Metadata("lance:index_stats")
	require.True(t, ok)
	require.Equal(t, fmt.Sprintf(`{"num_bitmaps":%d}`, theirs.Keys()), stats)
	other := store.NewDir(objstore.NewMem(), "", nil)
	_, err = other.Put(ctx, bitmap.FileName, goldenBytes(t, "bitmap_s.lance"))
	require.NoError(t, err)
	g, err := other.Open(ctx, bitmap.FileName, 0)
	require.NoError(t, err)
	require.Equal(t, dump(t, g), dump(t, r))
	stats, _ = g.Metadata("lance:index_stats")
	require.Equal(t, fmt.Sprintf(`{"num_bitmaps":%d}`, theirs.Keys()), stats)
}

// dump is the rows of a file as text.
func dump(t testing.TB, r *store.Reader) []string {
	cols, err := r.Columns("keys", "bitmaps")
	require.NoError(t, err)
	var out []string
	require.NoError(t, r.Read(context.Background(), cols, 0, r.Rows(), 100, func(rec arrow.RecordBatch) error {
		for i := range int(rec.NumRows()) {
			out = append(out, rec.Column(0).ValueStr(i)+" "+rec.Column(1).ValueStr(i))
		}
		return nil
	}))
	return out
}

func ask(b []byte) {
	for _, typ := range []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64, &arrow.Decimal128Type{Precision: 12, Scale: 2}} {
		if s, err := open(b, typ); err == nil {
			for _, q := range []indexes.Query{indexes.Equals("v12"), indexes.Range{High: indexes.Bound{Value: 1.0}}, indexes.IsNull{}, indexes.NotNull{}} {
				_, _ = s.Search(context.Background(), q)
			}
		}
	}
}

// Damage is an error or another answer, never a panic.
func TestDamagedFiles(t *testing.T) {
	for _, name := range []string{"bitmap_s.lance", "bitmap_f.lance"} {
		b := goldenBytes(t, name)
		for i := 0; i < len(b); i += damageStep() {
			c := slices.Clone(b)
			c[i] ^= 1 << (i % 8)
			ask(c)
			if i%5 == 0 {
				ask(b[:i])
			}
		}
	}
}

// Keys in another order, as no reader may rely on one, are found as well.
func TestUnsortedKeys(t *testing.T) {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "", nil)
	s := arrow.NewSchema([]arrow.Field{{Name: "keys", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "bitmaps", Type: arrow.BinaryTypes.Binary, Nullable: true}}, nil)
	w, err := dir.Create(ctx, bitmap.FileName, s)
	require.NoError(t, err)
	keys := arrayOf(t, memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, []any{int32(7), nil, int32(-3), int32(5)})
	var sets []any
	for i := range 4 {
		set := rowaddr.NewTreemap()
		set.Add(rowaddr.Addr(i))
		b, err := set.Encode()
		require.NoError(t, err)
		sets = append(sets, b)
	}
	rec := newBatch(s, keys, arrayOf(t, memory.DefaultAllocator, arrow.BinaryTypes.Binary, sets))
	require.NoError(t, w.Write(rec))
	_, err = w.Finish(ctx)
	require.NoError(t, err)
	seg, err := bitmap.Open(ctx, dir, bitmap.Spec{Fragments: roaring.BitmapOf(0), Type: arrow.PrimitiveTypes.Int32, Cache: store.NewCache(0)})
	require.NoError(t, err)
	for range 2 { // the second time from the cache
		res, err := seg.Search(ctx, indexes.Range{High: indexes.Bound{Value: int32(5)}})
		require.NoError(t, err)
		require.Equal(t, []rowaddr.Addr{2, 3}, slices.Collect(res.Addrs.All()))
		res, err = seg.Search(ctx, indexes.IsNull{})
		require.NoError(t, err)
		require.Equal(t, []rowaddr.Addr{1}, slices.Collect(res.Addrs.All()))
	}
}

func FuzzFile(f *testing.F) {
	for _, name := range []string{"bitmap_s.lance", "bitmap_f.lance", "bitmap_d.lance"} {
		f.Add(goldenBytes(f, name))
	}
	f.Fuzz(func(_ *testing.T, b []byte) { ask(b) })
}

// damageStep is the distance of the bytes that are damaged.
func damageStep() int {
	if os.Getenv("LANCESQL_SOAK") != "" {
		return 1
	}
	return 3
}
