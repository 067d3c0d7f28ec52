package lsm

import (
	"cmp"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
)

// keyedScan returns rows in key order, for a list of keys or a range. Memory is bounded by the batch size
// times the number of sources, however long the range is.
type keyedScan struct {
	*scan
	own  *Overlay
	keys []rowkey.Key          // what remains of Keys, ascending
	lo   rowkey.Key            // what remains of Range
	hi   rowkey.Key            // its end, "" if it is open
	step func() ([]hit, error) // finds the next rows
	done bool

	limit    int   // rows that a step takes from a source: few at first, since a caller may want few
	covering []int // physical columns whose cells the keys hold, in key order; nil: none
	decoder  *rowkey.Encoder
	narrowed bool // pruner is made
	pruner   pruner
	touched  map[uint32]struct{} // base fragments of which rows were wanted
}

// stepRowsMin is what the first step of a scan by ranges takes from a source.
const stepRowsMin = 128

// grow makes the next step greater.
func (k *keyedScan) grow() { k.limit = min(k.limit*4, k.rows) }

func newKeyedScan(sc *scan, own *Overlay) *keyedScan {
	k := &keyedScan{scan: sc, own: own}
	if k.own == nil {
		k.own = &Overlay{}
	}
	sc.countKeyed(own)
	k.step, k.limit = k.keyStep, min(stepRowsMin, sc.rows)
	k.cover(sc.s.t.keyCols, sc.s.t.encoder)
	if sc.spec.Range != nil {
		k.step = k.rangeStep
		k.lo, k.hi = sc.spec.Range.Lo, sc.spec.Range.Hi
		k.done = k.hi != "" && k.lo >= k.hi
		return k
	}
	k.keys = slices.Clone(sc.spec.Keys)
	slices.Sort(k.keys)
	k.keys = slices.Compact(k.keys)
	return k
}

// hit is one row of the result: stored at loc, or row of the overlay.
type hit struct {
	key  rowkey.Key
	loc  Location
	row  arrowx.Row // overlay row
	gone bool       // tombstone or overlay delete: hides older rows of the key
}

func (k *keyedScan) Schema() *arrow.Schema { return k.schema }

// Next returns the next non-empty batch.
func (k *keyedScan) Next() (arrow.RecordBatch, error) {
	for !k.done {
		if err := k.ctx.Err(); err != nil {
			return nil, err
		}
		hits, err := k.step()
		if err != nil {
			return nil, err
		}
		rec, err := k.read(hits)
		if rec != nil || err != nil {
			return rec, err
		}
	}
	return nil, io.EOF
}

// Close ends the scan.
func (k *keyedScan) Close() error {
	k.done = true
	return nil
}

// keyStep locates the next batch of listed keys.
func (k *keyedScan) keyStep() ([]hit, error) {
	n := min(len(k.keys), k.rows)
	next, rest := k.keys[:n], k.keys[n:]
	if k.spec.Backward {
		rest, next = k.keys[:len(k.keys)-n], k.keys[len(k.keys)-n:]
	}
	var hits []hit
	stored, err := k.s.v.locate(k.ctx, next, k.s.s)
	if err != nil {
		return nil, err
	}
	for i, key := range next {
		if o, ok := slices.BinarySearch(k.own.Keys, key); ok {
			hits = append(hits, hit{key: key, row: k.own.Rows[o], gone: k.own.Rows[o] == nil})
		} else if f := stored[i]; f.ok {
			hits = append(hits, hit{key: key, loc: f.loc, gone: f.tombstone})
		}
	}
	if k.spec.Backward {
		slices.Reverse(hits)
	}
	k.keys = rest
	k.done = len(k.keys) == 0
	return hits, nil
}

