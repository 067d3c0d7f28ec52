package encoding

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand"
	"testing"
)

func packed[T word](w int, v func(i int) T) []T {
	in := make([]T, blockValues)
	for i := range in {
		in[i] = v(i)
	}
	out := make([]byte, packedSize(w))
	packBlock(out, bytesOf(in), bitsOf[T](), w)
	return wordsOf[T](out)
}

// The vectors of docs/format/file.md, "Bit-packing layout".
func TestPackVectors(t *testing.T) {
	hexOf := func(b []byte) string { return hex.EncodeToString(b) }
	p16 := bytesOf(packed(1, func(i int) uint16 {
		if i%5 == 2 {
			return 1
		}
		return 0
	}))
	if len(p16) != 128 || hexOf(p16[:16]) != "10428410218408214208104284102184" {
		t.Errorf("T=16 W=1: %d bytes %s", len(p16), hexOf(p16[:16]))
	}
	p16 = bytesOf(packed(3, func(i int) uint16 { return uint16(i % 8) }))
	if len(p16) != 384 || hexOf(p16[:15]) != "000049929224dbb624496ddbb66dff" || p16[15] != 0xff || hexOf(p16[376:]) != "4992dbb66ddbffff" {
		t.Errorf("T=16 W=3: %d bytes %s … %s", len(p16), hexOf(p16[:16]), hexOf(p16[376:]))
	}
	p8 := packed(2, func(i int) uint8 { return uint8(i % 4) })
	if len(p8) != 256 || !bytes.Equal(p8, bytes.Repeat([]byte{0, 0x55, 0xaa, 0xff}, 64)) {
		t.Errorf("T=8 W=2: %s", hexOf(p8))
	}
	p32 := packed(10, func(i int) uint32 { return uint32(i) })
	for i, want := range map[int]uint32{0: 0x10020000, 1: 0x50120401, 2: 0x90220802, 3: 0xd0320c03, 32: 0x0a020060,
		33: 0x1a060160, 64: 0x0040e030, 65: 0x0441e070, 96: 0x40701403, 97: 0x41705413} {
		if p32[i] != want {
			t.Errorf("T=32 W=10: word %d is %#x, want %#x", i, p32[i], want)
		}
	}
	p64 := packed(12, func(i int) uint64 { return 3 * uint64(i) })
	for i, want := range map[int]uint64{0: 0x0600480300180000, 1: 0x3603483303183003, 16: 0xc02400c0a8090078,
		17: 0xc32430c3a8390378, 32: 0xb409c08406c05403} {
		if p64[i] != want {
			t.Errorf("T=64 W=12: word %d is %#x, want %#x", i, p64[i], want)
		}
	}
}

func testPackWidths[T word](t *testing.T) {
	rng := rand.New(rand.NewSource(int64(bitsOf[T]())))
	in, mid, out := make([]T, blockValues), make([]T, blockValues), make([]T, blockValues)
	for w := 0; w <= bitsOf[T](); w++ {
		for i := range in {
			in[i] = 0
			if w > 0 {
				in[i] = T(rng.Uint64()) >> (bitsOf[T]() - w)
			}
		}
		packBlock(bytesOf(mid)[:packedSize(w)], bytesOf(in), bitsOf[T](), w)
		unpackBlock(bytesOf(out), bytesOf(mid)[:packedSize(w)], bitsOf[T](), w)
		if !bytes.Equal(bytesOf(in), bytesOf(out)) {
			t.Fatalf("T=%d W=%d does not round trip", bitsOf[T](), w)
		}
		for i, want := range in {
			if got := unpackOne(bytesOf(mid)[:packedSize(w)], bitsOf[T](), w, i); got != uint64(want) {
				t.Fatalf("T=%d W=%d value %d is %d, want %d", bitsOf[T](), w, i, got, want)
			}
		}
	}
}

func TestPackEveryWidth(t *testing.T) {
	testPackWidths[uint8](t)
	testPackWidths[uint16](t)
	testPackWidths[uint32](t)
	testPackWidths[uint64](t)
}

// BenchmarkBitPacking packs and unpacks one block; MB/s are of plain values.
func BenchmarkBitPacking(b *testing.B) {
	for _, c := range []struct{ size, w int }{{8, 3}, {16, 1}, {16, 12}, {32, 10}, {32, 32}, {64, 10}, {64, 17}, {64, 40}} {
		values := make([]byte, blockValues*8)
		for i := range blockValues {
			values[i*c.size/8] = byte(i) & (1<<min(c.w, 8) - 1)
		}
		packed := make([]byte, packedSize(c.w))
		b.Run(fmt.Sprintf("pack/%d/%d", c.size, c.w), func(b *testing.B) {
			b.SetBytes(int64(blockValues * c.size / 8))
			for b.Loop() {
				packBlock(packed, values, c.size, c.w)
			}
		})
		b.Run(fmt.Sprintf("unpack/%d/%d", c.size, c.w), func(b *testing.B) {
			b.SetBytes(int64(blockValues * c.size / 8))
			for b.Loop() {
				unpackBlock(values, packed, c.size, c.w)
			}
		})
	}
}
