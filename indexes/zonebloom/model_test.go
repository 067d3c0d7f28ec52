package zonebloom_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonebloom"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
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

func arrayOf(t testing.TB, mem memory.Allocator, typ arrow.DataType, cells []any) arrow.Array {
	b := array.NewBuilder(mem, typ)
	defer b.Release()
	for _, c := range cells {
		require.NoError(t, arrowx.Append(b, c))
	}
	return b.NewArray()
}

func types() []arrow.DataType {
	var out []arrow.DataType
	for _, f := range rows.Schema().Fields() {
		if zonebloom.Supported(f.Type) {
			out = append(out, f.Type)
		}
	}
	return append(out, arrow.FixedWidthTypes.Date64)
}

// column is fragments of cells at ascending offsets.
type column struct {
	typ     arrow.DataType
	cells   map[uint32][]any
	offsets map[uint32][]uint32
}

func randomColumn(rng *rand.Rand, typ arrow.DataType) *column {
	c := &column{typ: typ, cells: map[uint32][]any{}, offsets: map[uint32][]uint32{}}
	for range 1 + rng.IntN(3) {
		f, at := rng.Uint32N(1000), uint32(0)
		nulls := []float64{0, 0.3, 1}[rng.IntN(3)]
		for range rng.IntN(200) {
			at += 1 + rng.Uint32N(3)
			var v any
			if rng.Float64() >= nulls {
				v = rows.Cell(rng, typ)
			}
			c.cells[f], c.offsets[f] = append(c.cells[f], v), append(c.offsets[f], at)
		}
	}
	return c
}

func (c *column) segment(t testing.TB, rng *rand.Rand, o zonebloom.Options) *zonebloom.Segment {
	ctx := context.Background()
	o.Memory = checked(t)
	dir := store.NewDir(objstore.NewMem(), "i", nil)
	b, err := zonebloom.NewBuilder(ctx, dir, c.typ, o)
	require.NoError(t, err)
	for f, cells := range c.cells {
		require.NoError(t, b.Begin(f))
		whole := arrayOf(t, o.Memory, c.typ, cells)
		for from := 0; from < len(cells); {
			to := min(len(cells), from+1+rng.IntN(60))
			part := array.NewSlice(whole, int64(from), int64(to))
			require.NoError(t, b.Append(part, c.offsets[f][from:to]))
			part.Release()
			from = to
		}
		whole.Release()
	}
	w, err := b.Finish(ctx)
	require.NoError(t, err)
	s, err := zonebloom.Open(ctx, dir, zonebloom.Spec{Fragments: w.Fragments, Type: c.typ, Size: w.File.Size, Cache: store.NewCache(int64(1 + rng.IntN(1<<20)))})
	require.NoError(t, err)
	return s
}

// No zone with a row that holds the value is dropped, and zones are dropped.
func TestLosesNothing(t *testing.T) {
	ctx := context.Background()
	for _, typ := range types() {
		kept, total := uint64(0), uint64(0)
		for seed := range 6 {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(typ.ID())))
			c := randomColumn(rng, typ)
			s := c.segment(t, rng, zonebloom.Options{Items: uint64(1 + rng.IntN(12)), Probability: 0.01})
			for range 30 {
				values := []any{rows.Cell(rng, typ), rows.Cell(rng, typ)}
				e, q := predicate.Expr(predicate.In{Values: values}), indexes.Query(indexes.In{Values: values})
				switch rng.IntN(3) {
				case 0:
					e, q = predicate.Compare{Op: predicate.Eq, Value: values[0]}, indexes.Equals(values[0])
				case 1:
					e, q = predicate.IsNull{}, indexes.IsNull{}
				}
				res, err := s.Search(ctx, q)
				require.NoError(t, err)
				require.Equal(t, q == indexes.Query(indexes.IsNull{}), res.Exact)
				n, _ := res.Addrs.Count()
				kept += n
				for f, cells := range c.cells {
					total += uint64(c.offsets[f][len(cells)-1])
					for i, v := range cells {
						truth, err := predicate.EvalRow(e, arrowx.Row{v})
						in := res.Addrs.Contains(rowaddr.New(f, c.offsets[f][i]))
						if err != nil || truth && !in || res.Exact && truth != in {
							t.Fatalf("%s, seed %d: %v is %v for %+v, in the answer %v (%v)", typ, seed, v, truth, e, in, err)
						}
					}
				}
			}
		}
		if kept*10 > total*9 {
			t.Errorf("%s: %d of %d rows kept", typ, kept, total)
		}
	}
}

