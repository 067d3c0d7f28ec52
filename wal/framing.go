package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// An Arrow IPC message is: continuation ff ff ff ff, metadata length (int32 LE, with padding), the metadata
// (a flatbuffer), then the body whose length the metadata gives. Lengths inside the metadata decide how much
// the Arrow reader allocates and how deep it recurses, so they are checked here first.

// Message kinds and flatbuffer field numbers of the Arrow format.
const (
	kindSchema = 1
	kindBatch  = 3

	messageKind, messageHeader, messageBodyLen, messageMeta = 1, 2, 3, 4
	schemaEndian, schemaFields, schemaMeta, schemaFeatures  = 0, 1, 2, 3
	fieldType, fieldDict, fieldChildren, fieldMeta          = 3, 4, 5, 6
	batchRows, batchNodes, batchBuffers, batchCompression   = 0, 1, 2, 3
	batchVariadic                                           = 4

	maxNesting = 32      // of field types
	maxRows    = 1 << 31 // of one batch
)

// message is one framed message; meta and body alias the input.
type message struct {
	kind       uint8
	meta, body []byte
}

// errFlat is the reason a flatbuffer is refused.
var errFlat = errors.New("metadata points outside itself")

// nextMessage splits the first message off b. A nil message without error is the end marker.
func nextMessage(b []byte) (m *message, size int, err error) {
	if len(b) < 8 || binary.LittleEndian.Uint32(b) != 0xffffffff {
		return nil, 0, errors.New("no message header")
	}
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	if n == 0 {
		return nil, 8, nil
	}
	if n%8 != 0 || n > int64(len(b)-8) {
		return nil, 0, fmt.Errorf("metadata of %d bytes, %d left", n, len(b)-8)
	}
	m = &message{meta: b[8 : 8+n]}
	bodyLen, err := m.check()
	if err != nil {
		return nil, 0, err
	}
	rest := b[8+n:]
	if bodyLen < 0 || bodyLen > int64(len(rest)) || bodyLen%8 != 0 {
		return nil, 0, fmt.Errorf("body of %d bytes, %d left", bodyLen, len(rest))
	}
	m.body = rest[:bodyLen]
	return m, int(8 + n + bodyLen), nil
}

// check verifies the metadata and returns the length of the body.
func (m *message) check() (bodyLen int64, err error) {
	f := &flat{b: m.meta, budget: len(m.meta)}
	root := f.table(f.at(0))
	m.kind = uint8(f.scalar(root, messageKind, 1))
	bodyLen = int64(f.scalar(root, messageBodyLen, 8))
	f.pairs(root, messageMeta)
	header := f.child(root, messageHeader)
	switch m.kind {
	case kindSchema:
		if f.scalar(header, schemaEndian, 2) != 0 {
			f.fail(errors.New("big-endian stream"))
		}
		for i, n := 0, f.vector(header, schemaFields, 4); i < n; i++ {
			f.field(f.element(header, schemaFields, i), 0)
		}
		f.pairs(header, schemaMeta)
		f.vector(header, schemaFeatures, 8)
	case kindBatch:
		f.batch(header, bodyLen)
	default:
		f.fail(fmt.Errorf("message of kind %d", m.kind))
	}
	return bodyLen, f.err
}

// flat reads a flatbuffer with bounds checks. The first problem sticks; reads after it give zero. Tables only
// point forward, and budget bounds the number of tables visited, so shared ones cannot blow the work up.
type flat struct {
	b      []byte
	budget int
	err    error
}

// tab is a table: where it and its vtable begin, and their sizes in bytes. The zero tab has no fields.
type tab struct{ pos, vt, vtSize, size int }

func (f *flat) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *flat) uint(pos, width int) uint64 {
	if f.err != nil || pos < 0 || pos > len(f.b)-width {
		f.fail(errFlat)
		return 0
	}
	switch p := f.b[pos:]; width {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(p))
	case 4:
		return uint64(binary.LittleEndian.Uint32(p))
	default:
		return binary.LittleEndian.Uint64(p)
	}
}

// at follows the offset stored at pos.
func (f *flat) at(pos int) int {
	off := int64(f.uint(pos, 4))
	if f.err != nil || off <= 0 || off > int64(len(f.b)-pos) {
		f.fail(errFlat)
		return 0
	}
	return pos + int(off)
}

