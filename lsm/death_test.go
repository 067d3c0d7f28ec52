package lsm

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/lance/rowaddr"
)

// A death log against a plain map, over settling.
func TestDeathLogAgainstMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d, want := NewDeathLog(), map[rowaddr.Addr]death{}
		low := uint64(0)
		for seq := uint64(1); seq < 60; seq++ {
			for range rng.IntN(30) {
				a := rowaddr.New(rng.Uint32N(3), 65_530+rng.Uint32N(400))
				if _, dead := want[a]; dead {
					continue
				}
				rec := death{seq: seq * uint64(min(rng.IntN(4), 1)), killer: sourceID(rng.IntN(2), 1+rng.Uint64N(3))}
				want[a] = rec
				d.Kill(a, rec.seq, rec.killer)
			}
			if rng.IntN(5) == 0 {
				low = max(low, rng.Uint64N(seq+1))
				d.Settle(low)
			}
			s := low + rng.Uint64N(seq-low+1)
			first := rowaddr.New(rng.Uint32N(3), 65_500+rng.Uint32N(300))
			mask := arrowx.NewFullMask(1 + rng.IntN(300))
			d.clearDead(mask, first, s)
			for i := range mask.Len() {
				a := rowaddr.New(first.Fragment(), first.Offset()+uint32(i))
				rec, dead := want[a]
				require.Equal(t, dead && rec.seq <= s, d.Dead(a, s), "%v at %d", a, s)
				require.Equal(t, dead && rec.seq <= s, !mask.Get(i))
				require.Equal(t, dead, d.Known(a))
			}
		}
		require.Equal(t, len(want), d.Len())
		got := map[rowaddr.Addr]SourceID{}
		d.each(func(a rowaddr.Addr, rec death) {
			_, twice := got[a]
			require.False(t, twice)
			got[a] = rec.killer
		})
		require.Len(t, got, len(want))
		for a, rec := range want {
			require.Equal(t, rec.killer, got[a])
		}
		young := d.Bytes()
		d.Settle(1000)
		require.LessOrEqual(t, d.Bytes(), young)
		require.Zero(t, d.nYoung)
	}
}
