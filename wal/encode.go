package wal

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// endOfStream ends an Arrow IPC stream: a continuation marker and a zero length.
const endOfStream = "\xff\xff\xff\xff\x00\x00\x00\x00"

// Draft is an entry to be written: bodies made by EncodeBody under one schema, for one MemTable.
type Draft struct {
	Generation uint64   // MemTable the rows belong to; 0 = not recorded
	Journal    uint64   // greatest number of a journal record the entry carries; 0 = not recorded
	Bodies     [][]byte // in order
}

// BodyEncoder encodes the rows of a shard as they lie in its entries. Immutable.
type BodyEncoder struct{ schema *arrow.Schema }

// NewBodyEncoder is for the shard schema given to EncodeDraft, with its errors.
func NewBodyEncoder(schema *arrow.Schema) (*BodyEncoder, error) {
	fields, err := entryFields(schema)
	if err != nil {
		return nil, err
	}
	return &BodyEncoder{schema: arrow.NewSchema(fields, nil)}, nil
}

// Encode encodes batches (borrowed; columns of the schema's types, in order) as the record-batch messages of an
// entry, without schema message and end marker. Empty batches are left out. errs.ErrInvalid without rows, for
// other columns or a NULL in a non-null column.
func (e *BodyEncoder) Encode(batches ...arrow.RecordBatch) ([]byte, error) {
	var body bytes.Buffer
	for i, b := range batches {
		if b.NumRows() == 0 {
			continue
		}
		if err := encodeBatch(&body, e.schema, b); err != nil {
			return nil, fmt.Errorf("encode batch %d: %w", i, err)
		}
	}
	if body.Len() == 0 {
		return nil, fmt.Errorf("WAL entry without rows: %w", errs.ErrInvalid)
	}
	return body.Bytes(), nil
}

// EncodeBody is Encode of a new BodyEncoder.
func EncodeBody(schema *arrow.Schema, batches []arrow.RecordBatch) ([]byte, error) {
	e, err := NewBodyEncoder(schema)
	if err != nil {
		return nil, err
	}
	return e.Encode(batches...)
}

// EncodeEntry encodes batches as the bytes of a WAL entry of the writer epoch, for the MemTable gen (0 = not
// recorded): EncodeDraft over one body, with its errors.
func EncodeEntry(schema *arrow.Schema, epoch Epoch, gen uint64, batches []arrow.RecordBatch) ([]byte, error) {
	body, err := EncodeBody(schema, batches)
	if err != nil {
		return nil, err
	}
	return EncodeDraft(schema, epoch, Draft{Generation: gen, Bodies: [][]byte{body}})
}

// EncodeDraft encodes the bytes of a WAL entry. schema is the table's physical columns and the trailing
// non-null Boolean `_tombstone`; every other column that is not a primary key becomes nullable.
//
// The layout is drawn in docs/format/wal.md. Spec: MemWAL, "WAL entry format".
func EncodeDraft(schema *arrow.Schema, epoch Epoch, d Draft) ([]byte, error) {
	fields, err := entryFields(schema)
	if err != nil {
		return nil, err
	}
	body := slices.Concat(slices.Concat(d.Bodies...), []byte(endOfStream))
	if len(body) == len(endOfStream) {
		return nil, fmt.Errorf("WAL entry without rows: %w", errs.ErrInvalid)
	}
	var keys, values []string
	add := func(k, v string) { keys, values = append(keys, k), append(values, v) }
	meta := schema.Metadata()
	for i, k := range meta.Keys() {
		if !reservedMeta(k) {
			add(k, meta.Values()[i])
		}
	}
	add(metaEpoch, strconv.FormatUint(uint64(epoch), 10))
	if d.Generation != 0 {
		add(metaGeneration, strconv.FormatUint(d.Generation, 10))
	}
	if d.Journal != 0 {
		add(metaJournal, strconv.FormatUint(d.Journal, 10))
	}
	m := arrow.NewMetadata(keys, values)
	add(metaChecksum, checksum(arrow.NewSchema(fields, &m), body))
	m = arrow.NewMetadata(keys, values)
	return encodeStream(arrow.NewSchema(fields, &m), body)
}

// EncodeSentinel encodes a fence sentinel: a stream of no fields and no batches.
// Spec: MemWAL, "Fence sentinel".
func EncodeSentinel(epoch Epoch) ([]byte, error) {
	m := arrow.NewMetadata([]string{metaSentinel, metaEpoch}, []string{"true", strconv.FormatUint(uint64(epoch), 10)})
	return encodeStream(arrow.NewSchema(nil, &m), []byte(endOfStream))
}

// entryFields returns the fields of an entry of a shard with the given schema.
func entryFields(schema *arrow.Schema) ([]arrow.Field, error) {
	fields := schema.Fields() // a copy
	last := len(fields) - 1
	if last < 0 || fields[last].Name != tombstoneName || fields[last].Type.ID() != arrow.BOOL {
		return nil, fmt.Errorf("WAL schema without a trailing %s: %w", tombstoneName, errs.ErrInvalid)
	}
	for i := range fields {
		if hasDictionary(fields[i].Type) {
			return nil, fmt.Errorf("WAL column %q of type %s: %w", fields[i].Name, fields[i].Type, errs.ErrUnsupported)
		}
		switch {
		case i == last:
			fields[i].Nullable = false
		case !isPrimaryKey(fields[i]):
			fields[i].Nullable = true
		}
	}
	return fields, nil
}

func hasDictionary(t arrow.DataType) bool {
	if t.ID() == arrow.DICTIONARY {
		return true
	}
	if n, ok := t.(arrow.NestedType); ok {
		for _, f := range n.Fields() {
			if hasDictionary(f.Type) {
				return true
			}
		}
	}
	return false
}

// encodeBatch appends the record-batch message of b.
func encodeBatch(w *bytes.Buffer, schema *arrow.Schema, b arrow.RecordBatch) error {
	if int(b.NumCols()) != schema.NumFields() {
		return fmt.Errorf("%d columns for %d fields: %w", b.NumCols(), schema.NumFields(), errs.ErrInvalid)
	}
	for i, c := range b.Columns() {
		f := schema.Field(i)
		if !arrow.TypeEqual(c.DataType(), f.Type) {
			return fmt.Errorf("column %q is %s, not %s: %w", f.Name, c.DataType(), f.Type, errs.ErrInvalid)
		}
		if !f.Nullable && c.NullN() > 0 {
			return fmt.Errorf("NULL in column %q: %w", f.Name, errs.ErrInvalid)
		}
	}
	rec := array.NewRecordBatch(schema, b.Columns(), b.NumRows())
	defer rec.Release()
	p, err := ipc.GetRecordBatchPayload(rec, ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return err
	}
	defer p.Release()
	_, err = p.WritePayload(w)
	return err
}

// encodeStream puts the schema message in front of body.
func encodeStream(schema *arrow.Schema, body []byte) ([]byte, error) {
	p := ipc.GetSchemaPayload(schema, memory.DefaultAllocator)
	defer p.Release()
	var out bytes.Buffer
	if _, err := p.WritePayload(&out); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	out.Write(body)
	return out.Bytes(), nil
}
