package btree_test

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
)

// asked is a query and the predicate that means the same.
type asked struct {
	q indexes.Query
	e predicate.Expr
}

func bounds(low, high indexes.Bound) asked {
	var terms []predicate.Expr
	if low.Value != nil {
		op := predicate.Ge
		if low.Exclusive {
			op = predicate.Gt
		}
		terms = append(terms, predicate.Compare{Op: op, Value: low.Value})
	}
	if high.Value != nil {
		op := predicate.Le
		if high.Exclusive {
			op = predicate.Lt
		}
		terms = append(terms, predicate.Compare{Op: op, Value: high.Value})
	}
	if len(terms) == 0 {
		terms = append(terms, predicate.Not{Term: predicate.IsNull{}})
	}
	return asked{indexes.Range{Low: low, High: high}, predicate.And{Terms: terms}}
}

// draw makes a random query over a type.
func draw(typ arrow.DataType, rng *rand.Rand) asked {
	value := func() any {
		v := cell(typ, rng, 0)
		return v
	}
	bound := func() indexes.Bound {
		if rng.Intn(3) == 0 {
			return indexes.Bound{}
		}
		return indexes.Bound{Value: value(), Exclusive: rng.Intn(2) == 0}
	}
	switch rng.Intn(6) {
	case 0:
		v := value()
		return asked{indexes.Equals(v), predicate.Compare{Op: predicate.Eq, Value: v}}
	case 1:
		var list []any
		for range rng.Intn(12) {
			list = append(list, value())
		}
		if len(list) == 0 {
			return asked{indexes.In{}, predicate.Const{}}
		}
		return asked{indexes.In{Values: list}, predicate.In{Values: list}}
	case 2:
		if rng.Intn(2) == 0 {
			return asked{indexes.IsNull{}, predicate.IsNull{}}
		}
		return asked{indexes.NotNull{}, predicate.Not{Term: predicate.IsNull{}}}
	}
	return bounds(bound(), bound())
}

// want evaluates the predicate row by row.
func want(t testing.TB, e predicate.Expr, values arrow.Array) []rowaddr.Addr {
	t.Helper()
	mask, err := predicate.Eval(e, func(int) arrow.Array { return values }, values.Len())
	require.NoError(t, err)
	var out []rowaddr.Addr
	for _, i := range mask.Indices(nil) {
		out = append(out, rowaddr.Addr(i))
	}
	return out
}

// TestSearchModel compares answers with the evaluation of the same predicate, for every type.
func TestSearchModel(t *testing.T) {
	for i, typ := range types() {
		t.Run(typ.String(), func(t *testing.T) {
			rng := rand.New(rand.NewSource(int64(i)))
			for _, shape := range []struct{ rows, nulls, page int }{{0, 0, 4}, {1, 0, 4}, {1, 100, 4}, {37, 20, 4}, {300, 100, 16}, {900, 3, 32}, {1024, 50, 128}, {2000, 10, 4096}} {
				values := randomArray(t, typ, rng, shape.rows, shape.nulls)
				x := build(t, values, btree.Options{PageRows: shape.page})
				for range 40 {
					a := draw(typ, rng)
					r, err := x.Search(t.Context(), a.q)
					require.NoError(t, err)
					require.True(t, r.Exact)
					require.Equal(t, want(t, a.e, values), slices.Collect(r.Addrs.All()), "%#v over %d rows", a.q, shape.rows)
				}
				nulls, err := x.Nulls(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, values.NullN(), nulls)
				require.NoError(t, x.Close())
			}
		})
	}
}

