package lsm

import (
	"context"
	"errors"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

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

// plan finds out, once, what the scan has to look at: by zone maps, indexes and shards.
func (f *fullScan) plan() error {
	if f.planned {
		return nil
	}
	f.planned = true
	b := f.s.v.base
	if err := f.planGenerations(); err != nil {
		return err
	}
	if f.spec.Filter != nil && len(b.frags) > 0 {
		if err := f.choose(); err != nil {
			return err
		}
	}
	if len(f.spec.Within) > 0 {
		var err error
		if f.chosen, err = f.askIndexes(f.spec.Within, f.gens); err != nil {
			return err
		}
	}
	if f.spec.Filter != nil && len(b.frags) > 0 {
		more, err := f.askBitmaps()
		if err != nil {
			return err
		}
		f.chosen = bothChoices(f.chosen, more)
	}
	f.planBase()
	f.countPlan()
	return nil
}

// planGenerations leaves out shards that have no row of the filter.
func (f *fullScan) planGenerations() error {
	shards, all, err := f.s.v.set.shardsOf(f.spec.Filter, f.s.t.keyCols)
	if err != nil {
		return err
	}
	for o, gens := range f.s.v.gens {
		if !all && !slices.Contains(shards, o) {
			continue
		}
		for _, g := range gens {
			if f.spec.Filter == nil || g.mem != nil {
				f.gens = append(f.gens, g)
				continue
			}
			runs, whole, err := f.pruneGeneration(g)
			if err != nil {
				return err
			}
			if !whole {
				if f.runs == nil {
					f.runs = make(map[SourceID][]zonemap.Range)
				}
				f.runs[g.id] = runs
			}
			if whole || len(runs) > 0 {
				f.gens = append(f.gens, g)
			}
		}
	}
	return nil
}

// planBase makes the pieces of the base.
func (f *fullScan) planBase() {
	for _, frag := range f.s.v.base.frags {
		ranges := f.rangesOf(frag)
		kept := uint64(0)
		for i, r := range ranges {
			ranges[i] = zonemap.Range{Fragment: r.Fragment, From: min(r.From, frag.PhysicalRows), To: min(r.To, frag.PhysicalRows)}
			kept += ranges[i].To - ranges[i].From
		}
		if kept == 0 {
			f.pruning.FragmentsPruned++
		}
		f.pruning.Fragments++
		f.pruning.Rows += frag.PhysicalRows
		f.pruning.RowsPruned += frag.PhysicalRows - kept
		pieces := make([]piece, 0, len(ranges))
		for _, r := range ranges {
			if r.From < r.To {
				pieces = append(pieces, piece{frag: frag, from: r.From, to: r.To})
			}
		}
		if few, ok := f.chosen.in(uint32(frag.ID)); ok {
			const dense = 8 // from one row in so many on, single rows cost more than runs
			offsets := within(few, pieces)
			switch {
			case len(offsets) == 0:
				pieces = nil
			case uint64(len(offsets))*dense <= kept:
				pieces = []piece{{frag: frag, offsets: offsets}}
			}
		}
		if len(pieces) > 0 {
			f.stats.FragmentsKept++
			f.pieces = append(f.pieces, pieces...)
		}
	}
}

// within returns the offsets that lie in one of the runs.
func within(offsets *roaring.Bitmap, runs []piece) []uint32 {
	var out []uint32
	it := offsets.Iterator()
	for _, run := range runs {
		it.AdvanceIfNeeded(uint32(run.from))
		for it.HasNext() && uint64(it.PeekNext()) < run.to {
			out = append(out, it.Next())
		}
	}
	return out
}

// countPlan adds the plan to the counters.
func (f *fullScan) countPlan() {
	st, v := f.stats, f.s.v
	st.Zones, st.ZonesKept = st.Zones+f.pruning.Zones, st.ZonesKept+f.pruning.ZonesKept
	st.Fragments += len(v.base.frags)
	for _, p := range f.pieces {
		st.Expected += p.to - p.from + uint64(len(p.offsets))
	}
	shards := make(map[int]bool)
	for _, g := range f.gens {
		few, ok := f.chosen.of(g.id)
		if ok {
			st.Expected += few.GetCardinality()
		} else if runs, cut := f.runs[g.id]; cut {
			for _, r := range runs {
				st.Expected += r.To - r.From
			}
		} else {
			st.Expected += uint64(g.births.At(f.s.s))
		}
		if g.births.At(f.s.s) > 0 && !(ok && few.IsEmpty()) {
			st.SourcesKept++
			shards[g.id.shard()] = true
		}
	}
	for _, gens := range v.gens {
		kept := false
		for _, g := range gens {
			if g.births.At(f.s.s) > 0 {
				st.Sources++
				kept = true
			}
		}
		if kept {
			st.Shards++
		}
	}
	st.ShardsKept += len(shards)
	if len(v.base.frags) > 0 {
		st.Sources++
	}
	if len(f.pieces) > 0 {
		st.SourcesKept++
	}
	if f.own != nil {
		st.Sources, st.SourcesKept = st.Sources+1, st.SourcesKept+1
	}
}

// choose makes the selection by zone maps.
func (f *fullScan) choose() error {
	sel, err := f.selectZones()
	if err != nil || sel == nil {
		return err
	}
	f.selection = sel
	f.pruning.Zones, f.pruning.ZonesKept = sel.Zones, sel.ZonesKept
	return nil
}

// selectZones is what zone maps leave of the base for the filter; nil: everything.
func (sc *scan) selectZones() (*zonemap.Selection, error) {
	var failed error
	sel, err := zonemap.Prune(sc.spec.Filter, func(column int) []*zonemap.Segment {
		list, err := sc.zonesOf(column)
		failed = errors.Join(failed, err)
		return list
	})
	if err = errors.Join(failed, err); err != nil {
		if errors.Is(err, errs.ErrInvalid) {
			return sc.askBlooms(nil) // the scan says so itself if it meets a row
		}
		return nil, err
	}
	return sc.askBlooms(&sel)
}

// zonesOf loads the zone map of a column.
func (sc *scan) zonesOf(column int) ([]*zonemap.Segment, error) {
	var out []*zonemap.Segment
	t := sc.s.t
	for _, s := range sc.s.v.base.zones.columns[column].segs {
		x, err := s.load(sc.ctx, t, t.physical.Field(column).Type)
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
	ranges = slices.Clone(ranges)
	if n := len(ranges); n > 0 && f.s.t.o.Planted.ShortZones {
		ranges[n-1].To--
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
	err = f.plan()
	return f.pruning, err
}
