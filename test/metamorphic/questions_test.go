package metamorphic

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

func evaluates(e predicate.Expr, row arrowx.Row) bool {
	ok, err := predicate.EvalRow(e, row)
	if err != nil {
		panic(err) // the filter was drawn for these columns
	}
	return ok
}

// way is one way to find the rows of a question.
type way struct {
	name    string
	spec    lsm.ScanSpec
	ordered func(a, b arrowx.Row) int // the order in which rows must come; nil: any
	keys    bool                      // only columns of the key are read
}

// ask asks a random question at a view in every way, with or without own writes.
func (w *world) ask(ctx context.Context, s uint64, want contents) error {
	snap, err := w.table.Snapshot(s)
	if err != nil {
		return err
	}
	defer snap.Release()
	filter := w.design.filter(w.rng, 2)
	var own *lsm.Overlay
	if w.rng.IntN(3) == 0 {
		own = w.ownWrites(want)
	}
	rows := contents{}
	for k, row := range seen(want, own) {
		if evaluates(filter, row) {
			rows[k] = row
		}
	}
	if err := w.extremes(ctx, snap, seen(want, own), own); err != nil {
		return fmt.Errorf("at %d, own writes %v: %w", s, own != nil, err)
	}
	ways, err := w.ways(filter)
	if err != nil {
		return err
	}
	for _, way := range ways {
		w.counts["way: "+strings.SplitN(way.name, " ", 2)[0]]++
		way.spec.Columns = w.rng.Perm(w.design.schema.NumFields())
		if way.keys {
			way.spec.Columns = w.design.keys
		}
		way.spec.Verify = w.rng.IntN(8) == 0
		way.spec.Stats = &lsm.ReadStats{}
		found, err := w.read(ctx, snap, way.spec, own)
		if err == nil {
			err = w.compare(way, found, rows)
		}
		if err != nil {
			return fmt.Errorf("%s at %d, own writes %v, filter %#v: %w", way.name, s, own != nil, filter, err)
		}
		st := way.spec.Stats
		w.counts["zones pruned"] += st.Zones - st.ZonesKept
		w.counts["fragments pruned"] += st.Fragments - st.FragmentsKept
		w.counts["hops"] += st.Hops
		w.counts["shards pruned"] += st.Shards - st.ShardsKept
		w.counts["rows covered"] += int(st.Covered)
	}
	return nil
}

// compare compares an answer with the right one.
func (w *world) compare(way way, found []arrowx.Row, rows contents) error {
	shown := func(row arrowx.Row) arrowx.Row {
		if way.keys {
			return nil
		}
		return row
	}
	var expected []string
	for k, row := range rows {
		expected = append(expected, text(k, shown(row)))
	}
	got := make([]string, len(found))
	for i, r := range found {
		row := make(arrowx.Row, w.design.schema.NumFields())
		for at, p := range way.spec.Columns {
			row[p] = r[at]
		}
		found[i] = row
		k, err := w.enc.Row(row, w.design.keys)
		if err != nil {
			return err
		}
		got[i] = text(k, shown(row))
	}
	if way.ordered != nil && !slices.IsSortedFunc(found, way.ordered) {
		return fmt.Errorf("rows are out of order: %v", got)
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		return fmt.Errorf("%d rows, not %d\ngot  %q\nwant %q", len(got), len(expected), got, expected)
	}
	return nil
}

