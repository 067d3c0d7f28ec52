package encoding

import (
	"encoding/binary"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// word is an unsigned machine word as stored in pages. The package assumes a little-endian host, as Arrow memory does.
type word interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// bitsOf returns the width of T in bits.
func bitsOf[T word]() int {
	var zero T
	return int(unsafe.Sizeof(zero)) * 8
}

// wordsOf views bytes as words. b must be our own memory, aligned for T; len(b) is cut to whole words.
func wordsOf[T word](b []byte) []T {
	var zero T
	n := len(b) / int(unsafe.Sizeof(zero))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// bytesOf views words as bytes.
func bytesOf[T word](w []T) []byte {
	var zero T
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*int(unsafe.Sizeof(zero)))
}

// pad8 rounds n up to a multiple of 8.
func pad8(n int) int { return (n + 7) &^ 7 }

// bitmapBytes is the number of bytes that n bits take.
func bitmapBytes(n int) int { return (n + 7) / 8 }

// copyBits copies n bits between bitmaps at any offsets, keeping the other bits of dst.
func copyBits(dst []byte, dstOff int, src []byte, srcOff, n int) {
	if n <= 8 {
		for i := range n {
			if getBit(src, srcOff+i) {
				dst[(dstOff+i)>>3] |= 1 << ((dstOff + i) & 7)
			} else {
				dst[(dstOff+i)>>3] &^= 1 << ((dstOff + i) & 7)
			}
		}
		return
	}
	bitutil.CopyBitmap(src, srcOff, n, dst, dstOff)
}

// setBits sets n bits of a bitmap to v.
func setBits(b []byte, off, n int, v bool) {
	if n > 0 {
		bitutil.SetBitsTo(b, int64(off), int64(n), v)
	}
}

func getBit(b []byte, i int) bool { return b[i>>3]>>(i&7)&1 != 0 }

func countBits(b []byte, off, n int) int {
	if n == 0 {
		return 0
	}
	return bitutil.CountSetBits(b, off, n)
}

func u16(b []byte) int    { return int(binary.LittleEndian.Uint16(b)) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// uintN reads a little-endian integer of 1, 2, 4 or 8 bytes.
func uintN(b []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// appendUintN appends the low width bytes of v, little-endian.
func appendUintN(b []byte, v uint64, width int) []byte {
	for range width {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}

// resize returns a slice of n bytes, reusing b's memory if it suffices. The content is arbitrary.
func resize[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n, max(n, 2*cap(b)))
	}
	return b[:n]
}
