package rowaddr_test

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"

	"lancesql/lance/rowaddr"
)

// TestTreemapModel compares random operations with a map.
func TestTreemapModel(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	draw := func() (*rowaddr.Treemap, map[rowaddr.Addr]bool) {
		set, model := rowaddr.NewTreemap(), map[rowaddr.Addr]bool{}
		var many []rowaddr.Addr
		for range rng.Intn(200) {
			a := rowaddr.New(uint32(rng.Intn(4)), uint32(rng.Intn(100)))
			model[a] = true
			if rng.Intn(2) == 0 {
				set.Add(a)
			} else {
				many = append(many, a)
			}
		}
		set.AddMany(many)
		from := rng.Intn(100)
		for o := from; o < from+7; o++ {
			model[rowaddr.New(2, uint32(o))] = true
		}
		set.AddRange(2, uint64(from), uint64(from+7))
		return set, model
	}
	same := func(set *rowaddr.Treemap, want func(a rowaddr.Addr) bool) {
		t.Helper()
		var list []rowaddr.Addr
		for f := range uint32(5) {
			for o := range uint32(120) {
				a := rowaddr.New(f, o)
				require.Equal(t, want(a), set.Contains(a), "%s", a)
				if want(a) {
					list = append(list, a)
				}
			}
		}
		require.Equal(t, list, slices.Collect(set.All()))
		n, exact := set.Count()
		require.True(t, exact)
		require.EqualValues(t, len(list), n)
		require.Equal(t, len(list) == 0, set.IsEmpty())
	}
	for range 50 {
		a, ma := draw()
		b, mb := draw()
		c := a.Clone()
		c.And(b)
		same(c, func(x rowaddr.Addr) bool { return ma[x] && mb[x] })
		c = a.Clone()
		c.Or(b)
		same(c, func(x rowaddr.Addr) bool { return ma[x] || mb[x] })
		c = a.Clone()
		c.AndNot(b)
		same(c, func(x rowaddr.Addr) bool { return ma[x] && !mb[x] })
		c = a.Clone()
		c.Retain(roaring.BitmapOf(1, 3))
		same(c, func(x rowaddr.Addr) bool { return ma[x] && x.Fragment()%2 == 1 })
		same(a, func(x rowaddr.Addr) bool { return ma[x] })
	}
}

func TestTreemapWholeFragments(t *testing.T) {
	a, b := rowaddr.NewTreemap(), rowaddr.NewTreemap()
	a.AddFragment(1)
	a.Add(rowaddr.New(1, 5)) // stays whole
	b.Add(rowaddr.New(1, 5))
	b.Add(rowaddr.New(2, 6))
	_, whole := a.Offsets(1)
	require.True(t, whole)
	_, exact := a.Count()
	require.False(t, exact)
	require.True(t, a.Contains(rowaddr.New(1, 1<<31)))

	and := a.Clone()
	and.And(b)
	require.Equal(t, []rowaddr.Addr{rowaddr.New(1, 5)}, slices.Collect(and.All()))
	and = b.Clone()
	and.And(a)
	require.Equal(t, []rowaddr.Addr{rowaddr.New(1, 5)}, slices.Collect(and.All()))
	or := b.Clone()
	or.Or(a)
	_, whole = or.Offsets(1)
	require.True(t, whole)
	require.Equal(t, []uint32{1, 2}, or.Fragments())
	or.AndNot(a)
	require.Equal(t, []uint32{2}, or.Fragments())
	a.AndNot(b)
	require.Equal(t, []uint32{1}, a.Fragments())
}
