package encoding

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Building FSST tables: a few generations, each of which compresses a sample with the table so far, counts symbols and
// neighbouring pairs of them, and keeps the symbols and joined pairs that covered the most bytes.

const (
	fsstSampleBytes = 16 << 10
	fsstGenerations = 5
	fsstCodes       = 512 // 256 codes, then one pseudo code per escaped byte
	fsstHashSlots   = 2048
	fsstNoCode      = 0xffff
)

// fsstSymbol is a byte string of 1 to 8 bytes, first byte lowest.
type fsstSymbol struct {
	bytes  uint64
	length uint8
}

func (s fsstSymbol) mask() uint64 { return ^uint64(0) >> (64 - 8*s.length) }

// fsstEncoder finds the longest symbol at a position. Symbols of one and two bytes are looked up directly, longer ones
// in a hash table over their first three bytes that holds one symbol per slot.
type fsstEncoder struct {
	symbols []fsstSymbol
	one     [256]uint16
	two     [65536]uint16 // code of a two-byte symbol, else that of its first byte
	long    [fsstHashSlots]fsstSlot
}

type fsstSlot struct {
	bytes, mask uint64
	code        uint16
	length      uint8 // 0 = empty
}

func fsstHash(word uint64) uint64 {
	return (word & 0xffffff) * 0x9e3779b97f4a7c15 >> 53
}

// setSymbols replaces the table. symbols are in order of preference; those whose hash slot is taken are dropped.
func (e *fsstEncoder) setSymbols(symbols []fsstSymbol) {
	e.symbols = e.symbols[:0]
	fill(e.one[:], fsstNoCode)
	e.long = [fsstHashSlots]fsstSlot{}
	for _, s := range symbols {
		if len(e.symbols) == fsstEscape {
			break
		}
		if s.length > 2 {
			slot := &e.long[fsstHash(s.bytes)]
			if slot.length > 0 {
				continue
			}
			*slot = fsstSlot{bytes: s.bytes, mask: s.mask(), code: uint16(len(e.symbols)), length: s.length}
		} else if s.length == 1 {
			e.one[s.bytes] = uint16(len(e.symbols))
		}
		e.symbols = append(e.symbols, s)
	}
	for i := range e.two {
		e.two[i] = e.one[i&0xff]
	}
	for code, s := range e.symbols {
		if s.length == 2 {
			e.two[s.bytes] = uint16(code)
		}
	}
}

// next returns the code at the start of src (not empty) and the bytes it covers; fsstNoCode means an escaped byte.
func (e *fsstEncoder) next(src []byte) (code uint16, length int) {
	var word uint64
	if len(src) >= 8 {
		word = binary.LittleEndian.Uint64(src)
	} else {
		for i, b := range src {
			word |= uint64(b) << (8 * i)
		}
	}
	if slot := &e.long[fsstHash(word)]; word&slot.mask == slot.bytes && slot.length > 0 && int(slot.length) <= len(src) {
		return slot.code, int(slot.length)
	}
	if len(src) == 1 {
		return e.one[word], 1
	}
	code = e.two[word&0xffff]
	if code != fsstNoCode && e.symbols[code].length == 2 {
		return code, 2
	}
	return code, 1
}

// compress appends the compressed form of src.
func (e *fsstEncoder) compress(dst, src []byte) []byte {
	for len(src) > 0 {
		code, n := e.next(src)
		if code == fsstNoCode {
			dst = append(dst, fsstEscape, src[0])
		} else {
			dst = append(dst, byte(code))
		}
		src = src[n:]
	}
	return dst
}

// fsstCounts are the statistics of one generation.
type fsstCounts struct {
	one  [fsstCodes]uint32
	pair [fsstCodes * fsstCodes]uint16
}

// buildFSST makes an encoder for values like those of the sample.
func buildFSST(sample [][]byte) *fsstEncoder {
	e := &fsstEncoder{}
	e.setSymbols(nil)
	counts := &fsstCounts{}
	for range fsstGenerations {
		*counts = fsstCounts{}
		for _, value := range sample {
			e.count(counts, value)
		}
		e.setSymbols(e.best(counts))
	}
	return e
}

// symbolOf returns the symbol of a code or pseudo code.
func (e *fsstEncoder) symbolOf(code int) fsstSymbol {
	if code >= 256 {
		return fsstSymbol{bytes: uint64(code - 256), length: 1}
	}
	return e.symbols[code]
}

