package predicate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	. "lancesql/internal/predicate"
	"lancesql/internal/testkit/rows"
)

func build(t testing.TB, schema *arrow.Schema, rs []arrowx.Row) arrow.RecordBatch {
	rec, err := arrowx.FromRows(memory.DefaultAllocator, schema, rs)
	require.NoError(t, err)
	t.Cleanup(rec.Release)
	return rec
}

func randomExpr(rng *rand.Rand, s *arrow.Schema, rs []arrowx.Row, depth int) Expr {
	col := rng.IntN(s.NumFields())
	value := func() any {
		if len(rs) > 0 && rng.IntN(2) == 0 { // a value that occurs
			if v := rs[rng.IntN(len(rs))][col]; v != nil {
				return v
			}
		}
		return rows.Cell(rng, s.Field(col).Type)
	}
	kind := rng.IntN(8)
	if depth == 0 && kind < 4 {
		kind += 4
	}
	switch kind {
	case 0, 1:
		terms := make([]Expr, rng.IntN(4))
		for i := range terms {
			terms[i] = randomExpr(rng, s, rs, depth-1)
		}
		if kind == 0 {
			return And{Terms: terms}
		}
		return Or{Terms: terms}
	case 2, 3:
		return Not{Term: randomExpr(rng, s, rs, depth-1)}
	case 4:
		return IsNull{Column: col}
	case 5:
		values := make([]any, rng.IntN(9))
		for i := range values {
			values[i] = value()
		}
		return In{Column: col, Values: values}
	default:
		e := Compare{Column: col, Op: Op(1 + rng.IntN(int(NullSafeEq))), Value: value()}
		if rng.IntN(10) == 0 {
			e.Value = nil
		}
		if rng.IntN(20) == 0 {
			return Const{Value: rng.IntN(2) == 0}
		}
		return e
	}
}

// Columns, slices of columns and rows give the same answer.
func TestEvalAgreesWithEvalRow(t *testing.T) {
	s := rows.Schema()
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rs := rows.Random(rng, s, rng.IntN(200), []float64{0, 0.2, 1}[rng.IntN(3)])
		rec := build(t, s, rs)
		for range 20 {
			e := randomExpr(rng, s, rs, 3)
			lo := rng.IntN(len(rs) + 1)
			hi := lo + rng.IntN(len(rs)-lo+1)
			part := rec.NewSlice(int64(lo), int64(hi))
			m, err := EvalBatch(e, part)
			require.NoError(t, err, "seed %d: %v", seed, e)
			require.Equal(t, hi-lo, m.Len())
			count := 0
			for i, r := range rs[lo:hi] {
				want, err := EvalRow(e, r)
				require.NoError(t, err)
				require.Equal(t, want, m.Get(i), "seed %d row %d %v: %#v", seed, i, r, e)
				if want {
					count++
				}
			}
			require.Equal(t, count, m.Count())
			part.Release()
		}
	}
}

func TestThreeValuedLogic(t *testing.T) {
	eq := func(v any) Expr { return Compare{Column: 0, Op: Eq, Value: v} }
	null, yes, no := eq(nil), Const{true}, Const{false}
	for _, c := range []struct {
		e    Expr
		want bool
	}{
		{And{}, true}, {Or{}, false}, {null, false}, {Not{null}, false}, {And{[]Expr{null, no}}, false},
		{Not{And{[]Expr{null, no}}}, true}, {Not{And{[]Expr{null, yes}}}, false}, {Or{[]Expr{null, yes}}, true},
		{Not{Or{[]Expr{null, no}}}, false}, {Not{Or{[]Expr{null, yes}}}, false}, {Not{Not{yes}}, true},
		{Compare{0, NullSafeEq, nil}, false}, {Compare{1, NullSafeEq, nil}, true}, {Not{Compare{1, NullSafeEq, int64(1)}}, true},
		{Compare{0, NullSafeEq, int64(1)}, true}, {In{1, []any{int64(1)}}, false}, {Not{In{1, []any{int64(1)}}}, false},
		{Not{In{1, nil}}, true}, {IsNull{1}, true}, {IsNull{0}, false}, {Compare{1, Ne, int64(7)}, false},
	} {
		s := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
		row := arrowx.Row{int64(1), nil}
		got, err := EvalRow(c.e, row)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%#v", c.e)
		m, err := EvalBatch(c.e, build(t, s, []arrowx.Row{row}))
		require.NoError(t, err)
		require.Equal(t, c.want, m.Get(0), "%#v", c.e)
	}
}

