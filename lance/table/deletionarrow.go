package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"lancesql/internal/errs"
)

// An Arrow IPC file, as far as a deletion file uses it:
//
//	"ARROW1" 0 0 | … | block | … | footer | i32 footer length | "ARROW1"
//	block:   u32 0xffffffff | i32 metadata length | Message | body, at the offset and of the lengths the footer says
//	body:    validity buffer | values buffer, where the RecordBatch message says; if compressed, each begins with
//	         i64 uncompressed length, -1 = stored as it is
//
// Spec: Arrow columnar format, "IPC file format".
const (
	arrowMagic       = "ARROW1"
	arrowFootBytes   = 4 + len(arrowMagic)
	arrowBlockBytes  = 24
	arrowNodeBytes   = 16
	arrowBufferBytes = 16
	arrowTypeInt     = 2
	arrowRecordBatch = 3
	arrowLZ4         = 0
	arrowZSTD        = 1
)

func encodeDeletionArrow(all *roaring.Bitmap) ([]byte, error) {
	schema := arrow.NewSchema([]arrow.Field{{Name: deletionColumn, Type: arrow.PrimitiveTypes.Uint32}}, nil)
	build := array.NewUint32Builder(memory.DefaultAllocator)
	defer build.Release()
	build.AppendValues(all.ToArray(), nil)
	column := build.NewArray()
	defer column.Release()
	rec := array.NewRecordBatch(schema, []arrow.Array{column}, int64(column.Len()))
	defer rec.Release()
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(schema))
	if err != nil {
		return nil, fmt.Errorf("encode deletions: %w", err)
	}
	if err := w.Write(rec); err != nil {
		return nil, fmt.Errorf("encode deletions: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode deletions: %w", err)
	}
	return out.Bytes(), nil
}

// decodeDeletionArrow parses untrusted bytes: exactly one record batch of exactly one UInt32 column without nulls.
func decodeDeletionArrow(object string, b []byte) (*roaring.Bitmap, error) {
	n := len(b)
	if n < arrowFootBytes || !bytes.HasPrefix(b, []byte(arrowMagic)) || !bytes.HasSuffix(b, []byte(arrowMagic)) {
		return nil, errs.Corrupt(object, 0, "not an Arrow file")
	}
	length := int64(binary.LittleEndian.Uint32(b[n-arrowFootBytes:]))
	start := int64(n) - int64(arrowFootBytes) - length
	if start < int64(len(arrowMagic)) {
		return nil, errs.Corrupt(object, int64(n-arrowFootBytes), "footer of %d bytes", length)
	}
	footer := &flat{object: object, base: start, b: b[start : n-arrowFootBytes]}
	if err := footer.checkDeletionSchema(); err != nil {
		return nil, err
	}
	first, blocks := footer.vector(footer.root(), 3, arrowBlockBytes)
	if footer.err != nil {
		return nil, footer.err
	}
	if blocks != 1 {
		return nil, errs.Corrupt(object, start, "%d record batches, want one", blocks)
	}
	offset, metadata, body := footer.i64(first), int64(int32(footer.u32(first+8))), footer.i64(first+16)
	if offset < 0 || metadata < 8 || body < 0 || offset > start || metadata > start-offset || body > start-offset-metadata {
		return nil, errs.Corrupt(object, start, "record batch at %d with %d and %d bytes", offset, metadata, body)
	}
	message := &flat{object: object, base: offset + 8, b: b[offset+8 : offset+metadata]}
	if binary.LittleEndian.Uint32(b[offset:]) != 0xffffffff { // the older form has no marker
		message = &flat{object: object, base: offset + 4, b: b[offset+4 : offset+metadata]}
	}
	values, err := message.deletionValues(b[offset+metadata : offset+metadata+body])
	if err != nil {
		return nil, err
	}
	out := roaring.New()
	out.AddMany(values)
	return out, nil
}

