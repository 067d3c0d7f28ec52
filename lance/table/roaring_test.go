package table

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

func TestRoaringVectors(t *testing.T) {
	for _, c := range []struct {
		hex    string
		values []uint32
	}{
		{"3a30000001000000000002001000000000000100" + "0200", []uint32{0, 1, 2}},
		{"3b3000000100000300010000000300", []uint32{0, 1, 2, 3}},
		{"3a300000010000000000040010000000000001000300040005" + "00", []uint32{0, 1, 3, 4, 5}},
		{"3a30000000000000", nil},
	} {
		b, err := hex.DecodeString(c.hex)
		require.NoError(t, err)
		got, err := decodeRoaring("x", b)
		require.NoError(t, err)
		require.True(t, got.Equals(roaring.BitmapOf(c.values...)), "%s gave %v", c.hex, got)
	}
}

func TestRoaringRoundTrip(t *testing.T) {
	seed := uint64(7)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := range 60 {
		b := roaring.New()
		for range rnd.IntN(6) {
			from := uint64(rnd.IntN(1 << 20))
			switch rnd.IntN(3) {
			case 0:
				b.AddRange(from, from+uint64(rnd.IntN(200000)))
			case 1:
				for range rnd.IntN(20000) {
					b.Add(uint32(from) + rnd.Uint32N(1<<17))
				}
			default:
				b.Add(rnd.Uint32())
			}
		}
		if i%2 == 0 {
			b.RunOptimize()
		}
		data, err := encodeRoaring(b)
		require.NoError(t, err)
		got, err := decodeRoaring("x", data)
		require.NoError(t, err, "seed %d, case %d", seed, i)
		require.True(t, got.Equals(b), "seed %d, case %d", seed, i)
	}
}

func TestRoaringRefusesDamage(t *testing.T) {
	b := roaring.BitmapOf(1, 5, 70000)
	b.AddRange(200000, 210000)
	b.RunOptimize()
	data, err := encodeRoaring(b)
	require.NoError(t, err)
	for n := range data {
		_, err := decodeRoaring("x", data[:n])
		require.ErrorIs(t, err, errs.ErrCorruption, "cut at %d", n)
	}
	_, err = decodeRoaring("x", append(data, 0))
	require.ErrorIs(t, err, errs.ErrCorruption)
}

func FuzzRoaring(f *testing.F) {
	for _, b := range []*roaring.Bitmap{roaring.New(), roaring.BitmapOf(1, 2, 3, 1<<20)} {
		data, err := encodeRoaring(b)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte{0x3b, 0x30, 0, 0, 1, 0, 0, 3, 0, 1, 0, 0, 0, 3, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeRoaring("fuzz", data)
		if err != nil {
			require.ErrorIs(t, err, errs.ErrCorruption)
			return
		}
		again, err := encodeRoaring(b)
		require.NoError(t, err)
		back, err := decodeRoaring("fuzz", again)
		require.NoError(t, err)
		require.True(t, back.Equals(b))
	})
}