func TestFloatOrder(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	s := arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64}}, nil)
	values := []float64{math.Inf(-1), -1, math.Copysign(0, -1), 0, 1, inf, nan}
	rank := []int{0, 1, 2, 2, 3, 4, 5}
	rs := make([]arrowx.Row, len(values))
	for i, v := range values {
		rs[i] = arrowx.Row{v}
	}
	rec := build(t, s, rs)
	for j, v := range values {
		for op, holds := range map[Op]func(a, b int) bool{
			Eq: func(a, b int) bool { return a == b }, Ne: func(a, b int) bool { return a != b },
			Lt: func(a, b int) bool { return a < b }, Le: func(a, b int) bool { return a <= b },
			Gt: func(a, b int) bool { return a > b }, Ge: func(a, b int) bool { return a >= b },
		} {
			m, err := EvalBatch(Compare{0, op, v}, rec)
			require.NoError(t, err)
			for i := range values {
				require.Equal(t, holds(rank[i], rank[j]), m.Get(i), "%v op %d %v", values[i], op, v)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	s := rows.Schema()
	rng := rand.New(rand.NewPCG(1, 1))
	rs := rows.Random(rng, s, 5, 0)
	rec := build(t, s, rs)
	for c, f := range s.Fields() {
		for _, e := range []Expr{
			Compare{c, Eq, struct{}{}}, Compare{c, Lt, uint(1)}, In{c, []any{"x", 3}}, In{c, []any{nil}}, Compare{c, 0, rs[0][c]}, Compare{c, 9, rs[0][c]},
			In{c, []any{1, 2, 3, 4, 5, 6, 7, 8}},
		} {
			_, err := EvalBatch(And{[]Expr{Not{e}}}, rec)
			require.ErrorIs(t, err, errs.ErrInvalid, "%s %#v", f.Name, e)
			_, err = EvalRow(Or{[]Expr{e}}, rs[0])
			require.ErrorIs(t, err, errs.ErrInvalid, "%s %#v", f.Name, e)
		}
	}
	_, err := EvalBatch(IsNull{99}, rec)
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = EvalRow(IsNull{99}, rs[0])
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = Eval(IsNull{0}, rec.Column, 4)
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = Eval(nil, rec.Column, 5)
	require.ErrorIs(t, err, errs.ErrUnsupported)

	list := array.NewBuilder(memory.DefaultAllocator, arrow.ListOf(arrow.PrimitiveTypes.Int8))
	defer list.Release()
	list.AppendNull()
	a := list.NewArray()
	defer a.Release()
	_, err = Eval(Compare{0, Eq, int8(1)}, func(int) arrow.Array { return a }, 1)
	require.ErrorIs(t, err, errs.ErrUnsupported)
	m, err := Eval(IsNull{0}, func(int) arrow.Array { return a }, 1)
	require.NoError(t, err)
	require.True(t, m.Get(0))
}

func TestColumns(t *testing.T) {
	e := And{[]Expr{Compare{3, Eq, nil}, Or{[]Expr{Not{IsNull{1}}, In{3, nil}}}, Const{true}}}
	require.Equal(t, []int{1, 3}, Columns(e))
	require.Empty(t, Columns(Const{true}))
}

func ExampleEvalRow() {
	// price > 10 AND name IS NOT NULL
	e := And{Terms: []Expr{Compare{Column: 1, Op: Gt, Value: int64(10)}, Not{Term: IsNull{Column: 0}}}}
	for _, r := range []arrowx.Row{{"pen", int64(12)}, {"cup", nil}, {nil, int64(99)}} {
		ok, err := EvalRow(e, r)
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
	// false <nil>
}

func BenchmarkEvalInt64(b *testing.B) {
	s := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	rs := rows.Random(rand.New(rand.NewPCG(1, 1)), s, 8192, 0.1)
	rec := build(b, s, rs)
	e := And{[]Expr{Compare{0, Ge, int64(-1)}, Compare{0, Lt, int64(2)}}}
	b.SetBytes(8 * 8192)
	for b.Loop() {
		if _, err := EvalBatch(e, rec); err != nil {
			b.Fatal(err)
		}
	}
}
