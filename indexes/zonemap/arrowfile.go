package zonemap

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// The Arrow IPC file of a seed:
//
//	"ARROW1" 0 0 | … | block | … | footer | i32 footer bytes | "ARROW1"
//	footer:  table { 1: schema, 3: vector of { i64 offset | i32 metadata bytes | 4 bytes | i64 body bytes } }
//	schema:  table { 0: endianness, 1: vector of fields, 2: vector of { 0: key, 1: value } }
//	field:   table { 0: name, 2: kind of type, 3: type, 4: dictionary, 5: children }
//	block:   [u32 0xffffffff |] i32 length | message table { 1: kind, 2: record batch } | body
//	batch:   table { 0: rows, 1: vector of { i64 rows | i64 NULLs }, 2: vector of { i64 offset | i64 bytes }, 3: compression }
//
// Why not the Arrow library's reader: it trusts the counts of vectors, so that one damaged byte takes all memory.
// Spec: Arrow columnar format, "IPC file format".
const (
	arrowMagic       = "ARROW1"
	arrowFootBytes   = 4 + len(arrowMagic)
	arrowBlockBytes  = 24
	arrowPairBytes   = 16
	arrowRecordBatch = 3
)

// arrowFile is a seed's Arrow file taken apart.
type arrowFile struct {
	names   []string
	columns []int // of each wanted column, its number in the file
	meta    map[string]string
	batch   *flat // the message
	body    []byte
}

// openArrow takes apart the Arrow file of a seed over a column of type t. known is false for a form this package does
// not know: other columns, types, several batches, compressed buffers.
func openArrow(object string, b []byte, t arrow.DataType) (a *arrowFile, known bool, err error) {
	n := len(b)
	if n < 2*arrowFootBytes || !bytes.HasPrefix(b, []byte(arrowMagic)) || !bytes.HasSuffix(b, []byte(arrowMagic)) {
		return nil, false, errs.Corrupt(object, -1, "seed: no Arrow file")
	}
	length := int(binary.LittleEndian.Uint32(b[n-arrowFootBytes:]))
	if length > n-arrowFootBytes {
		return nil, false, errs.Corrupt(object, -1, "seed: footer of %d bytes", length)
	}
	start := n - arrowFootBytes - length
	footer := &flat{object: object, b: b[start : n-arrowFootBytes]}
	a = &arrowFile{meta: make(map[string]string)}
	known = a.readSchema(footer, t)
	first, blocks := footer.vector(footer.root(), 3, arrowBlockBytes)
	if footer.err != nil {
		return nil, false, footer.err
	}
	if !known || blocks != 1 {
		return nil, false, nil
	}
	offset, metadata, body := footer.i64(first), int64(footer.i32(first+8)), footer.i64(first+16)
	if offset < 0 || metadata < 8 || body < 0 || offset > int64(start) || metadata > int64(start)-offset || body > int64(start)-offset-metadata {
		return nil, false, errs.Corrupt(object, -1, "seed: record batch at %d with %d and %d bytes", offset, metadata, body)
	}
	message := b[offset+4 : offset+metadata]
	if binary.LittleEndian.Uint32(b[offset:]) == 0xffffffff { // the older form has no marker
		message = message[4:]
	}
	a.batch, a.body = &flat{object: object, b: message}, b[offset+metadata:offset+metadata+body]
	return a, true, nil
}

// readSchema finds the columns of a seed. known is false if any is missing or of another type, or there are others than
// those that are passed over.
func (a *arrowFile) readSchema(f *flat, t arrow.DataType) (known bool) {
	schema := f.table(f.root(), 1)
	if f.number16(schema, 0, 0) != 0 { // big-endian
		return false
	}
	first, pairs := f.vector(schema, 2, 4)
	for i := range pairs {
		pair := f.follow(first + 4*i)
		a.meta[f.text(pair, 0)] = f.text(pair, 1)
	}
	want := shape{}.schema(t)
	a.columns = make([]int, want.NumFields())
	first, count := f.vector(schema, 1, 4)
	if f.err != nil || count < want.NumFields() || count > want.NumFields()+1 {
		return false
	}
	found := 0
	for i := range count {
		field := f.follow(first + 4*i)
		name := f.text(field, 0)
		a.names = append(a.names, name)
		at := want.FieldIndices(name)
		if slices.Contains(a.names[:i], name) {
			return false
		}
		if len(at) == 0 {
			if name != columnNegNaNs || !f.hasType(field, arrow.PrimitiveTypes.Uint32) {
				return false
			}
			continue
		}
		if !f.hasType(field, want.Field(at[0]).Type) {
			return false
		}
		a.columns[at[0]] = i
		found++
	}
	return f.err == nil && found == want.NumFields()
}

