package table

import (
	"encoding/binary"

	"lancesql/internal/errs"
)

// flat reads FlatBuffers from untrusted bytes. Every access is checked; the first one out of bounds sets err and all
// later ones answer zero, so a caller may read a group of values and look at err once.
//
//	root: u32 offset of a table        table: i32 distance back to its vtable, then values
//	vtable: u16 size | u16 size of the table | per field u16 distance from the table, 0 = absent
//	reference: u32 distance forward    vector: u32 count, then elements
//
// Why: the Arrow library's reader sizes allocations by counts it has not compared with the input, and memory
// exhaustion cannot be caught.
type flat struct {
	object string
	base   int64 // offset of b in the object
	b      []byte
	err    error
}

// at returns n bytes at position p.
func (f *flat) at(p, n int) []byte {
	if f.err == nil && (p < 0 || n < 0 || p > len(f.b) || n > len(f.b)-p) {
		f.err = errs.Corrupt(f.object, f.base+int64(p), "%d bytes beyond the end of the metadata", n)
	}
	if f.err != nil {
		return make([]byte, 8)[:min(max(n, 0), 8)]
	}
	return f.b[p : p+n]
}

func (f *flat) u8(p int) uint8   { return f.at(p, 1)[0] }
func (f *flat) u16(p int) uint16 { return binary.LittleEndian.Uint16(f.at(p, 2)) }
func (f *flat) u32(p int) uint32 { return binary.LittleEndian.Uint32(f.at(p, 4)) }
func (f *flat) i64(p int) int64  { return int64(binary.LittleEndian.Uint64(f.at(p, 8))) }

// follow returns the target of the reference at p.
func (f *flat) follow(p int) int { return p + int(f.u32(p)) }

// root is the position of the root table.
func (f *flat) root() int { return f.follow(0) }

// field returns the position of field i of a table, 0 if it is absent.
func (f *flat) field(table, i int) int {
	vtable := table - int(int32(f.u32(table)))
	slot := 4 + 2*i
	if slot+2 > int(f.u16(vtable)) {
		return 0
	}
	distance := int(f.u16(vtable + slot))
	if distance == 0 || f.err != nil {
		return 0
	}
	return table + distance
}

// table returns the position of the sub-table in field i, 0 if absent.
func (f *flat) table(table, i int) int {
	p := f.field(table, i)
	if p == 0 {
		return 0
	}
	return f.follow(p)
}

// vector returns the position of the first element and the count of the vector in field i, elements of size bytes.
func (f *flat) vector(table, i, size int) (first, count int) {
	p := f.field(table, i)
	if p == 0 {
		return 0, 0
	}
	v := f.follow(p)
	n := int(f.u32(v))
	f.at(v+4, n*size)
	if f.err != nil {
		return 0, 0
	}
	return v + 4, n
}