// compare is the order in which keys come.
func (k *keyedScan) compare(a, b rowkey.Key) int {
	if k.spec.Backward {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// walk visits what remains of the range in one source, in the order in which keys come.
func (k *keyedScan) walk(r keyRanger, visit func(key rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	if k.spec.Backward {
		return r.Backward(k.lo, k.hi, visit)
	}
	return r.Range(k.lo, k.hi, visit)
}

// pass leaves out of what remains all keys up to bound.
func (k *keyedScan) pass(bound rowkey.Key) {
	if k.spec.Backward {
		k.hi = bound
		return
	}
	k.lo = bound + "\x00"
}

// rangeStep takes up to a batch of keys from every source, newest first, and keeps those up to the first
// key at which a source was cut off: before it every source is complete.
func (k *keyedScan) rangeStep() ([]hit, error) {
	seen := make(map[rowkey.Key]hit)
	bound, cut := rowkey.Key(""), false
	lower := func(last rowkey.Key) {
		if !cut || k.compare(last, bound) < 0 {
			bound, cut = last, true
		}
	}
	k.overlayRange(seen, lower)
	v := k.s.v
	for _, gens := range v.gens {
		for _, g := range slices.Backward(gens) {
			born := uint64(g.births.At(k.s.s))
			err := k.sourceRange(seen, lower, g.keys.ordered(k.ctx), func(key rowkey.Key, row uint64, tombstone bool) (hit, bool) {
				return hit{key: key, loc: Location{Source: g.id, Addr: rowaddr.Addr(row)}, gone: tombstone}, row < born
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for _, r := range v.base.ranges(k.ctx) {
		err := k.sourceRange(seen, lower, r, func(key rowkey.Key, row uint64, _ bool) (hit, bool) {
			at := rowaddr.Addr(row)
			return hit{key: key, loc: Location{Addr: at}}, v.base.answersFor(r, at) && v.base.alive(at)
		})
		if err != nil {
			return nil, err
		}
	}
	hits := make([]hit, 0, len(seen))
	for _, h := range seen {
		if !cut || k.compare(h.key, bound) <= 0 {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return k.compare(a.key, b.key) })
	k.done = !cut
	k.pass(bound)
	k.grow()
	return hits, nil
}

func (k *keyedScan) overlayRange(seen map[rowkey.Key]hit, lower func(rowkey.Key)) {
	from, _ := slices.BinarySearch(k.own.Keys, k.lo)
	to := len(k.own.Keys)
	if k.hi != "" {
		to, _ = slices.BinarySearch(k.own.Keys, k.hi)
	}
	take := min(max(to-from, 0), k.limit)
	for n := range take {
		i := from + n
		if k.spec.Backward {
			i = to - 1 - n
		}
		key := k.own.Keys[i]
		seen[key] = hit{key: key, row: k.own.Rows[i], gone: k.own.Rows[i] == nil}
		if n == take-1 && take < to-from {
			lower(key)
		}
	}
}

// keyRanger is a source of keys in order; the rows of a key come descending.
type keyRanger interface {
	Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error
	Backward(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error
}

// sourceRange collects the newest visible row of each key of one source, unless a newer source has the key.
func (k *keyedScan) sourceRange(seen map[rowkey.Key]hit, lower func(rowkey.Key), keys keyRanger,
	visible func(rowkey.Key, uint64, bool) (hit, bool)) error {
	var last rowkey.Key
	n := 0
	return k.walk(keys, func(key rowkey.Key, row uint64, tombstone bool) (bool, error) {
		if n > 0 && key == last {
			return true, nil
		}
		h, ok := visible(key, row, tombstone)
		if !ok {
			return true, nil
		}
		if n == k.limit {
			lower(last)
			return false, nil
		}
		last = key
		n++
		if _, newer := seen[key]; !newer {
			seen[key] = h
		}
		return true, nil
	})
}

// read fetches the hits in order, filters and projects them; nil if nothing is left.
func (k *keyedScan) read(hits []hit) (arrow.RecordBatch, error) {
	hits = slices.DeleteFunc(hits, func(h hit) bool { return h.gone })
	k.stats.Candidates += uint64(len(hits))
	hits, err := k.narrow(hits)
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	for _, h := range hits {
		if h.row == nil && h.loc.Source == 0 {
			k.touch(h.loc.Addr.Fragment())
		}
	}
	if k.covering != nil {
		rec, err := k.fromKeys(hits)
		if err != nil {
			return nil, err
		}
		k.stats.RowsRead -= uint64(len(hits)) // which finish adds
		out, err := k.finish(chunk{rec: rec, mask: arrowx.NewFullMask(len(hits))})
		if out != nil {
			k.stats.Covered += uint64(out.NumRows())
		}
		return out, err
	}
	var locs []Location
	var rows []arrowx.Row
	for _, h := range hits {
		if h.row != nil {
			rows = append(rows, h.row)
		} else {
			locs = append(locs, h.loc)
		}
	}
	if len(rows) == 0 {
		c, err := k.take(locs)
		if err != nil {
			return nil, err
		}
		return k.finish(c)
	}
	rec, err := k.s.t.fetch(k.ctx, k.s.v, locs, k.need)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	own, err := k.overlayBatch(rows)
	if err != nil {
		return nil, err
	}
	defer own.Release()
	merged, err := k.interleave(hits, rec, own)
	if err != nil {
		return nil, err
	}
	return k.finish(chunk{rec: merged, mask: arrowx.NewFullMask(len(hits))})
}

func (k *keyedScan) touch(frag uint32) {
	if _, known := k.touched[frag]; known {
		return
	}
	if k.touched == nil {
		k.touched = make(map[uint32]struct{})
	}
	k.touched[frag] = struct{}{}
	k.stats.FragmentsKept++
}

// interleave puts stored rows and overlay rows, each in key order, into the order of hits.
func (k *keyedScan) interleave(hits []hit, stored, own arrow.RecordBatch) (arrow.RecordBatch, error) {
	take := make([]int, len(hits))
	s, o := 0, int(stored.NumRows())
	for i, h := range hits {
		if h.row != nil {
			take[i] = o
			o++
		} else {
			take[i] = s
			s++
		}
	}
	if len(k.need) == 0 || stored.NumRows() == 0 {
		own.Retain()
		return own, nil
	}
	return arrange(k.s.t, k.inner, []arrow.RecordBatch{stored, own}, take)
}