func (f *flat) table(pos int) tab {
	if f.budget--; f.budget < 0 {
		f.fail(errors.New("metadata refers to itself too often"))
	}
	vt := int64(pos) - int64(int32(f.uint(pos, 4)))
	if f.err != nil || vt < 0 || vt > int64(len(f.b)) {
		f.fail(errFlat)
		return tab{}
	}
	t := tab{pos: pos, vt: int(vt), vtSize: int(f.uint(int(vt), 2)), size: int(f.uint(int(vt)+2, 2))}
	if f.err != nil || t.vtSize < 4 || t.vtSize%2 != 0 || t.size < 4 || t.vt > len(f.b)-t.vtSize || t.pos > len(f.b)-t.size {
		f.fail(errFlat)
		return tab{}
	}
	return t
}

// slot returns where field i of t lies, 0 if it is absent.
func (f *flat) slot(t tab, i, width int) int {
	if f.err != nil || 4+2*i+2 > t.vtSize {
		return 0
	}
	off := int(f.uint(t.vt+4+2*i, 2))
	if off == 0 {
		return 0
	}
	if off < 4 || off > t.size-width {
		f.fail(errFlat)
		return 0
	}
	return t.pos + off
}

func (f *flat) scalar(t tab, i, width int) uint64 {
	if p := f.slot(t, i, width); p != 0 {
		return f.uint(p, width)
	}
	return 0
}

func (f *flat) child(t tab, i int) tab {
	if p := f.slot(t, i, 4); p != 0 {
		return f.table(f.at(p))
	}
	return tab{}
}

// vector returns the number of elements of width bytes in field i, all of which lie inside the buffer.
func (f *flat) vector(t tab, i, width int) int {
	p := f.slot(t, i, 4)
	if p == 0 {
		return 0
	}
	p = f.at(p)
	n := f.uint(p, 4)
	if f.err != nil || n > uint64(len(f.b)-p-4)/uint64(width) {
		f.fail(errFlat)
		return 0
	}
	return int(n)
}

// start returns where the elements of vector i begin; vector has checked it.
func (f *flat) start(t tab, i int) int { return f.at(f.slot(t, i, 4)) + 4 }

// element returns table e of the vector of tables i.
func (f *flat) element(t tab, i, e int) tab { return f.table(f.at(f.start(t, i) + 4*e)) }

// pairs checks a vector of key-value tables.
func (f *flat) pairs(t tab, i int) {
	for e, n := 0, f.vector(t, i, 4); e < n && f.err == nil; e++ {
		kv := f.element(t, i, e)
		f.vector(kv, 0, 1)
		f.vector(kv, 1, 1)
	}
}

func (f *flat) field(t tab, depth int) {
	if depth > maxNesting {
		f.fail(errors.New("types nested too deeply"))
		return
	}
	f.vector(t, 0, 1) // name
	f.pairs(t, fieldMeta)
	f.child(t, fieldType)
	if f.slot(t, fieldDict, 4) != 0 {
		f.fail(errors.New("dictionary-encoded column"))
	}
	for i, n := 0, f.vector(t, fieldChildren, 4); i < n && f.err == nil; i++ {
		f.field(f.element(t, fieldChildren, i), depth+1)
	}
}

func (f *flat) batch(t tab, bodyLen int64) {
	if f.scalar(t, batchRows, 8) > maxRows {
		f.fail(errors.New("too many rows in a batch"))
	}
	if f.slot(t, batchCompression, 4) != 0 {
		f.fail(errors.New("compressed body"))
	}
	f.vector(t, batchVariadic, 8)
	for i, n := 0, f.vector(t, batchNodes, 16); i < n && f.err == nil; i++ {
		node := f.start(t, batchNodes) + 16*i
		if rows, nulls := f.uint(node, 8), f.uint(node+8, 8); nulls > rows || rows > 1<<40 {
			f.fail(fmt.Errorf("column of %d cells with %d nulls", rows, nulls))
		}
	}
	for i, n := 0, f.vector(t, batchBuffers, 16); i < n && f.err == nil; i++ {
		buf := f.start(t, batchBuffers) + 16*i
		off, size := f.uint(buf, 8), f.uint(buf+8, 8)
		if off%8 != 0 || off > uint64(bodyLen) || size > uint64(bodyLen)-off {
			f.fail(fmt.Errorf("buffer of %d bytes at %d of a body of %d", size, off, bodyLen))
		}
	}
}
