package zonemap

import (
	"bytes"
	"encoding/binary"

	"lancesql/internal/errs"
)

// As much of the Arrow IPC file format as it takes to see that a file has one record batch whose buffers are not
// compressed; the rest is left to the Arrow reader.
//
//	"ARROW1" 0 0 | … | footer | i32 footer length | "ARROW1"
//	footer: table whose field 3 is a vector of blocks { i64 offset | i32 metadata bytes | 4 bytes | i64 body bytes }
//	block:  [u32 0xffffffff |] i32 length | message table, whose field 2 is the record batch table, whose field 3, if
//	        there, says how buffers are compressed
//
// Spec: Arrow columnar format, "IPC file format".
const (
	arrowMagic     = "ARROW1"
	arrowFootBytes = 4 + len(arrowMagic)
	arrowBlock     = 24
)

// flatTable is a flatbuffer table at a position of b; reads outside b give 0 and ok false.
type flatTable struct {
	b  []byte
	at int
	ok bool
}

func flatU32(b []byte, at int) (uint32, bool) {
	if at < 0 || at > len(b)-4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b[at:]), true
}

// flatRoot is the table a flatbuffer begins with.
func flatRoot(b []byte) flatTable {
	at, ok := flatU32(b, 0)
	return flatTable{b: b, at: int(at), ok: ok}
}

// field returns the position of field n, 0 if the table does not have it.
func (t flatTable) field(n int) (at int, ok bool) {
	back, ok := flatU32(t.b, t.at)
	if !ok || !t.ok {
		return 0, false
	}
	vtable := t.at - int(int32(back))
	if vtable < 0 || vtable > len(t.b)-4 {
		return 0, false
	}
	size := int(binary.LittleEndian.Uint16(t.b[vtable:]))
	if 4+2*n+2 > size {
		return 0, true
	}
	if vtable+4+2*n+2 > len(t.b) {
		return 0, false
	}
	if off := int(binary.LittleEndian.Uint16(t.b[vtable+4+2*n:])); off != 0 {
		return t.at + off, true
	}
	return 0, true
}

// follow returns what the offset at field n points to.
func (t flatTable) follow(n int) (at int, ok bool) {
	at, ok = t.field(n)
	if !ok || at == 0 {
		return 0, false
	}
	off, ok := flatU32(t.b, at)
	return at + int(off), ok
}

// arrowPlain reports whether an Arrow file has one record batch without compression. errs.ErrCorruption if it is no
// Arrow file.
func arrowPlain(object string, b []byte) (bool, error) {
	bad := func(what string) (bool, error) {
		return false, errs.Corrupt(object, -1, "seed: no Arrow file: %s", what)
	}
	n := len(b)
	if n < 2*arrowFootBytes || !bytes.HasPrefix(b, []byte(arrowMagic)) || !bytes.HasSuffix(b, []byte(arrowMagic)) {
		return bad("magic")
	}
	length := int(binary.LittleEndian.Uint32(b[n-arrowFootBytes:]))
	if length > n-arrowFootBytes {
		return bad("footer length")
	}
	footer := b[n-arrowFootBytes-length : n-arrowFootBytes]
	blocks, ok := flatRoot(footer).follow(3)
	if !ok {
		return bad("blocks")
	}
	count, ok := flatU32(footer, blocks)
	if !ok {
		return bad("blocks")
	}
	if count != 1 {
		return false, nil
	}
	if blocks+4+arrowBlock > len(footer) {
		return bad("block")
	}
	offset := binary.LittleEndian.Uint64(footer[blocks+4:])
	if offset > uint64(n-8) {
		return bad("block offset")
	}
	message := b[offset+4:]
	if binary.LittleEndian.Uint32(b[offset:]) == 0xffffffff {
		message = message[4:]
	}
	batch, ok := flatRoot(message).follow(2)
	if !ok {
		return bad("message")
	}
	compression, ok := flatTable{b: message, at: batch, ok: true}.field(3)
	if !ok {
		return bad("record batch")
	}
	return compression == 0, nil
}
