package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/zonemap"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// Scan reads the table at the snapshot with own (may be nil) as its newest source. The snapshot must stay
// held until the reader is closed. Without Keys and Range rows come source by source in no particular order.
func (s *Snapshot) Scan(ctx context.Context, spec ScanSpec, own *Overlay) (arrowx.BatchReader, error) {
	sc, err := s.newScan(ctx, spec)
	if err != nil {
		return nil, err
	}
	if spec.Verify {
		if err := s.verify(ctx, spec, own); err != nil {
			return nil, err
		}
	}
	if spec.Index != nil {
		x, err := newIndexScan(sc, own)
		if err != nil {
			return nil, err
		}
		return x, nil
	}
	if spec.Keyed() {
		return newKeyedScan(sc, own), nil
	}
	if err := sc.hideOverlay(own); err != nil {
		return nil, err
	}
	return &fullScan{scan: sc, own: own}, nil
}

// Plan fills spec.Stats with what a scan would look at, as far as it is known before rows are read; it may read indexes
// and zone maps.
func (s *Snapshot) Plan(ctx context.Context, spec ScanSpec, own *Overlay) error {
	sc, err := s.newScan(ctx, spec)
	if err != nil {
		return err
	}
	if spec.Keyed() {
		sc.countKeyed(own)
		return sc.expectKeyed()
	}
	return (&fullScan{scan: sc, own: own}).plan()
}

// scan is what both kinds of scan share.
type scan struct {
	ctx    context.Context //nolint:containedctx // a BatchReader lives for one call of its consumer
	s      *Snapshot
	spec   ScanSpec
	need   []int // physical positions read: output columns, then what only the filter needs
	at     map[int]int
	early  []int         // columns of the filter
	late   []int         // the other ones of need: read after the filter, for the rows it leaves
	schema *arrow.Schema // of the output
	inner  *arrow.Schema // of need
	rows   int           // batch size
	hidden map[SourceID][]uint64
	stats  *ReadStats // never nil

	filtered, passed int // rows of which early columns were read alone, and those the filter left
}

func (s *Snapshot) newScan(ctx context.Context, spec ScanSpec) (*scan, error) {
	if spec.Keys != nil || spec.Range != nil {
		if err := s.t.requireKey(); err != nil {
			return nil, err
		}
	}
	if spec.Backward && !spec.Keyed() {
		return nil, fmt.Errorf("a scan backward that has no order: %w", errs.ErrInvalid)
	}
	width := s.t.physical.NumFields()
	need := slices.Clone(spec.Columns)
	if spec.Filter != nil {
		need = append(need, predicate.Columns(spec.Filter)...)
	}
	sc := &scan{ctx: ctx, s: s, spec: spec, at: make(map[int]int), rows: spec.BatchRows, hidden: make(map[SourceID][]uint64), stats: spec.Stats}
	for _, c := range need {
		if c < 0 || c >= width {
			return nil, fmt.Errorf("column %d of %d: %w", c, width, errs.ErrInvalid)
		}
		if _, seen := sc.at[c]; !seen {
			sc.at[c] = len(sc.need)
			sc.need = append(sc.need, c)
		}
	}
	if spec.Filter != nil {
		sc.early = predicate.Columns(spec.Filter)
		for _, c := range sc.need {
			if !slices.Contains(sc.early, c) {
				sc.late = append(sc.late, c)
			}
		}
	}
	if sc.rows <= 0 {
		sc.rows = s.t.o.BatchRows
	}
	if sc.stats == nil {
		sc.stats = &ReadStats{}
	} else {
		sc.ctx = objstore.WithMeter(ctx, &sc.stats.Store)
	}
	sc.stats.Scans++
	sc.schema = spec.OutputSchema(s.t.physical)
	sc.inner = ScanSpec{Columns: sc.need}.OutputSchema(s.t.physical)
	return sc, nil
}

