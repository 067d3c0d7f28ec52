package pkstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/rowkey"
)

func filterKey(i int) rowkey.Key { return rowkey.Key(rowkey.AppendInt64(nil, int64(i))) }

// TestFilter: what was added is never denied, and few others are let through, however far the filter had to grow.
func TestFilter(t *testing.T) {
	for _, expected := range []int{0, 100_000} {
		f := pkstore.NewFilter(expected)
		require.False(t, f.MayHold(filterKey(1)))
		require.False(t, f.MayHold(""))
		for i := range 100_000 {
			f.Add(filterKey(i))
		}
		wrong := 0
		for i := range 100_000 {
			require.True(t, f.MayHold(filterKey(i)))
			if f.MayHold(filterKey(1_000_000 + i)) {
				wrong++
			}
		}
		require.Less(t, wrong, 8_000, "of 100,000; expected %d keys", expected)
		require.Less(t, f.Bytes(), int64(400_000))
	}
}

// TestFilterConcurrent: readers beside a writer see every key whose Add has returned.
func TestFilterConcurrent(t *testing.T) {
	f := pkstore.NewFilter(0)
	added := make(chan int, 100)
	var wg sync.WaitGroup
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range added {
				if !f.MayHold(filterKey(i)) {
					t.Errorf("key %d was added", i)
				}
			}
		}()
	}
	for i := range 20_000 {
		f.Add(filterKey(i))
		added <- i
	}
	close(added)
	wg.Wait()
}

func ExampleFilter() {
	f := pkstore.NewFilter(0)
	f.Add("a", "b")
	fmt.Println(f.MayHold("a"), f.MayHold("zz"))
	// Output: true false
}

func BenchmarkFilter(b *testing.B) {
	f := pkstore.NewFilter(0)
	var keys []rowkey.Key
	for i := range 100_000 {
		keys = append(keys, filterKey(i))
	}
	b.Run("add", func(b *testing.B) {
		for i := range b.N {
			f.Add(keys[i%len(keys)])
		}
	})
	b.Run("absent", func(b *testing.B) {
		absent := filterKey(-1)
		for range b.N {
			f.MayHold(absent)
		}
	})
}
