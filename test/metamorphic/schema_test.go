package metamorphic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// column is a column of a random table.
type column struct {
	field  arrow.Field
	draw   func(rng *rand.Rand) any // a cell that is not NULL, from few values, with those that indexes get wrong among them
	tuple  func(dst []byte, cell any) []byte
	tuple1 bool // a BTREE over the column itself has its tuples
}

// kinds are the columns there are.
func kinds() []column {
	floats := []float64{math.NaN(), math.Copysign(math.NaN(), -1), 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1)}
	texts := []string{"", "a", "ab", "a\x00", "b", strings.Repeat("long", 40), strings.Repeat("long", 40) + "er", "ö", "\U0010ffff"}
	pick := func(list []string) func(*rand.Rand) any {
		return func(rng *rand.Rand) any { return list[rng.IntN(len(list))] }
	}
	return []column{
		{arrow.Field{Type: arrow.PrimitiveTypes.Int32}, func(r *rand.Rand) any { return r.Int32N(30) - 10 },
			func(d []byte, c any) []byte { return rowkey.AppendInt64(d, int64(c.(int32))) }, true},
		{arrow.Field{Type: arrow.PrimitiveTypes.Int64}, func(r *rand.Rand) any {
			return []int64{math.MinInt64, math.MaxInt64, -1, 0, 1, r.Int64N(100)}[r.IntN(6)]
		}, func(d []byte, c any) []byte { return rowkey.AppendInt64(d, c.(int64)) }, true},
		{arrow.Field{Type: arrow.PrimitiveTypes.Uint64}, func(r *rand.Rand) any { return []uint64{0, math.MaxUint64, r.Uint64N(20)}[r.IntN(3)] },
			func(d []byte, c any) []byte { return rowkey.AppendUint64(d, c.(uint64)) }, true},
		{arrow.Field{Type: arrow.PrimitiveTypes.Float64}, func(r *rand.Rand) any {
			if r.IntN(3) == 0 {
				return floats[r.IntN(len(floats))]
			}
			return float64(r.IntN(20)-10) / 4
		}, func(d []byte, c any) []byte { return rowkey.AppendFloat64(d, c.(float64)) }, false},
		{arrow.Field{Type: arrow.PrimitiveTypes.Float32}, func(r *rand.Rand) any {
			if r.IntN(3) == 0 {
				return float32(floats[r.IntN(len(floats))])
			}
			return float32(r.IntN(20) - 10)
		}, func(d []byte, c any) []byte { return rowkey.AppendFloat64(d, float64(c.(float32))) }, false},
		{arrow.Field{Type: arrow.BinaryTypes.String}, pick(texts), func(d []byte, c any) []byte { return rowkey.AppendString(d, c.(string)) }, true},
		{arrow.Field{Type: arrow.BinaryTypes.Binary}, func(r *rand.Rand) any {
			return [][]byte{{}, {0}, {0, 255}, {255}, {255, 255, 255}, {1, byte(r.IntN(8))}}[r.IntN(6)]
		}, func(d []byte, c any) []byte { return rowkey.AppendBytes(d, c.([]byte)) }, true},
		{arrow.Field{Type: arrow.FixedWidthTypes.Boolean}, func(r *rand.Rand) any { return r.IntN(2) == 0 },
			func(d []byte, c any) []byte { return rowkey.AppendBool(d, c.(bool)) }, true},
		{arrow.Field{Type: &arrow.Decimal128Type{Precision: 20, Scale: 3}}, func(r *rand.Rand) any { return decimal128.FromI64(int64(r.IntN(40)-20) * 999) },
			func(d []byte, c any) []byte { return rowkey.AppendDecimal128(d, c.(decimal128.Num)) }, false},
		{arrow.Field{Type: arrow.PrimitiveTypes.Date32}, func(r *rand.Rand) any { return arrow.Date32(r.IntN(50) - 10) },
			func(d []byte, c any) []byte { return rowkey.AppendInt64(d, int64(c.(arrow.Date32))) }, true},
		{arrow.Field{Type: &arrow.TimestampType{Unit: arrow.Microsecond}}, func(r *rand.Rand) any { return arrow.Timestamp(r.IntN(60)-5) * 1_000_000 },
			func(d []byte, c any) []byte { return rowkey.AppendTimestamp(d, int64(c.(arrow.Timestamp))) }, false},
	}
}

// design is a random table: key columns, then others, then the hidden columns of indexes.
type design struct {
	columns []column
	keys    []int // positions of the key, ascending in the key's order
	indexed []int // column of each secondary index
	stored  []int // the column its BTREE is over: itself, or a hidden one
	schema  *arrow.Schema
	sharded lsm.Sharding
}

