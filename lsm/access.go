package lsm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
)

// choice is the rows that secondary indexes leave. What it does not speak about is not narrowed. Immutable once made;
// nil leaves everything.
type choice struct {
	covered *roaring.Bitmap // base fragments it speaks about
	base    map[uint32]*roaring.Bitmap
	gens    map[SourceID]*roaring.Bitmap
}

// in returns the offsets that are left of a base fragment.
func (c *choice) in(frag uint32) (offsets *roaring.Bitmap, ok bool) {
	if c == nil || !c.covered.Contains(frag) {
		return nil, false
	}
	if offsets = c.base[frag]; offsets == nil {
		offsets = roaring.New()
	}
	return offsets, true
}

// of returns the rows that are left of a generation.
func (c *choice) of(id SourceID) (rows *roaring.Bitmap, ok bool) {
	if c == nil {
		return nil, false
	}
	rows, ok = c.gens[id]
	return rows, ok
}

// inBase counts the rows that are left of the base fragments it speaks about.
func (c *choice) inBase() uint64 {
	n := uint64(0)
	for _, rows := range c.base {
		n += rows.GetCardinality()
	}
	return n
}

// and is the rows that are left by both.
func (c *choice) and(o *choice) *choice {
	out := &choice{covered: roaring.Or(c.covered, o.covered), base: make(map[uint32]*roaring.Bitmap), gens: make(map[SourceID]*roaring.Bitmap)}
	for it := out.covered.Iterator(); it.HasNext(); {
		frag := it.Next()
		a, inA := c.in(frag)
		b, inB := o.in(frag)
		switch {
		case inA && inB:
			out.base[frag] = roaring.And(a, b)
		case inA:
			out.base[frag] = a
		default:
			out.base[frag] = b
		}
	}
	for id, rows := range c.gens {
		out.gens[id] = rows
	}
	for id, rows := range o.gens {
		if a, both := out.gens[id]; both {
			rows = roaring.And(a, rows)
		}
		out.gens[id] = rows
	}
	return out
}

const (
	indexFraction    = 8    // an index is worth asking if it leaves one row in so many
	indexRowsMin     = 1024 // or no more than so many rows
	indexesAsked     = 4    // of one scan
	indexPerSurvivor = 32   // another index is worth asking while it has no more rows than so many times those left
)

// askIndexes asks those of offered that promise to leave few rows, the most promising first; nil if none does.
func (sc *scan) askIndexes(offered []IndexRanges, gens []*generation) (*choice, error) {
	type offer struct {
		IndexRanges
		rows uint64 // of the base, dead ones too
	}
	base := sc.s.v.base
	var offers []offer
	for _, w := range offered {
		if w.Index < PrimaryKey || w.Index >= len(base.secondary) {
			return nil, fmt.Errorf("index %d of %d: %w", w.Index, len(base.secondary), errs.ErrInvalid)
		}
		rows, err := base.columnIndex(w.Index).count(sc.ctx, w.Ranges)
		if err != nil {
			return nil, err
		}
		offers = append(offers, offer{w, rows})
	}
	slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Compare(a.rows, b.rows) })
	var chosen *choice
	asked := make(map[int]bool)
	for _, o := range offers {
		limit := base.rows() / indexFraction
		if chosen != nil {
			limit = chosen.inBase() * indexPerSurvivor
		}
		if o.rows > max(limit, indexRowsMin) || len(asked) == indexesAsked {
			break
		}
		if asked[o.Index] { // the narrower ranges of two
			continue
		}
		asked[o.Index] = true
		one, err := sc.ask(o.IndexRanges, gens)
		if err != nil {
			return nil, err
		}
		if chosen == nil {
			chosen = one
		} else {
			chosen = chosen.and(one)
		}
	}
	return chosen, nil
}

// ask looks ranges up in an index of the base and in those of gens.
func (sc *scan) ask(w IndexRanges, gens []*generation) (*choice, error) {
	ci := sc.s.v.base.columnIndex(w.Index)
	covered := ci.covered
	if sc.s.t.o.Planted.SkipUncovered {
		covered = roaring.Or(covered, ci.uncovered(sc.s.v.base))
	}
	c := &choice{covered: covered, base: make(map[uint32]*roaring.Bitmap), gens: make(map[SourceID]*roaring.Bitmap)}
	sc.countSegments(ci)
	for _, u := range ci.segs {
		ids, err := u.collect(sc.ctx, w.Ranges)
		if err != nil {
			return nil, err
		}
		sc.stats.Candidates += uint64(len(ids))
		for _, id := range ids {
			at := rowaddr.Addr(id)
			rows := c.base[at.Fragment()]
			if rows == nil {
				rows = roaring.New()
				c.base[at.Fragment()] = rows
			}
			rows.Add(at.Offset())
		}
	}
	for _, g := range gens {
		rows, ok, err := g.find(sc.ctx, w, uint64(g.births.At(sc.s.s)))
		if err != nil {
			return nil, err
		}
		if ok {
			sc.stats.Candidates += rows.GetCardinality()
			c.gens[g.id] = rows
		}
	}
	return c, nil
}

