package encoding

import "encoding/binary"

const (
	fsstHashSlots = 2048
	// What the tables of an encoder say in 16 bits: the code, whether it is the escape, the bytes it covers.
	fsstEscaped     = 0x100
	fsstLengthShift = 12
	fsstNoSymbol    = fsstEscape | fsstEscaped | 1<<fsstLengthShift
)

// fsstEncoder finds the longest symbol at a position. Symbols of one and two bytes are looked up directly, longer ones
// in a hash table over their first three bytes that holds one symbol per slot.
type fsstEncoder struct {
	symbols []fsstSymbol
	one     [256]uint16
	two     [65536]uint16 // entry of a two-byte symbol, else that of its first byte
	long    [fsstHashSlots]fsstSlot
}

// fsstSlot is a symbol of three bytes or more. The zero value with bytes 1 matches nothing.
type fsstSlot struct {
	bytes, mask uint64
	entry       uint16
}

func fsstEntry(code int, length uint8) uint16 { return uint16(code) | uint16(length)<<fsstLengthShift }

func fsstHash(word uint64) uint64 {
	return (word & 0xffffff) * 0x9e3779b97f4a7c15 >> 53
}

// setSymbols replaces the table. symbols are in order of preference; those whose hash slot is taken are dropped.
func (e *fsstEncoder) setSymbols(symbols []fsstSymbol) {
	e.symbols = e.symbols[:0]
	fill(e.one[:], fsstNoSymbol)
	for i := range e.long {
		e.long[i] = fsstSlot{bytes: 1}
	}
	for _, s := range symbols {
		code := len(e.symbols)
		if code == fsstEscape {
			break
		}
		if s.length > 2 {
			slot := &e.long[fsstHash(s.bytes)]
			if slot.mask != 0 {
				continue
			}
			*slot = fsstSlot{bytes: s.bytes, mask: s.mask(), entry: fsstEntry(code, s.length)}
		} else if s.length == 1 {
			e.one[s.bytes] = fsstEntry(code, 1)
		}
		e.symbols = append(e.symbols, s)
	}
	for i := range e.two {
		e.two[i] = e.one[i&0xff]
	}
	for code, s := range e.symbols {
		if s.length == 2 {
			e.two[s.bytes] = fsstEntry(code, 2)
		}
	}
}

// loadWord returns the eight bytes from position at of b, which has at least one there; those behind its end are zero.
func loadWord(b []byte, at int) uint64 {
	if at+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[at:])
	}
	var word uint64
	for i, x := range b[at:] {
		word |= uint64(x) << (8 * i)
	}
	return word
}

// find returns the entry of the longest symbol at the start of word, of which n bytes (at least one) belong to the value.
func (e *fsstEncoder) find(word uint64, n int) uint16 {
	if slot := &e.long[fsstHash(word)]; word&slot.mask == slot.bytes && int(slot.entry>>fsstLengthShift) <= n {
		return slot.entry
	}
	if n == 1 {
		return e.one[word&0xff]
	}
	return e.two[word&0xffff]
}

// compressTo writes the compressed form of bytes [lo, hi) of raw to dst, which has twice as many, and returns its length.
// It may look at, but does not use, the bytes behind hi.
func (e *fsstEncoder) compressTo(dst, raw []byte, lo, hi int) int {
	n := 0
	for lo < hi {
		word := loadWord(raw, lo)
		entry := e.find(word, hi-lo)
		dst[n], dst[n+1] = byte(entry), byte(word) // the second counts behind an escape only
		n += 1 + int(entry>>8&1)
		lo += int(entry >> fsstLengthShift)
	}
	return n
}

// compress appends the compressed form of src.
func (e *fsstEncoder) compress(dst, src []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, 2*len(src))...)
	return dst[:at+e.compressTo(dst[at:], src, 0, len(src))]
}

const (
	fsstMinBytes   = 32 << 10 // total bytes of a page worth a table
	fsstMinLongest = 5        // bytes of the longest value
	fsstKeep       = 80       // percent of the original size that compressed data may have at most
	fsstKeepSample = 70       // the same for the sample, which the table fits better than the rest
	fsstKeepBinary = 45       // the same for samples of binary columns
)

// compressStrings returns a vector with the FSST-compressed values of v, sharing v's validity, and the table; nil if
// compression does not pay.
func compressStrings(v *Vector, o PageOptions) (*Vector, []byte) {
	asked, least := o.Hints.Compression, fsstMinBytes
	if asked == CompressionFSST {
		least = fsstHintedMin
	}
	if asked != CompressionAuto && asked != CompressionFSST || v.data.len() < least || v.widest() < fsstMinLongest {
		return nil, nil
	}
	sample := sampleStrings(v)
	e := buildFSST(sample)
	before, after := 0, []byte(nil)
	for _, s := range sample {
		before += len(s)
		after = e.compress(after, s)
	}
	keep := fsstKeepSample
	if o.Binary && asked == CompressionAuto {
		keep = fsstKeepBinary
	}
	if len(after)*100 > before*keep {
		return nil, nil
	}
	out := NewVector(v.typ, v.mem)
	var ok bool
	if v.typ.Kind == KindVar32 {
		ok = compressRows(e, out, v.data.bytes(), wordsOf[uint32](v.offs.bytes()), out.growOffsets32(v.n))
	} else {
		ok = compressRows(e, out, v.data.bytes(), wordsOf[uint64](v.offs.bytes()), out.growOffsets64(v.n))
	}
	if !ok {
		out.Release()
		return nil, nil
	}
	out.n, out.nulls, out.valid = v.n, v.nulls, v.valid
	return out, e.table()
}

// compressRows fills out with the compressed form of the rows of raw that offs delimit, and ends with where they end. It
// gives up when the result becomes too large to be worth it.
func compressRows[T uint32 | uint64](e *fsstEncoder, out *Vector, raw []byte, offs, ends []T) bool {
	limit := len(raw)*fsstKeep/100 - fsstTableBytes
	data := out.data.grow(out.mem, max(limit, 0)+4*fsstTableBytes)
	pos := 0
	for i := range ends {
		lo, hi := int(offs[i]), int(offs[i+1])
		if room := 2 * (hi - lo); room > len(data)-pos {
			out.data.grow(out.mem, room)
			data = out.data.bytes()
		}
		pos += e.compressTo(data[pos:], raw, lo, hi)
		if pos > limit {
			return false
		}
		ends[i] = T(pos)
	}
	out.data.buf.ResizeNoShrink(pos)
	return true
}