// TestLookupModel compares batches of keys with single evaluations.
func TestLookupModel(t *testing.T) {
	for i, typ := range types() {
		rng := rand.New(rand.NewSource(int64(i) + 100))
		values := randomArray(t, typ, rng, 1500, 5)
		x := build(t, values, btree.Options{PageRows: []int{3, 64, 4096}[i%3]})
		for range 10 {
			n := rng.Intn(200)
			wanted := randomArray(t, typ, rng, n, 5)
			keys, err := btree.NewKeys(wanted)
			if typ.ID() == arrow.FLOAT32 || typ.ID() == arrow.FLOAT64 {
				require.ErrorIs(t, err, errs.ErrUnsupported)
				continue
			}
			require.NoError(t, err)
			hits, err := x.Lookup(t.Context(), keys, nil)
			require.NoError(t, err)
			got := make([][]rowaddr.Addr, n)
			for _, h := range hits {
				got[h.Row] = append(got[h.Row], rowaddr.Addr(h.ID))
			}
			for r := range n {
				var expect []rowaddr.Addr
				if v := arrowx.Value(wanted, r); v != nil {
					expect = want(t, predicate.Compare{Op: predicate.Eq, Value: v}, values)
				}
				require.Equal(t, expect, got[r], "%s: key %v", typ, arrowx.Value(wanted, r))
			}
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	x := build(t, cellsOf(t, arrow.PrimitiveTypes.Int32, int32(1), nil, int32(2)), btree.Options{})
	for _, q := range []indexes.Query{indexes.Equals("text"), indexes.Equals(int64(1)), indexes.In{Values: []any{int32(1), nil}}} {
		_, err := x.Search(t.Context(), q)
		require.ErrorIs(t, err, errs.ErrInvalid, "%#v", q)
	}
	_, err := x.Search(t.Context(), nil)
	require.ErrorIs(t, err, errs.ErrUnsupported)
	keys, err := btree.NewKeys(cellsOf(t, arrow.PrimitiveTypes.Int64, int64(1)))
	require.NoError(t, err)
	_, err = x.Lookup(t.Context(), keys, nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = btree.NewSorter(arrow.ListOf(arrow.PrimitiveTypes.Int32), 0, nil)
	require.ErrorIs(t, err, errs.ErrUnsupported)
}

// TestCoverage: addresses outside the coverage are not in a result.
func TestCoverage(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int64
	values := cellsOf(t, typ, int64(1), int64(1), int64(1), int64(2))
	var ids []uint64
	for _, a := range []rowaddr.Addr{rowaddr.New(0, 1), rowaddr.New(1, 0), rowaddr.New(4, 7), rowaddr.New(4, 8)} {
		ids = append(ids, uint64(a))
	}
	dir := memDir()
	_, err := btree.Build(t.Context(), dir, typ, batches(btree.Batch{Values: values, IDs: ids}), btree.Options{})
	require.NoError(t, err)
	x, err := btree.Open(t.Context(), dir, btree.OpenOptions{Fragments: roaring.BitmapOf(1, 4)})
	require.NoError(t, err)
	r, err := x.Search(t.Context(), indexes.Equals(int64(1)))
	require.NoError(t, err)
	require.Equal(t, []rowaddr.Addr{rowaddr.New(1, 0), rowaddr.New(4, 7)}, slices.Collect(r.Addrs.All()))
	require.Equal(t, []uint32{1, 4}, r.Fragments.ToArray())
	require.Equal(t, r.Fragments, x.Coverage())
}

// TestPagesRead: a look-up decodes only pages that can hold its keys, and those once.
func TestPagesRead(t *testing.T) {
	b := array.NewInt64Builder(alloc())
	for i := range 100_000 {
		b.Append(int64(2 * i))
	}
	x := build(t, b.NewArray(), btree.Options{PageRows: 1000})
	keys := func(v ...any) *btree.Keys {
		k, err := btree.NewKeys(cellsOf(t, arrow.PrimitiveTypes.Int64, v...))
		require.NoError(t, err)
		return k
	}
	hits, err := x.Lookup(t.Context(), keys(int64(1999), int64(2001), int64(-5), int64(300_000)), nil)
	require.NoError(t, err)
	require.Empty(t, hits)
	require.Equal(t, uint64(1), x.Counters().PagesRead, "1999 lies between pages")
	hits, err = x.Lookup(t.Context(), keys(int64(0), int64(4000), int64(2000), int64(2), int64(100_000)), nil)
	require.NoError(t, err)
	require.Equal(t, []btree.Hit{{0, 0}, {3, 1}, {2, 1000}, {1, 2000}, {4, 50_000}}, hits)
	require.Equal(t, btree.Counters{PagesRead: 4, PagesCached: 1, RowsRead: 4000}, x.Counters())

	r, err := x.Search(t.Context(), indexes.Range{Low: indexes.Bound{Value: int64(10_001)}, High: indexes.Bound{Value: int64(20_001)}})
	require.NoError(t, err)
	n, _ := r.Addrs.Count()
	require.EqualValues(t, 5000, n)
	require.Equal(t, uint64(6), x.Counters().PagesRead, "inner pages are read without values")
	require.Equal(t, uint64(4000+2000+4000), x.Counters().RowsRead)
}