// columnIndex returns the index at a place in Options.Indexes, or PrimaryKey.
func (b *base) columnIndex(i int) *columnIndex {
	if i == PrimaryKey {
		return b.pk
	}
	return b.secondary[i]
}

func (sc *scan) countSegments(ci *columnIndex) {
	for _, u := range ci.segs {
		sc.stats.Segments++
		if u.moved != nil {
			sc.stats.Hops += u.moved.Steps()
		}
	}
}

// find returns the rows of a generation with a value in ranges; ok is false if there are so many that reading all of them
// is as good.
func (g *generation) find(ctx context.Context, w IndexRanges, born uint64) (rows *roaring.Bitmap, ok bool, err error) {
	rows, limit, n := roaring.New(), max(indexRowsMin, born/indexFraction), uint64(0)
	keys := g.keys
	if w.Index != PrimaryKey {
		keys = g.secondary[w.Index]
	}
	for _, r := range w.Ranges {
		err := keys.ordered(ctx).Range(r.Lo, r.Hi, func(_ rowkey.Key, row uint64, tombstone bool) (bool, error) {
			if row < born && !tombstone {
				rows.Add(uint32(row))
			}
			n++
			return n <= limit, nil
		})
		if err != nil || n > limit {
			return nil, false, err
		}
	}
	return rows, true, nil
}

// count is how many rows of the segments have a value in ranges, dead ones too.
func (ci *columnIndex) count(ctx context.Context, ranges []KeyRange) (uint64, error) {
	n := uint64(0)
	for _, u := range ci.segs {
		for _, r := range ranges {
			rows, err := u.x.CountTuples(ctx, u.tuples, r.Lo, r.Hi)
			if err != nil {
				return 0, err
			}
			n += rows
		}
	}
	return n, nil
}

// collect returns the addresses of the rows of a segment with a tuple in ranges, in the order of the index.
func (u segmentUse) collect(ctx context.Context, ranges []KeyRange) ([]uint64, error) {
	var ids []uint64
	for _, r := range ranges {
		err := u.x.Tuples(ctx, u.tuples, r.Lo, r.Hi, func(_ rowkey.Key, id uint64) (bool, error) {
			ids = append(ids, id)
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	keep, err := u.place(ctx, ids)
	if err != nil {
		return nil, err
	}
	n := 0
	for i, id := range ids {
		if keep[i] {
			ids[n] = id
			n++
		}
	}
	return ids[:n], nil
}

// rows is the physical rows of the base.
func (b *base) rows() uint64 {
	n := uint64(0)
	for _, f := range b.frags {
		n += f.PhysicalRows
	}
	return n
}

// RangesOf returns the tuples that begin with a cell of cells, as ScanSpec.Within wants them. prefix returns the start of
// all tuples that begin with a cell, nil for NULL; their order must be that of predicate.CompareCells. A column that is
// indexed itself has no tuple for NULL: cells must be without it then.
func RangesOf(cells predicate.Ranges, prefix func(cell any) (rowkey.Key, error)) ([]KeyRange, error) {
	null, err := prefix(nil)
	if err != nil {
		return nil, err
	}
	var out []KeyRange
	if cells.Null {
		out = append(out, KeyRange{Lo: null, Hi: rowkey.After(null)})
	}
	for _, iv := range cells.Intervals {
		r := KeyRange{Lo: rowkey.After(null)}
		if iv.Low != nil {
			if r.Lo, err = prefix(iv.Low); err != nil {
				return nil, err
			}
			if iv.LowOpen {
				r.Lo = rowkey.After(r.Lo)
			}
		}
		if iv.High != nil {
			if r.Hi, err = prefix(iv.High); err != nil {
				return nil, err
			}
			if !iv.HighOpen {
				r.Hi = rowkey.After(r.Hi)
			}
		}
		if r.Hi != "" && r.Lo >= r.Hi {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Hi == r.Lo {
			out[n-1].Hi = r.Hi
			continue
		}
		out = append(out, r)
	}
	return out, nil
}
