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
	if spec.Index != nil {
		return newIndexScan(sc, own)
	}
	if spec.Keyed() {
		return newKeyedScan(sc, own), nil
	}
	if err := sc.hideOverlay(own); err != nil {
		return nil, err
	}
	return &fullScan{scan: sc, own: own, gens: slices.Collect(s.v.all())}, nil
}

// scan is what both kinds of scan share.
type scan struct {
	ctx    context.Context //nolint:containedctx // a BatchReader lives for one call of its consumer
	s      *Snapshot
	spec   ScanSpec
	need   []int // physical positions read: output columns, then what only the filter needs
	at     map[int]int
	schema *arrow.Schema // of the output
	inner  *arrow.Schema // of need
	rows   int           // batch size
	hidden map[SourceID][]uint64
}

func (s *Snapshot) newScan(ctx context.Context, spec ScanSpec) (*scan, error) {
	width := s.t.physical.NumFields()
	need := slices.Clone(spec.Columns)
	if spec.Filter != nil {
		need = append(need, predicate.Columns(spec.Filter)...)
	}
	sc := &scan{ctx: ctx, s: s, spec: spec, at: make(map[int]int), rows: spec.BatchRows, hidden: make(map[SourceID][]uint64)}
	for _, c := range need {
		if c < 0 || c >= width {
			return nil, fmt.Errorf("column %d of %d: %w", c, width, errs.ErrInvalid)
		}
		if _, seen := sc.at[c]; !seen {
			sc.at[c] = len(sc.need)
			sc.need = append(sc.need, c)
		}
	}
	if sc.rows <= 0 {
		sc.rows = s.t.o.BatchRows
	}
	sc.schema = spec.OutputSchema(s.t.physical)
	sc.inner = ScanSpec{Columns: sc.need}.OutputSchema(s.t.physical)
	return sc, nil
}

// hideOverlay locates the overlay's keys at the snapshot and hides their rows.
func (sc *scan) hideOverlay(own *Overlay) error {
	if own == nil {
		return nil
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

// finish filters a batch of the needed columns by mask and predicate and projects it to the output. nil if no
// row is left. cols are borrowed.
func (sc *scan) finish(cols []arrow.Array, mask *arrowx.Mask) (arrow.RecordBatch, error) {
	if sc.spec.Filter != nil && mask.Count() > 0 {
		pass, err := predicate.Eval(sc.spec.Filter, func(i int) arrow.Array { return cols[sc.at[i]] }, mask.Len())
		if err != nil {
			return nil, err
		}
		mask.And(pass)
	}
	n := mask.Count()
	if n == 0 {
		return nil, nil
	}
	out := make([]arrow.Array, len(sc.spec.Columns))
	for i, c := range sc.spec.Columns {
		out[i] = cols[sc.at[c]]
	}
	rec := array.NewRecordBatch(sc.schema, out, int64(mask.Len()))
	if n == mask.Len() {
		return rec, nil
	}
	defer rec.Release()
	if len(out) == 0 {
		return array.NewRecordBatch(sc.schema, nil, int64(n)), nil
	}
	return arrowx.FilterByMask(sc.s.t.o.Alloc, rec, mask)
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

// fullScan concatenates the sources: base fragments, generations ascending, the overlay.
type fullScan struct {
	*scan
	own    *Overlay
	frag   int             // next base fragment
	ranges []zonemap.Range // of the one before, still to come
	gens   []*generation   // still to come
	cur    chunkReader
	done   bool
	closed bool

	pruned    bool               // selection is made
	selection *zonemap.Selection // nil: everything is read
	pruning   Pruning
}

// chunkReader yields runs of physical rows of one source with the mask of rows alive at the snapshot. The
// columns are those of scan.need.
type chunkReader interface {
	next() (rec arrow.RecordBatch, mask *arrowx.Mask, err error)
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
	rec, mask, err := f.cur.next()
	if errors.Is(err, io.EOF) {
		err = f.cur.close()
		f.cur = nil
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	return f.finish(rec.Columns(), mask)
}

// open moves to the next source.
func (f *fullScan) open() error {
	v := f.s.v
	if err := f.prune(); err != nil {
		return err
	}
	switch {
	case len(f.ranges) > 0:
		run := f.ranges[0]
		f.ranges = f.ranges[1:]
		frag := v.base.frags[f.frag-1]
		r, err := f.openFragment(v.base.ds, frag, pick(v.base.fieldIDs, f.need), run.From, run.To)
		if err != nil {
			return err
		}
		f.cur = &baseReader{scan: f.scan, frag: uint32(frag.ID), rows: r}
	case f.frag < len(v.base.frags):
		f.ranges = f.rangesOf(v.base.frags[f.frag])
		f.frag++
	case len(f.gens) > 0:
		g := f.gens[0]
		f.gens = f.gens[1:]
		return f.openGeneration(g)
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

func (f *fullScan) openGeneration(g *generation) error {
	born := g.births.At(f.s.s)
	if born == 0 {
		return nil
	}
	if g.mem != nil {
		f.cur = newMemReader(f.scan, g, born)
		return nil
	}
	ids := append(pick(g.fieldIDs, f.need), g.fieldIDs[len(g.fieldIDs)-1])
	r, err := f.openFragment(g.ds, g.frag, ids, 0, uint64(born))
	if err != nil {
		return err
	}
	f.cur = &genReader{scan: f.scan, g: g, rows: r}
	return nil
}

// openFragment scans rows [from, to) of a fragment; without columns it yields bare row counts.
func (f *fullScan) openFragment(ds *table.Dataset, frag *table.Fragment, ids []int32, from, to uint64) (table.FragmentReader, error) {
	if len(ids) == 0 {
		return &countReader{schema: f.inner, at: from, to: to, step: uint64(f.rows)}, nil
	}
	return ds.ScanFragment(f.ctx, frag, ids, from, to, f.rows)
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
