package memtable

import (
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/indexes/pkstore"
	"lancesql/internal/errs"
)

// MemTable is the rows of one generation.
type MemTable struct{}

// Chunk is a run of consecutive rows.
type Chunk struct {
	First uint32            // position of the first row
	Batch arrow.RecordBatch // the receiver of the Chunk releases it
}

// Births maps sequence numbers to row counts.
type Births struct{}

// At returns the number of rows born at or before seq.
func (b *Births) At(seq uint64) uint32 { return 0 }

// Last returns the greatest sequence number recorded, 0 if none.
func (b *Births) Last() uint64 { return 0 }

// Add records that rows rows in total are born at or before seq.
func (b *Births) Add(seq uint64, rows uint32) {}

// New returns an empty MemTable.
func New(gen uint64, schema *arrow.Schema, keyCols []int, sp *pkstore.Space) (*MemTable, error) {
	return nil, errs.ErrUnsupported
}

// Append adds the rows of rec.
func (m *MemTable) Append(rec arrow.RecordBatch, seq uint64) (first uint32, err error) {
	return 0, errs.ErrUnsupported
}

// Generation returns the generation number.
func (m *MemTable) Generation() uint64 { return 0 }

// Rows returns the number of rows.
func (m *MemTable) Rows() uint32 { return 0 }

// Bytes returns the memory used in bytes.
func (m *MemTable) Bytes() int64 { return 0 }

// Space returns the key space.
func (m *MemTable) Space() *pkstore.Space { return nil }

// Births returns the births of the rows.
func (m *MemTable) Births() *Births { return nil }

// Schema returns the schema.
func (m *MemTable) Schema() *arrow.Schema { return nil }

// Batches returns the rows below upTo.
func (m *MemTable) Batches(upTo uint32) []Chunk { return nil }

// Retain adds a reference.
func (m *MemTable) Retain() {}

// Release drops a reference; the last one frees batches and the Space.
func (m *MemTable) Release() {}
