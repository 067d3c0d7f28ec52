package zonebloom_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonebloom"
	"lancesql/internal/objstore"
)

const benchRows = 1 << 19

func benchIndex(b *testing.B, a arrow.Array, offsets []uint32) (store.Dir, zonebloom.Written) {
	dir := store.NewDir(objstore.NewMem(), "", nil)
	build, err := zonebloom.NewBuilder(context.Background(), dir, a.DataType(), zonebloom.Options{})
	require.NoError(b, err)
	require.NoError(b, build.Begin(0))
	require.NoError(b, build.Append(a, offsets))
	w, err := build.Finish(context.Background())
	require.NoError(b, err)
	return dir, w
}

func benchColumn(b *testing.B) (arrow.Array, []uint32) {
	rng := rand.New(rand.NewPCG(1, 2))
	cells, offsets := make([]any, benchRows), make([]uint32, benchRows)
	for i := range cells {
		cells[i], offsets[i] = rng.Int64(), uint32(i)
	}
	return arrayOf(b, memory.DefaultAllocator, arrow.PrimitiveTypes.Int64, cells), offsets
}

// BenchmarkBuild is half a million rows; ns/row.
func BenchmarkBuild(b *testing.B) {
	a, offsets := benchColumn(b)
	for b.Loop() {
		benchIndex(b, a, offsets)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
}

// BenchmarkSearch is a value that is nowhere, in 64 zones whose filters are cached; ns/zone.
func BenchmarkSearch(b *testing.B) {
	a, offsets := benchColumn(b)
	dir, w := benchIndex(b, a, offsets)
	s, err := zonebloom.Open(context.Background(), dir, zonebloom.Spec{Fragments: w.Fragments, Type: a.DataType(), Cache: store.NewCache(64 << 20)})
	require.NoError(b, err)
	for b.Loop() {
		if _, err := s.Search(context.Background(), indexes.Equals(int64(-1))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Zones()), "ns/zone")
}
