package bitmap_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/store"
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

func newBatch(s *arrow.Schema, columns ...arrow.Array) arrow.RecordBatch {
	return array.NewRecordBatch(s, columns, int64(columns[0].Len()))
}

func types() []arrow.DataType {
	var out []arrow.DataType
	for _, f := range rows.Schema().Fields() {
		out = append(out, f.Type)
	}
	return append(out, arrow.FixedWidthTypes.Date64)
}

// column is cells at addresses, both in random order.
type column struct {
	typ   arrow.DataType
	cells []any
	addrs []rowaddr.Addr
}

func randomColumn(rng *rand.Rand, typ arrow.DataType, n int) *column {
	return columnWith(rng, typ, n, []float64{0, 0.2, 1}[rng.IntN(3)])
}

func columnWith(rng *rand.Rand, typ arrow.DataType, n int, nulls float64) *column {
	c := &column{typ: typ}
	for f := range uint32(3) {
		for i := range n / 3 {
			var v any
			if rng.Float64() >= nulls {
				v = rows.Cell(rng, typ)
			}
			c.cells, c.addrs = append(c.cells, v), append(c.addrs, rowaddr.New(f*7, uint32(i*2)))
		}
	}
	if rng.IntN(2) == 0 {
		rng.Shuffle(len(c.cells), func(i, j int) {
			c.cells[i], c.cells[j] = c.cells[j], c.cells[i]
			c.addrs[i], c.addrs[j] = c.addrs[j], c.addrs[i]
		})
	}
	return c
}

func (c *column) coverage() *roaring.Bitmap { return roaring.BitmapOf(0, 7, 14) }

// fill feeds a builder in batches cut at random.
func (c *column) fill(t testing.TB, rng *rand.Rand, b *bitmap.Builder) {
	mem := checked(t)
	whole := arrayOf(t, mem, c.typ, c.cells)
	defer whole.Release()
	for from := 0; from < len(c.cells); {
		to := min(len(c.cells), from+1+rng.IntN(100))
		part := array.NewSlice(whole, int64(from), int64(to))
		require.NoError(t, b.Append(context.Background(), part, c.addrs[from:to]))
		part.Release()
		from = to
	}
}

func (c *column) segment(t testing.TB, rng *rand.Rand, st objstore.Store, dir string, memoryMax int64) *bitmap.Segment {
	ctx := context.Background()
	d := store.NewDir(st, dir, nil)
	b, err := bitmap.NewBuilder(d, c.typ, bitmap.Options{MemoryMax: memoryMax, Scratch: st, Memory: checked(t)})
	require.NoError(t, err)
	c.fill(t, rng, b)
	w, err := b.Finish(ctx)
	require.NoError(t, err)
	s, err := bitmap.Open(ctx, d, bitmap.Spec{Fragments: c.coverage(), Type: c.typ, Size: w.File.Size, Cache: store.NewCache(int64(rng.IntN(100000)))})
	require.NoError(t, err)
	require.EqualValues(t, w.Keys, s.Keys())
	return s
}

func filter(rng *rand.Rand, typ arrow.DataType, depth int) predicate.Expr {
	switch n := rng.IntN(8); {
	case n == 0 && depth > 0:
		return predicate.Not{Term: filter(rng, typ, depth-1)}
	case n == 1 && depth > 0:
		return predicate.Or{Terms: []predicate.Expr{filter(rng, typ, depth-1), filter(rng, typ, depth-1)}}
	case n == 2 && depth > 0:
		return predicate.And{Terms: []predicate.Expr{filter(rng, typ, depth-1), filter(rng, typ, depth-1)}}
	case n == 3:
		return predicate.IsNull{}
	case n == 4:
		return predicate.In{Values: []any{rows.Cell(rng, typ), rows.Cell(rng, typ), rows.Cell(rng, typ)}}
	default:
		return predicate.Compare{Op: predicate.Op(1 + rng.IntN(7)), Value: rows.Cell(rng, typ)}
	}
}

