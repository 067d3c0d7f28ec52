package lsm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/zonemap"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
)

// verify compares what indexes, zone maps and shards say about a scan with what is stored: the addresses of the rows by
// key or index must be those of a scan of every row of the snapshot, and no row of the filter may be left out.
func (s *Snapshot) verify(ctx context.Context, spec ScanSpec, own *Overlay) error {
	spec.Verify, spec.Stats = false, nil
	if spec.Keyed() {
		if err := s.verifyKeyed(ctx, spec, own); err != nil {
			return err
		}
	}
	if spec.Filter == nil && len(spec.Within) == 0 {
		return nil
	}
	sc, err := s.newScan(ctx, ScanSpec{Filter: spec.Filter, Within: spec.Within, Index: spec.Index})
	if err != nil {
		return err
	}
	if err := sc.hideOverlay(own); err != nil {
		return err
	}
	kept, err := sc.keptBy(spec)
	if err != nil {
		return err
	}
	cols := slices.Clone(sc.early)
	for _, w := range spec.Within {
		cols = append(cols, s.t.indexColumns(w.Index)...)
	}
	return sc.eachStored(cols, func(locs []Location, rec arrow.RecordBatch, mask *arrowx.Mask) error {
		if err := sc.clearUnwanted(cols, rec, mask); err != nil {
			return err
		}
		for _, i := range mask.Indices(nil) {
			if !kept(locs[i]) {
				return errs.Corrupt(s.t.root, -1, "row %v of source %d is wanted and left out by %s", locs[i].Addr, locs[i].Source, sc.aids(spec))
			}
		}
		return nil
	})
}

// clearUnwanted clears the rows that the filter is not true for, and those outside the ranges of ScanSpec.Within. The
// columns of rec are cols, by physical position: those of the filter, then those of each index.
func (sc *scan) clearUnwanted(cols []int, rec arrow.RecordBatch, mask *arrowx.Mask) error {
	if sc.spec.Filter != nil {
		pass, err := predicate.Eval(sc.spec.Filter, func(c int) arrow.Array { return rec.Column(slices.Index(cols, c)) }, mask.Len())
		if err != nil {
			return err
		}
		mask.And(pass)
	}
	for _, w := range sc.spec.Within {
		var at []int
		for _, c := range sc.s.t.indexColumns(w.Index) {
			at = append(at, slices.Index(cols, c))
		}
		keys, err := sc.s.t.indexEncoder(w.Index).Batch(rec, at)
		if err != nil {
			return err
		}
		for i, k := range keys {
			if k == nullTuple || !slices.ContainsFunc(w.Ranges, func(r KeyRange) bool { return r.holds(k) }) {
				mask.Clear(i)
			}
		}
	}
	return nil
}

// indexColumns is the physical columns of an index.
func (t *Table) indexColumns(index int) []int {
	if index == PrimaryKey {
		return t.keyCols
	}
	return []int{t.o.Indexes[index].Column}
}

// indexEncoder makes the tuples of an index.
func (t *Table) indexEncoder(index int) *rowkey.Encoder {
	if index == PrimaryKey {
		return t.encoder
	}
	return t.indexed[index]
}

// aids names what a scan uses, for a message.
func (sc *scan) aids(spec ScanSpec) string {
	out := "a zone map"
	for _, w := range spec.Within {
		name := PrimaryIndex
		if w.Index != PrimaryKey {
			name = sc.s.t.o.Indexes[w.Index].Name
		}
		out += fmt.Sprintf(" or index %q", name)
	}
	return out
}

// keptBy is which stored rows the scan of spec looks at.
func (sc *scan) keptBy(spec ScanSpec) (func(Location) bool, error) {
	if spec.Keyed() {
		k := &keyedScan{scan: sc}
		err := k.makePruner()
		return k.pruner.keeps, err
	}
	f := &fullScan{scan: sc}
	if err := f.plan(); err != nil {
		return nil, err
	}
	gens := make(map[SourceID]bool)
	for _, g := range f.gens {
		gens[g.id] = true
	}
	pieces := make(map[uint32][]piece)
	for _, p := range f.pieces {
		pieces[uint32(p.frag.ID)] = append(pieces[uint32(p.frag.ID)], p)
	}
	return func(l Location) bool {
		if l.Source != 0 {
			rows, few := f.chosen.of(l.Source)
			runs, cut := f.runs[l.Source]
			in := func(r zonemap.Range) bool { return uint64(l.Addr) >= r.From && uint64(l.Addr) < r.To }
			return gens[l.Source] && (!few || rows.Contains(uint32(l.Addr))) && (few || !cut || slices.ContainsFunc(runs, in))
		}
		off := l.Addr.Offset()
		return slices.ContainsFunc(pieces[l.Addr.Fragment()], func(p piece) bool {
			if p.offsets != nil {
				_, there := slices.BinarySearch(p.offsets, off)
				return there
			}
			return uint64(off) >= p.from && uint64(off) < p.to
		})
	}, nil
}