// hideOverlay locates the overlay's keys at the snapshot and hides their rows.
func (sc *scan) hideOverlay(own *Overlay) error {
	if own == nil || sc.s.t.keyless() {
		return nil // without a key nothing is ever replaced
	}
	stored, err := sc.s.v.locate(sc.ctx, own.Keys, sc.s.s)
	if err != nil {
		return err
	}
	for _, f := range stored {
		if f.ok {
			sc.hidden[f.loc.Source] = append(sc.hidden[f.loc.Source], uint64(f.loc.Addr))
		}
	}
	for _, rows := range sc.hidden {
		slices.Sort(rows)
	}
	return nil
}

// clearHidden clears the bits of hidden rows of the batch that begins at first.
func (sc *scan) clearHidden(mask *arrowx.Mask, id SourceID, first rowaddr.Addr) {
	rows := sc.hidden[id]
	from, _ := slices.BinarySearch(rows, uint64(first))
	for _, a := range rows[from:] {
		if a >= uint64(first)+uint64(mask.Len()) {
			return
		}
		mask.Clear(int(a - uint64(first)))
	}
}

// finish filters a chunk and projects it to the output; nil if no row is left. It takes the chunk over.
func (sc *scan) finish(c chunk) (arrow.RecordBatch, error) {
	defer c.rec.Release()
	sc.stats.RowsRead += uint64(c.rec.NumRows())
	column := func(i int) arrow.Array { return c.rec.Column(sc.at[i]) }
	if c.late != nil {
		column = func(i int) arrow.Array { return c.rec.Column(slices.Index(sc.early, i)) }
	}
	if sc.spec.Filter != nil && c.mask.Count() > 0 {
		pass, err := predicate.Eval(sc.spec.Filter, column, c.mask.Len())
		if err != nil {
			return nil, err
		}
		c.mask.And(pass)
	}
	n := c.mask.Count()
	if c.late != nil {
		sc.filtered, sc.passed = sc.filtered+c.mask.Len(), sc.passed+n
	}
	if n == 0 {
		return nil, nil
	}
	sc.stats.RowsReturned += uint64(n)
	if c.late != nil {
		return sc.complete(c, column)
	}
	out := make([]arrow.Array, len(sc.spec.Columns))
	for i, p := range sc.spec.Columns {
		out[i] = column(p)
	}
	rec := array.NewRecordBatch(sc.schema, out, int64(c.mask.Len()))
	if n == c.mask.Len() {
		return rec, nil
	}
	defer rec.Release()
	if len(out) == 0 {
		return array.NewRecordBatch(sc.schema, nil, int64(n)), nil
	}
	return arrowx.FilterByMask(sc.s.t.o.Alloc, rec, c.mask)
}

// complete reads the late columns of the rows that are left of a chunk.
func (sc *scan) complete(c chunk, early func(column int) arrow.Array) (arrow.RecordBatch, error) {
	rows := c.mask.Indices(nil)
	rest, err := c.late(rows)
	if err != nil {
		return nil, err
	}
	defer rest.Release()
	out := make([]arrow.Array, len(sc.spec.Columns))
	defer func() {
		for _, a := range out {
			if a != nil {
				a.Release()
			}
		}
	}()
	for i, p := range sc.spec.Columns {
		if at := slices.Index(sc.late, p); at >= 0 {
			out[i] = rest.Column(at)
			out[i].Retain()
			continue
		}
		if out[i], err = arrowx.TakeArray(sc.s.t.o.Alloc, early(p), rows); err != nil {
			return nil, err
		}
	}
	return array.NewRecordBatch(sc.schema, out, int64(len(rows))), nil
}

// sparse reports whether it pays to read the columns of the filter first: as long as it leaves few rows.
func (sc *scan) sparse() bool {
	const few = 16 // one row in so many
	return len(sc.late) > 0 && (sc.filtered < sc.rows || sc.passed*few <= sc.filtered)
}

