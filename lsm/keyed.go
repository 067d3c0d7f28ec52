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
		k.lo = sc.spec.Range.Lo
		hi := sc.spec.Range.Hi
		k.done = hi != "" && k.lo >= hi
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
	var hits []hit
	stored, err := k.s.v.locate(k.ctx, k.keys[:n], k.s.s)
	if err != nil {
		return nil, err
	}
	for i, key := range k.keys[:n] {
		if o, ok := slices.BinarySearch(k.own.Keys, key); ok {
			hits = append(hits, hit{key: key, row: k.own.Rows[o], gone: k.own.Rows[o] == nil})
		} else if f := stored[i]; f.ok {
			hits = append(hits, hit{key: key, loc: f.loc, gone: f.tombstone})
		}
	}
	k.keys = k.keys[n:]
	k.done = len(k.keys) == 0
	return hits, nil
}

// rangeStep takes up to a batch of keys from every source, newest first, and keeps those up to the smallest
// key at which a source was cut off: below it every source is complete.
func (k *keyedScan) rangeStep() ([]hit, error) {
	seen := make(map[rowkey.Key]hit)
	bound, cut := rowkey.Key(""), false
	lower := func(last rowkey.Key) {
		if !cut || last < bound {
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
		if !cut || h.key <= bound {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.key, b.key) })
	k.done = !cut
	k.lo = bound + "\x00"
	k.grow()
	return hits, nil
}

func (k *keyedScan) overlayRange(seen map[rowkey.Key]hit, lower func(rowkey.Key)) {
	from, _ := slices.BinarySearch(k.own.Keys, k.lo)
	for i := from; i < len(k.own.Keys); i++ {
		key := k.own.Keys[i]
		if hi := k.spec.Range.Hi; hi != "" && key >= hi {
			return
		}
		if i-from == k.limit {
			lower(k.own.Keys[i-1])
			return
		}
		seen[key] = hit{key: key, row: k.own.Rows[i], gone: k.own.Rows[i] == nil}
	}
}

type keyRanger interface {
	Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error
}

// sourceRange collects the newest visible row of each key of one source, unless a newer source has the key.
func (k *keyedScan) sourceRange(seen map[rowkey.Key]hit, lower func(rowkey.Key), keys keyRanger,
	visible func(rowkey.Key, uint64, bool) (hit, bool)) error {
	var last rowkey.Key
	n := 0
	return keys.Range(k.lo, k.spec.Range.Hi, func(key rowkey.Key, row uint64, tombstone bool) (bool, error) {
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