// record returns the columns in the order of shape. The caller releases it.
func (a *arrowFile) record(t arrow.DataType) (arrow.RecordBatch, error) {
	f := a.batch
	bad := func(format string, args ...any) (arrow.RecordBatch, error) {
		if f.err != nil {
			return nil, f.err
		}
		return nil, errs.Corrupt(f.object, -1, "seed: record batch: "+format, args...)
	}
	batch := f.table(f.root(), 2)
	if kind := f.field(f.root(), 1); kind == 0 || f.u8(kind) != arrowRecordBatch || batch == 0 {
		return bad("another message")
	}
	node, nodes := f.vector(batch, 1, arrowPairBytes)
	buffer, buffers := f.vector(batch, 2, arrowPairBytes)
	want := shape{}.schema(t)
	types := make([]arrow.DataType, len(a.names)) // by number in the file
	for i := range types {
		types[i] = arrow.PrimitiveTypes.Uint32 // what is passed over
	}
	for i, c := range a.columns {
		types[c] = want.Field(i).Type
	}
	if f.err != nil || nodes != len(types) {
		return bad("%d nodes for %d columns", nodes, len(types))
	}
	columns := make([]arrow.Array, len(types))
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	rows := f.i64(node)
	for i, typ := range types {
		if f.i64(node+i*arrowPairBytes) != rows || rows < 0 || rows > zonesMax {
			return bad("column %q of %d rows", a.names[i], f.i64(node+i*arrowPairBytes))
		}
		k := buffersOf(typ)
		if buffers < k {
			return bad("no buffers for column %q", a.names[i])
		}
		data, err := a.column(typ, int(rows), f.i64(node+i*arrowPairBytes+8), buffer, k)
		if err != nil {
			return bad("column %q: %v", a.names[i], err)
		}
		columns[i] = array.MakeFromData(data)
		data.Release()
		buffer, buffers = buffer+k*arrowPairBytes, buffers-k
	}
	ordered := make([]arrow.Array, len(a.columns))
	for i, c := range a.columns {
		ordered[i] = columns[c]
	}
	return array.NewRecordBatch(want, ordered, rows), nil
}

// column copies the buffers of a column, so that they are aligned, and checks them.
func (a *arrowFile) column(typ arrow.DataType, rows int, nulls int64, at, count int) (*array.Data, error) {
	f := a.batch
	buffers := make([]*memory.Buffer, count)
	for i := range buffers {
		offset, size := f.i64(at+i*arrowPairBytes), f.i64(at+i*arrowPairBytes+8)
		if offset < 0 || size < 0 || offset > int64(len(a.body)) || size > int64(len(a.body))-offset {
			return nil, errs.Corrupt(f.object, -1, "%d bytes at %d of %d", size, offset, len(a.body))
		}
		if i == 0 && nulls == 0 { // the validity may be left out
			continue
		}
		buffers[i] = memory.NewBufferBytes(append(make([]byte, 0, size+8), a.body[offset:offset+size]...))
	}
	if nulls < 0 || nulls > int64(rows) {
		return nil, errs.Corrupt(f.object, -1, "%d NULLs of %d rows", nulls, rows)
	}
	data := array.NewData(typ, rows, buffers, nil, int(nulls), 0)
	if err := arrowx.Validate(data); err != nil {
		data.Release()
		return nil, err
	}
	return data, nil
}

// compressed reports whether the buffers are.
func (a *arrowFile) compressed() bool {
	return a.batch.field(a.batch.table(a.batch.root(), 2), 3) != 0
}

// buffersOf is how many buffers a column of a type that hasType knows has.
func buffersOf(t arrow.DataType) int {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY:
		return 3
	default:
		return 2
	}
}

// hasType reports whether a field of a schema has type t, one of those without children.
func (f *flat) hasType(field int, t arrow.DataType) bool {
	kindAt, typ := f.field(field, 2), f.table(field, 3)
	if _, children := f.vector(field, 5, 4); kindAt == 0 || typ == 0 || children > 0 || f.field(field, 4) != 0 {
		return false
	}
	kind := f.u8(kindAt)
	switch t := t.(type) {
	case *arrow.BooleanType:
		return kind == 6
	case *arrow.StringType:
		return kind == 5
	case *arrow.LargeStringType:
		return kind == 20
	case *arrow.BinaryType:
		return kind == 4
	case *arrow.LargeBinaryType:
		return kind == 19
	case *arrow.FixedSizeBinaryType:
		return kind == 15 && f.number32(typ, 0, 0) == t.ByteWidth
	case *arrow.Float16Type:
		return kind == 3 && f.number16(typ, 0, 0) == 0
	case *arrow.Float32Type:
		return kind == 3 && f.number16(typ, 0, 0) == 1
	case *arrow.Float64Type:
		return kind == 3 && f.number16(typ, 0, 0) == 2
	case *arrow.Decimal128Type:
		return kind == 7 && f.number32(typ, 0, 0) == int(t.Precision) && f.number32(typ, 1, 0) == int(t.Scale) && f.number32(typ, 2, 128) == 128
	case *arrow.Decimal256Type:
		return kind == 7 && f.number32(typ, 0, 0) == int(t.Precision) && f.number32(typ, 1, 0) == int(t.Scale) && f.number32(typ, 2, 128) == 256
	case *arrow.Date32Type:
		return kind == 8 && f.number16(typ, 0, 1) == 0
	case *arrow.Date64Type:
		return kind == 8 && f.number16(typ, 0, 1) == 1
	case *arrow.Time32Type:
		return kind == 9 && f.number16(typ, 0, 1) == int(t.Unit) && f.number32(typ, 1, 32) == 32
	case *arrow.Time64Type:
		return kind == 9 && f.number16(typ, 0, 1) == int(t.Unit) && f.number32(typ, 1, 32) == 64
	case *arrow.TimestampType:
		return kind == 10 && f.number16(typ, 0, 0) == int(t.Unit) && f.text(typ, 1) == t.TimeZone
	case *arrow.DurationType:
		return kind == 18 && f.number16(typ, 0, 1) == int(t.Unit)
	default:
		return kind == 2 && f.isInteger(typ, t)
	}
}

func (f *flat) isInteger(typ int, t arrow.DataType) bool {
	fixed, ok := t.(arrow.FixedWidthDataType)
	signedAt := f.field(typ, 1)
	signed := signedAt != 0 && f.u8(signedAt) != 0
	return ok && arrow.IsInteger(t.ID()) && f.number32(typ, 0, 0) == fixed.BitWidth() && signed == arrow.IsSignedInteger(t.ID())
}
