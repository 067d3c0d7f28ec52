package memtable

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/pkstore"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// Tombstone is the name of the last column of every MemTable, WAL entry and generation.
const Tombstone = "_tombstone"

// entryOverhead estimates what one primary-key entry costs beside its key, in bytes: space id, row position,
// trailer and skip-list node.
const entryOverhead = 64

// MemTable is the rows of one generation. One goroutine appends at a time; any number read at the same time
// without blocking. It begins with one reference.
type MemTable struct {
	gen     uint64
	schema  *arrow.Schema
	keyCols []int
	encoder *rowkey.Encoder // nil without key columns
	space   *pkstore.Space  // nil without key columns
	filter  *pkstore.Filter // of all keys
	mem     memory.Allocator

	appendMu sync.Mutex // held by the appender; guards against a second one
	log      atomic.Pointer[rowLog]
	births   Births
	keyBytes atomic.Int64
	refs     atomic.Int64
}

// Chunk is a run of consecutive rows.
type Chunk struct {
	First uint32            // position of the first row
	Batch arrow.RecordBatch // the receiver of the Chunk releases it
}

// New returns an empty MemTable of generation gen. schema is the table's physical columns and a trailing
// Boolean `_tombstone`; keyCols are the key columns in key order (none: append-only table, sp may be nil).
// The MemTable writes to sp but does not own it: the key entries outlive it in its flushed generation, whose rows
// keep their offsets, so whoever made sp drops it. errs.ErrInvalid for another schema,
// errs.ErrUnsupported for a key column without a tuple encoding.
func New(gen uint64, schema *arrow.Schema, keyCols []int, sp *pkstore.Space) (*MemTable, error) {
	return NewWithAllocator(memory.DefaultAllocator, gen, schema, keyCols, sp)
}

// NewWithAllocator is New with the allocator for joined batches.
func NewWithAllocator(mem memory.Allocator, gen uint64, schema *arrow.Schema, keyCols []int, sp *pkstore.Space) (*MemTable, error) {
	last := schema.NumFields() - 1
	if last < 0 || schema.Field(last).Name != Tombstone || schema.Field(last).Type.ID() != arrow.BOOL {
		return nil, fmt.Errorf("memtable schema without a trailing %s: %w", Tombstone, errs.ErrInvalid)
	}
	m := &MemTable{gen: gen, schema: schema, keyCols: slices.Clone(keyCols), space: sp, filter: pkstore.NewFilter(0), mem: mem}
	if len(keyCols) > 0 {
		if sp == nil {
			return nil, fmt.Errorf("memtable with a key needs a key space: %w", errs.ErrInvalid)
		}
		types := make([]arrow.DataType, len(keyCols))
		for i, c := range keyCols {
			if c < 0 || c >= last {
				return nil, fmt.Errorf("memtable key column %d of %d: %w", c, last, errs.ErrInvalid)
			}
			types[i] = schema.Field(c).Type
		}
		var err error
		if m.encoder, err = rowkey.NewEncoder(types); err != nil {
			return nil, fmt.Errorf("memtable: %w", err)
		}
	}
	m.log.Store(newRowLog(nil, 0, 0, 0))
	m.refs.Store(1)
	return m, nil
}

// Append adds the rows of rec (borrowed; its columns have the types of the schema) at the end, born at seq,
// and returns the position of the first. seq is at least that of the rows before. On an error nothing has
// changed for readers. errs.ErrInvalid for other columns, a NULL in _tombstone, or a falling seq;
// errs.ErrLimit beyond 2^32-1 rows; errs.ErrClosed after the last Release.
func (m *MemTable) Append(rec arrow.RecordBatch, seq uint64) (first uint32, err error) {
	m.appendMu.Lock()
	defer m.appendMu.Unlock()
	old := m.log.Load()
	if old == nil {
		return 0, fmt.Errorf("memtable of generation %d: %w", m.gen, errs.ErrClosed)
	}
	first = old.rows
	tombstones, err := m.admit(rec, seq, first)
	if err != nil || rec.NumRows() == 0 {
		return first, err
	}
	own := array.NewRecordBatch(m.schema, rec.Columns(), rec.NumRows()) // one schema for every reader
	defer own.Release()
	next, err := old.with(m.mem, own)
	if err != nil {
		return first, fmt.Errorf("append to generation %d: %w", m.gen, err)
	}
	if err := m.putKeys(rec, first, tombstones); err != nil {
		next.release()
		return first, fmt.Errorf("append to generation %d: %w", m.gen, err)
	}
	// Invariant: I2. Keys are in the space; now the rows appear, then their birth.
	m.log.Store(next)
	old.release()
	m.births.Add(seq, next.rows)
	return first, nil
}

