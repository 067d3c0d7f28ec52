package bitmap_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lance/rowaddr"
)

const benchRows = 1 << 20

func benchBatch(b *testing.B, distinct int) (arrow.Array, []rowaddr.Addr) {
	rng := rand.New(rand.NewPCG(1, 2))
	cells, addrs := make([]any, benchRows), make([]rowaddr.Addr, benchRows)
	for i := range cells {
		cells[i], addrs[i] = int32(rng.IntN(distinct)), rowaddr.New(3, uint32(i))
	}
	return arrayOf(b, memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, cells), addrs
}

// BenchmarkBuild is a segment over a million rows of a fragment; ns/row.
func BenchmarkBuild(b *testing.B) {
	for name, distinct := range map[string]int{"3 values": 3, "1000 values": 1000} {
		a, addrs := benchBatch(b, distinct)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				buildBench(b, a, addrs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		})
	}
}

func buildBench(b *testing.B, a arrow.Array, addrs []rowaddr.Addr) store.Dir {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "", nil)
	build, err := bitmap.NewBuilder(dir, a.DataType(), bitmap.Options{})
	require.NoError(b, err)
	require.NoError(b, build.Append(ctx, a, addrs))
	_, err = build.Finish(ctx)
	require.NoError(b, err)
	return dir
}

// BenchmarkSearch is one value of a thousand in a million rows, from the cache and from the file.
func BenchmarkSearch(b *testing.B) {
	a, addrs := benchBatch(b, 1000)
	dir := buildBench(b, a, addrs)
	for name, cache := range map[string]*store.Cache{"cached": store.NewCache(0), "file": nil} {
		s, err := bitmap.Open(context.Background(), dir, bitmap.Spec{Fragments: roaring.BitmapOf(3), Type: arrow.PrimitiveTypes.Int32, Cache: cache})
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Search(context.Background(), indexes.Equals(int32(500))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
