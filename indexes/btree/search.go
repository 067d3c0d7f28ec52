package btree

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// Search implements indexes.Segment; the result is exact.
// Spec: indexes, "Answering".
func (x *Index) Search(ctx context.Context, q indexes.Query) (indexes.Result, error) {
	var found collector
	if err := x.search(ctx, q, &found); err != nil {
		return indexes.Result{}, fmt.Errorf("search BTREE %s: %w", x.dir.Path(), err)
	}
	addrs := found.treemap()
	if x.cover != nil {
		addrs.Retain(x.cover)
	}
	return indexes.Result{Addrs: addrs, Exact: true, Fragments: x.cover}, nil
}

func (x *Index) search(ctx context.Context, q indexes.Query, found *collector) error {
	switch q := q.(type) {
	case indexes.IsNull:
		t, err := x.pages(ctx)
		if err != nil {
			return err
		}
		return x.readIDs(ctx, 0, t.nulls, found)
	case indexes.NotNull:
		return x.searchSpan(ctx, span{}, found)
	case indexes.Range:
		spans, err := x.spansOf(q)
		if err != nil {
			return err
		}
		for _, s := range spans {
			if err := x.searchSpan(ctx, s, found); err != nil {
				return err
			}
		}
		return nil
	case indexes.In:
		return x.searchIn(ctx, q, found)
	}
	return fmt.Errorf("query %T: %w", q, errs.ErrUnsupported)
}

// searchIn looks the values up like keys.
func (x *Index) searchIn(ctx context.Context, q indexes.In, found *collector) error {
	values, err := x.cells(q.Values)
	if err != nil {
		return err
	}
	defer values.Release()
	keys, err := keysOf(values)
	if err != nil {
		return err
	}
	if f, ok := floatsOf(x.typ); ok {
		var spans []span
		if keys, spans, err = f.equal(keys); err != nil {
			return err
		}
		for _, s := range spans {
			if err := x.searchSpan(ctx, s, found); err != nil {
				return err
			}
		}
	}
	last := -1 // equal keys lie together
	return x.walk(ctx, keys, func(i int, p *page, from, to int) bool {
		if last >= 0 && last != i && keys.col.compare(i, keys.col.key(last)) == 0 {
			return false
		}
		last = i
		found.add(p.ids[p.nulls+from : p.nulls+to])
		return true
	})
}

// cells makes an array of cells, errs.ErrInvalid if they are not of the column's Go type.
func (x *Index) cells(values []any) (arrow.Array, error) {
	b := array.NewBuilder(memory.DefaultAllocator, x.typ)
	defer b.Release()
	for _, v := range values {
		if v == nil {
			return nil, fmt.Errorf("NULL as a value to search: %w", errs.ErrInvalid)
		}
		if err := arrowx.Append(b, v); err != nil {
			return nil, err
		}
	}
	return b.NewArray(), nil
}

// edge is one end of a span: before all values equal to at, or after them.
type edge struct {
	at    key
	after bool
	set   bool // otherwise the span is open at this end
}

// span is a run of values in the order of the index.
type span struct{ from, to edge }

// spansOf translates the range of a query, which has SQL's order, into runs of the index's.
func (x *Index) spansOf(q indexes.Range) ([]span, error) {
	low, err := x.edgeOf(q.Low, q.Low.Exclusive)
	if err != nil {
		return nil, err
	}
	high, err := x.edgeOf(q.High, !q.High.Exclusive)
	if err != nil {
		return nil, err
	}
	if f, ok := floatsOf(x.typ); ok {
		return f.spans(low, high), nil
	}
	return []span{{low, high}}, nil
}

func (x *Index) edgeOf(b indexes.Bound, after bool) (edge, error) {
	if b.Value == nil {
		return edge{}, nil
	}
	a, err := x.cells([]any{b.Value})
	if err != nil {
		return edge{}, err
	}
	defer a.Release()
	c, err := newColumn(x.typ)
	if err != nil {
		return edge{}, err
	}
	err = c.encode(a, 0, 1)
	if err != nil {
		return edge{}, err
	}
	return edge{at: c.key(0), after: after, set: true}, nil
}