func TestQuestions(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 3))
	c := &column{typ: arrow.PrimitiveTypes.Float64, cells: map[uint32][]any{4: {1.0, math.Copysign(0, -1), nil, math.NaN()}}, offsets: map[uint32][]uint32{4: {0, 1, 5, 6}}}
	s := c.segment(t, rng, zonebloom.Options{Items: 2})
	require.Equal(t, 2, s.Zones())
	for _, v := range []struct {
		q    indexes.Query
		want []uint32
	}{
		{indexes.Equals(0.0), []uint32{0, 1}},              // both zeros
		{indexes.Equals(math.NaN()), []uint32{0, 1, 5, 6}}, // any bits
		{indexes.In{Values: []any{math.NaN(), 1.0}}, []uint32{0, 1, 5, 6}},
		{indexes.In{}, nil},
		{indexes.IsNull{}, []uint32{5}},
	} {
		res, err := s.Search(ctx, v.q)
		require.NoError(t, err)
		var got []uint32
		for a := range res.Addrs.All() {
			got = append(got, a.Offset())
		}
		require.Equal(t, v.want, got, "%+v", v.q)
	}
	for _, q := range []indexes.Query{indexes.NotNull{}, indexes.Range{}, indexes.Range{Low: indexes.Bound{Value: 1.0}}} {
		_, err := s.Search(ctx, q)
		require.ErrorIs(t, err, errs.ErrUnsupported, "%+v", q)
	}
	_, err := s.Search(ctx, indexes.Equals("x"))
	require.ErrorIs(t, err, errs.ErrInvalid)
	r, err := s.SearchRanges(ctx, predicate.Ranges{Null: true, Intervals: []predicate.Interval{{Low: 1.0, High: 1.0}}})
	require.NoError(t, err)
	require.False(t, r.Exact)
	require.True(t, r.Addrs.Contains(rowaddr.New(4, 5)) && r.Addrs.Contains(rowaddr.New(4, 0)))
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	dir := store.NewDir(objstore.NewMem(), "", nil)
	for _, typ := range []arrow.DataType{arrow.FixedWidthTypes.Boolean, arrow.FixedWidthTypes.Duration_us, &arrow.Decimal128Type{Precision: 3}} {
		_, err := zonebloom.NewBuilder(ctx, dir, typ, zonebloom.Options{})
		require.ErrorIs(t, err, errs.ErrUnsupported)
	}
	_, err := zonebloom.NewBuilder(ctx, dir, arrow.PrimitiveTypes.Int8, zonebloom.Options{Probability: 1})
	require.ErrorIs(t, err, errs.ErrInvalid)
	b, err := zonebloom.NewBuilder(ctx, dir, arrow.PrimitiveTypes.Int8, zonebloom.Options{})
	require.NoError(t, err)
	a := arrayOf(t, memory.DefaultAllocator, arrow.PrimitiveTypes.Int8, []any{int8(1), nil})
	require.ErrorIs(t, b.Append(a, []uint32{0, 1}), errs.ErrInvalid, "no fragment begun")
	require.NoError(t, b.Begin(3))
	require.ErrorIs(t, b.Begin(3), errs.ErrInvalid)
	require.ErrorIs(t, b.Append(a, []uint32{5, 5}), errs.ErrInvalid)
	b.Abort()
	_, err = zonebloom.Open(ctx, dir, zonebloom.Spec{Fragments: roaring.New(), Type: arrow.PrimitiveTypes.Int8})
	require.ErrorIs(t, err, errs.ErrNotFound)
	_, err = zonebloom.Open(ctx, dir, zonebloom.Spec{Fragments: roaring.New(), Type: arrow.PrimitiveTypes.Int8, Version: 1})
	require.ErrorIs(t, err, errs.ErrUnsupported)
}
