package arrowx_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/testkit/rows"
)

// checked is an allocator that fails the test on a leak.
func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

func build(t testing.TB, mem memory.Allocator, schema *arrow.Schema, rs []arrowx.Row) arrow.RecordBatch {
	rec, err := arrowx.FromRows(mem, schema, rs)
	require.NoError(t, err)
	return rec
}

func rowsOf(rec arrow.RecordBatch) []arrowx.Row {
	out := make([]arrowx.Row, rec.NumRows())
	for i := range out {
		out[i] = arrowx.RowOf(rec, i)
	}
	return out
}

// same compares rows by their printed form, in which NaN equals itself and -0 is not 0.
func same(t testing.TB, want, got []arrowx.Row, msg ...any) {
	require.Equal(t, fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got), msg...)
}

func TestRowsRoundTrip(t *testing.T) {
	mem, s := checked(t), rows.Schema()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		rs := rows.Random(rng, s, rng.IntN(100), float64(seed%2)*0.2)
		rec := build(t, mem, s, rs)
		same(t, rs, rowsOf(rec))
		for _, c := range rec.Columns() {
			require.NoError(t, arrowx.Validate(c.Data()))
			require.True(t, arrowx.Supported(c.DataType()))
		}
		rec.Release()
	}
}

func TestCellsOwnTheirBytes(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "b", Type: arrow.BinaryTypes.Binary}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	rec := build(t, memory.DefaultAllocator, s, []arrowx.Row{{[]byte("abc"), "xyz"}, {[]byte{}, ""}})
	defer rec.Release()
	row, empty := arrowx.RowOf(rec, 0), arrowx.RowOf(rec, 1)
	for _, c := range rec.Columns() {
		clear(c.Data().Buffers()[2].Bytes())
	}
	require.Equal(t, arrowx.Row{[]byte("abc"), "xyz"}, row)
	require.Equal(t, arrowx.Row{[]byte{}, ""}, empty)
}

func TestTakeFilterConcatAgainstModel(t *testing.T) {
	mem, s := checked(t), rows.Schema()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		all := rows.Random(rng, s, rng.IntN(150), []float64{0, 0.3, 1}[rng.IntN(3)])
		whole := build(t, mem, s, all)
		lo := rng.IntN(len(all) + 1)
		hi := lo + rng.IntN(len(all)-lo+1)
		rec, rs := whole.NewSlice(int64(lo), int64(hi)), all[lo:hi]
		whole.Release()

		var indices []int
		var want []arrowx.Row
		for range rng.IntN(40) {
			if len(rs) > 0 {
				i := rng.IntN(len(rs))
				indices, want = append(indices, i), append(want, rs[i])
			}
		}
		taken, err := arrowx.Take(mem, rec, indices)
		require.NoError(t, err)
		same(t, append([]arrowx.Row{}, want...), rowsOf(taken), "take, seed %d", seed)

		keep, want2 := make([]bool, len(rs)), []arrowx.Row{}
		density := rng.Float64() * 1.2
		for i := range keep {
			if keep[i] = rng.Float64() < density; keep[i] {
				want2 = append(want2, rs[i])
			}
		}
		filtered, err := arrowx.Filter(mem, rec, keep)
		require.NoError(t, err)
		same(t, want2, rowsOf(filtered), "filter, seed %d", seed)

		joined, err := arrowx.Concat(mem, []arrow.RecordBatch{taken, filtered, rec})
		require.NoError(t, err)
		same(t, append(append(append([]arrowx.Row{}, want...), want2...), rs...), rowsOf(joined), "concat, seed %d", seed)
		for _, c := range joined.Columns() {
			require.NoError(t, arrowx.Validate(c.Data()))
		}
		if arrowx.Held(joined) < arrowx.Bytes(joined) {
			t.Errorf("seed %d: holds %d bytes, needs %d", seed, arrowx.Held(joined), arrowx.Bytes(joined))
		}
		for _, r := range []arrow.RecordBatch{rec, taken, filtered, joined} {
			r.Release()
		}
	}
}

