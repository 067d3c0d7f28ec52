package pkstore_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

func open(t testing.TB) *pkstore.Store {
	s, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func key(n int) rowkey.Key { return rowkey.Key(rowkey.AppendInt64(nil, int64(n))) }

func TestNewestIsGreatestRowBelow(t *testing.T) {
	sp := open(t).New()
	require.NoError(t, sp.Put([]rowkey.Key{key(1), key(2), key(1), key(1)}, []uint64{0, 1, 2, 7}, []bool{false, false, true, false}))
	for _, c := range []struct {
		key   int
		below uint64
		row   uint64
		tomb  bool
		ok    bool
	}{
		{1, 0, 0, false, false}, {1, 1, 0, false, true}, {1, 2, 0, false, true}, {1, 3, 2, true, true},
		{1, 7, 2, true, true}, {1, 8, 7, false, true}, {1, ^uint64(0), 7, false, true},
		{2, 1, 0, false, false}, {2, 2, 1, false, true}, {3, 9, 0, false, false}, {0, 9, 0, false, false},
	} {
		row, tomb, ok, err := sp.Newest(key(c.key), c.below)
		require.NoError(t, err)
		require.Equal(t, []any{c.row, c.tomb, c.ok}, []any{row, tomb, ok}, "key %d below %d", c.key, c.below)
	}
	hits, err := sp.Rows(key(1))
	require.NoError(t, err)
	require.Equal(t, []pkstore.Hit{{Row: 7}, {Row: 2, Tombstone: true}, {Row: 0}}, hits)
}

// model is the naive twin of a Space.
type model map[rowkey.Key]map[uint64]bool

func (m model) rows(k rowkey.Key) []pkstore.Hit {
	var out []pkstore.Hit
	for r, tomb := range m[k] {
		out = append(out, pkstore.Hit{Row: r, Tombstone: tomb})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Row > out[j].Row })
	return out
}

func (m model) scan(lo, hi rowkey.Key) []string {
	var keys []string
	for k, rows := range m {
		if k >= lo && (hi == "" || k < hi) && len(rows) > 0 {
			keys = append(keys, string(k))
		}
	}
	sort.Strings(keys)
	var out []string
	for _, k := range keys {
		for _, h := range m.rows(rowkey.Key(k)) {
			out = append(out, fmt.Sprintf("%x %d %v", k, h.Row, h.Tombstone))
		}
	}
	return out
}

func tuple(rng *rand.Rand) rowkey.Key {
	b := make([]byte, rng.IntN(4))
	for i := range b {
		b[i] = []byte{0, 1, 0xff, 'a'}[rng.IntN(4)]
	}
	return rowkey.Key(rowkey.AppendBytes(rowkey.AppendInt64(nil, rng.Int64N(3)-1), b))
}

func TestAgainstModel(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		rng := rand.New(rand.NewPCG(seed, 0))
		st := open(t)
		other := st.New()
		require.NoError(t, other.Put([]rowkey.Key{tuple(rng)}, []uint64{1 << 40}, nil))
		sp, m := st.New(), model{}
		for step := range 60 {
			n := rng.IntN(20)
			keys, rows, tombs := make([]rowkey.Key, n), make([]uint64, n), make([]bool, n)
			for i := range keys {
				keys[i], rows[i], tombs[i] = tuple(rng), uint64(rng.IntN(40)), rng.IntN(3) == 0
			}
			require.NoError(t, sp.Put(keys, rows, tombs))
			for i, k := range keys {
				if m[k] == nil {
					m[k] = map[uint64]bool{}
				}
				m[k][rows[i]] = tombs[i]
			}
			lo, hi := tuple(rng), tuple(rng)
			switch rng.IntN(5) {
			case 0:
				lo = ""
			case 1:
				hi = ""
			case 2:
				hi += "\x00" // inclusive upper bound: continues a stored key
			case 3:
				lo += "\x00"
			}
			var got []string
			require.NoError(t, sp.Range(lo, hi, func(k rowkey.Key, row uint64, tomb bool) (bool, error) {
				got = append(got, fmt.Sprintf("%x %d %v", string(k), row, tomb))
				return true, nil
			}))
			require.Equal(t, m.scan(lo, hi), got, "seed %d step %d [%x,%x)", seed, step, lo, hi)
			var keysDown []rowkey.Key // with their rows, which still come newest first
			perKey := map[rowkey.Key][]string{}
			stop := 1 + rng.IntN(30)
			require.NoError(t, sp.Backward(lo, hi, func(k rowkey.Key, row uint64, tomb bool) (bool, error) {
				if len(keysDown) == 0 || keysDown[len(keysDown)-1] != k {
					keysDown = append(keysDown, k)
				}
				perKey[k] = append(perKey[k], fmt.Sprintf("%x %d %v", string(k), row, tomb))
				stop--
				return stop > 0, nil
			}))
			require.True(t, slices.IsSortedFunc(keysDown, func(a, b rowkey.Key) int { return cmp.Compare(b, a) }))
			var upwards []string
			for i, k := range slices.Backward(keysDown) {
				if i == len(keysDown)-1 && stop == 0 { // the last key may be cut short
					require.Subset(t, got, perKey[k])
					continue
				}
				upwards = append(upwards, perKey[k]...)
			}
			if stop > 0 {
				require.Equal(t, got, upwards, "seed %d step %d [%x,%x) backward", seed, step, lo, hi)
			} else if len(upwards) > 0 {
				require.Equal(t, got[len(got)-len(upwards):], upwards, "seed %d step %d [%x,%x) backward", seed, step, lo, hi)
			}

			probe := make([]rowkey.Key, 10)
			for i := range probe {
				probe[i] = tuple(rng)
			}
			below, many := uint64(rng.IntN(42)), map[int]pkstore.Hit{}
			require.NoError(t, sp.NewestOf(probe, below, func(i int, h pkstore.Hit) error { many[i] = h; return nil }))
			for i, k := range probe {
				var want *pkstore.Hit
				for _, h := range m.rows(k) {
					if h.Row < below {
						want = &h
						break
					}
				}
				row, tomb, ok, err := sp.Newest(k, below)
				require.NoError(t, err)
				require.Equal(t, want != nil, ok, "seed %d step %d", seed, step)
				h, found := many[i]
				require.Equal(t, ok, found)
				if ok {
					require.Equal(t, *want, pkstore.Hit{Row: row, Tombstone: tomb})
					require.Equal(t, *want, h)
				}
				hits, err := sp.Rows(k)
				require.NoError(t, err)
				require.Equal(t, m.rows(k), hits)
			}
		}
	}
}

