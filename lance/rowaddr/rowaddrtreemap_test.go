package rowaddr_test

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// treemapVectors are null bitmaps and keys of index files that Lance 14.0.2 wrote.
func treemapVectors() map[string]func(t *rowaddr.Treemap) {
	return map[string]func(t *rowaddr.Treemap){
		"00000000": func(*rowaddr.Treemap) {},
		"010000000000000012000000" + "3a30000001000000000000001000000032" + "00": func(t *rowaddr.Treemap) { t.Add(rowaddr.New(0, 50)) },
		"020000000000000012000000" + "3a300000010000000000000010000000" + "0700" +
			"0100000014000000" + "3a300000010000000000010010000000" + "1a001b00": func(t *rowaddr.Treemap) {
			t.AddMany([]rowaddr.Addr{rowaddr.New(0, 7), rowaddr.New(1, 26), rowaddr.New(1, 27)})
		},
		"010000000300000000000000": func(t *rowaddr.Treemap) { t.AddFragment(3) },
	}
}

func TestTreemapVectors(t *testing.T) {
	for text, fill := range treemapVectors() {
		want := rowaddr.NewTreemap()
		fill(want)
		b, err := want.Encode()
		require.NoError(t, err)
		require.Equal(t, text, hex.EncodeToString(b))
		got, err := rowaddr.DecodeTreemap("x", b)
		require.NoError(t, err)
		again, err := got.Encode()
		require.NoError(t, err)
		require.Equal(t, b, again)
	}
}

func TestTreemapRefusals(t *testing.T) {
	for what, text := range map[string]string{
		"fragment twice":      "02000000" + "0300000000000000" + "0300000000000000",
		"fragments descend":   "02000000" + "0300000000000000" + "0200000000000000",
		"more than there are": "03000000" + "0300000000000000" + "0400000000000000",
		"offsets cut":         "01000000" + "0300000009000000" + "3a30000000000000",
	} {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		_, err = rowaddr.DecodeTreemap("x", b)
		require.ErrorIs(t, err, errs.ErrCorruption, what)
	}
}

func TestTreemapRoundTrip(t *testing.T) {
	for seed := range 30 {
		rng := rand.New(rand.NewPCG(uint64(seed), 9))
		set := rowaddr.NewTreemap()
		for range rng.IntN(8) {
			f := rng.Uint32N(1 << uint(rng.IntN(32)))
			switch rng.IntN(4) {
			case 0:
				set.AddFragment(f)
			case 1:
				from := uint64(rng.Uint32N(1 << 30))
				set.AddRange(f, from, from+uint64(rng.IntN(200000)))
			default:
				for range rng.IntN(300) {
					set.Add(rowaddr.New(f, rng.Uint32()))
				}
			}
		}
		b, err := set.Encode()
		require.NoError(t, err)
		got, err := rowaddr.DecodeTreemap("x", b)
		require.NoError(t, err)
		require.Equal(t, set.Fragments(), got.Fragments())
		for _, f := range set.Fragments() {
			a, wholeA := set.Offsets(f)
			b, wholeB := got.Offsets(f)
			require.Equal(t, wholeA, wholeB)
			require.True(t, wholeA || a.Equals(b))
		}
		for n := 0; n < len(b); n += 1 + rng.IntN(7) {
			_, err := rowaddr.DecodeTreemap("x", b[:n])
			require.ErrorIs(t, err, errs.ErrCorruption)
		}
		_, err = rowaddr.DecodeTreemap("x", append(b, 0))
		require.ErrorIs(t, err, errs.ErrCorruption)
	}
}

func FuzzTreemap(f *testing.F) {
	for text := range treemapVectors() {
		b, err := hex.DecodeString(text)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := rowaddr.DecodeTreemap("fuzz", data)
		if err != nil {
			require.ErrorIs(t, err, errs.ErrCorruption)
			return
		}
		b, err := set.Encode()
		require.NoError(t, err)
		_, err = rowaddr.DecodeTreemap("fuzz", b)
		require.NoError(t, err)
	})
}
