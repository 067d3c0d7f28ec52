package zonemap

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// Shortened bounds stay on their side of the value, and text stays text.
func TestShorten(t *testing.T) {
	const limit = 9
	rng := rand.New(rand.NewPCG(1, 9))
	runes := []rune{'a', 'z', 0x7f, 'é', 0x7ff, 0xd7ff, 0xe000, 0xffff, 0x10000, utf8.MaxRune}
	for range 3000 {
		var s strings.Builder
		for range rng.IntN(12) {
			s.WriteRune(runes[rng.IntN(len(runes))])
		}
		lo, hi := shortenLow(s.String(), limit, true), shortenHigh(s.String(), limit, true)
		require.True(t, lo <= s.String() && s.String() <= hi, "%q: %q %q", s.String(), lo, hi)
		require.True(t, utf8.ValidString(lo) && utf8.ValidString(hi), "%q: %q %q", s.String(), lo, hi)
		require.LessOrEqual(t, len(lo), limit)
		// A longer maximum only where every character that could be raised is the last there is.
		if head := shortenLow(s.String(), limit, true); strings.Trim(head, string(utf8.MaxRune)) != "" {
			require.LessOrEqual(t, len(hi), limit+3, "%q", s.String())
		}
	}
	for range 3000 {
		b := make([]byte, rng.IntN(14))
		for i := range b {
			b[i] = []byte{0, 'a', 0xfe, 0xff}[rng.IntN(4)]
		}
		s := string(b)
		lo, hi := shortenLow(s, limit, false), shortenHigh(s, limit, false)
		require.True(t, lo <= s && s <= hi, "%x: %x %x", s, lo, hi)
		require.LessOrEqual(t, len(lo), limit)
	}
	require.Equal(t, "\ue000", shortenHigh("\ud7ff"+strings.Repeat("a", 9), 3, true))
	require.Equal(t, "b", shortenHigh("a"+strings.Repeat("\xff", 12), 9, false))
	all := strings.Repeat("\xff", 12)
	require.Equal(t, all, shortenHigh(all, 9, false))
}

// Bounds do not point into batches: their memory may be used again.
func TestBoundsOwnTheirBytes(t *testing.T) {
	b, err := NewBuilder(arrow.BinaryTypes.String, Options{})
	require.NoError(t, err)
	values := []byte("mmmmzzzzaaaa")
	offsets := arrow.Int32Traits.CastToBytes([]int32{0, 4, 8, 12})
	data := array.NewData(arrow.BinaryTypes.String, 3, []*memory.Buffer{nil, memory.NewBufferBytes(offsets), memory.NewBufferBytes(values)}, nil, 0, 0)
	require.NoError(t, b.Append(array.MakeFromData(data), 0))
	copy(values, "!!!!!!!!!!!!")
	s := b.Finish()
	require.Equal(t, []string{"aaaa", "zzzz"}, []string{s.zones.loText[0], s.zones.hiText[0]})
}

// The zones of long values lie around them.
func TestBoundsOfLongValues(t *testing.T) {
	b, err := NewBuilder(arrow.BinaryTypes.String, Options{RowsPerZone: 2, BoundBytesMax: 8})
	require.NoError(t, err)
	cells := array.NewStringBuilder(memory.DefaultAllocator)
	cells.AppendValues([]string{"abcdefghij", "abcdefghix", "short", "shorter than ten"}, nil)
	require.NoError(t, b.Append(cells.NewArray(), 0))
	s := b.Finish()
	require.Equal(t, []string{"abcdefgh", "short"}, s.zones.loText)
	require.Equal(t, []string{"abcdefgi", "shorter!"}, s.zones.hiText)
}