// floats are the landmarks of a float type in the comparable form.
type floats struct{ negInf, negZero, posZero, posInf uint64 }

func floatsOf(t arrow.DataType) (floats, bool) {
	switch t.ID() {
	case arrow.FLOAT64:
		inf := math.Inf(1)
		return floats{orderFloat64(-inf), orderFloat64(math.Copysign(0, -1)), orderFloat64(0), orderFloat64(inf)}, true
	case arrow.FLOAT32:
		inf := float32(math.Inf(1))
		return floats{orderFloat32(-inf), orderFloat32(float32(math.Copysign(0, -1))), orderFloat32(0), orderFloat32(inf)}, true
	}
	return floats{}, false
}

func (f floats) nan(k key) bool { return k.fixed < f.negInf || k.fixed > f.posInf }

// nans are the runs of all NaN.
func (f floats) nans() []span {
	return []span{{to: edge{at: key{fixed: f.negInf}, set: true}}, {from: edge{at: key{fixed: f.posInf}, after: true, set: true}}}
}

// spans translates a range: both zeros are one value, and every NaN is one value above +inf.
func (f floats) spans(low, high edge) []span {
	var out []span
	// An edge before NaN is one after +inf, an edge after NaN is above everything.
	lowAbove := low.set && f.nan(low.at) && low.after
	if lowAbove {
		return nil
	}
	if low.set && f.nan(low.at) {
		if high.set && f.nan(high.at) && !high.after || high.set && !f.nan(high.at) {
			return nil
		}
		return f.nans()
	}
	numbers := span{from: edge{at: key{fixed: f.negInf}, set: true}, to: edge{at: key{fixed: f.posInf}, after: true, set: true}}
	if low.set {
		numbers.from = f.zero(low)
	}
	withNaN := !high.set || f.nan(high.at) && high.after
	if high.set && !f.nan(high.at) {
		numbers.to = f.zero(high)
	}
	out = append(out, numbers)
	if withNaN {
		out = append(out, f.nans()...)
	}
	return out
}

// zero moves an edge at one zero to the far side of both.
func (f floats) zero(e edge) edge {
	if e.at.fixed != f.negZero && e.at.fixed != f.posZero {
		return e
	}
	e.at.fixed = f.negZero
	if e.after {
		e.at.fixed = f.posZero
	}
	return e
}

// equal adds the other zero to keys that have one, and takes out NaN, which becomes spans.
func (f floats) equal(k *Keys) (*Keys, []span, error) {
	out := &Keys{typ: k.typ}
	var spans []span
	zero := false
	for _, v := range k.col.fixed {
		switch {
		case f.nan(key{fixed: v}):
			spans = f.nans()
		case v == f.negZero || v == f.posZero:
			if !zero {
				out.col.fixed = append(out.col.fixed, f.negZero, f.posZero)
			}
			zero = true
		default:
			out.col.fixed = append(out.col.fixed, v)
		}
	}
	return out, spans, nil
}

// searchSpan collects the ids of a span: whole pages inside it are read without their values.
func (x *Index) searchSpan(ctx context.Context, s span, found *collector) error {
	t, err := x.pages(ctx)
	if err != nil || t.count == t.nullMaxs {
		return err
	}
	first, last := t.pagesOf(s)
	if first >= last {
		return nil
	}
	if err := x.searchEnd(ctx, t, first, s, found); err != nil {
		return err
	}
	if last-first > 2 {
		from, _ := x.span(t, first+1)
		to, _ := x.span(t, last-1)
		if err := x.readIDs(ctx, from, to, found); err != nil {
			return err
		}
	}
	if last-first > 1 {
		return x.searchEnd(ctx, t, last-1, s, found)
	}
	return nil
}

