package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
)

// indexScan finds rows by a secondary index. Which of the physical rows that have a value count is said by births and
// deaths alone, so no key is looked at; rows the overlay hides are left out and its own added.
type indexScan struct {
	*keyedScan
	index  int
	others []hit // rows of fragments without a segment and of the overlay, in order
}

func newIndexScan(sc *scan, own *Overlay) (*indexScan, error) {
	if i := sc.spec.Index.Index; i < 0 || i >= len(sc.s.t.o.Indexes) {
		return nil, fmt.Errorf("index %d of %d: %w", i, len(sc.s.t.o.Indexes), errs.ErrInvalid)
	}
	if err := sc.hideOverlay(own); err != nil {
		return nil, err
	}
	x := &indexScan{keyedScan: newKeyedScan(sc, own), index: sc.spec.Index.Index}
	x.lo, x.hi = sc.spec.Index.Range.Lo, sc.spec.Index.Range.Hi
	x.step = x.indexStep
	x.cover([]int{sc.s.t.o.Indexes[x.index].Column}, sc.s.t.indexed[x.index])
	x.done = x.hi != "" && x.lo >= x.hi
	if x.done {
		return x, nil
	}
	if err := x.collect(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(x.others, func(a, b hit) int { return x.compare(a.key, b.key) })
	return x, nil
}

func (x *indexScan) wanted(k rowkey.Key) bool {
	// NULL has no tuple in an index over a column itself, wherever its rows lie.
	return k >= x.lo && (x.hi == "" || k < x.hi) && k != nullTuple
}

// nullTuple is the tuple of a NULL in a column that is indexed itself.
const nullTuple = rowkey.Key("\x00")

// collect finds the rows that no index source has: those of base fragments without a segment and of the overlay.
func (x *indexScan) collect() error {
	t, v := x.s.t, x.s.v
	column := t.o.Indexes[x.index].Column
	for i, row := range x.own.Rows {
		if row == nil {
			continue
		}
		k, err := t.indexed[x.index].Row(row, []int{column})
		if err != nil {
			return err
		}
		if x.wanted(k) {
			x.others = append(x.others, hit{key: k, row: x.own.Rows[i]})
		}
	}
	ci := v.base.secondary[x.index]
	bare := ci.uncovered(v.base)
	for _, f := range v.base.frags {
		if !bare.Contains(uint32(f.ID)) {
			continue
		}
		err := eachBatch(x.ctx, v.base.ds, f, ci.fields, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
			keys, err := t.indexed[x.index].Batch(rec, []int{0})
			if err != nil {
				return err
			}
			for i, k := range keys {
				if at := rowaddr.New(uint32(f.ID), uint32(first)+uint32(i)); x.wanted(k) && x.inBase(at) {
					x.others = append(x.others, hit{key: k, loc: Location{Addr: at}})
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// indexStep takes about a batch of rows from every source, whole values only, and keeps those up to the first value at
// which a source was cut off.
func (x *indexScan) indexStep() ([]hit, error) {
	var hits []hit
	bound, cut := rowkey.Key(""), false
	v := x.s.v
	take := func(r keyRanger, visible func(k rowkey.Key, row uint64) (hit, bool)) error {
		n, last := 0, rowkey.Key("")
		return x.walk(r, func(k rowkey.Key, row uint64, _ bool) (bool, error) {
			if n >= x.limit && k != last {
				if !cut || x.compare(last, bound) < 0 {
					bound, cut = last, true
				}
				return false, nil
			}
			if h, ok := visible(k, row); ok && k != nullTuple {
				hits = append(hits, h)
			}
			n, last = n+1, k
			return true, nil
		})
	}
	for g := range v.all() {
		born := uint64(g.births.At(x.s.s))
		err := take(g.secondary[x.index].ordered(x.ctx), func(k rowkey.Key, row uint64) (hit, bool) {
			return hit{key: k, loc: Location{Source: g.id, Addr: addrOf(row)}}, x.inGeneration(g, born, row)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, u := range v.base.secondary[x.index].segs {
		err := take(segmentRange{ctx: x.ctx, u: u}, func(k rowkey.Key, row uint64) (hit, bool) {
			at := addrOf(row)
			return hit{key: k, loc: Location{Addr: at}}, x.inBase(at)
		})
		if err != nil {
			return nil, err
		}
	}
	for len(x.others) > 0 && (!cut || x.compare(x.others[0].key, bound) <= 0) {
		hits = append(hits, x.others[0])
		x.others = x.others[1:]
	}
	hits = slices.DeleteFunc(hits, func(h hit) bool { return cut && x.compare(h.key, bound) > 0 })
	slices.SortStableFunc(hits, func(a, b hit) int { return x.compare(a.key, b.key) })
	x.done = !cut
	x.pass(bound)
	x.grow()
	return hits, nil
}

// FindByIndex returns the rows of the snapshot, without an overlay, whose indexed value has the tuple k.
func (s *Snapshot) FindByIndex(ctx context.Context, index int, k rowkey.Key, cols []int) ([]arrowx.Row, error) {
	r, err := s.Scan(ctx, ScanSpec{Columns: cols, Index: &IndexRange{Index: index, Range: KeyRange{Lo: k, Hi: k + "\x00"}}}, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []arrowx.Row
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range int(rec.NumRows()) {
			out = append(out, arrowx.RowOf(rec, i))
		}
		rec.Release()
	}
}
