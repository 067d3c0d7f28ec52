package encoding

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// blockValues is the number of values in one bit-packed block.
const blockValues = 1024

// rowOrder is the order in which groups of eight rows of a lane follow each other in the FastLanes layout.
// Spec: file format, "Bit-packing layout".
var rowOrder = [8]int{0, 4, 2, 6, 1, 5, 3, 7}

// rowBase returns the index of lane 0 of a row; the lanes of a row are consecutive.
func rowBase(row int) int { return rowOrder[row>>3]*16 + (row&7)*128 }

// rowBytes is the size of a row of a block, packed or not: 1024 bits, as many lanes as fit. The loops below take rows as
// sixteen words of 64 bits, each of one or more lanes; what shifts carry from one lane to the next is masked away.
const rowBytes = blockValues / 8

// packedSize is the size of one block at width w, whatever the size of its values.
func packedSize(w int) int { return w * rowBytes }

// lanesMask repeats the lowest n bits in each lane of size bits of a word.
func lanesMask(size, n int) uint64 {
	m := uint64(1)<<n - 1 // all bits for n = 64
	for ; size < 64; size *= 2 {
		m |= m << size
	}
	return m
}

// unpackBlock expands one block of 1024 values of size bits, which are 8, 16, 32 or 64, to dst. packed has
// packedSize(w) bytes, w is in 0..size.
func unpackBlock(dst, packed []byte, size, w int) {
	if w == 0 {
		clear(dst[:blockValues*size/8])
		return
	}
	whole := lanesMask(size, w)
	for row := range size {
		o := (*[rowBytes]byte)(dst[rowBase(row)*size/8:])
		at, shift := row*w/size, row*w%size
		a := (*[rowBytes]byte)(packed[at*rowBytes:])
		if shift+w <= size {
			unpackRow(o, a, uint(shift), whole)
			continue
		}
		b := (*[rowBytes]byte)(packed[(at+1)*rowBytes:])
		low := lanesMask(size, size-shift)
		unpackSplitRow(o, a, b, uint(shift), uint(size-shift), low, whole&^low)
	}
}

func unpackRow(o, a *[rowBytes]byte, shift uint, mask uint64) {
	for i := 0; i <= rowBytes-8; i += 8 {
		v := binary.LittleEndian.Uint64(a[i : i+8])
		binary.LittleEndian.PutUint64(o[i:i+8], v>>(shift&63)&mask)
	}
}

// unpackSplitRow takes the low bits of the values from a and the high ones from b.
func unpackSplitRow(o, a, b *[rowBytes]byte, shift, up uint, low, high uint64) {
	for i := 0; i <= rowBytes-8; i += 8 {
		v := binary.LittleEndian.Uint64(a[i:i+8]) >> (shift & 63) & low
		v |= binary.LittleEndian.Uint64(b[i:i+8]) << (up & 63) & high
		binary.LittleEndian.PutUint64(o[i:i+8], v)
	}
}

// unpackOne returns value i of a block that unpackBlock would expand.
func unpackOne(packed []byte, size, w, i int) uint64 {
	if w == 0 {
		return 0
	}
	lanes := blockValues / size
	lane := i % 128 % lanes
	row := rowOrder[(i%128-lane)/16]*8 + i/128 // rowOrder is its own inverse
	at, shift := row*w/size, row*w%size
	v := uintN(packed[(at*lanes+lane)*size/8:], size/8) >> shift
	if shift+w > size {
		v |= uintN(packed[((at+1)*lanes+lane)*size/8:], size/8) << (size - shift)
	}
	return v & lanesMask(64, w)
}

// packBlock is the inverse of unpackBlock; the 1024 values must be below 1<<w. It overwrites dst, which has
// packedSize(w) bytes.
func packBlock(dst, values []byte, size, w int) {
	clear(dst)
	if w == 0 {
		return
	}
	for row := range size {
		v := (*[rowBytes]byte)(values[rowBase(row)*size/8:])
		at, shift := row*w/size, row*w%size
		a := (*[rowBytes]byte)(dst[at*rowBytes:])
		packRow(a, v, uint(shift), lanesMask(size, size-shift))
		if shift+w > size {
			b := (*[rowBytes]byte)(dst[(at+1)*rowBytes:])
			packRest(b, v, uint(size-shift), lanesMask(size, shift))
		}
	}
}

// packRow adds the lowest bits of the values, those of keep, at position shift of each lane.
func packRow(a, v *[rowBytes]byte, shift uint, keep uint64) {
	for i := 0; i <= rowBytes-8; i += 8 {
		x := binary.LittleEndian.Uint64(v[i:i+8]) & keep << (shift & 63)
		binary.LittleEndian.PutUint64(a[i:i+8], binary.LittleEndian.Uint64(a[i:i+8])|x)
	}
}

// packRest puts the bits of the values from position up on at the start of each lane.
func packRest(b, v *[rowBytes]byte, up uint, keep uint64) {
	for i := 0; i <= rowBytes-8; i += 8 {
		x := binary.LittleEndian.Uint64(v[i:i+8]) >> (up & 63) & keep
		binary.LittleEndian.PutUint64(b[i:i+8], x)
	}
}

// widthOf returns the bits the greatest of values needs, 0 if all are zero.
func widthOf[T word](values []T) int {
	var all T
	for _, v := range values {
		all |= v
	}
	return bits.Len64(uint64(all))
}

// packBytes packs the values of src (at most 1024 words of size bits, zero-padded to a block) at width w and appends
// the packed words to dst.
func packBytes(dst, src []byte, size, w int) []byte {
	if len(src) < blockValues*size/8 {
		var padded [blockValues * 8]byte
		copy(padded[:], src)
		src = padded[:]
	}
	n := packedSize(w)
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	packBlock(dst[at:], src, size, w)
	return dst
}

// packPadded is packBytes of words.
func packPadded[T word](dst []byte, values []T, w int) []byte {
	return packBytes(dst, bytesOf(values), bitsOf[T](), w)
}

// widthBytes is widthOf over words of size bits in aligned memory.
func widthBytes(b []byte, size int) int {
	switch size {
	case 8:
		return widthOf(b)
	case 16:
		return widthOf(wordsOf[uint16](b))
	case 32:
		return widthOf(wordsOf[uint32](b))
	}
	return widthOf(wordsOf[uint64](b))
}
