package lsm

import (
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
	"lancesql/memtable"
)

// fileReader yields a run of rows of a fragment, of the base or of a flushed generation. While the filter leaves few
// rows it reads the filter's columns first.
type fileReader struct {
	*scan
	ds       *table.Dataset
	frag     *table.Fragment
	ids      []int32 // field ids by physical column
	tomb     int32   // id of the tombstone column, read behind the others; 0: none
	from, to uint64  // still to come
	mask     func(first uint64, rec arrow.RecordBatch) (*arrowx.Mask, error)

	rows    table.FragmentReader // nil: to be opened
	partial bool                 // rows has the early columns only
}

func (r *fileReader) next() (chunk, error) {
	if r.rows != nil && r.partial && !r.sparse() {
		if err := r.close(); err != nil {
			return chunk{}, err
		}
	}
	if r.rows == nil {
		if err := r.open(); err != nil {
			return chunk{}, err
		}
	}
	first, rec, err := r.rows.Next()
	if err != nil {
		return chunk{}, err
	}
	r.from = first + uint64(rec.NumRows())
	mask, err := r.mask(first, rec)
	if err != nil {
		rec.Release()
		return chunk{}, err
	}
	c := chunk{rec: rec, mask: mask}
	if r.partial {
		c.late = func(rows []int) (arrow.RecordBatch, error) {
			offsets := make([]uint32, len(rows))
			for i, row := range rows {
				offsets[i] = uint32(first) + uint32(row)
			}
			return r.ds.TakeFragment(r.ctx, r.frag, pick(r.ids, r.late), offsets)
		}
	}
	return c, nil
}

func (r *fileReader) open() error {
	r.partial = r.sparse()
	cols := r.need
	if r.partial {
		cols = r.early
	}
	ids := pick(r.ids, cols)
	if r.tomb != 0 {
		ids = append(ids, r.tomb)
	}
	if len(ids) == 0 {
		r.rows = &countReader{schema: arrow.NewSchema(nil, nil), at: r.from, to: r.to, step: uint64(r.scan.rows)}
		return nil
	}
	var err error
	r.rows, err = r.ds.ScanFragment(r.ctx, r.frag, ids, r.from, r.to, r.scan.rows)
	return err
}

func (r *fileReader) close() error {
	if r.rows == nil {
		return nil
	}
	err := r.rows.Close()
	r.rows = nil
	return err
}

// readBase reads a run of a base fragment: rows the deletion vector or the death log removed are masked.
func (sc *scan) readBase(p piece) chunkReader {
	b, id := sc.s.v.base, uint32(p.frag.ID)
	return &fileReader{scan: sc, ds: b.ds, frag: p.frag, ids: b.fieldIDs, from: p.from, to: p.to,
		mask: func(first uint64, rec arrow.RecordBatch) (*arrowx.Mask, error) {
			return sc.baseMask(id, first, int(rec.NumRows())), nil
		}}
}

// baseMask is the rows of a base fragment alive at the snapshot.
func (sc *scan) baseMask(frag uint32, first uint64, n int) *arrowx.Mask {
	b := sc.s.v.base
	mask := arrowx.NewFullMask(n)
	if dv := b.deleted[frag]; dv != nil {
		it := dv.Iterator()
		it.AdvanceIfNeeded(uint32(first))
		for it.HasNext() {
			off := uint64(it.Next())
			if off >= first+uint64(n) {
				break
			}
			mask.Clear(int(off - first))
		}
	}
	addr := rowaddr.New(frag, uint32(first))
	b.deaths.clearDead(mask, addr, sc.s.s)
	sc.clearHidden(mask, 0, addr)
	return mask
}

// takeBase reads single rows of a base fragment.
func (sc *scan) takeBase(p piece) chunkReader {
	r := &takeReader{scan: sc}
	for _, off := range p.offsets {
		if at := rowaddr.New(uint32(p.frag.ID), off); sc.inBase(at) {
			r.rest = append(r.rest, Location{Addr: at})
		}
	}
	return r
}

// inBase reports whether a base row is part of the snapshot.
func (sc *scan) inBase(at rowaddr.Addr) bool {
	b := sc.s.v.base
	return b.alive(at) && !b.deaths.Dead(at, sc.s.s) && !sc.isHidden(0, at)
}

