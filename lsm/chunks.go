package lsm

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
	"lancesql/memtable"
)

// baseReader yields a base fragment: rows the deletion vector or the death log removed are masked.
type baseReader struct {
	*scan
	frag uint32
	rows table.FragmentReader
}

func (r *baseReader) next() (arrow.RecordBatch, *arrowx.Mask, error) {
	first, rec, err := r.rows.Next()
	if err != nil {
		return nil, nil, err
	}
	b := r.s.v.base
	mask := arrowx.NewFullMask(int(rec.NumRows()))
	if dv := b.deleted[r.frag]; dv != nil {
		it := dv.Iterator()
		it.AdvanceIfNeeded(uint32(first))
		for it.HasNext() {
			off := uint64(it.Next())
			if off >= first+uint64(mask.Len()) {
				break
			}
			mask.Clear(int(off - first))
		}
	}
	addr := rowaddr.New(r.frag, uint32(first))
	b.deaths.clearDead(mask, addr, r.s.s)
	r.clearHidden(mask, 0, addr)
	return rec, mask, nil
}

func (r *baseReader) close() error { return r.rows.Close() }

// genReader yields a flushed generation, its deletion vector ignored: births and deaths decide.
type genReader struct {
	*scan
	g    *generation
	rows table.FragmentReader
}

func (r *genReader) next() (arrow.RecordBatch, *arrowx.Mask, error) {
	first, rec, err := r.rows.Next()
	if err != nil {
		return nil, nil, err
	}
	mask, err := r.generationMask(r.g, uint32(first), rec.Column(int(rec.NumCols())-1), int(rec.NumRows()))
	if err != nil {
		rec.Release()
		return nil, nil, err
	}
	return rec, mask, nil
}

func (r *genReader) close() error { return r.rows.Close() }

// generationMask is the rows of a generation alive at the snapshot: not dead, not tombstones, not hidden.
func (sc *scan) generationMask(g *generation, first uint32, tombstones arrow.Array, n int) (*arrowx.Mask, error) {
	mask := arrowx.NewFullMask(n)
	tomb, ok := tombstones.(*array.Boolean)
	if !ok {
		return nil, errs.Corrupt(g.sh.dir.path, -1, "tombstone column is not boolean")
	}
	for i := range n {
		if tomb.Value(i) {
			mask.Clear(i)
		}
	}
	g.deaths.clearDead(mask, rowaddr.Addr(first), sc.s.s)
	sc.clearHidden(mask, g.id, rowaddr.Addr(first))
	return mask, nil
}

// memReader yields a MemTable up to the rows born at the snapshot.
type memReader struct {
	*scan
	g      *generation
	chunks []memtable.Chunk
}

func newMemReader(sc *scan, g *generation, born uint32) *memReader {
	return &memReader{scan: sc, g: g, chunks: g.mem.Batches(born)}
}

func (r *memReader) next() (arrow.RecordBatch, *arrowx.Mask, error) {
	if len(r.chunks) == 0 {
		return nil, nil, io.EOF
	}
	c := r.chunks[0]
	r.chunks = r.chunks[1:]
	defer c.Batch.Release()
	n := int(c.Batch.NumRows())
	mask, err := r.generationMask(r.g, c.First, c.Batch.Column(int(c.Batch.NumCols())-1), n)
	if err != nil {
		return nil, nil, err
	}
	cols := make([]arrow.Array, len(r.need))
	for i, p := range r.need {
		cols[i] = c.Batch.Column(p)
	}
	return array.NewRecordBatch(r.inner, cols, int64(n)), mask, nil
}

func (r *memReader) close() error {
	for _, c := range r.chunks {
		c.Batch.Release()
	}
	r.chunks = nil
	return nil
}

// overlayReader yields the overlay's rows once.
type overlayReader struct{ rec arrow.RecordBatch }

func (r *overlayReader) next() (arrow.RecordBatch, *arrowx.Mask, error) {
	if r.rec == nil {
		return nil, nil, io.EOF
	}
	rec := r.rec
	r.rec = nil
	return rec, arrowx.NewFullMask(int(rec.NumRows())), nil
}

func (r *overlayReader) close() error {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
	return nil
}

// countReader yields rows without columns.
type countReader struct {
	schema *arrow.Schema
	at, to uint64
	step   uint64
}

// Next returns the next run of rows.
func (r *countReader) Next() (uint64, arrow.RecordBatch, error) {
	if r.at >= r.to {
		return 0, nil, io.EOF
	}
	first := r.at
	n := min(r.step, r.to-r.at)
	r.at += n
	return first, array.NewRecordBatch(r.schema, nil, int64(n)), nil
}

// Close does nothing.
func (r *countReader) Close() error { return nil }