// admit checks rec and returns the flags of its tombstone column.
func (m *MemTable) admit(rec arrow.RecordBatch, seq uint64, rows uint32) (*array.Boolean, error) {
	if int(rec.NumCols()) != m.schema.NumFields() {
		return nil, fmt.Errorf("append %d columns to a memtable of %d: %w", rec.NumCols(), m.schema.NumFields(), errs.ErrInvalid)
	}
	for i, c := range rec.Columns() {
		if f := m.schema.Field(i); !arrow.TypeEqual(c.DataType(), f.Type) {
			return nil, fmt.Errorf("append column %q of type %s as %s: %w", f.Name, c.DataType(), f.Type, errs.ErrInvalid)
		}
	}
	if seq < m.births.Last() {
		return nil, fmt.Errorf("append at sequence %d after %d: %w", seq, m.births.Last(), errs.ErrInvalid)
	}
	if rec.NumRows() > math.MaxUint32-int64(rows) {
		return nil, fmt.Errorf("append %d rows after %d: %w", rec.NumRows(), rows, errs.ErrLimit)
	}
	t, ok := rec.Column(m.schema.NumFields() - 1).(*array.Boolean)
	if !ok || t.NullN() > 0 {
		return nil, fmt.Errorf("append with NULL in %s: %w", Tombstone, errs.ErrInvalid)
	}
	return t, nil
}

func (m *MemTable) putKeys(rec arrow.RecordBatch, first uint32, tombstones *array.Boolean) error {
	if m.encoder == nil {
		return nil
	}
	keys, err := m.encoder.Batch(rec, m.keyCols)
	if err != nil {
		return err
	}
	rows, flags, bytes := make([]uint64, len(keys)), make([]bool, len(keys)), int64(0)
	for i, k := range keys {
		rows[i], flags[i] = uint64(first)+uint64(i), tombstones.Value(i)
		bytes += int64(len(k)) + entryOverhead
	}
	m.filter.Add(keys...)
	if err := m.space.Put(keys, rows, flags); err != nil {
		return err
	}
	m.keyBytes.Add(bytes)
	return nil
}

// acquire returns the current log with a reference, nil when the MemTable is freed.
func (m *MemTable) acquire() *rowLog {
	for {
		l := m.log.Load()
		if l == nil || l.acquire() {
			return l
		}
		// The appender replaced and freed l in between; its successor is already published.
	}
}

// Generation returns the generation number, from 1.
func (m *MemTable) Generation() uint64 { return m.gen }

// Schema returns the schema given to New.
func (m *MemTable) Schema() *arrow.Schema { return m.schema }

// KeyColumns returns the key columns in key order; it must not be changed.
func (m *MemTable) KeyColumns() []int { return m.keyCols }

// Encoder returns the encoder of the keys, nil without key columns.
func (m *MemTable) Encoder() *rowkey.Encoder { return m.encoder }

// Space returns the primary-key entries of the rows, nil without key columns.
func (m *MemTable) Space() *pkstore.Space { return m.space }

// Filter holds every key of the MemTable.
func (m *MemTable) Filter() *pkstore.Filter { return m.filter }

// Births returns the births of the rows.
func (m *MemTable) Births() *Births { return &m.births }

// Rows returns the number of rows, born or not.
func (m *MemTable) Rows() uint32 {
	if l := m.log.Load(); l != nil {
		return l.rows
	}
	return 0
}

// Appends returns the number of batches appended.
func (m *MemTable) Appends() int {
	if l := m.log.Load(); l != nil {
		return l.appends
	}
	return 0
}

// Bytes returns the memory in use, in bytes: cells, births and an estimate of the primary-key entries.
func (m *MemTable) Bytes() int64 {
	l := m.log.Load()
	if l == nil {
		return 0
	}
	return l.bytes + m.births.bytes() + m.keyBytes.Load()
}

// Batches returns the rows below upTo in order. The caller releases each batch; they stay valid whatever
// happens to the MemTable. Nil after the last Release.
func (m *MemTable) Batches(upTo uint32) []Chunk { return m.Slice(0, upTo) }

// Slice returns the rows in [from, upTo), like Batches.
func (m *MemTable) Slice(from, upTo uint32) []Chunk {
	l := m.acquire()
	if l == nil {
		return nil
	}
	defer l.release()
	return l.batches(from, upTo)
}

// Take gathers the rows at positions rows (any order) into one batch of the schema, which the caller releases.
// errs.ErrInvalid for a position that does not exist, errs.ErrClosed after the last Release.
func (m *MemTable) Take(mem memory.Allocator, rows []uint32) (arrow.RecordBatch, error) {
	l := m.acquire()
	if l == nil {
		return nil, fmt.Errorf("memtable of generation %d: %w", m.gen, errs.ErrClosed)
	}
	defer l.release()
	return l.take(mem, m.schema, rows)
}

// Settle is Births.Settle with appends excluded.
func (m *MemTable) Settle(seq uint64) {
	m.appendMu.Lock()
	defer m.appendMu.Unlock()
	m.births.Settle(seq)
}

// Retain adds a reference; the caller holds one already.
func (m *MemTable) Retain() { m.refs.Add(1) }

// TryRetain adds a reference unless the MemTable is freed.
func (m *MemTable) TryRetain() bool {
	for {
		n := m.refs.Load()
		if n <= 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release drops a reference; the last one frees the batches.
func (m *MemTable) Release() {
	if m.refs.Add(-1) != 0 {
		return
	}
	m.appendMu.Lock()
	defer m.appendMu.Unlock()
	if l := m.log.Swap(nil); l != nil {
		l.release()
	}
}