// pagesOf returns the pages [first, last) that can hold values of a span; first >= last: none.
func (t *pageTable) pagesOf(s span) (first, last int) {
	first, last = t.nullMaxs, t.count
	if s.from.set {
		first = t.firstFrom(first, s.from.at, s.from.after)
	}
	if s.to.set {
		from := max(first, t.nullMins)
		last = from + sort.Search(max(0, t.count-from), func(i int) bool { return t.beginsAbove(from+i, s.to.at, s.to.after) })
	}
	return first, last
}

// valuesOf returns which values [from, to) of a page are in a span; from >= to: none.
func (p *page) valuesOf(s span) (from, to int) {
	from, to = 0, p.values.len()
	if s.from.set {
		from = p.values.position(s.from)
	}
	if s.to.set {
		to = p.values.position(s.to)
	}
	return from, to
}

// searchEnd collects what the first or last page of a span has of it.
func (x *Index) searchEnd(ctx context.Context, t *pageTable, number int, s span, found *collector) error {
	pages, err := x.load(ctx, t, number, number+1)
	if err != nil {
		return err
	}
	p := pages[0]
	if from, to := p.valuesOf(s); from < to {
		found.add(p.ids[p.nulls+from : p.nulls+to])
	}
	return nil
}

func (c *column) position(e edge) int {
	if e.after {
		return c.upper(0, e.at)
	}
	return c.lower(0, e.at)
}

// readIDs collects the ids of rows [from, to) without decoding values.
func (x *Index) readIDs(ctx context.Context, from, to uint64, found *collector) error {
	if from >= to {
		return nil
	}
	x.counters.rowsRead.Add(to - from)
	return x.data.Read(ctx, x.ids, from, to, groupRows, func(rec arrow.RecordBatch) error {
		a := rec.Column(0).(*array.Uint64)
		if a.NullN() > 0 {
			return errs.Corrupt(x.data.Object(), -1, "row without an id")
		}
		found.add(a.Uint64Values())
		return nil
	})
}

// collectedMax is how many ids a collector sorts at a time: random ones cost a set much more than sorted ones.
const collectedMax = 1 << 20

// collector gathers the ids of a result.
type collector struct {
	ids []uint64
	set *rowaddr.Treemap
}

// add takes ids in any order.
func (c *collector) add(ids []uint64) {
	if c.ids = append(c.ids, ids...); len(c.ids) >= collectedMax {
		c.flush()
	}
}

func (c *collector) flush() {
	if c.set == nil {
		c.set = rowaddr.NewTreemap()
	}
	if !slices.IsSorted(c.ids) {
		c.ids = sortIDs(c.ids)
	}
	addrs := make([]rowaddr.Addr, 0, min(len(c.ids), chunkRows))
	for from := 0; from < len(c.ids); from += chunkRows {
		addrs = addrs[:0]
		for _, id := range c.ids[from:min(len(c.ids), from+chunkRows)] {
			addrs = append(addrs, rowaddr.Addr(id))
		}
		c.set.AddMany(addrs)
	}
	c.ids = c.ids[:0]
}

// treemap returns the ids as a set of addresses.
func (c *collector) treemap() *rowaddr.Treemap {
	c.flush()
	return c.set
}

// sortIDs sorts by radix, in steps of 11 bits, skipping what all ids share.
func sortIDs(ids []uint64) []uint64 {
	if len(ids) < 2048 {
		slices.Sort(ids)
		return ids
	}
	const bits, buckets = 11, 1 << 11
	some, all := uint64(0), ^uint64(0)
	for _, id := range ids {
		some, all = some|id, all&id
	}
	other := make([]uint64, len(ids))
	for shift := 0; shift < 64; shift += bits {
		if (some^all)>>shift&(buckets-1) == 0 {
			continue
		}
		var counts [buckets]int
		for _, id := range ids {
			counts[id>>shift&(buckets-1)]++
		}
		sum := 0
		for i, n := range counts {
			counts[i] = sum
			sum += n
		}
		for _, id := range ids {
			d := id >> shift & (buckets - 1)
			other[counts[d]] = id
			counts[d]++
		}
		ids, other = other, ids
	}
	return ids
}
