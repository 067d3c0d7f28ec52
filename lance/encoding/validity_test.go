package encoding

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDecodeValidity compares the direct way to a bitmap with the way over levels.
func TestDecodeValidity(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	f := &fixedBlock{kind: blockOutOfLine, bits: 16, width: 1}
	var d Decompressor
	for _, n := range []int{1, 7, 63, 64, 65, 100, 1000, 1023, 1024, 1025, 1090, 2048, 4096, 5000} {
		bitmap := make([]byte, bitmapBytes(n))
		rng.Read(bitmap)
		buf := packValidity(nil, bitmap, 0, n)
		levels, _, err := f.decodeLevels(buf, n, nil, &d)
		require.NoError(t, err)
		want := make([]byte, bitmapBytes(n))
		_, err = validityOf(want, levels)
		require.NoError(t, err)
		got, ok := f.decodeValidity(nil, buf, n)
		require.True(t, ok)
		for i := range n {
			require.Equal(t, getBit(bitmap, i), getBit(got, i), "bit %d of %d", i, n)
			require.Equal(t, getBit(want, i), getBit(got, i), "bit %d of %d", i, n)
		}
		_, ok = f.decodeValidity(nil, buf[:len(buf)-2], n)
		require.False(t, ok && n >= blockValues, "%d levels in too few bytes", n)
	}
	_, ok := (&fixedBlock{kind: blockFlat, bits: 16}).decodeValidity(nil, nil, 1)
	require.False(t, ok)
	bad := packValidity(nil, []byte{0xff}, 0, 8)
	require.Len(t, bad, 16)
	bad[0] = 2
	_, ok = f.decodeValidity(nil, bad, 8)
	require.False(t, ok)
}

// BenchmarkValidity turns 4096 packed levels into a bitmap, directly and over levels.
func BenchmarkValidity(b *testing.B) {
	rng := rand.New(rand.NewSource(5))
	bitmap := make([]byte, 512)
	rng.Read(bitmap)
	buf := packValidity(nil, bitmap, 0, 4096)
	f := &fixedBlock{kind: blockOutOfLine, bits: 16, width: 1}
	for _, direct := range []bool{false, true} {
		b.Run(fmt.Sprintf("direct=%v", direct), func(b *testing.B) {
			var d Decompressor
			var scratch, valid []byte
			var levels []uint16
			var err error
			for b.Loop() {
				if direct {
					valid, _ = f.decodeValidity(valid, buf, 4096)
					continue
				}
				levels, scratch, err = f.decodeLevels(buf, 4096, scratch, &d)
				if err != nil {
					b.Fatal(err)
				}
				valid = resize(valid, 512)
				if _, err := validityOf(valid, levels); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(4096*float64(b.N)/1e6/b.Elapsed().Seconds(), "Mlevels/s")
		})
	}
}
