package btree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// Translate moves the rows of an index: it rewrites ids in place and clears keep, which is all true, where a row is gone
// (dead, or in a fragment that is no longer covered).
type Translate func(ids []uint64, keep []bool) error

// Stream yields all rows of the segment in order, with their ids translated if translate is not nil. Batches hold at
// most a few thousand rows; the allocator is the Dir's. A context that is cancelled ends it.
func (x *Index) Stream(translate Translate) Stream {
	var scan arrowx.BatchReader
	return func(ctx context.Context) (Batch, error) {
		if scan == nil {
			var err error
			// Why: the scan keeps the first call's context; the calls of one stream belong to one job.
			if scan, err = x.data.Scan(ctx, x.both, 0, x.rows, chunkRows); err != nil {
				return Batch{}, fmt.Errorf("stream of BTREE %s: %w", x.dir.Path(), err)
			}
		}
		rec, err := scan.Next()
		if err != nil {
			_ = scan.Close()
			if errors.Is(err, io.EOF) {
				return Batch{}, io.EOF
			}
			return Batch{}, fmt.Errorf("stream of BTREE %s: %w", x.dir.Path(), err)
		}
		defer rec.Release()
		x.counters.rowsRead.Add(uint64(rec.NumRows()))
		return x.translated(rec, translate)
	}
}

func (x *Index) translated(rec arrow.RecordBatch, translate Translate) (Batch, error) {
	a := rec.Column(1).(*array.Uint64)
	if a.NullN() > 0 {
		return Batch{}, errs.Corrupt(x.data.Object(), -1, "row without an id")
	}
	values, ids := rec.Column(0), slices.Clone(a.Uint64Values())
	if translate == nil {
		values.Retain()
		return Batch{Values: values, IDs: ids}, nil
	}
	keep := make([]bool, len(ids))
	for i := range keep {
		keep[i] = true
	}
	if err := translate(ids, keep); err != nil {
		return Batch{}, fmt.Errorf("translate rows of BTREE %s: %w", x.dir.Path(), err)
	}
	kept := make([]int, 0, len(ids))
	for i, k := range keep {
		if k {
			ids[len(kept)] = ids[i]
			kept = append(kept, i)
		}
	}
	if len(kept) == len(ids) {
		values.Retain()
		return Batch{Values: values, IDs: ids}, nil
	}
	out, err := arrowx.TakeArray(memory.DefaultAllocator, values, kept)
	if err != nil {
		return Batch{}, err
	}
	return Batch{Values: out, IDs: ids[:len(kept)]}, nil
}

// Merge writes one segment of the rows of several streams over values of type t, each in the order of the index: those
// of old segments (Index.Stream) and new rows (Sorter.Stream). Rows of equal value come in the order of the streams.
// Memory: a batch of each stream and what Build needs.
// Spec: indexes, "Building".
func Merge(ctx context.Context, dir store.Dir, t arrow.DataType, streams []Stream, o Options) (Summary, error) {
	all, err := MergeStreams(t, streams, o.Allocator)
	if err != nil {
		return Summary{}, err
	}
	return Build(ctx, dir, t, all, o)
}

// MergeStreams returns the rows of several streams as one, without writing them. mem allocates its arrays, nil: the Go
// allocator. errs.ErrUnsupported for types without an order.
func MergeStreams(t arrow.DataType, streams []Stream, mem memory.Allocator) (Stream, error) {
	c, err := newColumn(t)
	if err != nil {
		return nil, err
	}
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	if len(streams) == 1 {
		return streams[0], nil
	}
	m := &merger{typ: t, mem: mem, wide: c.wide}
	for i, s := range streams {
		m.heads = append(m.heads, &mergeHead{next: s, number: i, values: column{wide: c.wide}})
	}
	return m.stream, nil
}

// mergeHead is one stream and what was read ahead of it.
type mergeHead struct {
	next   Stream
	number int
	nulls  []uint64 // ids
	values column
	ids    []uint64 // of values
	at     int
}

func (h *mergeHead) key() key { return h.values.key(h.at) }

// merger is a tournament of streams, kept as a heap by (value, number).
type merger struct {
	typ   arrow.DataType
	mem   memory.Allocator
	wide  bool
	heads []*mergeHead // not yet opened, then a heap of those with values
	begun bool
	nulls []uint64
}

