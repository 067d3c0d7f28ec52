package btree_test

import (
	"math/rand"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
)

// TestConcurrent: many readers of two indexes that share a cache too small for either (I3).
func TestConcurrent(t *testing.T) {
	typ := arrow.BinaryTypes.String
	rng := rand.New(rand.NewSource(2))
	cache := store.NewCache(64 << 10)
	var list []*btree.Index
	var columns []arrow.Array
	for range 2 {
		values := randomArray(t, typ, rng, 3000, 5)
		dir := memDir()
		s, err := btree.NewSorter(typ, 0, nil)
		require.NoError(t, err)
		require.NoError(t, s.Add(btree.Batch{Values: values, IDs: counting(0, values.Len())}))
		_, err = btree.Build(t.Context(), dir, typ, s.Stream(), btree.Options{PageRows: 50})
		require.NoError(t, err)
		x, err := btree.Open(t.Context(), dir, btree.OpenOptions{Cache: cache})
		require.NoError(t, err)
		list, columns = append(list, x), append(columns, values)
	}
	wanted := randomArray(t, typ, rng, 100, 0)
	keys, err := btree.NewKeys(wanted)
	require.NoError(t, err)
	in := cellOf(wanted, 7)
	expect := [2][]rowaddr.Addr{}
	for i, values := range columns {
		expect[i] = want(t, predicate.Compare{Op: predicate.Eq, Value: in}, values)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			x, n := list[g%2], expect[g%2]
			for range 20 {
				hits, err := x.Lookup(t.Context(), keys, nil)
				found := 0
				for _, h := range hits {
					if h.Row == 7 {
						found++
					}
				}
				r, err2 := x.Search(t.Context(), indexes.Equals(in))
				if err != nil || err2 != nil {
					t.Error(err, err2)
					return
				}
				if got, _ := r.Addrs.Count(); found != len(n) || got != uint64(len(n)) {
					t.Errorf("%d and %d rows of %d", found, got, len(n))
				}
			}
		}()
	}
	wg.Wait()
	require.LessOrEqual(t, cache.Bytes(), int64(64<<10))
	require.NoError(t, list[0].Close())
	require.NoError(t, list[1].Close())
	require.Zero(t, cache.Bytes())
}

func cellOf(a arrow.Array, i int) any { return arrowx.Value(a, i) }
