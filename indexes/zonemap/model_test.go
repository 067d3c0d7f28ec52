package zonemap_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonemap"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/internal/testkit/rows"
	"lancesql/lance/rowaddr"
)

func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// arrayOf makes an array of cells.
func arrayOf(t testing.TB, mem memory.Allocator, typ arrow.DataType, cells []any) arrow.Array {
	b := array.NewBuilder(mem, typ)
	defer b.Release()
	for _, c := range cells {
		require.NoError(t, arrowx.Append(b, c))
	}
	return b.NewArray()
}

// column is the cells of one column by fragment and offset, and which rows are there.
type column struct {
	typ   arrow.DataType
	cells map[uint32][]any
	live  map[uint32][]bool
}

// randomColumn has a few fragments, some of them sorted, so that zones differ.
func randomColumn(rng *rand.Rand, typ arrow.DataType) *column {
	c := &column{typ: typ, cells: map[uint32][]any{}, live: map[uint32][]bool{}}
	for range 1 + rng.IntN(3) {
		f, n := rng.Uint32N(100), rng.IntN(400)
		nulls := []float64{0, 0.1, 0.9, 1}[rng.IntN(4)]
		deleted := []float64{0, 0, 0.3, 0.95}[rng.IntN(4)]
		cells, live := make([]any, n), make([]bool, n)
		for i := range cells {
			if rng.Float64() >= nulls {
				cells[i] = rows.Cell(rng, typ)
			}
			live[i] = rng.Float64() >= deleted
		}
		if rng.IntN(2) == 0 {
			slices.SortFunc(cells, func(a, b any) int {
				if a == nil || b == nil {
					return 0
				}
				o, _ := predicate.CompareCells(a, b)
				return o
			})
		}
		c.cells[f], c.live[f] = cells, live
	}
	return c
}

// stats builds the statistics of the column through batches cut at random.
func (c *column) stats(t testing.TB, rng *rand.Rand, o zonemap.Options) []zonemap.Part {
	mem := checked(t)
	b, err := zonemap.NewBuilder(c.typ, o)
	require.NoError(t, err)
	var parts []zonemap.Part
	for f, cells := range c.cells {
		whole := arrayOf(t, mem, c.typ, cells)
		for from := 0; from < len(cells); {
			to := min(len(cells), from+1+rng.IntN(150))
			part := array.NewSlice(whole, int64(from), int64(to))
			if !slices.Contains(c.live[f], false) {
				require.NoError(t, b.Append(part, uint64(from)))
			} else {
				var cut []any
				var offsets []uint32
				for i := from; i < to; i++ {
					if c.live[f][i] {
						cut, offsets = append(cut, cells[i]), append(offsets, uint32(i))
					}
				}
				a := arrayOf(t, mem, c.typ, cut)
				require.NoError(t, b.AppendAt(a, offsets))
				a.Release()
			}
			part.Release()
			from = to
		}
		whole.Release()
		parts = append(parts, zonemap.Part{Fragment: f, Stats: b.Finish()})
	}
	return parts
}

// segment writes and opens.
func segment(t testing.TB, typ arrow.DataType, parts []zonemap.Part, version int32) *zonemap.Segment {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "i", nil)
	w, err := zonemap.Write(ctx, dir, parts, zonemap.WriteOptions{Version: version, Memory: checked(t)})
	require.NoError(t, err)
	s, err := zonemap.Open(ctx, dir, zonemap.Spec{Version: version, Fragments: w.Fragments, Type: typ, Size: w.File.Size})
	require.NoError(t, err)
	return s
}

// randomFilter asks about column 0.
func randomFilter(rng *rand.Rand, cells []any, typ arrow.DataType, depth int) predicate.Expr {
	pick := func() any {
		if len(cells) > 0 && rng.IntN(3) > 0 {
			if v := cells[rng.IntN(len(cells))]; v != nil {
				return v
			}
		}
		return rows.Cell(rng, typ)
	}
	switch n := rng.IntN(10); {
	case n < 2 && depth > 0:
		return predicate.Not{Term: randomFilter(rng, cells, typ, depth-1)}
	case n < 4 && depth > 0:
		terms := []predicate.Expr{randomFilter(rng, cells, typ, depth-1), randomFilter(rng, cells, typ, depth-1)}
		if n == 2 {
			return predicate.And{Terms: terms}
		}
		return predicate.Or{Terms: terms}
	case n == 4:
		return predicate.IsNull{}
	case n == 5:
		var values []any
		for range rng.IntN(6) {
			values = append(values, pick())
		}
		return predicate.In{Values: values}
	case n == 6:
		if e, ok := predicate.HasPrefix(0, pick()); ok {
			return e
		}
	}
	return predicate.Compare{Op: predicate.Op(1 + rng.IntN(7)), Value: pick()}
}

