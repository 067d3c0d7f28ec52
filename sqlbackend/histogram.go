package sqlbackend

import (
	"encoding/binary"
	"math"
	"sort"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// keptHistogram says how the values of the first column of an index are spread, by the keys under which the index has them: so one
// form does for columns of all types, and ranges of a condition are compared with it as the index compares them.
type keptHistogram struct {
	Bounds   [][]byte `json:"bounds"`   // ascending, each the end of a bucket and not in it, shortened; the first is where the first bucket begins
	Rows     []uint64 `json:"rows"`     // of each bucket
	Distinct []uint64 `json:"distinct"` // values of each bucket
}

const (
	keptBuckets   = 32
	keptBoundMax  = 24 // bytes
	histogramPart = 1e-6
)

// keptHistogramOf makes the histogram that is kept of one that has the values themselves; ok is false if the column's conditions
// are none of the index's ranges.
func (t *Table) keptHistogramOf(ctx *sql.Context, x *Index, lowest sql.Row, found sql.Histogram) (h keptHistogram, ok bool) {
	if len(found) == 0 || lowest == nil {
		return h, false
	}
	col := t.schema[x.columns[0]]
	field := expression.NewGetField(x.columns[0], col.Type, col.Name, true).WithTable(t.Name())
	add := func(condition sql.Expression, key func(lsm.KeyRange) rowkey.Key) bool {
		p, _ := t.predicateOf(ctx, condition, t.Name())
		if p == nil {
			return false
		}
		list, err := t.info.within(p)
		r, known := rangesOf(list, t.info.slotOf(x))
		if err != nil || !known || len(r) != 1 || key(r[0]) == "" {
			return false
		}
		k := []byte(key(r[0]))
		h.Bounds = append(h.Bounds, k[:min(len(k), keptBoundMax)])
		return true
	}
	if lowest[0] == nil { // NULL comes first
		h.Bounds = append(h.Bounds, []byte{})
	} else if !add(expression.NewGreaterThanOrEqual(field, expression.NewLiteral(lowest[0], col.Type)), func(r lsm.KeyRange) rowkey.Key { return r.Lo }) {
		return h, false
	}
	step := (len(found) + keptBuckets - 1) / keptBuckets
	for i := 0; i < len(found); i += step {
		rows, distinct := uint64(0), uint64(0)
		last := min(i+step, len(found)) - 1
		for _, b := range found[i : last+1] {
			rows, distinct = rows+b.RowCount(), distinct+b.DistinctCount()
		}
		switch v := found[last].UpperBound()[0]; {
		case v == nil: // nothing but NULL so far: it stays with what follows
			h.Bounds = append(h.Bounds, []byte{})
		case !add(expression.NewLessThanOrEqual(field, expression.NewLiteral(v, col.Type)), func(r lsm.KeyRange) rowkey.Key { return r.Hi }):
			return h, false
		}
		h.Rows, h.Distinct = append(h.Rows, rows), append(h.Distinct, distinct)
	}
	return h, true
}

// slotOf is the place of an index among those of storage.
func (t *tableInfo) slotOf(x *Index) int {
	for i := range t.indexes {
		if x.key == &t.indexes[i].key {
			return i
		}
	}
	return lsm.PrimaryKey
}

func rangesOf(list []lsm.IndexRanges, slot int) ([]lsm.KeyRange, bool) {
	for _, r := range list {
		if r.Index == slot {
			return r.Ranges, true
		}
	}
	return nil, false
}

// valid reports whether a histogram that was read is one.
func (h *keptHistogram) valid() bool {
	return len(h.Rows) > 0 && len(h.Rows) == len(h.Distinct) && len(h.Bounds) == len(h.Rows)+1
}

// part estimates which part of the rows lies in ranges of keys that do not meet.
func (h *keptHistogram) part(ranges []lsm.KeyRange) float64 {
	total, in := 0., 0.
	for _, n := range h.Rows {
		total += float64(n)
	}
	for _, r := range ranges {
		if isPointRange(r) {
			in += h.value(r.Lo)
			continue
		}
		in += max(0, h.before(r.Hi, total)-h.before(r.Lo, 0))
	}
	return min(max(in/max(total, 1), histogramPart), 1)
}

// bucket is the one that a key lies in; -1 before the first, len(h.Rows) after the last.
func (h *keptHistogram) bucket(key rowkey.Key) int {
	return sort.Search(len(h.Bounds), func(i int) bool { return string(h.Bounds[i]) > string(key) }) - 1
}

// value estimates the rows of one value.
func (h *keptHistogram) value(key rowkey.Key) float64 {
	i := h.bucket(key)
	if i == len(h.Rows) { // a bound may be a shortened one
		i--
	}
	return float64(h.Rows[max(i, 0)]) / float64(max(h.Distinct[max(i, 0)], 1))
}

// before estimates the rows with smaller keys; no key: none.
func (h *keptHistogram) before(key rowkey.Key, none float64) float64 {
	if key == "" {
		return none
	}
	i, n := h.bucket(key), 0.
	for _, rows := range h.Rows[:max(min(i, len(h.Rows)), 0)] {
		n += float64(rows)
	}
	if i >= 0 && i < len(h.Rows) {
		n += float64(h.Rows[i]) * fractionOf(h.Bounds[i], h.Bounds[i+1], []byte(key))
	}
	return n
}

// fractionOf is how far x lies between lo and hi, from 0 to 1, as far as eight bytes tell.
func fractionOf(lo, hi, x []byte) float64 {
	same := 0
	for same < len(lo) && same < len(hi) && lo[same] == hi[same] {
		same++
	}
	number := func(b []byte) float64 {
		var eight [8]byte
		if len(b) > same {
			copy(eight[:], b[same:])
		}
		return float64(binary.BigEndian.Uint64(eight[:]))
	}
	width := number(hi) - number(lo)
	if width <= 0 {
		return 0.5
	}
	return math.Min(math.Max((number(x)-number(lo))/width, 0), 1)
}

// spread estimates by a histogram which part of a table's rows a condition leaves; ok is false if there is none that tells.
func (s *statistics) spread(ctx *sql.Context, src *source, e sql.Expression) (part float64, ok bool) {
	alias := ""
	transform.InspectExpr(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
		if g, ok := e.(*expression.GetField); ok && g.TableId() == src.id {
			alias = g.Table()
		}
		return alias != ""
	})
	if alias == "" {
		return 0, false
	}
	p, _ := src.table.predicateOf(ctx, e, alias)
	if p == nil {
		return 0, false
	}
	list, err := src.table.info.within(p)
	if err != nil {
		return 0, false // Why silent: the statement meets the error itself, where it reads
	}
	for _, x := range src.table.info.wholeIndexes() {
		ranges, bounded := rangesOf(list, src.table.info.slotOf(x))
		if !bounded {
			continue
		}
		k, found := s.kept(src.table, keyOf(sql.NewStatQualifier(src.table.Database(), "", src.table.Name(), x.ID()), []string{src.table.schema[x.columns[0]].Name}))
		if found && k.Histogram != nil && k.Histogram.valid() {
			return k.Histogram.part(ranges), true
		}
	}
	return 0, false
}
