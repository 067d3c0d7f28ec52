package encoding

import "encoding/binary"

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
	off     bool // values are stored uncompressed
	n       int
	symbols [256]uint64 // first byte of the symbol in the lowest bits
	lengths [256]uint8  // 0 for codes that are not in the table, among them the escape: n <= 255
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
	for i := range t.n {
		length := b[fsstHeaderBytes+8*t.n+i]
		if length < 1 || length > fsstMaxSymbol {
			return nil, corrupt("symbol %d has length %d", i, length)
		}
		t.symbols[i] = u64(b[fsstHeaderBytes+8*i:])
		t.lengths[i] = length
	}
	return t, nil
}

// expand writes the decoded form of src to dst and returns its length. dst must have at least 8·len(src)+8 bytes.
func (t *symbolTable) expand(dst, src []byte) (int, error) {
	at := 0
	for i := 0; i < len(src); i++ {
		code := src[i]
		if n := t.lengths[code]; n > 0 {
			binary.LittleEndian.PutUint64(dst[at:], t.symbols[code])
			at += int(n)
			continue
		}
		if code != fsstEscape {
			return 0, corrupt("code %d in a table of %d symbols", code, t.n)
		}
		i++
		if i == len(src) {
			return 0, corrupt("escape at the end of a value")
		}
		dst[at] = src[i]
		at++
	}
	return at, nil
}