func columnTypes() []arrow.DataType {
	var out []arrow.DataType
	for _, f := range rows.Schema().Fields() {
		out = append(out, f.Type)
	}
	return append(out, arrow.FixedWidthTypes.Date64)
}

// No zone with a row that satisfies the filter is dropped, whatever the type, the version and the filter; and zones are
// dropped.
func TestPruningLosesNothing(t *testing.T) {
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for _, typ := range columnTypes() {
		kept, total := 0, 0
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(typ.ID())))
			c := randomColumn(rng, typ)
			parts := c.stats(t, rng, zonemap.Options{RowsPerZone: uint64(1 + rng.IntN(40)), NoNullBitmap: rng.IntN(4) == 0})
			s := segment(t, typ, parts, int32(rng.IntN(2)))
			var all []any
			for _, cells := range c.cells {
				all = append(all, cells...)
			}
			for range 40 {
				e := randomFilter(rng, all, typ, 2)
				r, exact := predicate.Bounds(e, 0)
				require.True(t, exact)
				sel, err := s.Prune(r)
				require.NoError(t, err)
				kept, total = kept+sel.ZonesKept, total+sel.Zones
				for f, cells := range c.cells {
					for i, v := range cells {
						truth, err := predicate.EvalRow(e, arrowx.Row{v})
						if err != nil || truth && c.live[f][i] && !inSelection(sel, f, uint64(i)) {
							t.Fatalf("%s, seed %d: row %d:%d = %v satisfies %+v but is pruned (%v)", typ, seed, f, i, v, e, err)
						}
					}
				}
			}
		}
		if zonemap.Supports(typ) && kept*10 > total*9 {
			t.Errorf("%s: %d of %d zones kept: pruning prunes nothing", typ, kept, total)
		}
	}
}

func inSelection(s zonemap.Selection, f uint32, offset uint64) bool {
	ranges, known := s.Of(f)
	if !known {
		return true
	}
	return slices.ContainsFunc(ranges, func(r zonemap.Range) bool { return r.From <= offset && offset < r.To })
}

// Bounds and counts are those of the rows.
func TestStatisticsAgainstRows(t *testing.T) {
	for _, typ := range columnTypes() {
		for seed := range 4 {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(typ.ID())+100))
			c := randomColumn(rng, typ)
			parts := c.stats(t, rng, zonemap.Options{RowsPerZone: 16})
			s := segment(t, typ, parts, 1)
			seen := map[rowaddr.Addr]bool{}
			for i := range s.Zones() {
				z := s.At(i)
				checkZone(t, c, z, fmt.Sprintf("%s, seed %d", typ, seed), seen)
			}
			for f, live := range c.live {
				for i, l := range live {
					require.True(t, !l || seen[rowaddr.New(f, uint32(i))], "%s: row %d:%d in no zone", typ, f, i)
				}
			}
		}
	}
}

func checkZone(t *testing.T, c *column, z zonemap.Zone, at string, seen map[rowaddr.Addr]bool) {
	var nulls, nans, summarised uint32
	var lo, hi any
	for i := z.Start; i < z.Start+z.Length; i++ {
		if !c.live[z.Fragment][i] {
			continue
		}
		seen[rowaddr.New(z.Fragment, uint32(i))] = true
		summarised++
		v := c.cells[z.Fragment][i]
		if v == nil {
			nulls++
			continue
		}
		if f, ok := v.(float64); ok && f != f {
			nans++
			continue
		}
		if f, ok := v.(float32); ok && f != f {
			nans++
			continue
		}
		if lo == nil || below(v, lo) {
			lo = v
		}
		if hi == nil || below(hi, v) {
			hi = v
		}
	}
	require.True(t, c.live[z.Fragment][z.Start] && c.live[z.Fragment][z.Start+z.Length-1], "%s: zone of dead ends", at)
	require.LessOrEqual(t, summarised, uint32(16))
	require.Equal(t, []uint32{nulls, nans}, []uint32{z.Nulls, z.NaNs}, at)
	if !zonemap.Supports(c.typ) {
		require.Equal(t, z.Length > uint64(nulls), z.Unknown, at)
		return
	}
	require.Equal(t, lo != nil, z.MaxKnown, at)
	require.Equal(t, fmt.Sprintf("%v", []any{lo, hi}), fmt.Sprintf("%v", []any{z.Min, z.Max}), at)
}

