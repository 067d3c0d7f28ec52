package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"

	"lancesql/internal/errs"
)

// J is a record number: gap-free, from 1, persistent.
type J uint64

// Kind says what a record is for.
type Kind uint8

// Kinds of records.
const (
	Commit  Kind = 1 // rows of one or more shards
	Catalog Kind = 2 // a catalog change
	Start   Kind = 3 // Record.From is the first J still needed
	skip    Kind = 4 // Record.From is the number of the next record
)

// Part is one shard's share of a commit.
type Part struct {
	Table, Shard uuid.UUID
	Schema       uint32 // schema version of Body
	Body         []byte // Arrow IPC batch messages, without the schema message
}

// CounterKind tells a table's counters apart.
type CounterKind uint32

// Kinds of counters.
const (
	AutoIncrement CounterKind = 0
	RowID         CounterKind = 1 // hidden row ids of a table without a primary key
)

// Counter is the next value of a counter when the record was made. Of several records the last one counts.
type Counter struct {
	Table uuid.UUID
	Kind  CounterKind
	Value uint64
}

// End is how far the WAL of a shard reached when a start record was made: whatever records before that record's From hold
// of the shard lies at or before Position, or in what was made of the WAL since.
type End struct {
	Table, Shard uuid.UUID
	Position     uint64
}

// Record is one entry of the journal. J is assigned by Append.
type Record struct {
	Kind     Kind
	J        J
	From     J // Start: the first J still needed
	Parts    []Part
	Catalog  []byte
	Counters []Counter
	Ends     []End // Start only
}

// Layout of a record, little-endian; it begins at a block boundary:
//
//	 0 u32 magic "LJR1"      4 u32 crc32c over bytes 8… of header and body
//	 8 u64 segment id       16 u64 J
//	24 u64 from             32 u32 body length
//	36 u8 kind              37 3 × 0
//	40 u64 J of the first record written under the same sync
//	48 body: u32 parts, each { 16 table, 16 shard, u32 schema, u32 length, bytes }
//	         u32 catalog length, bytes; u32 counters, each { 16 table, u32 kind, u64 value };
//	         of a start record, from segment format 2 on: u32 ends, each { 16 table, 16 shard, u64 position }
const (
	blockBytes   = 4096
	headerBytes  = 48
	recordMagic  = 0x3152_4a4c
	bodyBytesMax = 1 << 30
	partsMax     = 1 << 20
	partBytes    = 16 + 16 + 4 + 4
	counterBytes = 16 + 4 + 8
	endBytes     = 16 + 16 + 8
)

// castagnoli is the table of crc32c, which never changes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r *Record) bodySize() int {
	n := 4 + 4 + len(r.Catalog) + 4 + counterBytes*len(r.Counters)
	for _, p := range r.Parts {
		n += partBytes + len(p.Body)
	}
	if r.Kind == Start {
		n += 4 + endBytes*len(r.Ends)
	}
	return n
}

// blocks is the space a record takes, whole blocks in bytes.
func (r *Record) blocks() int64 {
	n := int64(headerBytes + r.bodySize())
	return (n + blockBytes - 1) / blockBytes * blockBytes
}

func (r *Record) validate() error {
	switch {
	case r.Kind < Commit || r.Kind > skip:
		return fmt.Errorf("record of kind %d: %w", r.Kind, errs.ErrInvalid)
	case (r.Kind == Start || r.Kind == skip) != (r.From != 0):
		return fmt.Errorf("a record of kind %d names another record, %d: %w", r.Kind, r.From, errs.ErrInvalid)
	case len(r.Ends) > 0 && r.Kind != Start:
		return fmt.Errorf("a record of kind %d names ends of WALs: %w", r.Kind, errs.ErrInvalid)
	case len(r.Parts) > partsMax || len(r.Counters) > partsMax || len(r.Ends) > partsMax || r.bodySize() > bodyBytesMax:
		return fmt.Errorf("record of %d parts and %d bytes: %w", len(r.Parts), r.bodySize(), errs.ErrLimit)
	}
	return nil
}