// Nested columns of foreign tables are gathered and joined too.
func TestTakeNested(t *testing.T) {
	mem := checked(t)
	s := arrow.NewSchema([]arrow.Field{
		{Name: "v", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int16, Nullable: true}), Nullable: true},
	}, nil)
	rec, _, err := array.RecordFromJSON(mem, s, stringReader(`[
		{"v":[1,2],"l":["a","b"],"s":{"x":1}}, {"v":null,"l":null,"s":null},
		{"v":[3,4],"l":[],"s":{"x":null}}, {"v":[5,6],"l":["c"],"s":{"x":4}}]`))
	require.NoError(t, err)
	slice := rec.NewSlice(1, 4)
	got, err := arrowx.Take(mem, slice, []int{2, 0, 1, 2})
	require.NoError(t, err)
	text, err := got.MarshalJSON()
	require.NoError(t, err)
	require.JSONEq(t, `[{"v":[5,6],"l":["c"],"s":{"x":4}},{"v":null,"l":null,"s":null},
		{"v":[3,4],"l":[],"s":{"x":null}},{"v":[5,6],"l":["c"],"s":{"x":4}}]`, string(text))
	for _, c := range got.Columns() {
		require.NoError(t, arrowx.Validate(c.Data()))
	}
	for _, r := range []arrow.RecordBatch{rec, slice, got} {
		r.Release()
	}
}

func TestErrors(t *testing.T) {
	mem, s := checked(t), rows.Schema()
	rng := rand.New(rand.NewPCG(1, 2))
	row := rows.Random(rng, s, 1, 0)[0]
	_, err := arrowx.FromRows(mem, s, []arrowx.Row{row[1:]})
	require.ErrorIs(t, err, errs.ErrInvalid)
	for c := range s.NumFields() {
		bad := append(arrowx.Row{}, row...)
		bad[c] = struct{}{}
		_, err := arrowx.FromRows(mem, s, []arrowx.Row{row, bad})
		require.ErrorIs(t, err, errs.ErrInvalid, s.Field(c).Name)
	}
	bad := append(arrowx.Row{}, row...)
	bad[15] = []byte("four")
	_, err = arrowx.FromRows(mem, s, []arrowx.Row{bad})
	require.ErrorIs(t, err, errs.ErrInvalid)
	list := arrow.NewSchema([]arrow.Field{{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8)}}, nil)
	_, err = arrowx.FromRows(mem, list, nil)
	require.ErrorIs(t, err, errs.ErrUnsupported)

	rec := build(t, mem, s, []arrowx.Row{row})
	defer rec.Release()
	_, err = arrowx.Take(mem, rec, []int{1})
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = arrowx.Take(mem, rec, []int{-1})
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = arrowx.Filter(mem, rec, nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = arrowx.FilterByMask(mem, rec, arrowx.NewMask(2))
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = arrowx.Concat(mem, nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
	narrow, err := arrowx.Project(rec, arrow.NewSchema(s.Fields()[3:4], nil), []int{3})
	require.NoError(t, err)
	defer narrow.Release()
	_, err = arrowx.Concat(mem, []arrow.RecordBatch{rec, narrow})
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func TestProject(t *testing.T) {
	mem, s := checked(t), rows.Schema()
	rs := rows.Random(rand.New(rand.NewPCG(7, 2)), s, 3, 0)
	rec := build(t, mem, s, rs)
	defer rec.Release()
	p, err := arrowx.Project(rec, arrow.NewSchema([]arrow.Field{s.Field(4), s.Field(0), s.Field(4)}, nil), []int{4, 0, 4})
	require.NoError(t, err)
	defer p.Release()
	require.Equal(t, arrowx.Row{rs[1][4], rs[1][0], rs[1][4]}, arrowx.RowOf(p, 1))
	count, err := arrowx.Project(rec, arrow.NewSchema(nil, nil), nil)
	require.NoError(t, err)
	defer count.Release()
	require.EqualValues(t, 3, count.NumRows())
	for _, cols := range [][]int{{4}, {99}, {-1}, {4, 4}} {
		_, err := arrowx.Project(rec, arrow.NewSchema([]arrow.Field{s.Field(0)}, nil), cols)
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
}

func TestMask(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 200} {
		m, full := arrowx.NewMask(n), arrowx.NewFullMask(n)
		require.Equal(t, n, full.Count())
		require.True(t, full.All())
		want := []int{}
		for i := 0; i < n; i += 3 {
			m.Set(i)
			want = append(want, i)
		}
		require.Equal(t, want, m.Indices([]int{}))
		full.AndNot(m)
		require.Equal(t, n-len(want), full.Count())
		full.And(m)
		require.Zero(t, full.Count())
		if n > 0 {
			m.Clear(0)
			require.False(t, m.Get(0))
		}
	}
	m := arrowx.MaskOf([]uint64{^uint64(0), ^uint64(0)}, 65)
	require.Equal(t, 65, m.Count())
}