// below is the total order: -0 is below +0.
func below(a, b any) bool {
	o, _ := predicate.CompareCells(a, b)
	x, okX := a.(float64)
	y, okY := b.(float64)
	if o == 0 && okX && okY {
		return math.Signbit(x) && !math.Signbit(y)
	}
	u, okU := a.(float32)
	v, okV := b.(float32)
	if o == 0 && okU && okV {
		return math.Signbit(float64(u)) && !math.Signbit(float64(v))
	}
	return o < 0
}

// Queries of the common interface give the same, and exact answers to questions about NULL.
func TestSearch(t *testing.T) {
	ctx := context.Background()
	for seed := range 60 {
		rng := rand.New(rand.NewPCG(uint64(seed), 77))
		types := columnTypes()
		typ := types[rng.IntN(len(types))]
		c := randomColumn(rng, typ)
		noBitmap := rng.IntN(3) == 0
		s := segment(t, typ, c.stats(t, rng, zonemap.Options{RowsPerZone: uint64(1 + rng.IntN(30)), NoNullBitmap: noBitmap}), 0)
		require.Equal(t, !noBitmap, s.HasNullBitmap())
		v := rows.Cell(rng, typ)
		queries := map[indexes.Query]predicate.Expr{
			indexes.IsNull{}:  predicate.IsNull{},
			indexes.NotNull{}: predicate.Not{Term: predicate.IsNull{}},
			indexes.Range{}:   predicate.Not{Term: predicate.IsNull{}},
		}
		if _, isBytes := v.([]byte); !isBytes { // not comparable as a map key
			queries[indexes.Equals(v)] = predicate.Compare{Op: predicate.Eq, Value: v}
			queries[indexes.Range{High: indexes.Bound{Value: v, Exclusive: true}}] = predicate.Compare{Op: predicate.Lt, Value: v}
			queries[indexes.Range{Low: indexes.Bound{Value: v, Exclusive: true}}] = predicate.Compare{Op: predicate.Gt, Value: v}
		}
		for q, e := range queries {
			res, err := s.Search(ctx, q)
			require.NoError(t, err)
			_, isNull := q.(indexes.IsNull)
			_, notNull := q.(indexes.NotNull)
			require.Equal(t, (isNull || notNull) && !noBitmap, res.Exact, "%T", q)
			for f, cells := range c.cells {
				if !res.Fragments.Contains(f) {
					require.NotContains(t, c.live[f], true)
					continue
				}
				for i, cell := range cells {
					truth, _ := predicate.EvalRow(e, arrowx.Row{cell})
					in := res.Addrs.Contains(rowaddr.New(f, uint32(i)))
					if !c.live[f][i] {
						continue
					}
					require.True(t, !truth || in, "%s, seed %d: %+v loses %v", typ, seed, q, cell)
					require.True(t, !res.Exact || truth == in, "%s, seed %d: %+v exact and wrong for %v", typ, seed, q, cell)
				}
			}
		}
	}
}