// checkDeletionSchema accepts a little-endian schema of one UInt32 column of the right name.
func (f *flat) checkDeletionSchema() error {
	schema := f.table(f.root(), 1)
	if f.err == nil && schema == 0 {
		return errs.Corrupt(f.object, f.base, "no schema")
	}
	if p := f.field(schema, 0); p != 0 && f.u16(p) != 0 {
		return errs.Corrupt(f.object, f.base, "big-endian Arrow file")
	}
	first, fields := f.vector(schema, 1, 4)
	if f.err != nil {
		return f.err
	}
	if fields != 1 {
		return errs.Corrupt(f.object, f.base, "%d columns, want one", fields)
	}
	column := f.follow(first)
	at, size := f.vector(column, 0, 1)
	name := string(f.at(at, size))
	kind, typ, dictionary := f.field(column, 2), f.table(column, 3), f.field(column, 4)
	ok := f.err == nil && name == deletionColumn && kind != 0 && f.u8(kind) == arrowTypeInt && typ != 0 && dictionary == 0
	if ok {
		width, signed := f.field(typ, 0), f.field(typ, 1)
		ok = width != 0 && f.u32(width) == 32 && (signed == 0 || f.u8(signed) == 0)
	}
	if f.err != nil {
		return f.err
	}
	if !ok {
		return errs.Corrupt(f.object, f.base, "column %q is not UInt32 %q", name, deletionColumn)
	}
	return nil
}

// deletionValues returns the values of the record batch that the message describes.
func (f *flat) deletionValues(body []byte) ([]uint32, error) {
	bad := func(format string, args ...any) ([]uint32, error) {
		if f.err != nil {
			return nil, f.err
		}
		return nil, errs.Corrupt(f.object, f.base, "record batch: "+format, args...)
	}
	root := f.root()
	kind, batch := f.field(root, 1), f.table(root, 2)
	if kind == 0 || f.u8(kind) != arrowRecordBatch || batch == 0 {
		return bad("another message")
	}
	node, nodes := f.vector(batch, 1, arrowNodeBytes)
	buffer, buffers := f.vector(batch, 2, arrowBufferBytes)
	if f.err != nil || nodes != 1 || buffers != 2 {
		return bad("%d nodes, %d buffers", nodes, buffers)
	}
	rows, nulls := f.i64(node), f.i64(node+8)
	at, size := f.i64(buffer+arrowBufferBytes), f.i64(buffer+arrowBufferBytes+8)
	if f.err != nil || nulls != 0 || rows < 0 || rows > arrowDeletionBytesMax/4 {
		return bad("%d rows, %d nulls", rows, nulls)
	}
	if at < 0 || size < 0 || at > int64(len(body)) || size > int64(len(body))-at {
		return bad("values at %d, %d bytes", at, size)
	}
	data := body[at : at+size]
	if compression := f.table(batch, 3); compression != 0 && rows > 0 {
		codec := 0
		if p := f.field(compression, 0); p != 0 {
			codec = int(f.u8(p))
		}
		var err error
		if data, err = inflate(codec, data); err != nil {
			return bad("values: %v", err)
		}
	}
	if f.err != nil || int64(len(data)) < 4*rows {
		return bad("%d bytes for %d rows", len(data), rows)
	}
	values := make([]uint32, rows)
	for i := range values {
		values[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return values, nil
}

// inflate undoes the compression of one buffer.
func inflate(codec int, b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, io.ErrUnexpectedEOF
	}
	size := int64(binary.LittleEndian.Uint64(b))
	b = b[8:]
	if size == -1 {
		return b, nil
	}
	if size < 0 || size > arrowDeletionBytesMax {
		return nil, fmt.Errorf("%d bytes: %w", size, errs.ErrLimit)
	}
	out := make([]byte, size)
	switch codec {
	case arrowLZ4:
		_, err := io.ReadFull(lz4.NewReader(bytes.NewReader(b)), out)
		return out, err
	case arrowZSTD:
		r, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderMaxMemory(arrowDeletionBytesMax), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		_, err = io.ReadFull(r, out)
		return out, err
	}
	return nil, fmt.Errorf("codec %d: %w", codec, errs.ErrUnsupported)
}
