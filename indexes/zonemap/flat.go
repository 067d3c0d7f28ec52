package zonemap

import (
	"encoding/binary"

	"lancesql/internal/errs"
)

// flat reads the flatbuffers of an Arrow file that is not trusted: a read outside b gives zero and makes the error stick.
//
//	table at p:  i32 p - position of its vtable | fields
//	vtable:      u16 its size | u16 size of the table | u16 offset of each field in the table, 0: default
//	reference:   u32 distance to what is meant;  vector: u32 count | elements;  string: a vector of bytes
//
// Spec: FlatBuffers internals.
type flat struct {
	object string
	b      []byte
	err    error
}

func (f *flat) fail(at int) {
	if f.err == nil {
		f.err = errs.Corrupt(f.object, -1, "seed: flatbuffer of %d bytes points to %d", len(f.b), at)
	}
}

// take returns n bytes at a position, nil if they are not there.
func (f *flat) take(at, n int) []byte {
	if f.err != nil || at < 0 || n < 0 || at > len(f.b) || n > len(f.b)-at {
		f.fail(at)
		return nil
	}
	return f.b[at : at+n]
}

func (f *flat) u8(at int) byte {
	if b := f.take(at, 1); b != nil {
		return b[0]
	}
	return 0
}

func (f *flat) u16(at int) int {
	if b := f.take(at, 2); b != nil {
		return int(binary.LittleEndian.Uint16(b))
	}
	return 0
}

func (f *flat) i32(at int) int {
	if b := f.take(at, 4); b != nil {
		return int(int32(binary.LittleEndian.Uint32(b)))
	}
	return 0
}

func (f *flat) i64(at int) int64 {
	if b := f.take(at, 8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// follow returns what the reference at a position means.
func (f *flat) follow(at int) int { return at + f.i32(at) }

// root is the table that the flatbuffer begins with.
func (f *flat) root() int { return f.follow(0) }

// field returns the position of field n of a table, 0 if it has its default.
func (f *flat) field(table, n int) int {
	vtable := table - f.i32(table)
	if 4+2*n+2 > f.u16(vtable) {
		return 0
	}
	if off := f.u16(vtable + 4 + 2*n); off != 0 {
		return table + off
	}
	return 0
}

// number16 and number32 read a scalar field.
func (f *flat) number16(table, n, missing int) int {
	if at := f.field(table, n); at != 0 {
		return f.u16(at)
	}
	return missing
}

func (f *flat) number32(table, n, missing int) int {
	if at := f.field(table, n); at != 0 {
		return f.i32(at)
	}
	return missing
}

// table returns the table that field n refers to, 0 if there is none.
func (f *flat) table(table, n int) int {
	if at := f.field(table, n); at != 0 {
		return f.follow(at)
	}
	return 0
}

// vector returns where the elements of the vector in field n begin and how many of size bytes there are, all inside b.
func (f *flat) vector(table, n, size int) (first, count int) {
	at := f.table(table, n)
	if at == 0 {
		return 0, 0
	}
	count = f.i32(at)
	if count < 0 || count > len(f.b)/size {
		f.fail(at)
		return 0, 0
	}
	if f.take(at+4, count*size) == nil {
		return 0, 0
	}
	return at + 4, count
}

// text returns the string in field n.
func (f *flat) text(table, n int) string {
	first, count := f.vector(table, n, 1)
	if count == 0 {
		return ""
	}
	return string(f.take(first, count))
}