// append adds the record, padded with zeros to whole blocks. group is the first record of its sync.
func (r *Record) append(dst []byte, segment uint64, group J) []byte {
	at := len(dst)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, recordMagic)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, segment)
	dst = le.AppendUint64(dst, uint64(r.J))
	dst = le.AppendUint64(dst, uint64(r.From))
	dst = le.AppendUint32(dst, uint32(r.bodySize()))
	dst = append(dst, byte(r.Kind), 0, 0, 0)
	dst = le.AppendUint64(dst, uint64(group))
	dst = le.AppendUint32(dst, uint32(len(r.Parts)))
	for _, p := range r.Parts {
		dst = append(dst, p.Table[:]...)
		dst = append(dst, p.Shard[:]...)
		dst = le.AppendUint32(dst, p.Schema)
		dst = le.AppendUint32(dst, uint32(len(p.Body)))
		dst = append(dst, p.Body...)
	}
	dst = le.AppendUint32(dst, uint32(len(r.Catalog)))
	dst = append(dst, r.Catalog...)
	dst = le.AppendUint32(dst, uint32(len(r.Counters)))
	for _, c := range r.Counters {
		dst = append(dst, c.Table[:]...)
		dst = le.AppendUint32(dst, uint32(c.Kind))
		dst = le.AppendUint64(dst, c.Value)
	}
	if r.Kind == Start {
		dst = le.AppendUint32(dst, uint32(len(r.Ends)))
		for _, e := range r.Ends {
			dst = append(dst, e.Table[:]...)
			dst = append(dst, e.Shard[:]...)
			dst = le.AppendUint64(dst, e.Position)
		}
	}
	le.PutUint32(dst[at+4:], crc32.Checksum(dst[at+8:], castagnoli))
	if rest := (len(dst) - at) % blockBytes; rest != 0 {
		dst = append(dst, make([]byte, blockBytes-rest)...)
	}
	return dst
}

// header is what a record says before its body.
type header struct {
	crc     uint32
	segment uint64
	j, from J
	group   J
	body    uint32
	kind    Kind
}

// parseHeader reads the header of a record of the segment; ok is false for anything else.
func parseHeader(b []byte, segment uint64) (h header, ok bool) {
	le := binary.LittleEndian
	if le.Uint32(b) != recordMagic {
		return h, false
	}
	h = header{
		crc: le.Uint32(b[4:]), segment: le.Uint64(b[8:]), j: J(le.Uint64(b[16:])), from: J(le.Uint64(b[24:])),
		body: le.Uint32(b[32:]), kind: Kind(b[36]), group: J(le.Uint64(b[40:])),
	}
	return h, h.segment == segment && h.body <= bodyBytesMax && h.group != 0 && h.group <= h.j && b[37]|b[38]|b[39] == 0
}

// decode reads a whole record (header and body, without padding) whose header is h. The record's slices alias b.
// A false ok means the checksum is wrong; an error means a writer that was not ours.
func decode(object string, off int64, b []byte, h header) (r Record, ok bool, err error) {
	if crc32.Checksum(b[8:], castagnoli) != h.crc {
		return r, false, nil
	}
	r = Record{Kind: h.kind, J: h.j, From: h.from}
	d := decoder{b: b[headerBytes:]}
	parts := d.count(partBytes)
	for range parts {
		p := Part{Table: d.id(), Shard: d.id(), Schema: d.u32()}
		p.Body = d.bytes()
		r.Parts = append(r.Parts, p)
	}
	r.Catalog = d.bytes()
	counters := d.count(counterBytes)
	for range counters {
		r.Counters = append(r.Counters, Counter{Table: d.id(), Kind: CounterKind(d.u32()), Value: d.u64()})
	}
	if r.Kind == Start && len(d.b) > 0 { // a segment of format 1 has none
		ends := d.count(endBytes)
		for range ends {
			r.Ends = append(r.Ends, End{Table: d.id(), Shard: d.id(), Position: d.u64()})
		}
	}
	if d.short || len(d.b) != 0 {
		return r, false, errs.Corrupt(object, off, "journal record %d: its body does not add up", h.j)
	}
	if err := r.validate(); err != nil {
		return r, false, errs.Corrupt(object, off, "journal record %d: %v", h.j, err)
	}
	if r.Kind == skip && r.From <= r.J {
		return r, false, errs.Corrupt(object, off, "journal record %d names record %d as the next one", h.j, r.From)
	}
	return r, true, nil
}

// decoder reads a body; short is set once it ran out of bytes.
type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) take(n int) []byte {
	if d.short || n > len(d.b) {
		d.short = true
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) u32() uint32 {
	if v := d.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if v := d.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (d *decoder) id() (id uuid.UUID) {
	copy(id[:], d.take(16))
	return id
}

func (d *decoder) bytes() []byte {
	n := d.u32()
	if n == 0 {
		return nil
	}
	return d.take(int(min(n, bodyBytesMax+1)))
}

// count reads a number of elements and checks it against the bytes that are left.
func (d *decoder) count(size int) int {
	n := int(d.u32())
	if n*size > len(d.b) {
		d.short = true
		return 0
	}
	return n
}
