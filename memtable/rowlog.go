package memtable

import (
	"fmt"
	"sort"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

// coalesceRows is the largest batch that coalescing makes.
//
// Why: single-row commits would otherwise leave one batch per row, and a scan pays per batch. Joining a batch
// with smaller or equal neighbours only copies each row at most log2(coalesceRows) times.
const coalesceRows = 8192

// rowLog is an immutable list of batches in row order. It owns a reference to each of them and is itself
// counted, so that a reader that got hold of it can take references to batches which the appender meanwhile
// replaces by a joined one.
type rowLog struct {
	refs    atomic.Int64
	chunks  []Chunk
	rows    uint32
	bytes   int64 // cells of all batches
	appends int   // batches before coalescing
}

func newRowLog(chunks []Chunk, rows uint32, bytes int64, appends int) *rowLog {
	l := &rowLog{chunks: chunks, rows: rows, bytes: bytes, appends: appends}
	l.refs.Store(1)
	return l
}

// acquire takes a reference unless the log is already freed.
func (l *rowLog) acquire() bool {
	for {
		n := l.refs.Load()
		if n == 0 {
			return false
		}
		if l.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (l *rowLog) release() {
	if l.refs.Add(-1) == 0 {
		for _, c := range l.chunks {
			c.Batch.Release()
		}
	}
}

// with returns the log that follows l by rec (borrowed), joining the last batches when they are small enough.
func (l *rowLog) with(mem memory.Allocator, rec arrow.RecordBatch) (*rowLog, error) {
	n := rec.NumRows()
	keep, total := len(l.chunks), n
	for keep > 0 {
		prev := l.chunks[keep-1].Batch.NumRows()
		if prev > total || prev+total > coalesceRows {
			break
		}
		keep, total = keep-1, total+prev
	}
	first, batch := l.rows, rec
	removed := int64(0)
	if keep < len(l.chunks) {
		parts := make([]arrow.RecordBatch, 0, len(l.chunks)-keep+1)
		for _, c := range l.chunks[keep:] {
			parts = append(parts, c.Batch)
			removed += arrowx.Bytes(c.Batch)
		}
		joined, err := arrowx.Concat(mem, append(parts, rec))
		if err != nil {
			return nil, err
		}
		first, batch = l.chunks[keep].First, joined
	} else if wasteful(rec) {
		compact, err := arrowx.Concat(mem, []arrow.RecordBatch{rec})
		if err != nil {
			return nil, err
		}
		batch = compact
	} else {
		batch.Retain()
	}
	chunks := make([]Chunk, keep+1, keep+8)
	copy(chunks, l.chunks[:keep])
	for _, c := range chunks[:keep] {
		c.Batch.Retain()
	}
	chunks[keep] = Chunk{First: first, Batch: batch}
	return newRowLog(chunks, l.rows+uint32(n), l.bytes-removed+arrowx.Bytes(batch), l.appends+1), nil
}

// wasteful reports whether rec keeps buffers alive that are far larger than its rows.
func wasteful(rec arrow.RecordBatch) bool {
	held := arrowx.Held(rec)
	return held > 64<<10 && held > 2*arrowx.Bytes(rec)
}

// batches returns the rows in [from, upTo), each batch with a reference of its own.
func (l *rowLog) batches(from, upTo uint32) []Chunk {
	upTo = min(upTo, l.rows)
	if from >= upTo {
		return nil
	}
	i := l.find(from)
	var out []Chunk
	for ; i < len(l.chunks) && l.chunks[i].First < upTo; i++ {
		c := l.chunks[i]
		n := uint32(c.Batch.NumRows())
		lo, hi := max(from, c.First)-c.First, min(upTo-c.First, n)
		if lo == 0 && hi == n {
			c.Batch.Retain()
			out = append(out, c)
		} else {
			out = append(out, Chunk{First: c.First + lo, Batch: c.Batch.NewSlice(int64(lo), int64(hi))})
		}
	}
	return out
}

// take gathers rows of l.
func (l *rowLog) take(mem memory.Allocator, schema *arrow.Schema, rows []uint32) (arrow.RecordBatch, error) {
	parts := make([]arrow.RecordBatch, 0, 1)
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	var indices []int
	for from := 0; from < len(rows); {
		if rows[from] >= l.rows {
			return nil, fmt.Errorf("take row %d of %d: %w", rows[from], l.rows, errs.ErrInvalid)
		}
		c := l.chunks[l.find(rows[from])]
		end := c.First + uint32(c.Batch.NumRows())
		indices = indices[:0]
		for ; from < len(rows) && rows[from] >= c.First && rows[from] < end; from++ {
			indices = append(indices, int(rows[from]-c.First))
		}
		part, err := arrowx.Take(mem, c.Batch, indices)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	switch len(parts) {
	case 0:
		return arrowx.FromRows(mem, schema, nil)
	case 1:
		parts[0].Retain()
		return parts[0], nil
	default:
		return arrowx.Concat(mem, parts)
	}
}

// find returns the number of the chunk that holds row, which exists.
func (l *rowLog) find(row uint32) int {
	return sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].First > row }) - 1
}
