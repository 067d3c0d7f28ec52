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
)

// fsstSymbol is a byte string of 1 to 8 bytes, first byte lowest.
type fsstSymbol struct {
	bytes  uint64
	length uint8
}

func (s fsstSymbol) mask() uint64 { return ^uint64(0) >> (64 - 8*s.length) }

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
	for at := 0; at < len(value); {
		entry := e.find(loadWord(value, at), len(value)-at)
		code := int(entry & 0xff)
		if entry&fsstEscaped != 0 {
			code = 256 + int(value[at])
		}
		c.one[code]++
		if last >= 0 && c.pair[last*fsstCodes+code] < 1<<16-1 {
			c.pair[last*fsstCodes+code]++
		}
		last = code
		at += int(entry >> fsstLengthShift)
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
	type candidate struct {
		fsstSymbol
		gain uint64
	}
	all := make([]candidate, 0, len(gain))
	for s, n := range gain {
		all = append(all, candidate{s, n})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if a.gain != b.gain {
			return cmp.Compare(b.gain, a.gain)
		}
		return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.bytes, b.bytes))
	})
	out := make([]fsstSymbol, len(all))
	for i, c := range all {
		out[i] = c.fsstSymbol
	}
	return out
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