// fill reads the next rows of a stream; false at its end.
func (m *merger) fill(ctx context.Context, h *mergeHead) (bool, error) {
	h.values.reset()
	h.ids, h.nulls, h.at = h.ids[:0], h.nulls[:0], 0
	for h.values.len() == 0 && len(h.nulls) == 0 {
		b, err := h.next(ctx)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		err = h.take(b, m.typ)
		b.Values.Release()
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

func (h *mergeHead) take(b Batch, t arrow.DataType) error {
	n := b.Values.Len()
	if len(b.IDs) != n || !arrow.TypeEqual(b.Values.DataType(), t) {
		return fmt.Errorf("%d ids for %d values of type %s, the index is over %s: %w", len(b.IDs), n, b.Values.DataType(), t, errs.ErrInvalid)
	}
	nulls := b.Values.NullN()
	for i := range nulls {
		if b.Values.IsValid(i) {
			return fmt.Errorf("stream %d: NULL after a value: %w", h.number, errs.ErrInvalid)
		}
	}
	h.nulls = append(h.nulls, b.IDs[:nulls]...)
	h.ids = append(h.ids, b.IDs[nulls:]...)
	if n == nulls {
		return nil
	}
	return h.values.encode(b.Values, nulls, n)
}

// begin collects the NULLs of all streams, which come first in each, and makes the heap.
func (m *merger) begin(ctx context.Context) error {
	m.begun = true
	open := m.heads
	m.heads = nil
	for _, h := range open {
		for {
			more, err := m.fill(ctx, h)
			if err != nil {
				return err
			}
			m.nulls = append(m.nulls, h.nulls...)
			h.nulls = h.nulls[:0]
			if !more {
				break
			}
			if h.values.len() > 0 {
				m.heads = append(m.heads, h)
				break
			}
		}
	}
	for i := len(m.heads)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return nil
}

func (m *merger) less(a, b *mergeHead) bool {
	order := a.values.compareKeys(a.key(), b.key())
	return order < 0 || order == 0 && a.number < b.number
}

// down restores the heap below i.
func (m *merger) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(m.heads) {
			return
		}
		if child+1 < len(m.heads) && m.less(m.heads[child+1], m.heads[child]) {
			child++
		}
		if !m.less(m.heads[child], m.heads[i]) {
			return
		}
		m.heads[i], m.heads[child] = m.heads[child], m.heads[i]
		i = child
	}
}

// stream implements Stream.
func (m *merger) stream(ctx context.Context) (Batch, error) {
	if !m.begun {
		if err := m.begin(ctx); err != nil {
			return Batch{}, err
		}
	}
	out := column{wide: m.wide}
	if len(m.nulls) > 0 {
		n := min(len(m.nulls), chunkRows)
		ids := m.nulls[:n]
		m.nulls = m.nulls[n:]
		a, err := out.arrow(m.mem, m.typ, n)
		return Batch{Values: a, IDs: ids}, err
	}
	ids := make([]uint64, 0, chunkRows)
	for len(m.heads) > 0 && len(ids) < chunkRows {
		h := m.heads[0]
		end := min(m.runEnd(h), h.at+chunkRows-len(ids))
		if err := out.addRange(&h.values, h.at, end); err != nil {
			return Batch{}, err
		}
		ids = append(ids, h.ids[h.at:end]...)
		if h.at = end; h.at == h.values.len() {
			more, err := m.fill(ctx, h)
			if err != nil {
				return Batch{}, err
			}
			if len(h.nulls) > 0 {
				return Batch{}, fmt.Errorf("stream %d: NULL after a value: %w", h.number, errs.ErrInvalid)
			}
			if !more {
				last := len(m.heads) - 1
				m.heads[0] = m.heads[last]
				m.heads = m.heads[:last]
			}
		}
		if len(m.heads) > 0 {
			m.down(0)
		}
	}
	if len(ids) == 0 {
		return Batch{}, io.EOF
	}
	a, err := out.arrow(m.mem, m.typ, 0)
	return Batch{Values: a, IDs: ids}, err
}

// runEnd returns the end of the rows of the first stream that come before every other stream's.
func (m *merger) runEnd(h *mergeHead) int {
	var rival *mergeHead
	for _, i := range []int{1, 2} {
		if i < len(m.heads) && (rival == nil || m.less(m.heads[i], rival)) {
			rival = m.heads[i]
		}
	}
	if rival == nil {
		return h.values.len()
	}
	if h.number < rival.number {
		return h.values.upper(h.at, rival.key())
	}
	return max(h.at+1, h.values.lower(h.at, rival.key()))
}
