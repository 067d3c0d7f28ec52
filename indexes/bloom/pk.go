package bloom

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
)

// PKFile is the name of the filter in the directory of its generation.
const PKFile = "bloom_filter.bin"

// pkBytes is the size of the file, whatever the number of rows: of other keys, 3 in 100,000 seem to be among 8192 keys, 1 in
// 100 among 25,000, 2 of 3 among 100,000.
const pkBytes = 32768

// PKKeysUseful is the number of rows up to which the filter of a generation is worth asking.
const PKKeysUseful = 25_000

// Trusted reports whether a filter over a primary key of these column types may be believed, and should be written: the
// reference hashes values of other types in one way when it writes and in another when it reads.
// Spec: MemWAL, "bloom_filter.bin", type gap.
func Trusted(types []arrow.DataType) bool {
	for _, t := range types {
		switch t.ID() {
		case arrow.INT32, arrow.INT64, arrow.STRING, arrow.BINARY:
		default:
			return false
		}
	}
	return len(types) > 0
}

// PK is the filter of a generation. It is not safe for concurrent changes.
type PK struct{ f Filter }

// NewPK returns an empty filter.
func NewPK() *PK { return &PK{Filter{make([]byte, pkBytes)}} }

// AddBatch puts the keys of all rows of rec in; cols are its key columns in key order. errs.ErrUnsupported for keys that
// are not Trusted.
func (p *PK) AddBatch(rec arrow.RecordBatch, cols []int) error {
	hashes, err := Hashes(rec, cols)
	if err != nil {
		return err
	}
	for _, h := range hashes {
		p.f.Add(h)
	}
	return nil
}

// Bytes returns the filter as it is stored. Read-only.
func (p *PK) Bytes() []byte { return p.f.bits }

// MayHold reports whether a key with that hash (Hashes) may be in the generation; false is certain.
func (p *PK) MayHold(h uint64) bool { return p.f.MayHold(h) }

// Write stores the filter in the directory of the generation, durable on return. errs.ErrExists if it is there.
func (p *PK) Write(ctx context.Context, dir store.Dir) (store.Info, error) {
	return dir.Put(ctx, PKFile, p.f.bits)
}

// ReadPK reads the filter of a generation. errs.ErrNotFound if there is none, which means: ask the generation.
// errs.ErrCorruption for a file of another size.
func ReadPK(ctx context.Context, dir store.Dir) (*PK, error) {
	b, err := dir.Get(ctx, PKFile, pkBytes)
	if err != nil {
		return nil, err
	}
	return decodePK(dir.Object(PKFile), b)
}

func decodePK(object string, b []byte) (*PK, error) {
	if len(b) != pkBytes {
		return nil, errs.Corrupt(object, -1, "%d bytes, a filter has %d", len(b), pkBytes)
	}
	return &PK{Filter{b}}, nil
}

// Hashes returns the hash of the key of every row of rec; cols are its key columns in key order, whose types must be
// Trusted (errs.ErrUnsupported). A NULL hashes like itself only.
// Hashed bytes, column by column: 0 and the value, or 1 for NULL; int32 4 bytes, int64 8 bytes, text its bytes and 255,
// binary its length as 8 bytes and its bytes. Numbers are little-endian.
// Spec: MemWAL, "bloom_filter.bin".
func Hashes(rec arrow.RecordBatch, cols []int) ([]uint64, error) {
	types := make([]arrow.DataType, len(cols))
	for i, c := range cols {
		if c < 0 || c >= int(rec.NumCols()) {
			return nil, fmt.Errorf("key column %d of a batch of %d: %w", c, rec.NumCols(), errs.ErrInvalid)
		}
		types[i] = rec.Column(c).DataType()
	}
	if !Trusted(types) {
		return nil, fmt.Errorf("bloom filter over a key of types %v: %w", types, errs.ErrUnsupported)
	}
	out := make([]uint64, rec.NumRows())
	var buf []byte
	for i := range out {
		buf = buf[:0]
		for _, c := range cols {
			buf = appendCell(buf, rec.Column(c), i)
		}
		out[i] = sipHash13(buf)
	}
	return out, nil
}

// appendCell appends the hashed bytes of cell i of a column of a Trusted type.
func appendCell(b []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(b, 1)
	}
	b = append(b, 0)
	switch a := a.(type) {
	case *array.Int32:
		b = binary.LittleEndian.AppendUint32(b, uint32(a.Value(i)))
	case *array.Int64:
		b = binary.LittleEndian.AppendUint64(b, uint64(a.Value(i)))
	case *array.String:
		b = append(append(b, a.Value(i)...), 0xff)
	case *array.Binary:
		v := a.Value(i)
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(v))), v...)
	}
	return b
}