// verifyKeyed compares the rows that keys, a range of them or an index give with those of a scan.
func (s *Snapshot) verifyKeyed(ctx context.Context, spec ScanSpec, own *Overlay) error {
	t := s.t
	cols, enc, name := t.keyCols, t.encoder, "primary key"
	wanted := func(k rowkey.Key) bool { _, ok := slices.BinarySearch(spec.Keys, k); return ok }
	switch {
	case spec.Index != nil:
		d := t.o.Indexes[spec.Index.Index]
		cols, enc, name = []int{d.Column}, t.indexed[spec.Index.Index], "index "+d.Name
		wanted = func(k rowkey.Key) bool { return spec.Index.Range.holds(k) && k != nullTuple }
	case t.Twice() > 0:
		return nil // keys that others brought again have several rows, of which a look-up gives one
	case spec.Range != nil:
		wanted = spec.Range.holds
	default:
		spec.Keys = slices.Clone(spec.Keys)
		slices.Sort(spec.Keys)
	}
	spec.Filter, spec.Columns, spec.Within = nil, nil, nil
	sc, err := s.newScan(ctx, spec)
	if err != nil {
		return err
	}
	found, err := sc.found(own)
	if err != nil {
		return err
	}
	if len(sc.hidden) == 0 { // an index scan has hidden them already
		if err := sc.hideOverlay(own); err != nil {
			return err
		}
	}
	var stored []Location
	err = sc.eachStored(cols, func(locs []Location, rec arrow.RecordBatch, mask *arrowx.Mask) error {
		at := make([]int, len(cols))
		for i := range at {
			at[i] = i
		}
		keys, err := enc.Batch(rec, at)
		if err != nil {
			return err
		}
		for _, i := range mask.Indices(nil) {
			if wanted(keys[i]) {
				stored = append(stored, locs[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	order := func(a, b Location) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Addr, b.Addr))
	}
	slices.SortFunc(found, order)
	slices.SortFunc(stored, order)
	if !slices.Equal(found, stored) {
		return errs.Corrupt(t.root, -1, "%s gives %d rows, a scan %d: %s", name, len(found), len(stored), firstDifference(found, stored, order))
	}
	return nil
}

func (r KeyRange) holds(k rowkey.Key) bool { return k >= r.Lo && (r.Hi == "" || k < r.Hi) }

func firstDifference(found, stored []Location, order func(a, b Location) int) string {
	for i := 0; i < len(found) || i < len(stored); i++ {
		switch {
		case i == len(stored) || i < len(found) && order(found[i], stored[i]) < 0:
			return fmt.Sprintf("only the former has row %v of source %d", found[i].Addr, found[i].Source)
		case i == len(found) || order(found[i], stored[i]) > 0:
			return fmt.Sprintf("only the latter has row %v of source %d", stored[i].Addr, stored[i].Source)
		}
	}
	return "none"
}

// found drains a scan by key or index, without reading rows: where its stored rows lie.
func (sc *scan) found(own *Overlay) ([]Location, error) {
	var k *keyedScan
	if sc.spec.Index != nil {
		x, err := newIndexScan(sc, own)
		if err != nil {
			return nil, err
		}
		k = x.keyedScan
	} else {
		k = newKeyedScan(sc, own)
	}
	var out []Location
	for !k.done {
		hits, err := k.step()
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			if !h.gone && h.row == nil {
				out = append(out, h.loc)
			}
		}
	}
	return out, nil
}

// eachStored visits every stored row of the snapshot that the overlay does not hide: the columns cols, where each row lies,
// and which of them are alive.
func (sc *scan) eachStored(cols []int, visit func(locs []Location, rec arrow.RecordBatch, mask *arrowx.Mask) error) error {
	v, t := sc.s.v, sc.s.t
	places := func(id SourceID, first rowaddr.Addr, n int) []Location {
		locs := make([]Location, n)
		for i := range locs {
			locs[i] = Location{Source: id, Addr: first + rowaddr.Addr(i)}
		}
		return locs
	}
	for _, f := range v.base.frags {
		err := eachBatch(sc.ctx, v.base.ds, f, pick(v.base.fieldIDs, cols), t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
			n := int(rec.NumRows())
			return visit(places(0, rowaddr.New(uint32(f.ID), uint32(first)), n), rec, sc.baseMask(uint32(f.ID), first, n))
		})
		if err != nil {
			return err
		}
	}
	for g := range v.all() {
		born := g.births.At(sc.s.s)
		one := func(first uint32, rec arrow.RecordBatch) error { // cols, then the tombstones
			n := int(rec.NumRows())
			mask, err := sc.generationMask(g, first, rec.Column(len(cols)), n)
			if err != nil {
				return err
			}
			for i := range n {
				if first+uint32(i) >= born {
					mask.Clear(i)
				}
			}
			return visit(places(g.id, rowaddr.Addr(first), n), rec, mask)
		}
		if g.mem == nil {
			ids := append(pick(g.fieldIDs, cols), g.fieldIDs[len(g.fieldIDs)-1])
			err := eachBatch(sc.ctx, g.ds, g.frag, ids, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error { return one(uint32(first), rec) })
			if err != nil {
				return err
			}
			continue
		}
		if err := eachOfMem(g, born, cols, t, one); err != nil {
			return err
		}
	}
	return nil
}

// eachOfMem visits the born rows of a MemTable: cols, then the tombstones.
func eachOfMem(g *generation, born uint32, cols []int, t *Table, visit func(first uint32, rec arrow.RecordBatch) error) error {
	chunks := g.mem.Batches(born)
	defer func() {
		for _, c := range chunks {
			c.Batch.Release()
		}
	}()
	for _, c := range chunks {
		arrays := make([]arrow.Array, 0, len(cols)+1)
		for _, p := range cols {
			arrays = append(arrays, c.Batch.Column(p))
		}
		tombstones := int(c.Batch.NumCols()) - 1
		fields := append(ScanSpec{Columns: cols}.OutputSchema(t.physical).Fields(), c.Batch.Schema().Field(tombstones))
		rec := array.NewRecordBatch(arrow.NewSchema(fields, nil), append(arrays, c.Batch.Column(tombstones)), c.Batch.NumRows())
		err := visit(c.First, rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
