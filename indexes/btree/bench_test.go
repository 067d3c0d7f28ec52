package btree_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/lance/rowaddr"
)

const benchRows = 1_000_000

// benchValue makes value i of a type; order is that of i.
func appendBench(b array.Builder, i int) {
	switch b := b.(type) {
	case *array.Int64Builder:
		b.Append(int64(i) * 7)
	case *array.StringBuilder:
		b.Append(fmt.Sprintf("customer-%012d", i*7))
	}
}

func benchArray(typ arrow.DataType, order []int) arrow.Array {
	b := array.NewBuilder(alloc(), typ)
	defer b.Release()
	for _, i := range order {
		appendBench(b, i)
	}
	return b.NewArray()
}

func ascending(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

func benchTypes() []arrow.DataType {
	return []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String}
}

// sliced is a stream of an array in batches of 8192 with the ids 0, 1, ...
func sliced(values arrow.Array) btree.Stream {
	var list []btree.Batch
	for from := 0; from < values.Len(); from += 8192 {
		to := min(values.Len(), from+8192)
		list = append(list, btree.Batch{Values: array.NewSlice(values, int64(from), int64(to)), IDs: counting(uint64(from), to-from)})
	}
	return batches(list...)
}

// benchIndex is an index on disk over a million values.
func benchIndex(b *testing.B, typ arrow.DataType, cache int64) *btree.Index {
	dir := store.NewDir(localStore(b, b.TempDir()), "x", nil)
	_, err := btree.Build(b.Context(), dir, typ, sliced(benchArray(typ, ascending(benchRows))), btree.Options{})
	require.NoError(b, err)
	x, err := btree.Open(b.Context(), dir, btree.OpenOptions{Cache: store.NewCache(cache)})
	require.NoError(b, err)
	return x
}

// BenchmarkLookup looks sorted batches of keys up that lie anywhere in a million rows. warm: pages are in the cache.
func BenchmarkLookup(b *testing.B) {
	for _, typ := range benchTypes() {
		for _, batch := range []int{1, 100, 1000} {
			for _, cache := range []int64{256 << 20, 1} {
				name := map[int64]string{256 << 20: "warm", 1: "cold"}[cache]
				b.Run(fmt.Sprintf("%s/%d/%s", typ, batch, name), func(b *testing.B) {
					x := benchIndex(b, typ, cache)
					rng := rand.New(rand.NewSource(1))
					var sets []*btree.Keys
					for range 64 {
						order := make([]int, batch)
						for i := range order {
							order[i] = rng.Intn(benchRows)
						}
						slices.Sort(order)
						keys, err := btree.NewKeys(benchArray(typ, order))
						require.NoError(b, err)
						sets = append(sets, keys)
					}
					var hits []btree.Hit
					var err error
					for _, keys := range sets {
						hits, err = x.Lookup(b.Context(), keys, hits[:0])
						require.NoError(b, err)
						require.GreaterOrEqual(b, len(hits), batch)
					}
					b.ReportAllocs()
					b.ResetTimer()
					for i := range b.N {
						hits, _ = x.Lookup(context.Background(), sets[i%len(sets)], hits[:0])
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/key")
				})
			}
		}
	}
}

// BenchmarkSearch answers ranges of a million rows.
func BenchmarkSearch(b *testing.B) {
	for _, percent := range []int{1, 50} {
		b.Run(fmt.Sprintf("%d%%", percent), func(b *testing.B) {
			x := benchIndex(b, arrow.PrimitiveTypes.Int64, 256<<20)
			n := int64(benchRows * percent / 100)
			q := indexes.Range{Low: indexes.Bound{Value: int64(7 * 1000)}, High: indexes.Bound{Value: 7 * (1000 + n), Exclusive: true}}
			b.ResetTimer()
			for range b.N {
				r, err := x.Search(context.Background(), q)
				require.NoError(b, err)
				if got, _ := r.Addrs.Count(); got != uint64(n) {
					b.Fatal(got)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(int64(b.N)*n), "ns/row")
		})
	}
}

// BenchmarkBuild writes an index of a million rows from rows in order and in random order.
func BenchmarkBuild(b *testing.B) {
	for _, typ := range benchTypes() {
		sorted := benchArray(typ, ascending(benchRows))
		random := benchArray(typ, rand.New(rand.NewSource(1)).Perm(benchRows))
		rate := func(b *testing.B) { b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s") }
		b.Run(typ.String()+"/sorted", func(b *testing.B) {
			for range b.N {
				_, err := btree.Build(context.Background(), memDir(), typ, sliced(sorted), btree.Options{})
				require.NoError(b, err)
			}
			rate(b)
		})
		b.Run(typ.String()+"/random", func(b *testing.B) {
			for range b.N {
				s, err := btree.NewSorter(typ, 0, nil)
				require.NoError(b, err)
				require.NoError(b, s.Add(btree.Batch{Values: random, IDs: counting(0, benchRows)}))
				_, err = btree.Build(context.Background(), memDir(), typ, s.Stream(), btree.Options{})
				require.NoError(b, err)
			}
			rate(b)
		})
	}
}

// BenchmarkMerge joins two segments of half a million rows, one of them translated to other fragments.
func BenchmarkMerge(b *testing.B) {
	for _, typ := range benchTypes() {
		b.Run(typ.String(), func(b *testing.B) {
			var parts []*btree.Index
			for half := range 2 {
				dir := memDir()
				order := make([]int, benchRows/2)
				for i := range order {
					order[i] = 2*i + half
				}
				_, err := btree.Build(b.Context(), dir, typ, sliced(benchArray(typ, order)), btree.Options{})
				require.NoError(b, err)
				x, err := btree.Open(b.Context(), dir, btree.OpenOptions{})
				require.NoError(b, err)
				parts = append(parts, x)
			}
			translate := func(ids []uint64, keep []bool) error {
				for i := range ids {
					ids[i] = uint64(rowaddr.New(3, uint32(ids[i])))
					keep[i] = ids[i]%50 != 0
				}
				return nil
			}
			b.ResetTimer()
			for range b.N {
				_, err := btree.Merge(context.Background(), memDir(), typ, []btree.Stream{parts[0].Stream(nil), parts[1].Stream(translate)}, btree.Options{})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
