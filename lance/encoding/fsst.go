package encoding

import "unsafe"

// Spec: file format, "FSST".
//
//	byte 0 symbols n | 1 terminator | 2 suffix_lim | 3 flags (bit 0: compressed) | 4..7 magic |
//	n × 8 symbol bytes | n lengths 1..8 | zeros up to 2312 bytes

const (
	fsstTableBytes  = 2312
	fsstMagic       = 0x46535354
	fsstEscape      = 255
	fsstMaxSymbol   = 8
	fsstHeaderBytes = 8
)

// symbolTable is a parsed FSST table. Immutable.
type symbolTable struct {
	off   bool // values are stored uncompressed
	n     int
	codes [256]fsstCode
}

// fsstCode is what one code stands for. Codes without a symbol, among them the escape, have a negative length, so that
// the signs of several lengths can be looked at together.
type fsstCode struct {
	bytes  uint64 // first byte of the symbol in the lowest bits
	length int
}

func parseSymbolTable(b []byte) (*symbolTable, error) {
	if len(b) < fsstHeaderBytes {
		return nil, corrupt("symbol table of %d bytes", len(b))
	}
	if magic := u32(b[4:]); magic != fsstMagic {
		return nil, corrupt("symbol table magic %#x", magic)
	}
	t := &symbolTable{off: b[3]&1 == 0, n: int(b[0])}
	if t.off {
		return t, nil
	}
	if len(b) < fsstHeaderBytes+9*t.n {
		return nil, corrupt("symbol table of %d bytes with %d symbols", len(b), t.n)
	}
	for i := range t.codes {
		t.codes[i].length = -1
	}
	for i := range t.n {
		length := b[fsstHeaderBytes+8*t.n+i]
		if length < 1 || length > fsstMaxSymbol {
			return nil, corrupt("symbol %d has length %d", i, length)
		}
		t.codes[i] = fsstCode{bytes: u64(b[fsstHeaderBytes+8*i:]), length: int(length)}
	}
	return t, nil
}

// expandedRoom is the room that the decoded form of n bytes needs: eight bytes are stored per code, however short its
// symbol is.
func expandedRoom(n int) int { return fsstMaxSymbol * (n + 1) }

// expand writes the decoded form of src to dst and returns its length. dst must have expandedRoom(len(src)) bytes, of
// which those behind the result are overwritten too.
func (t *symbolTable) expand(dst, src []byte) (int, error) {
	if len(dst) < expandedRoom(len(src)) {
		return 0, corrupt("room of %d bytes for %d codes", len(dst), len(src))
	}
	// Why unsafe: this loop is most of the time of reading strings, and a bounds check per code a third of that. A code
	// moves at by at most 8, so every store below is within 8·len(src) bytes, which were checked above.
	out := unsafe.Pointer(unsafe.SliceData(dst))
	at := 0
	for len(src) >= 4 {
		word := u32(src)
		c0, c1, c2, c3 := &t.codes[uint8(word)], &t.codes[uint8(word>>8)], &t.codes[uint8(word>>16)], &t.codes[uint8(word>>24)]
		if c0.length|c1.length|c2.length|c3.length >= 0 {
			*(*uint64)(unsafe.Add(out, at)) = c0.bytes
			at += c0.length
			*(*uint64)(unsafe.Add(out, at)) = c1.bytes
			at += c1.length
			*(*uint64)(unsafe.Add(out, at)) = c2.bytes
			at += c2.length
			*(*uint64)(unsafe.Add(out, at)) = c3.bytes
			at += c3.length
			src = src[4:]
			continue
		}
		for t.codes[src[0]].length >= 0 { // one of the four is no symbol
			c := &t.codes[src[0]]
			*(*uint64)(unsafe.Add(out, at)) = c.bytes
			at += c.length
			src = src[1:]
		}
		if src[0] != fsstEscape {
			return 0, corrupt("code %d in a table of %d symbols", src[0], t.n)
		}
		if len(src) == 1 {
			return 0, corrupt("escape at the end of a value")
		}
		dst[at] = src[1]
		at++
		src = src[2:]
	}
	for i := 0; i < len(src); i++ {
		if c := &t.codes[src[i]]; c.length >= 0 {
			*(*uint64)(unsafe.Add(out, at)) = c.bytes
			at += c.length
			continue
		}
		if src[i] != fsstEscape {
			return 0, corrupt("code %d in a table of %d symbols", src[i], t.n)
		}
		if i++; i == len(src) {
			return 0, corrupt("escape at the end of a value")
		}
		dst[at] = src[i]
		at++
	}
	return at, nil
}