// inGeneration reports whether a row of a generation of which born rows are born is part of the snapshot.
func (sc *scan) inGeneration(g *generation, born, row uint64) bool {
	at := addrOf(row)
	return row < born && !g.tombstone(row) && !g.deaths.Dead(at, sc.s.s) && !sc.isHidden(g.id, at)
}

func (sc *scan) isHidden(id SourceID, at rowaddr.Addr) bool {
	_, hidden := slices.BinarySearch(sc.hidden[id], uint64(at))
	return hidden
}

// openGeneration reads a generation, its deletion vector ignored: births and deaths decide.
func (f *fullScan) openGeneration(g *generation) chunkReader {
	born := g.births.At(f.s.s)
	if rows, few := f.chosen.of(g.id); few {
		r := &takeReader{scan: f.scan}
		for it := rows.Iterator(); it.HasNext(); {
			if row := it.Next(); f.inGeneration(g, uint64(born), uint64(row)) {
				r.rest = append(r.rest, Location{Source: g.id, Addr: rowaddr.Addr(row)})
			}
		}
		return r
	}
	if g.mem != nil {
		return &memReader{scan: f.scan, g: g, chunks: g.mem.Batches(born)}
	}
	run := func(from, to uint64) *fileReader {
		return &fileReader{scan: f.scan, ds: g.ds, frag: g.frag, ids: g.fieldIDs, tomb: g.fieldIDs[len(g.fieldIDs)-1], from: from, to: to,
			mask: func(first uint64, rec arrow.RecordBatch) (*arrowx.Mask, error) {
				return f.generationMask(g, uint32(first), rec.Column(int(rec.NumCols())-1), int(rec.NumRows()))
			}}
	}
	runs, cut := f.runs[g.id]
	if !cut {
		return run(0, uint64(born))
	}
	r := &runsReader{}
	for _, part := range runs {
		r.rest = append(r.rest, run(part.From, part.To))
	}
	return r
}

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

// takeReader yields single rows, all of them part of the snapshot.
type takeReader struct {
	*scan
	rest []Location // of one source, ascending
}

func (r *takeReader) next() (chunk, error) {
	if len(r.rest) == 0 {
		return chunk{}, io.EOF
	}
	n := min(len(r.rest), r.rows)
	locs := r.rest[:n]
	r.rest = r.rest[n:]
	return r.take(locs)
}

func (r *takeReader) close() error { return nil }

// take reads rows by location, in the order given.
func (sc *scan) take(locs []Location) (chunk, error) {
	cols := sc.need
	partial := sc.sparse() && len(locs) > takenAtOnce
	if partial {
		cols = sc.early
	}
	rec, err := sc.s.t.fetch(sc.ctx, sc.s.v, locs, cols)
	if err != nil {
		return chunk{}, err
	}
	c := chunk{rec: rec, mask: arrowx.NewFullMask(len(locs))}
	if partial {
		c.late = func(rows []int) (arrow.RecordBatch, error) {
			some := make([]Location, len(rows))
			for i, row := range rows {
				some[i] = locs[row]
			}
			return sc.s.t.fetch(sc.ctx, sc.s.v, some, sc.late)
		}
	}
	return c, nil
}

// takenAtOnce is how many single rows are read with all their columns: a second look costs more than it spares.
const takenAtOnce = 16

// memReader yields a MemTable up to the rows born at the snapshot.
type memReader struct {
	*scan
	g      *generation
	chunks []memtable.Chunk
}

func (r *memReader) next() (chunk, error) {
	if len(r.chunks) == 0 {
		return chunk{}, io.EOF
	}
	c := r.chunks[0]
	r.chunks = r.chunks[1:]
	defer c.Batch.Release()
	n := int(c.Batch.NumRows())
	mask, err := r.generationMask(r.g, c.First, c.Batch.Column(int(c.Batch.NumCols())-1), n)
	if err != nil {
		return chunk{}, err
	}
	cols := make([]arrow.Array, len(r.need))
	for i, p := range r.need {
		cols[i] = c.Batch.Column(p)
	}
	return chunk{rec: array.NewRecordBatch(r.inner, cols, int64(n)), mask: mask}, nil
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

func (r *overlayReader) next() (chunk, error) {
	if r.rec == nil {
		return chunk{}, io.EOF
	}
	rec := r.rec
	r.rec = nil
	return chunk{rec: rec, mask: arrowx.NewFullMask(int(rec.NumRows()))}, nil
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