// Every answer is the rows for which the filter is true, whatever was spilled and cached.
func TestAnswersAreExact(t *testing.T) {
	ctx := context.Background()
	for _, typ := range types() {
		for seed := range 3 {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(typ.ID())))
			c := randomColumn(rng, typ, 600)
			st := objstore.NewMem()
			s := c.segment(t, rng, st, "i", []int64{0, 4000, 700}[seed])
			for range 30 {
				e := filter(rng, typ, 2)
				r, exact := predicate.Bounds(e, 0)
				require.True(t, exact)
				res, err := s.SearchRanges(ctx, r)
				require.NoError(t, err)
				require.True(t, res.Exact)
				var want []rowaddr.Addr
				for i, v := range c.cells {
					if truth, err := predicate.EvalRow(e, arrowx.Row{v}); err != nil {
						t.Fatal(err)
					} else if truth {
						want = append(want, c.addrs[i])
					}
				}
				slices.Sort(want)
				require.Equal(t, want, slices.Collect(res.Addrs.All()), "%s, seed %d: %+v", typ, seed, e)
			}
			require.NoError(t, s.Close())
			names := 0
			require.NoError(t, st.List(ctx, "i", func(objstore.Info) error { names++; return nil }))
			require.Equal(t, 1, names, "runs are left over")
		}
	}
}

func TestSearchQueries(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(5, 5))
	c := columnWith(rng, arrow.PrimitiveTypes.Float64, 300, 0.1)
	s := c.segment(t, rng, objstore.NewMem(), "", 0)
	zero, err := s.Search(ctx, indexes.Equals(0.0))
	require.NoError(t, err)
	in, err := s.Search(ctx, indexes.In{Values: []any{0.0}})
	require.NoError(t, err)
	require.Equal(t, slices.Collect(zero.Addrs.All()), slices.Collect(in.Addrs.All()))
	n, signs := 0, map[bool]bool{}
	for i, v := range c.cells {
		if v == 0.0 {
			n++
			signs[1/v.(float64) < 0] = true
			require.True(t, zero.Addrs.Contains(c.addrs[i]))
		}
	}
	require.Len(t, signs, 2)
	count, _ := zero.Addrs.Count()
	require.EqualValues(t, n, count)
	_, err = s.Search(ctx, indexes.Equals("x"))
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = s.Search(ctx, indexes.Range{})
	require.NoError(t, err)
}

// Merging segments whose addresses moved gives what building over the moved rows gives.
func TestMergeTranslates(t *testing.T) {
	ctx := context.Background()
	for seed := range 8 {
		rng := rand.New(rand.NewPCG(uint64(seed), 6))
		all := types()
		c := randomColumn(rng, all[rng.IntN(len(all))], 300)
		old := c.segment(t, rng, objstore.NewMem(), "", 0)
		moved := func(set *rowaddr.Treemap) (*rowaddr.Treemap, error) {
			out := rowaddr.NewTreemap()
			for a := range set.All() {
				if a.Offset()%3 > 0 { // a third was deleted
					out.Add(rowaddr.New(a.Fragment()+1, a.Offset()+5))
				}
			}
			return out, nil
		}
		st := objstore.NewMem()
		d := store.NewDir(st, "", nil)
		b, err := bitmap.NewBuilder(d, c.typ, bitmap.Options{MemoryMax: int64(1 + rng.IntN(20000)), Scratch: st})
		require.NoError(t, err)
		require.NoError(t, b.AddSegment(ctx, old, moved))
		extra := randomColumn(rng, c.typ, 60)
		extra.fill(t, rng, b)
		w, err := b.Finish(ctx)
		require.NoError(t, err)
		s, err := bitmap.Open(ctx, d, bitmap.Spec{Fragments: roaring.BitmapOf(0, 1, 7, 8, 14, 15), Type: c.typ, Size: w.File.Size})
		require.NoError(t, err)
		for range 20 {
			e := filter(rng, c.typ, 2)
			r, _ := predicate.Bounds(e, 0)
			res, err := s.SearchRanges(ctx, r)
			require.NoError(t, err)
			want := []rowaddr.Addr{}
			for i, v := range c.cells {
				if truth, _ := predicate.EvalRow(e, arrowx.Row{v}); truth && c.addrs[i].Offset()%3 > 0 {
					want = append(want, rowaddr.New(c.addrs[i].Fragment()+1, c.addrs[i].Offset()+5))
				}
			}
			for i, v := range extra.cells {
				if truth, _ := predicate.EvalRow(e, arrowx.Row{v}); truth {
					want = append(want, extra.addrs[i])
				}
			}
			slices.Sort(want)
			require.Equal(t, want, append([]rowaddr.Addr{}, slices.Collect(res.Addrs.All())...))
		}
	}
}

