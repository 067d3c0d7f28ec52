package encoding

import "encoding/binary"

// blockBitmap is the size of the validity of one block of levels.
const blockBitmap = blockValues / 8

// decodeValidity writes one bit for each of n levels, 1 for level 0, straight from levels packed in one bit each, as
// nearly all nullable pages have them. ok is false for other encodings, which decodeLevels reads.
func (f *fixedBlock) decodeValidity(scratch, buf []byte, n int) (valid []byte, ok bool) {
	if f.kind != blockOutOfLine || f.bits != 16 || f.width != 1 {
		return nil, false
	}
	full, tail := n/blockValues, n%blockValues
	raw := tail > 0 && len(buf) == full*blockBitmap+2*tail
	blocks := full
	if tail > 0 && !raw {
		blocks++
	}
	if len(buf) < blocks*blockBitmap {
		return nil, false // decodeLevels has the error
	}
	valid = resize(scratch, (full+1)*blockBitmap)
	for i := range blocks {
		unpackValidity((*[blockBitmap]byte)(valid[i*blockBitmap:]), (*[blockBitmap]byte)(buf[i*blockBitmap:]))
	}
	if raw {
		if _, err := validityOf(valid[full*blockBitmap:], rawLevels(buf[full*blockBitmap:])); err != nil {
			return nil, false
		}
	}
	return valid[:bitmapBytes(n)], true
}

// unpackValidity turns 1024 levels packed in one bit each into a bitmap of their complements. Bit r of the 16-bit word of
// lane l is the level at rowBase(r)+l, so this is a transposition: eight lanes and eight rows at a time.
func unpackValidity(out, packed *[blockBitmap]byte) {
	for g := 0; g < 8; g++ {
		a := binary.LittleEndian.Uint64(packed[16*g : 16*g+8])
		b := binary.LittleEndian.Uint64(packed[16*g+8 : 16*g+16])
		first := transpose8(evenBytes(a) | evenBytes(b)<<32)        // rows 0 to 7, which lie 128 values apart
		second := transpose8(evenBytes(a>>8) | evenBytes(b>>8)<<32) // rows 8 to 15, 64 values further on
		for r := 0; r < 8; r++ {
			out[16*r+g] = ^byte(first >> (8 * r))
			out[16*r+8+g] = ^byte(second >> (8 * r))
		}
	}
}

// evenBytes returns bytes 0, 2, 4 and 6 of x in the lower half of a word.
func evenBytes(x uint64) uint64 {
	x &= 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return (x | x>>16) & 0xffffffff
}

// transpose8 transposes a matrix of 8 by 8 bits, row i being byte i.
func transpose8(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}