// ways lists the ways to answer a filter.
func (w *world) ways(filter predicate.Expr) ([]way, error) {
	d := w.design
	out := []way{{name: "filter", spec: lsm.ScanSpec{Filter: filter}}}
	var all []lsm.IndexRanges
	key, err := d.withinKey(filter)
	if err != nil {
		return nil, err
	}
	out = append(out,
		way{name: "key within", spec: lsm.ScanSpec{Filter: filter, Within: []lsm.IndexRanges{key}}},
		way{name: "covered", keys: true, spec: lsm.ScanSpec{Filter: filter, Range: &lsm.KeyRange{}}, ordered: w.byKey},
		way{name: "keys-in-order", spec: lsm.ScanSpec{Filter: filter, Range: &lsm.KeyRange{}, Within: []lsm.IndexRanges{key}}, ordered: w.byKey})
	for i := range d.stored {
		r, ok, err := d.within(i, filter)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		all = append(all, r)
		out = append(out, way{name: fmt.Sprint("within ", i), spec: lsm.ScanSpec{Filter: filter, Within: []lsm.IndexRanges{r}}})
		if len(r.Ranges) == 1 {
			out = append(out, way{name: fmt.Sprint("index-in-order ", i), ordered: w.byTuple(i),
				spec: lsm.ScanSpec{Filter: filter, Index: &lsm.IndexRange{Index: i, Range: r.Ranges[0]}}})
		}
	}
	for _, o := range slices.Clone(out) {
		if o.ordered != nil {
			o.name, o.spec.Backward = "backward-"+o.name, true
			forward := o.ordered
			o.ordered = func(a, b arrowx.Row) int { return -forward(a, b) }
			out = append(out, o)
		}
	}
	if len(all) > 1 {
		w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		out = append(out, way{name: "intersection", spec: lsm.ScanSpec{Filter: filter, Within: append(all, key)}})
		if r := all[0].Ranges; len(r) == 1 {
			out = append(out, way{name: "index-and-others", spec: lsm.ScanSpec{Filter: filter, Within: all, Index: &lsm.IndexRange{Index: all[0].Index, Range: r[0]}}})
		}
	}
	return out, nil
}

func (w *world) byKey(a, b arrowx.Row) int {
	ka, _ := w.enc.Row(a, w.design.keys)
	kb, _ := w.enc.Row(b, w.design.keys)
	return strings.Compare(string(ka), string(kb))
}

func (w *world) byTuple(index int) func(a, b arrowx.Row) int {
	return func(a, b arrowx.Row) int {
		c := w.design.indexed[index]
		return bytes.Compare(w.design.prefix(index, a[c]), w.design.prefix(index, b[c]))
	}
}

// ownWrites hides some rows, replaces others and adds new ones.
func (w *world) ownWrites(have contents) *lsm.Overlay {
	ops := make(map[rowkey.Key]arrowx.Row)
	for k := range have {
		if len(ops) == 3 {
			break
		}
		ops[k] = nil
	}
	for range 3 {
		row := w.design.row(w.rng)
		if k, err := w.enc.Row(row, w.design.keys); err == nil {
			ops[k] = row
		}
	}
	own := &lsm.Overlay{}
	for k := range ops {
		own.Keys = append(own.Keys, k)
	}
	slices.Sort(own.Keys)
	for _, k := range own.Keys {
		own.Rows = append(own.Rows, ops[k])
	}
	return own
}

// seen is what is there with own writes.
func seen(have contents, own *lsm.Overlay) contents {
	if own == nil {
		return have
	}
	out := make(contents, len(have))
	for k, r := range have {
		out[k] = r
	}
	for i, k := range own.Keys {
		if own.Rows[i] == nil {
			delete(out, k)
		} else {
			out[k] = own.Rows[i]
		}
	}
	return out
}

// text writes a row so that equal rows have equal texts: floats by their bits, so that both zeros and all NaN stay what
// they were.
func text(k rowkey.Key, row arrowx.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%x:", k)
	for _, c := range row {
		switch c := c.(type) {
		case float64:
			fmt.Fprintf(&b, " %x", math.Float64bits(c))
		case float32:
			fmt.Fprintf(&b, " %x", math.Float32bits(c))
		default:
			fmt.Fprintf(&b, " %T %v", c, c)
		}
	}
	return b.String()
}

// extremes asks for the least and the greatest cell of a column that is not of floats.
func (w *world) extremes(ctx context.Context, snap *lsm.Snapshot, rows contents, own *lsm.Overlay) error {
	column := w.rng.IntN(len(w.design.columns))
	switch w.design.columns[column].field.Type.ID() {
	case arrow.FLOAT32, arrow.FLOAT64:
		return nil
	}
	for _, greatest := range []bool{false, true} {
		var want any
		for _, row := range rows {
			if row[column] == nil {
				continue
			}
			if want == nil {
				want = row[column]
			}
			if c, _ := predicate.CompareCells(row[column], want); greatest && c > 0 || !greatest && c < 0 {
				want = row[column]
			}
		}
		stats := &lsm.ReadStats{}
		got, err := snap.Extreme(ctx, column, greatest, own, stats)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("extreme of column %d, greatest %v: %v, not %v", column, greatest, got, want)
		}
		w.counts["way: extreme"]++
		w.counts["zones pruned for an extreme"] += stats.Zones - stats.ZonesKept
	}
	return nil
}