func TestRangeStopsAndNests(t *testing.T) {
	sp := open(t).New()
	require.NoError(t, sp.Put([]rowkey.Key{key(1), key(2), key(3)}, []uint64{1, 2, 3}, nil))
	var seen []uint64
	require.NoError(t, sp.Range("", "", func(k rowkey.Key, row uint64, _ bool) (bool, error) {
		_, _, ok, err := sp.Newest(k, 9)
		require.True(t, ok)
		seen = append(seen, row)
		return row < 2, err
	}))
	require.Equal(t, []uint64{1, 2}, seen)
	boom := errors.New("boom")
	require.ErrorIs(t, sp.Range("", "", func(rowkey.Key, uint64, bool) (bool, error) { return true, boom }), boom)
}

func TestDropAndClose(t *testing.T) {
	st, err := pkstore.Open()
	require.NoError(t, err)
	a, b := st.New(), st.New()
	for _, sp := range []*pkstore.Space{a, b} {
		require.NoError(t, sp.Put([]rowkey.Key{key(1)}, []uint64{5}, nil))
	}
	require.NoError(t, a.Drop())
	require.NoError(t, a.Drop())
	require.ErrorIs(t, a.Put([]rowkey.Key{key(1)}, []uint64{5}, nil), errs.ErrClosed)
	_, _, ok, err := b.Newest(key(1), 9)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, st.Close())
	require.NoError(t, st.Close())
	_, _, _, err = b.Newest(key(1), 9)
	require.ErrorIs(t, err, errs.ErrClosed)
	require.NoError(t, b.Drop())
}

func TestLengthsMustAgree(t *testing.T) {
	sp := open(t).New()
	require.ErrorIs(t, sp.Put([]rowkey.Key{key(1)}, nil, nil), errs.ErrInvalid)
	require.ErrorIs(t, sp.Put([]rowkey.Key{key(1)}, []uint64{1}, []bool{}), errs.ErrInvalid)
}

// Many entries pass through pebble's tables, and a dropped space leaves nothing to find.
func TestManyEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("about two seconds")
	}
	st := open(t)
	for round := range 3 {
		sp := st.New()
		const n = 300_000
		for from := 0; from < n; from += 1000 {
			keys, rows := make([]rowkey.Key, 1000), make([]uint64, 1000)
			for i := range keys {
				keys[i], rows[i] = key((from+i)*7919%n), uint64(from+i)
			}
			require.NoError(t, sp.Put(keys, rows, nil))
		}
		count := 0
		require.NoError(t, sp.Range("", "", func(rowkey.Key, uint64, bool) (bool, error) { count++; return true, nil }))
		require.Equal(t, n, count, "round %d", round)
		require.NoError(t, sp.Drop())
	}
}

func TestConcurrentUseAndClose(t *testing.T) {
	st, err := pkstore.Open()
	require.NoError(t, err)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			sp := st.New()
			for i := 0; ; i++ {
				err := sp.Put([]rowkey.Key{key(i % 10), key(w)}, []uint64{uint64(i), uint64(i)}, nil)
				if errors.Is(err, errs.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if row, _, ok, err := sp.Newest(key(i%10), ^uint64(0)); err == nil && (!ok || row != uint64(i)) {
					t.Errorf("row %d, want %d", row, i)
					return
				}
				if w == 0 && i == 500 {
					go func() { _ = st.Close() }()
				}
			}
		}()
	}
	wg.Wait()
	require.NoError(t, st.Close())
}

func BenchmarkPut(b *testing.B) {
	sp := open(b).New()
	keys, rows := make([]rowkey.Key, 100), make([]uint64, 100)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := 0; b.Loop(); i++ {
		for j := range keys {
			keys[j], rows[j] = key(rng.IntN(1<<30)), uint64(i*100+j)
		}
		if err := sp.Put(keys, rows, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewest(b *testing.B) {
	sp := open(b).New()
	const n = 100_000
	keys, rows := make([]rowkey.Key, n), make([]uint64, n)
	for j := range keys {
		keys[j], rows[j] = key(j), uint64(j)
	}
	if err := sp.Put(keys, rows, nil); err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		if _, _, ok, err := sp.Newest(key(rng.IntN(n)), n); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkOpenClose(b *testing.B) {
	for b.Loop() {
		st, err := pkstore.Open()
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
