package btree

import (
	"bytes"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSortColumn compares the sort with a stable comparison sort over values that share prefixes, end in zeros and repeat.
func TestSortColumn(t *testing.T) {
	rng := rand.New(rand.NewSource(4))
	for round := range 200 {
		c := column{wide: round%4 != 0}
		n := rng.Intn(600)
		shared := make([]byte, rng.Intn(40))
		rng.Read(shared)
		for range n {
			if !c.wide {
				c.fixed = append(c.fixed, rng.Uint64()>>rng.Intn(64))
				continue
			}
			v := append([]byte(nil), shared[:len(shared)-rng.Intn(min(3, len(shared)+1))]...)
			for range rng.Intn(24) {
				v = append(v, []byte{0, 0, 0, 1, 255}[rng.Intn(5)])
			}
			require.NoError(t, c.add(key{wide: v}))
		}
		want := make([]uint32, n)
		for i := range want {
			want[i] = uint32(i)
		}
		slices.SortStableFunc(want, func(a, b uint32) int {
			if c.wide {
				return bytes.Compare(c.key(int(a)).wide, c.key(int(b)).wide)
			}
			return c.compare(int(a), c.key(int(b)))
		})
		got := make([]uint32, 0, n)
		for _, it := range sortColumn(&c) {
			got = append(got, it.row)
		}
		require.Equal(t, want, got, "round %d", round)
	}
}

// TestSortLong: values that share thousands of bytes do not nest calls.
func TestSortLong(t *testing.T) {
	c := column{wide: true}
	long := bytes.Repeat([]byte{7}, 1<<16)
	for i := range 200 {
		require.NoError(t, c.add(key{wide: append(append([]byte(nil), long...), byte(i*77))}))
	}
	items := sortColumn(&c)
	for i := 1; i < len(items); i++ {
		require.LessOrEqual(t, bytes.Compare(c.key(int(items[i-1].row)).wide, c.key(int(items[i].row)).wide), 0)
	}
}

// TestIndexedSearch compares searches of an indexed column of strings with those of a plain one.
func TestIndexedSearch(t *testing.T) {
	rng := rand.New(rand.NewSource(6))
	for range 100 {
		shared := make([]byte, rng.Intn(12))
		rng.Read(shared)
		draw := func() []byte {
			v := append([]byte(nil), shared[:len(shared)-rng.Intn(2)*rng.Intn(len(shared)+1)]...)
			for range rng.Intn(12) {
				v = append(v, []byte{0, 1, 255}[rng.Intn(3)])
			}
			return v
		}
		var values [][]byte
		for range smallRun + rng.Intn(200) {
			values = append(values, draw())
		}
		slices.SortFunc(values, bytes.Compare)
		plain := column{wide: true}
		for _, v := range values {
			require.NoError(t, plain.add(key{wide: v}))
		}
		indexed := plain
		indexed.index()
		require.NotNil(t, indexed.heads)
		for range 50 {
			from, k := rng.Intn(len(values)+1), key{wide: draw()}
			require.Equal(t, plain.lower(from, k), indexed.lower(from, k))
			require.Equal(t, plain.upper(from, k), indexed.upper(from, k))
		}
	}
}

// TestLower compares the searches with linear ones.
func TestLower(t *testing.T) {
	rng := rand.New(rand.NewSource(8))
	for range 300 {
		c := column{wide: rng.Intn(2) == 0}
		n := rng.Intn(200)
		values := make([]int, n)
		for i := range values {
			values[i] = rng.Intn(100)
		}
		slices.Sort(values)
		of := func(v int) key {
			if c.wide {
				return key{wide: []byte{byte(v)}}
			}
			if v == 99 {
				return key{fixed: 1<<64 - 1}
			}
			return key{fixed: uint64(v)}
		}
		for _, v := range values {
			require.NoError(t, c.add(of(v)))
		}
		if rng.Intn(2) == 0 {
			c.index()
		}
		from, v := rng.Intn(n+1), rng.Intn(101)
		v = min(v, 99)
		lower, upper := from, from
		for lower < n && values[lower] < v {
			lower++
		}
		for upper < n && values[upper] <= v {
			upper++
		}
		require.Equal(t, lower, c.lower(from, of(v)))
		require.Equal(t, upper, c.upper(from, of(v)))
	}
}