func TestLimits(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 1))
	d := store.NewDir(objstore.NewMem(), "", nil)
	b, err := bitmap.NewBuilder(d, arrow.PrimitiveTypes.Int64, bitmap.Options{MemoryMax: 1000})
	require.NoError(t, err)
	c := columnWith(rng, arrow.PrimitiveTypes.Int64, 300, 0.1)
	a := arrayOf(t, memory.DefaultAllocator, c.typ, c.cells)
	err = b.Append(ctx, a, c.addrs)
	require.True(t, errors.Is(err, errs.ErrLimit), "%v", err)
	require.NoError(t, b.Abort(ctx))
	_, err = bitmap.NewBuilder(d, arrow.ListOf(arrow.PrimitiveTypes.Int8), bitmap.Options{})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	_, err = bitmap.Open(ctx, d, bitmap.Spec{Type: c.typ, Fragments: roaring.New()})
	require.ErrorIs(t, err, errs.ErrNotFound)
	_, err = bitmap.Open(ctx, d, bitmap.Spec{Type: c.typ})
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = bitmap.Open(ctx, d, bitmap.Spec{Type: c.typ, Fragments: roaring.New(), Version: 2})
	require.ErrorIs(t, err, errs.ErrUnsupported)
}

// Fragments that the entry does not cover any more are not in answers.
func TestCoverage(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	c := columnWith(rng, arrow.PrimitiveTypes.Int8, 300, 0)
	st := objstore.NewMem()
	c.segment(t, rng, st, "", 0)
	s, err := bitmap.Open(ctx, store.NewDir(st, "", nil), bitmap.Spec{Fragments: roaring.BitmapOf(7), Type: c.typ})
	require.NoError(t, err)
	res, err := s.Search(ctx, indexes.NotNull{})
	require.NoError(t, err)
	require.Equal(t, []uint32{7}, res.Addrs.Fragments())
	require.Equal(t, s.Coverage(), res.Fragments)
}

// An index over no rows has an empty file, as the reference's.
func TestEmptyIndex(t *testing.T) {
	ctx := context.Background()
	d := store.NewDir(objstore.NewMem(), "", nil)
	b, err := bitmap.NewBuilder(d, arrow.BinaryTypes.String, bitmap.Options{})
	require.NoError(t, err)
	w, err := b.Finish(ctx)
	require.NoError(t, err)
	require.Zero(t, w.Keys)
	s, err := bitmap.Open(ctx, d, bitmap.Spec{Type: arrow.BinaryTypes.String, Fragments: roaring.BitmapOf(1), Size: w.File.Size})
	require.NoError(t, err)
	for _, q := range []indexes.Query{indexes.IsNull{}, indexes.NotNull{}, indexes.Equals("a")} {
		res, err := s.Search(ctx, q)
		require.NoError(t, err)
		require.True(t, res.Addrs.IsEmpty() && res.Exact)
	}
	_, err = s.Search(ctx, indexes.Equals(int32(1)))
	require.ErrorIs(t, err, errs.ErrInvalid)
}
