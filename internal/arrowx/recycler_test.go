package arrowx

import (
	"math/rand"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestRecyclerKinds(t *testing.T) {
	for kind := range recyclerKinds {
		size := recyclerSize(kind)
		require.Equal(t, kind, recyclerKind(size))
		if kind+1 < recyclerKinds {
			require.Equal(t, kind+1, recyclerKind(size+1))
		}
	}
	require.GreaterOrEqual(t, recyclerSize(recyclerKinds-1), recyclerMax)
	require.Equal(t, recyclerKinds, recyclerKind(recyclerMax+1))
	require.Zero(t, recyclerKind(0))
}

// TestRecycler allocates and frees at random: live buffers are aligned and never overlap.
func TestRecycler(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	r := NewRecycler(1 << 20)
	type live struct {
		b    []byte
		mark byte
	}
	var all []live
	check := func(l live) {
		for _, x := range l.b {
			if x != l.mark {
				t.Fatalf("byte %d where %d was written", x, l.mark)
			}
		}
	}
	for i := range 3000 {
		mark := byte(i)
		switch op := rng.Intn(3); {
		case op == 0 || len(all) == 0:
			b := r.Allocate(1 + rng.Intn(1<<uint(rng.Intn(17))))
			require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%recyclerAlign)
			for j := range b {
				b[j] = mark
			}
			all = append(all, live{b, mark})
		case op == 1:
			k := rng.Intn(len(all))
			check(all[k])
			r.Free(all[k].b)
			all[k] = all[len(all)-1]
			all = all[:len(all)-1]
		default:
			k := rng.Intn(len(all))
			old := len(all[k].b)
			b := r.Reallocate(old+rng.Intn(2000), all[k].b)
			check(live{b[:old], all[k].mark})
			for j := range b {
				b[j] = mark
			}
			all[k] = live{b, mark}
		}
	}
	for _, l := range all {
		check(l)
		r.Free(l.b)
	}
	require.LessOrEqual(t, r.kept, 1<<20)
	a := r.Allocate(1000)
	r.Free(a)
	b := r.Allocate(1001)
	require.Same(t, unsafe.SliceData(a), unsafe.SliceData(b))
	r.Free(make([]byte, 100)) // not ours
	huge := r.Allocate(recyclerMax + 1)
	require.Len(t, huge, recyclerMax+1)
	r.Free(huge)
}