func newDesign(rng *rand.Rand) *design {
	d := &design{}
	all := kinds()
	keyed := func(position int, c column) column {
		c.field.Metadata = arrow.NewMetadata(
			[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"}, []string{"true", fmt.Sprint(position)})
		return c
	}
	id := all[0]
	id.draw = func(r *rand.Rand) any { return r.Int32N(60) }
	if rng.IntN(3) == 0 { // a composite key; text first half of the time
		text := all[5]
		text.draw = func(r *rand.Rand) any { return []string{"", "k", "key"}[r.IntN(3)] }
		at := rng.IntN(2)
		d.columns = []column{keyed(1+at, id), keyed(2-at, text)}
		d.keys = [][]int{{0, 1}, {1, 0}}[at]
	} else {
		d.columns = []column{keyed(1, id)}
		d.keys = []int{0}
	}
	switch rng.IntN(4) {
	case 0:
		d.sharded = lsm.Sharding{Column: "c0", Buckets: 2 + rng.IntN(3)}
	case 1:
		if len(d.keys) > 1 {
			d.sharded = lsm.Sharding{Column: "c1", Identity: true}
		}
	}
	for range 2 + rng.IntN(4) {
		c := all[rng.IntN(len(all))]
		c.field.Nullable = rng.IntN(3) > 0
		d.columns = append(d.columns, c)
	}
	for i := range d.columns {
		d.columns[i].field.Name = fmt.Sprint("c", i)
		if rng.IntN(3) > 0 {
			d.indexed = append(d.indexed, i)
		}
	}
	visible := len(d.columns)
	for _, i := range d.indexed[:min(3, len(d.indexed))] {
		if d.columns[i].tuple1 && rng.IntN(2) == 0 {
			d.stored = append(d.stored, i)
			continue
		}
		d.stored = append(d.stored, visible+len(d.hidden()))
	}
	d.indexed = d.indexed[:len(d.stored)]
	var fields []arrow.Field
	for _, c := range d.columns {
		fields = append(fields, c.field)
	}
	for _, at := range d.hidden() {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("hidden", at), Type: arrow.BinaryTypes.Binary})
	}
	d.schema = arrow.NewSchema(fields, nil)
	return d
}

// hidden lists the positions of the hidden columns.
func (d *design) hidden() []int {
	var out []int
	for _, at := range d.stored {
		if at >= len(d.columns) {
			out = append(out, at)
		}
	}
	return out
}

func (d *design) indexes() []lsm.IndexDef {
	out := make([]lsm.IndexDef, len(d.stored))
	for i, at := range d.stored {
		out[i] = lsm.IndexDef{Name: fmt.Sprint("index", i), Column: at}
	}
	return out
}

// row draws a row; its hidden columns are tuples.
func (d *design) row(rng *rand.Rand) arrowx.Row {
	row := make(arrowx.Row, d.schema.NumFields())
	for i, c := range d.columns {
		if !c.field.Nullable || rng.IntN(5) > 0 {
			row[i] = c.draw(rng)
		}
	}
	for i, at := range d.stored {
		if at >= len(d.columns) {
			row[at] = []byte(d.prefix(i, row[d.indexed[i]]))
		}
	}
	return row
}

// prefix is the tuple of a cell in the hidden column of an index.
func (d *design) prefix(index int, cell any) []byte {
	if cell == nil {
		return rowkey.AppendNull(nil)
	}
	return d.columns[d.indexed[index]].tuple(nil, cell)
}

// tuple is what the BTREE of an index has for a cell.
func (d *design) tuple(index int, cell any) (rowkey.Key, error) {
	if d.stored[index] >= len(d.columns) {
		return rowkey.Key(rowkey.AppendBytes(nil, d.prefix(index, cell))), nil
	}
	return rowkey.Key(d.prefix(index, cell)), nil
}

// within is what a filter says about an index; false if nothing.
func (d *design) within(index int, e predicate.Expr) (lsm.IndexRanges, bool, error) {
	cells, _ := predicate.Bounds(e, d.indexed[index])
	if cells.Null && d.stored[index] < len(d.columns) {
		return lsm.IndexRanges{}, false, nil
	}
	ranges, err := lsm.RangesOf(cells, func(cell any) (rowkey.Key, error) { return d.tuple(index, cell) })
	return lsm.IndexRanges{Index: index, Ranges: ranges}, true, err
}

// withinKey is what a filter says about the first column of the key.
func (d *design) withinKey(e predicate.Expr) (lsm.IndexRanges, error) {
	first := d.keys[0]
	cells, _ := predicate.Bounds(e, first)
	cells.Null = false
	ranges, err := lsm.RangesOf(cells, func(cell any) (rowkey.Key, error) {
		if cell == nil {
			return rowkey.Key(rowkey.AppendNull(nil)), nil
		}
		return rowkey.Key(d.columns[first].tuple(nil, cell)), nil
	})
	return lsm.IndexRanges{Index: lsm.PrimaryKey, Ranges: ranges}, err
}

// filter draws a predicate over the visible columns.
func (d *design) filter(rng *rand.Rand, depth int) predicate.Expr {
	if depth > 0 && rng.IntN(2) == 0 {
		a, b := d.filter(rng, depth-1), d.filter(rng, depth-1)
		switch rng.IntN(5) {
		case 0, 1:
			return predicate.And{Terms: []predicate.Expr{a, b}}
		case 2, 3:
			return predicate.Or{Terms: []predicate.Expr{a, b}}
		}
		return predicate.Not{Term: a}
	}
	i := rng.IntN(len(d.columns))
	c := d.columns[i]
	switch rng.IntN(8) {
	case 0:
		return predicate.IsNull{Column: i}
	case 1:
		return predicate.In{Column: i, Values: []any{c.draw(rng), c.draw(rng), c.draw(rng)}}
	case 2:
		lo, hi := c.draw(rng), c.draw(rng)
		return predicate.And{Terms: []predicate.Expr{predicate.Compare{Column: i, Op: predicate.Ge, Value: lo}, predicate.Compare{Column: i, Op: predicate.Le, Value: hi}}}
	case 3:
		if v := c.draw(rng); c.field.Type.ID() == arrow.STRING || c.field.Type.ID() == arrow.BINARY {
			if p, ok := predicate.HasPrefix(i, v); ok {
				return p
			}
		}
		return predicate.Compare{Column: i, Op: predicate.NullSafeEq, Value: nil}
	}
	return predicate.Compare{Column: i, Op: predicate.Op(1 + rng.IntN(int(predicate.NullSafeEq))), Value: c.draw(rng)}
}
