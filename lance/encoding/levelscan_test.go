package encoding

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLevelLoops compares the loops without branches with plain ones.
func TestLevelLoops(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	for range 500 {
		n := rng.Intn(300)
		top := uint16(rng.Intn(4))
		var rep, def []uint16
		for range n {
			rep = append(rep, uint16(rng.Intn(int(top)+1)))
			def = append(def, uint16(rng.Intn(7)))
		}
		if rng.Intn(4) == 0 {
			rep = nil
		}
		rule := slotRule{minRep: uint16(rng.Intn(int(top) + 1)), maxDef: uint16(rng.Intn(8))}
		if rep == nil {
			rule.minRep = 0
		}
		inner := slotRule{minRep: 0, maxDef: uint16(rng.Intn(8))}
		null := uint16(1 + rng.Intn(5))
		empty := null + uint16(rng.Intn(2))
		starts, slots, nulls, items := 0, 0, 0, 0
		var valid []bool
		var ends []uint32
		for i := range n {
			r := uint16(0)
			if rep != nil {
				r = rep[i]
			}
			if r == top {
				starts++
			}
			if r >= rule.minRep && def[i] <= rule.maxDef {
				slots++
				ends = append(ends, uint32(items))
				missing := def[i] >= null && def[i] != empty
				valid = append(valid, !missing)
				if missing {
					nulls++
				}
			}
			if r >= inner.minRep && def[i] <= inner.maxDef {
				items++
			}
		}
		require.Equal(t, slots, countSlots(rep, def, n, rule))
		out := make([]byte, bitmapBytes(n))
		gotSlots, gotNulls := slotBits(out, rep, def, rule, null, empty)
		require.Equal(t, [2]int{slots, nulls}, [2]int{gotSlots, gotNulls})
		for i, v := range valid {
			require.Equal(t, v, getBit(out, i))
		}
		if rep == nil {
			continue
		}
		got, ok := rowStarts(rep, top)
		require.True(t, ok)
		require.Equal(t, starts, got)
		if top > 0 {
			_, ok = rowStarts(append(rep, top+1), top)
			require.False(t, ok)
		}
		gotEnds := make([]uint32, slots+1)
		require.Equal(t, items, slotEnds(gotEnds, rep, def, rule, inner))
		require.Equal(t, append(ends, uint32(items)), gotEnds)
	}
	require.Equal(t, 7, countSlots(nil, nil, 7, slotRule{maxDef: 3}))
	require.Equal(t, 2, countSlots([]uint16{1, 0, 1}, nil, 3, slotRule{minRep: 1, maxDef: 3}))
}
