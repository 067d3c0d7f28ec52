package encoding

import "math/bits"

// blockValues is the number of values in one bit-packed block.
const blockValues = 1024

// rowOrder is the order in which groups of eight rows of a lane follow each other in the FastLanes layout.
// Spec: file format, "Bit-packing layout".
var rowOrder = [8]int{0, 4, 2, 6, 1, 5, 3, 7}

// rowBase returns the index of lane 0 of a row; the lanes of a row are consecutive.
func rowBase(row int) int { return rowOrder[row>>3]*16 + (row&7)*128 }

// packedWords returns the number of T words one block takes at width w.
func packedWords[T word](w int) int { return blockValues * w / bitsOf[T]() }

// unpack expands one block: out holds 1024 values, in packedWords(w) words, w in 0..bits of T.
func unpack[T word](out, in []T, w int) {
	size := bitsOf[T]()
	lanes := blockValues / size
	if w == 0 {
		clear(out[:blockValues])
		return
	}
	mask := ^T(0) >> (size - w)
	for row := range size {
		base := rowBase(row)
		o := out[base : base+lanes]
		at, shift := row*w/size, row*w%size
		a := in[at*lanes:]
		a = a[:len(o)]
		if shift+w <= size {
			for i := range o {
				o[i] = a[i] >> shift & mask
			}
			continue
		}
		b := in[(at+1)*lanes:]
		b = b[:len(o)]
		up := size - shift
		for i := range o {
			o[i] = (a[i]>>shift | b[i]<<up) & mask
		}
	}
}

// pack is the inverse of unpack; values of in must be below 1<<w. out is overwritten.
func pack[T word](out, in []T, w int) {
	size := bitsOf[T]()
	lanes := blockValues / size
	clear(out[:packedWords[T](w)])
	if w == 0 {
		return
	}
	for row := range size {
		base := rowBase(row)
		v := in[base : base+lanes]
		at, shift := row*w/size, row*w%size
		a := out[at*lanes:]
		a = a[:len(v)]
		for i := range v {
			a[i] |= v[i] << shift
		}
		if shift+w > size {
			b := out[(at+1)*lanes:]
			b = b[:len(v)]
			up := size - shift
			for i := range v {
				b[i] |= v[i] >> up
			}
		}
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

// unpackBytes expands one packed block of size-bit words into dst (1024 words, our own aligned memory). packed holds
// exactly the words of width w; tmp is scratch.
func unpackBytes(dst, packed []byte, size, w int, tmp *[blockValues * 8]byte) {
	n := copy(tmp[:], packed) // Why: gives the typed loops aligned input at the price of one small copy
	switch size {
	case 8:
		unpack(wordsOf[uint8](dst), tmp[:n], w)
	case 16:
		unpack(wordsOf[uint16](dst), wordsOf[uint16](tmp[:n]), w)
	case 32:
		unpack(wordsOf[uint32](dst), wordsOf[uint32](tmp[:n]), w)
	case 64:
		unpack(wordsOf[uint64](dst), wordsOf[uint64](tmp[:n]), w)
	}
}

// packBytes packs the values of src (at most 1024 words of size bits in aligned memory, zero-padded to a block) at
// width w and appends the packed words to dst.
func packBytes(dst, src []byte, size, w int) []byte {
	switch size {
	case 8:
		return packPadded(dst, src, w)
	case 16:
		return packPadded(dst, wordsOf[uint16](src), w)
	case 32:
		return packPadded(dst, wordsOf[uint32](src), w)
	}
	return packPadded(dst, wordsOf[uint64](src), w)
}

func packPadded[T word](dst []byte, values []T, w int) []byte {
	var in, out [blockValues]T
	copy(in[:], values)
	pack(out[:], in[:], w)
	return append(dst, bytesOf(out[:packedWords[T](w)])...)
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
