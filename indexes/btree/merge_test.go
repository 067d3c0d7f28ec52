package btree_test

import (
	"errors"
	"io"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// all reads a stream to its end.
func all(t testing.TB, typ arrow.DataType, s btree.Stream) (arrow.Array, []uint64) {
	t.Helper()
	parts := []arrow.Array{cellsOf(t, typ)}
	var ids []uint64
	for {
		b, err := s(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, b.Values.Len(), len(b.IDs))
		parts = append(parts, b.Values)
		ids = append(ids, b.IDs...)
	}
	values, err := array.Concatenate(parts, alloc())
	require.NoError(t, err)
	return values, ids
}

// TestStreamRoundTrip: every value of every type comes back bit by bit, with its id, in order.
func TestStreamRoundTrip(t *testing.T) {
	for i, typ := range types() {
		rng := rand.New(rand.NewSource(int64(i)))
		values := randomArray(t, typ, rng, 5000, 10)
		x := build(t, values, btree.Options{PageRows: 300})
		got, ids := all(t, typ, x.Stream(nil))
		require.Equal(t, 5000, len(ids))
		take := make([]int, len(ids))
		for i, id := range ids {
			take[i] = int(id)
		}
		if typ.ID() != arrow.FLOAT32 && typ.ID() != arrow.FLOAT64 { // no NaN equals itself there
			require.True(t, array.Equal(takeRows(t, values, take), got), "%s", typ)
		}
		requireSameBits(t, values, take, got)
		slices.Sort(ids)
		require.Equal(t, counting(0, 5000), ids)
	}
}

// requireSameBits compares the raw bytes of fixed-width cells: NaN and the zeros are told apart.
func requireSameBits(t testing.TB, values arrow.Array, take []int, got arrow.Array) {
	t.Helper()
	w, ok := values.DataType().(arrow.FixedWidthDataType)
	if !ok || w.BitWidth() < 8 {
		return
	}
	width := w.BitWidth() / 8
	want, have := values.Data().Buffers()[1].Bytes(), got.Data().Buffers()[1].Bytes()[got.Data().Offset()*width:]
	for i, row := range take {
		if values.IsNull(row) {
			require.True(t, got.IsNull(i))
			continue
		}
		require.Equal(t, want[row*width:(row+1)*width], have[i*width:(i+1)*width])
	}
}

// TestMergeModel merges segments, some of whose rows move or go, and compares with an index over the same rows.
func TestMergeModel(t *testing.T) {
	for i, typ := range types() {
		rng := rand.New(rand.NewSource(int64(i)))
		var streams []btree.Stream
		var parts []arrow.Array
		for n := range 1 + rng.Intn(4) {
			values := randomArray(t, typ, rng, rng.Intn(3000), 10)
			x := build(t, values, btree.Options{PageRows: 100})
			gone := rng.Intn(3)
			streams = append(streams, x.Stream(func(ids []uint64, keep []bool) error {
				for i, id := range ids {
					ids[i] = uint64(rowaddr.New(uint32(n), uint32(id)))
					keep[i] = gone == 0 || int(id)%3 != gone
				}
				return nil
			}))
			var kept []int
			for row := range values.Len() {
				if gone == 0 || row%3 != gone {
					kept = append(kept, row)
				}
			}
			parts = append(parts, takeRows(t, values, kept))
			_ = n
		}
		dir := memDir()
		sum, err := btree.Merge(t.Context(), dir, typ, streams, btree.Options{PageRows: 128})
		require.NoError(t, err)
		x, err := btree.Open(t.Context(), dir, btree.OpenOptions{})
		require.NoError(t, err)
		require.Equal(t, sum.Rows, x.Rows())
		values, err := array.Concatenate(parts, alloc())
		require.NoError(t, err)
		require.EqualValues(t, values.Len(), x.Rows())
		for range 20 {
			a := draw(typ, rng)
			r, err := x.Search(t.Context(), a.q)
			require.NoError(t, err)
			n, _ := r.Addrs.Count()
			require.EqualValues(t, len(want(t, a.e, values)), n, "%s: %#v", typ, a.q)
		}
	}
}

func takeRows(t testing.TB, values arrow.Array, rows []int) arrow.Array {
	t.Helper()
	parts := []arrow.Array{cellsOf(t, values.DataType())}
	for _, r := range rows {
		parts = append(parts, array.NewSlice(values, int64(r), int64(r+1)))
	}
	out, err := array.Concatenate(parts, alloc())
	require.NoError(t, err)
	return out
}

// TestMergeKeepsRows: translated addresses are the right ones, equal values in the order of the streams.
func TestMergeKeepsRows(t *testing.T) {
	typ := arrow.BinaryTypes.String
	first := build(t, cellsOf(t, typ, "b", nil, "d", "a"), btree.Options{})
	second := build(t, cellsOf(t, typ, "d", "b", nil, "c"), btree.Options{})
	move := func(ids []uint64, keep []bool) error {
		for i, id := range ids {
			ids[i], keep[i] = id+100, id != 3
		}
		return nil
	}
	s, err := btree.MergeStreams(typ, []btree.Stream{first.Stream(nil), second.Stream(move)}, nil)
	require.NoError(t, err)
	values, ids := all(t, typ, s)
	require.Equal(t, `[(null) (null) "a" "b" "b" "d" "d"]`, values.String())
	require.Equal(t, []uint64{1, 102, 3, 0, 101, 2, 100}, ids)

	broken := errors.New("no such fragment")
	s, err = btree.MergeStreams(typ, []btree.Stream{first.Stream(nil), second.Stream(func([]uint64, []bool) error { return broken })}, nil)
	require.NoError(t, err)
	_, err = s(t.Context())
	require.ErrorIs(t, err, broken)
	_, err = btree.Merge(t.Context(), memDir(), arrow.BinaryTypes.Binary, []btree.Stream{first.Stream(nil), second.Stream(nil)}, btree.Options{})
	require.ErrorIs(t, err, errs.ErrInvalid)

	empty, err := btree.MergeStreams(typ, nil, nil)
	require.NoError(t, err)
	_, err = empty(t.Context())
	require.ErrorIs(t, err, io.EOF)
}

// TestBuildRefusesDisorder: rows out of order are the caller's fault and leave nothing behind.
func TestBuildRefusesDisorder(t *testing.T) {
	typ := arrow.PrimitiveTypes.Float64
	for name, list := range map[string][]btree.Batch{
		"in a batch":      {{Values: cellsOf(t, typ, 2.0, 1.0), IDs: counting(0, 2)}},
		"between batches": {{Values: cellsOf(t, typ, 2.0), IDs: counting(0, 1)}, {Values: cellsOf(t, typ, 1.0), IDs: counting(1, 1)}},
		"zeros":           {{Values: cellsOf(t, typ, 0.0, math.Copysign(0, -1)), IDs: counting(0, 2)}},
		"null inside":     {{Values: cellsOf(t, typ, 1.0, nil), IDs: counting(0, 2)}},
		"null after":      {{Values: cellsOf(t, typ, 1.0), IDs: counting(0, 1)}, {Values: cellsOf(t, typ, nil), IDs: counting(1, 1)}},
		"ids":             {{Values: cellsOf(t, typ, 1.0), IDs: counting(0, 2)}},
		"type":            {{Values: cellsOf(t, arrow.PrimitiveTypes.Int64, int64(1)), IDs: counting(0, 1)}},
	} {
		dir := memDir()
		_, err := btree.Build(t.Context(), dir, typ, batches(list...), btree.Options{})
		require.ErrorIs(t, err, errs.ErrInvalid, name)
		_, err = btree.Open(t.Context(), dir, btree.OpenOptions{})
		require.ErrorIs(t, err, errs.ErrNotFound, name)
	}
	_, err := btree.Build(t.Context(), memDir(), typ, batches(), btree.Options{PageRows: -1})
	require.ErrorIs(t, err, errs.ErrInvalid)
}

// TestSorterBudget: a batch that does not fit is not taken, and what was taken is still right.
func TestSorterBudget(t *testing.T) {
	typ := arrow.BinaryTypes.String
	s, err := btree.NewSorter(typ, 300, nil)
	require.NoError(t, err)
	require.NoError(t, s.Add(btree.Batch{Values: cellsOf(t, typ, "b", nil, "a"), IDs: counting(0, 3)}))
	require.ErrorIs(t, s.Add(btree.Batch{Values: cellsOf(t, typ, "c", nil, string(make([]byte, 500))), IDs: counting(3, 3)}), errs.ErrLimit)
	require.Equal(t, 3, s.Rows())
	values, ids := all(t, typ, s.Stream())
	require.Equal(t, `[(null) "a" "b"]`, values.String())
	require.Equal(t, []uint64{1, 2, 0}, ids)
	require.Zero(t, s.Rows())
}

// TestEmpty: an index without rows answers nothing.
func TestEmpty(t *testing.T) {
	dir := memDir()
	sum, err := btree.Build(t.Context(), dir, arrow.PrimitiveTypes.Int32, batches(), btree.Options{})
	require.NoError(t, err)
	require.Zero(t, sum.Rows)
	x, err := btree.Open(t.Context(), dir, btree.OpenOptions{})
	require.NoError(t, err)
	for _, q := range []indexes.Query{indexes.IsNull{}, indexes.NotNull{}, indexes.Equals(int32(1)), indexes.In{Values: []any{int32(1)}}} {
		r, err := x.Search(t.Context(), q)
		require.NoError(t, err)
		require.True(t, r.Addrs.IsEmpty())
	}
}