// Several columns with zones cut differently, several segments, uncovered fragments.
func TestPruneExpressions(t *testing.T) {
	for seed := range 60 {
		rng := rand.New(rand.NewPCG(uint64(seed), 78))
		types := columnTypes()
		var cols []*column
		var maps [][]*zonemap.Segment
		for c := range 3 {
			typ := types[rng.IntN(len(types))]
			col := randomColumn(rng, typ)
			if c > 0 { // the same fragments and live rows
				first := cols[0]
				cells := map[uint32][]any{}
				for f := range first.cells {
					for range first.cells[f] {
						v := rows.Cell(rng, typ)
						if rng.IntN(5) == 0 {
							v = nil
						}
						cells[f] = append(cells[f], v)
					}
				}
				col = &column{typ: typ, cells: cells, live: first.live}
			}
			cols = append(cols, col)
			parts := col.stats(t, rng, zonemap.Options{RowsPerZone: uint64(1 + rng.IntN(40))})
			var segs []*zonemap.Segment
			for _, p := range parts {
				if rng.IntN(4) > 0 { // else not covered
					segs = append(segs, segment(t, typ, []zonemap.Part{p}, 0))
				}
			}
			maps = append(maps, segs)
		}
		for range 20 {
			e := manyColumns(rng, cols, 3)
			sel, err := zonemap.Prune(e, func(c int) []*zonemap.Segment { return maps[c] })
			require.NoError(t, err)
			checkRanges(t, sel)
			for f := range cols[0].cells {
				for i := range cols[0].cells[f] {
					row := arrowx.Row{cols[0].cells[f][i], cols[1].cells[f][i], cols[2].cells[f][i]}
					truth, err := predicate.EvalRow(e, row)
					if err != nil || truth && cols[0].live[f][i] && !inSelection(sel, f, uint64(i)) {
						t.Fatalf("seed %d: %v satisfies %+v but is pruned (%v)", seed, row, e, err)
					}
				}
			}
		}
	}
}

func checkRanges(t *testing.T, s zonemap.Selection) {
	ranges := s.Ranges
	for i, r := range ranges {
		require.True(t, s.Fragments.Contains(r.Fragment))
		require.Less(t, r.From, r.To)
		require.True(t, i == 0 || ranges[i-1].Fragment < r.Fragment || ranges[i-1].Fragment == r.Fragment && ranges[i-1].To < r.From, "%v", ranges)
	}
}

func manyColumns(rng *rand.Rand, cols []*column, depth int) predicate.Expr {
	if depth > 0 && rng.IntN(4) > 0 {
		switch rng.IntN(3) {
		case 0:
			return predicate.Not{Term: manyColumns(rng, cols, depth-1)}
		default:
			var terms []predicate.Expr
			for range rng.IntN(4) {
				terms = append(terms, manyColumns(rng, cols, depth-1))
			}
			if rng.IntN(2) == 0 {
				return predicate.And{Terms: terms}
			}
			return predicate.Or{Terms: terms}
		}
	}
	c := rng.IntN(len(cols))
	v := rows.Cell(rng, cols[c].typ)
	switch rng.IntN(4) {
	case 0:
		return predicate.IsNull{Column: c}
	case 1:
		return predicate.In{Column: c, Values: []any{v, rows.Cell(rng, cols[c].typ)}}
	}
	return predicate.Compare{Column: c, Op: predicate.Op(1 + rng.IntN(7)), Value: v}
}

// Statistics taken out of segments and written into another one are the same.
func TestMergeSegments(t *testing.T) {
	for seed := range 20 {
		rng := rand.New(rand.NewPCG(uint64(seed), 79))
		types := columnTypes()
		typ := types[rng.IntN(len(types))]
		c := randomColumn(rng, typ)
		version := int32(rng.IntN(2))
		parts := c.stats(t, rng, zonemap.Options{RowsPerZone: 9})
		whole := segment(t, typ, parts, version)
		var again []zonemap.Part
		for _, p := range parts {
			one := segment(t, typ, []zonemap.Part{p}, version)
			if stats, ok := one.Stats(p.Fragment); ok {
				again = append(again, zonemap.Part{Fragment: p.Fragment, Stats: stats})
			}
		}
		if len(again) == 0 {
			continue
		}
		merged := segment(t, typ, again, version)
		require.Equal(t, whole.Zones(), merged.Zones())
		for i := range whole.Zones() {
			require.Equal(t, fmt.Sprint(whole.At(i)), fmt.Sprint(merged.At(i)))
		}
		a, err := whole.Search(context.Background(), indexes.IsNull{})
		require.NoError(t, err)
		b, err := merged.Search(context.Background(), indexes.IsNull{})
		require.NoError(t, err)
		require.Equal(t, slices.Collect(a.Addrs.All()), slices.Collect(b.Addrs.All()))
	}
}