// overlayBatch is the overlay's rows as needed columns; nil if it has none.
func (sc *scan) overlayBatch(rows []arrowx.Row) (arrow.RecordBatch, error) {
	picked := make([]arrowx.Row, 0, len(rows))
	for _, r := range rows {
		if r == nil {
			continue
		}
		row := make(arrowx.Row, len(sc.need))
		for i, c := range sc.need {
			row[i] = r[c]
		}
		picked = append(picked, row)
	}
	if len(picked) == 0 {
		return nil, nil
	}
	if len(sc.need) == 0 {
		return array.NewRecordBatch(sc.inner, nil, int64(len(picked))), nil
	}
	return arrowx.FromRows(sc.s.t.o.Alloc, sc.inner, picked)
}

// fullScan concatenates the sources: base fragments, generations ascending, the overlay. Zone maps, indexes and shards
// say what of them need not be looked at.
type fullScan struct {
	*scan
	own    *Overlay
	pieces []piece       // of the base, still to come
	gens   []*generation // still to come
	cur    chunkReader
	done   bool
	closed bool

	planned   bool                         // pieces and gens are made
	selection *zonemap.Selection           // by zone maps; nil: everything is read
	chosen    *choice                      // by indexes; nil: everything is read
	runs      map[SourceID][]zonemap.Range // of generations, by zone maps; of others everything is read
	pruning   Pruning
}

// piece is rows of a base fragment: the run [from, to), or those at some offsets.
type piece struct {
	frag     *table.Fragment
	from, to uint64
	offsets  []uint32 // ascending; nil: the run
}

// chunk is rows of one source.
type chunk struct {
	rec  arrow.RecordBatch                           // the columns scan.need; those of scan.early alone if late is set
	mask *arrowx.Mask                                // rows alive at the snapshot
	late func(rows []int) (arrow.RecordBatch, error) // reads the columns scan.late of some of the rows
}

// chunkReader yields the rows of one source; io.EOF after the last.
type chunkReader interface {
	next() (chunk, error)
	close() error
}

func (f *fullScan) Schema() *arrow.Schema { return f.schema }

// Next returns the next non-empty batch.
func (f *fullScan) Next() (arrow.RecordBatch, error) {
	for {
		if f.closed || f.done {
			return nil, io.EOF
		}
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		rec, err := f.step()
		if err != nil {
			return nil, err
		}
		if rec != nil {
			return rec, nil
		}
	}
}

func (f *fullScan) step() (arrow.RecordBatch, error) {
	if f.cur == nil {
		if err := f.open(); err != nil || f.cur == nil {
			return nil, err
		}
	}
	c, err := f.cur.next()
	if errors.Is(err, io.EOF) {
		err = f.cur.close()
		f.cur = nil
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return f.finish(c)
}

// open moves to the next source.
func (f *fullScan) open() error {
	if err := f.plan(); err != nil {
		return err
	}
	switch {
	case len(f.pieces) > 0:
		p := f.pieces[0]
		f.pieces = f.pieces[1:]
		if p.offsets != nil {
			f.cur = f.takeBase(p)
		} else {
			f.cur = f.readBase(p)
		}
	case len(f.gens) > 0:
		g := f.gens[0]
		f.gens = f.gens[1:]
		f.cur = f.openGeneration(g)
	case f.own != nil:
		rec, err := f.overlayBatch(f.own.Rows)
		f.own = nil
		if err != nil || rec == nil {
			return err
		}
		f.cur = &overlayReader{rec: rec}
	default:
		f.done = true
	}
	return nil
}

// Close ends the scan.
func (f *fullScan) Close() error {
	f.closed = true
	if f.cur == nil {
		return nil
	}
	err := f.cur.close()
	f.cur = nil
	return err
}

func pick(ids []int32, positions []int) []int32 {
	out := make([]int32, len(positions), len(positions)+1)
	for i, p := range positions {
		out[i] = ids[p]
	}
	return out
}