func (e *fsstEncoder) count(c *fsstCounts, value []byte) {
	last := -1
	for len(value) > 0 {
		next, n := e.next(value)
		code := int(next)
		if next == fsstNoCode {
			code = 256 + int(value[0])
		}
		c.one[code]++
		if last >= 0 && c.pair[last*fsstCodes+code] < 1<<16-1 {
			c.pair[last*fsstCodes+code]++
		}
		last = code
		value = value[n:]
	}
}

// best returns the symbols of the next generation, greatest gain first.
func (e *fsstEncoder) best(c *fsstCounts) []fsstSymbol {
	gain := make(map[fsstSymbol]uint64)
	for code, n := range c.one {
		if n == 0 {
			continue
		}
		first := e.symbolOf(code)
		gain[first] += uint64(n) * uint64(first.length)
		for follow, n := range c.pair[code*fsstCodes : (code+1)*fsstCodes] {
			if n < 2 || first.length == fsstMaxSymbol {
				continue
			}
			second := e.symbolOf(follow)
			length := min(fsstMaxSymbol, first.length+second.length)
			joined := fsstSymbol{bytes: first.bytes | second.bytes<<(8*first.length), length: length}
			joined.bytes &= joined.mask()
			gain[joined] += uint64(n) * uint64(length)
		}
	}
	all := make([]fsstSymbol, 0, len(gain))
	for s := range gain {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b fsstSymbol) int {
		return cmp.Or(cmp.Compare(gain[b], gain[a]), cmp.Compare(a.length, b.length), cmp.Compare(a.bytes, b.bytes))
	})
	return all
}

// table returns the table in stored form.
func (e *fsstEncoder) table() []byte {
	b := make([]byte, fsstTableBytes)
	n := len(e.symbols)
	b[0], b[3] = byte(n), 1
	binary.LittleEndian.PutUint32(b[4:], fsstMagic)
	for i, s := range e.symbols {
		binary.LittleEndian.PutUint64(b[fsstHeaderBytes+8*i:], s.bytes)
		b[fsstHeaderBytes+8*n+i] = s.length
	}
	return b
}

const (
	fsstMinBytes   = 32 << 10 // total bytes of a page worth a table
	fsstMinLongest = 5        // bytes of the longest value
	fsstKeep       = 80       // percent of the original size that compressed data may have at most
	fsstKeepSample = 70       // the same for the sample, which the table fits better than the rest
)

// compressStrings returns a vector with the FSST-compressed values of v, sharing v's validity, and the table; nil if
// compression does not pay.
func compressStrings(v *Vector) (*Vector, []byte) {
	if v.data.len() < fsstMinBytes || v.widest() < fsstMinLongest {
		return nil, nil
	}
	sample := sampleStrings(v)
	e := buildFSST(sample)
	before, after := 0, []byte(nil)
	for _, s := range sample {
		before += len(s)
		after = e.compress(after, s)
	}
	if len(after)*100 > before*fsstKeepSample {
		return nil, nil
	}
	out := NewVector(v.typ, v.mem)
	out.Reserve(v.n)
	data := make([]byte, 0, v.data.len())
	raw := v.data.bytes()
	out.ensureOffsets()
	ends := out.offs.grow(out.mem, v.n*v.typ.OffsetBits()/8)
	for i := range v.n {
		lo, hi := v.span(i)
		data = e.compress(data, raw[lo:hi])
		if v.typ.Kind == KindVar32 {
			binary.LittleEndian.PutUint32(ends[4*i:], uint32(len(data)))
		} else {
			binary.LittleEndian.PutUint64(ends[8*i:], uint64(len(data)))
		}
	}
	if (len(data)+fsstTableBytes)*100 > v.data.len()*fsstKeep {
		out.Release()
		return nil, nil
	}
	copy(out.data.grow(out.mem, len(data)), data)
	out.n, out.nulls, out.valid = v.n, v.nulls, v.valid
	return out, e.table()
}

// sampleStrings picks values spread over the vector, fsstSampleBytes in all.
func sampleStrings(v *Vector) [][]byte {
	step := max(1, v.data.len()/fsstSampleBytes)
	raw := v.data.bytes()
	var out [][]byte
	total := 0
	for i := 0; i < v.n && total < fsstSampleBytes; i += step {
		lo, hi := v.span(i)
		hi = min(hi, lo+fsstSampleBytes-total)
		out = append(out, raw[lo:hi])
		total += hi - lo
	}
	return out
}
