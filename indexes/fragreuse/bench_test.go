package fragreuse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
)

// benchHistory is n compactions of one after another: four fragments of 250,000 rows, then the one of a million, of
// which before each step every 10th row is deleted if some are.
func benchHistory(b *testing.B, n int, deletions bool) *Translation {
	content := &pb.FragmentReuseContent{}
	var sources []*pb.FragmentReuseDigest
	for i := range uint64(4) {
		sources = append(sources, digests(i, 250_000, 0)...)
	}
	for k := range n {
		var survivors []rowaddr.Addr
		live := uint64(0)
		for _, d := range sources {
			d.NumDeletedRows = 0
			for o := range d.PhysicalRows {
				if deletions && o%10 == 3 {
					d.NumDeletedRows++
					continue
				}
				survivors = append(survivors, rowaddr.New(uint32(d.Id), uint32(o)))
			}
			live += d.PhysicalRows - d.NumDeletedRows
		}
		to := digests(uint64(10+k), live, 0)
		content.LegacyVersions = append(content.LegacyVersions, legacy(uint64(k), &pb.FragmentReuseGroup{ChangedRowAddrs: treemap(b, survivors...), OldFragments: sources, NewFragments: to}))
		sources = digests(uint64(10+k), live, 0)
	}
	tr, err := history(b, content).For(context.Background(), bitmap(0, 1, 2, 3))
	require.NoError(b, err)
	return tr
}

func benchAddrs(n int) []rowaddr.Addr {
	list := make([]rowaddr.Addr, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range list {
		list[i] = rowaddr.New(r.Uint32N(4), r.Uint32N(250_000))
	}
	return list
}

// perAddress starts the clock and returns what reports processor time, which other load does not stretch.
func perAddress(b *testing.B, n int) func() {
	spent := func() int64 {
		var u unix.Rusage
		require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	b.ResetTimer()
	before := spent()
	return func() { b.ReportMetric(float64(spent()-before)/float64(b.N*n), "cpu-ns/address") }
}

func BenchmarkTranslate(b *testing.B) {
	ctx := context.Background()
	random := benchAddrs(1_000_000)
	sorted := slices.Compact(slices.Sorted(slices.Values(random)))
	set := rowaddr.NewTreemap()
	set.AddMany(sorted)
	work := make([]rowaddr.Addr, len(random))
	for _, deletions := range []bool{false, true} {
		for _, hops := range []int{1, 4} {
			tr := benchHistory(b, hops, deletions)
			name := fmt.Sprintf("hops=%d/deletions=%v/", hops, deletions)
			b.Run(name+"random", func(b *testing.B) {
				defer perAddress(b, len(random))()
				for range b.N {
					copy(work, random)
					_, err := tr.Each(ctx, work)
					require.NoError(b, err)
				}
			})
			b.Run(name+"sorted", func(b *testing.B) {
				defer perAddress(b, len(sorted))()
				for range b.N {
					_, err := tr.Sorted(ctx, work[:copy(work, sorted)])
					require.NoError(b, err)
				}
			})
			b.Run(name+"treemap", func(b *testing.B) {
				defer perAddress(b, len(sorted))()
				for range b.N {
					_, err := tr.Treemap(ctx, set)
					require.NoError(b, err)
				}
			})
		}
	}
}

// BenchmarkPartition: a million rows into 16 fragments, the blocks read anew each time or kept.
func BenchmarkPartition(b *testing.B) {
	ctx := context.Background()
	dir := memDir()
	labels := make([]int32, 1_000_000)
	sent := make([]uint64, 16)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range labels {
		labels[i] = r.Int32N(16)
		sent[labels[i]]++
	}
	p := writeMap(b, dir, 16, blockRowsDefault, labels...)
	var to []*pb.FragmentReuseDigest
	for i, n := range sent {
		to = append(to, digests(uint64(10+i), n, 0)...)
	}
	content := contentOf(partition(p, digests(0, 250_000, 0, 1, 250_000, 0, 2, 250_000, 0, 3, 250_000, 0), to))
	random := benchAddrs(1_000_000)
	work := make([]rowaddr.Addr, len(random))
	run := func(b *testing.B, tr func() *Translation) {
		defer perAddress(b, len(random))()
		for range b.N {
			copy(work, random)
			_, err := tr().Each(ctx, work)
			require.NoError(b, err)
		}
	}
	fresh := func() *Translation {
		tr, err := New(decode(b, content), Options{Maps: In(dir)}).For(ctx, bitmap(0, 1, 2, 3))
		require.NoError(b, err)
		return tr
	}
	b.Run("first", func(b *testing.B) { run(b, fresh) })
	tr := fresh()
	b.Run("kept", func(b *testing.B) { run(b, func() *Translation { return tr }) })
}
