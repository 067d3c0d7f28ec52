package lsm

import (
	"context"
	"errors"

	"lancesql/indexes/zonemap"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/table"
)

// Pruning counts what zone maps spared a full scan of the base table. Fragments without zones are kept whole.
type Pruning struct {
	Zones, ZonesKept           int // looked at, over all columns of the filter
	Fragments, FragmentsPruned int // of the base; passed over as a whole
	Rows, RowsPruned           uint64
}

// Pruned is implemented by the readers of scans that use zone maps. The counts are there once the reader has been asked
// for its first batch.
type Pruned interface{ Pruning() Pruning }

// Pruning implements Pruned.
func (f *fullScan) Pruning() Pruning { return f.pruning }

// prune finds out, once, which rows of the base the filter leaves, and counts them.
func (f *fullScan) prune() error {
	if f.pruned {
		return nil
	}
	f.pruned = true
	b := f.s.v.base
	if f.spec.Filter != nil && len(b.frags) > 0 {
		if err := f.choose(); err != nil {
			return err
		}
	}
	for _, frag := range b.frags {
		kept := uint64(0)
		for _, r := range f.rangesOf(frag) {
			kept += min(r.To, frag.PhysicalRows) - min(r.From, frag.PhysicalRows)
		}
		if kept == 0 {
			f.pruning.FragmentsPruned++
		}
		f.pruning.Fragments++
		f.pruning.Rows += frag.PhysicalRows
		f.pruning.RowsPruned += frag.PhysicalRows - kept
	}
	return nil
}

// choose makes the selection.
func (f *fullScan) choose() error {
	var failed error
	sel, err := zonemap.Prune(f.spec.Filter, func(column int) []*zonemap.Segment {
		list, err := f.zonesOf(column)
		failed = errors.Join(failed, err)
		return list
	})
	if err = errors.Join(failed, err); err != nil {
		if errors.Is(err, errs.ErrInvalid) {
			return nil // the scan says so itself if it meets a row
		}
		return err
	}
	f.selection = &sel
	f.pruning.Zones, f.pruning.ZonesKept = sel.Zones, sel.ZonesKept
	return nil
}

// zonesOf loads the zone map of a column.
func (f *fullScan) zonesOf(column int) ([]*zonemap.Segment, error) {
	var out []*zonemap.Segment
	t := f.s.t
	for _, s := range f.s.v.base.zones.columns[column].segs {
		x, err := s.load(f.ctx, t, t.physical.Field(column).Type)
		if err != nil {
			return nil, err
		}
		if x != nil {
			out = append(out, x)
		}
	}
	return out, nil
}

// rangesOf is what must be read of a fragment.
func (f *fullScan) rangesOf(frag *table.Fragment) []zonemap.Range {
	id := uint32(frag.ID)
	whole := []zonemap.Range{{Fragment: id, To: frag.PhysicalRows}}
	if f.selection == nil {
		return whole
	}
	ranges, known := f.selection.Of(id)
	if !known {
		return whole
	}
	return ranges
}

// Pruning says what zone maps would spare a full scan with a filter (physical columns), without reading rows: for
// plans. nil: every row counts.
func (s *Snapshot) Pruning(ctx context.Context, filter predicate.Expr) (Pruning, error) {
	sc, err := s.newScan(ctx, ScanSpec{Filter: filter})
	if err != nil {
		return Pruning{}, err
	}
	f := &fullScan{scan: sc}
	err = f.prune()
	return f.pruning, err
}
