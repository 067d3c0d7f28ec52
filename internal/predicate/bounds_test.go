package predicate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
)

// domains are columns with all the cells they may have; NULL is added.
func domains() [][]any {
	d := func(v int64) any { return decimal128.FromI64(v) }
	return [][]any{
		{int32(-2), int32(-1), int32(0), int32(1), int32(2), int32(3)},
		{math.Inf(-1), -1.5, math.Copysign(0, -1), 0.0, 1e300, math.Inf(1), math.NaN()},
		{"", "a", "a\x00", "ab", "b", "\xff"},
		{[]byte{}, []byte{0}, []byte{0xff}, []byte{0xff, 0xff}},
		{false, true},
		{d(-7), d(0), d(7)},
	}
}

// boundedExpr makes an expression of about size leaves over the columns.
func boundedExpr(rng *rand.Rand, cols [][]any, size int) predicate.Expr {
	if size > 1 {
		switch rng.IntN(4) {
		case 0:
			return predicate.Not{Term: boundedExpr(rng, cols, size-1)}
		case 1, 2:
			var terms []predicate.Expr
			for n := rng.IntN(4); n > 0; n-- {
				terms = append(terms, boundedExpr(rng, cols, size/2))
			}
			if rng.IntN(2) == 0 {
				return predicate.And{Terms: terms}
			}
			return predicate.Or{Terms: terms}
		}
	}
	c := rng.IntN(len(cols))
	pick := func() any { return cols[c][rng.IntN(len(cols[c]))] }
	switch rng.IntN(10) {
	case 0:
		return predicate.Const{Value: rng.IntN(2) == 0}
	case 1:
		return predicate.IsNull{Column: c}
	case 2, 3:
		in := predicate.In{Column: c}
		for n := rng.IntN(5); n > 0; n-- {
			in.Values = append(in.Values, pick())
		}
		return in
	default:
		e := predicate.Compare{Column: c, Op: predicate.Op(1 + rng.IntN(7)), Value: pick()}
		if rng.IntN(12) == 0 {
			e.Value = nil
		}
		return e
	}
}

// product is the product of the domains, NULL added to each.
func product(cols [][]any) []arrowx.Row {
	all := []arrowx.Row{{}}
	for _, d := range cols {
		var next []arrowx.Row
		for _, r := range all {
			for _, v := range append([]any{nil}, d...) {
				next = append(next, append(append(arrowx.Row{}, r...), v))
			}
		}
		all = next
	}
	return all
}

func checkShape(t *testing.T, r predicate.Ranges) {
	t.Helper()
	for i, iv := range r.Intervals {
		require.True(t, i == 0 || iv.Low != nil && r.Intervals[i-1].High != nil, "%+v", r)
		if i > 0 {
			before := r.Intervals[i-1]
			c, ok := predicate.CompareCells(before.High, iv.Low)
			require.True(t, ok)
			require.True(t, c < 0 || c == 0 && before.HighOpen && iv.LowOpen, "%+v", r)
		}
		if iv.Low != nil && iv.High != nil {
			c, _ := predicate.CompareCells(iv.Low, iv.High)
			require.True(t, c < 0 || c == 0 && !iv.LowOpen && !iv.HighOpen, "%+v", r)
		}
	}
}

// What Bounds leaves out makes the expression not true; what it calls exact makes it true.
func TestBoundsAgainstEveryRow(t *testing.T) {
	exact, narrow, counts := 0, 0, 4000
	if testing.Short() {
		counts = 500
	}
	for seed := range counts {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		all := domains()
		cols := [][]any{all[rng.IntN(len(all))]}
		if rng.IntN(2) == 0 {
			cols = append(cols, all[rng.IntN(len(all))])
		}
		e := boundedExpr(rng, cols, 1+rng.IntN(8))
		for c := range cols {
			r, isExact := predicate.Bounds(e, c)
			checkShape(t, r)
			if isExact {
				exact++
			}
			if !r.IsEverything() {
				narrow++
			}
			for _, row := range product(cols) {
				truth, err := predicate.EvalRow(e, row)
				in := r.Contains(row[c])
				if err != nil || truth && !in || isExact && truth != in {
					t.Fatalf("seed %d: %+v is %v (%v) for %v; column %d bounded by %+v, exact %v", seed, e, truth, err, row, c, r, isExact)
				}
			}
			points, ok := r.Points()
			for _, p := range points {
				require.True(t, r.Contains(p))
			}
			require.True(t, !ok || len(points) == len(r.Intervals))
		}
	}
	if exact < counts/4 || narrow < counts/4 {
		t.Errorf("only %d exact and %d narrow of %d: the test has lost its subject", exact, narrow, counts)
	}
}

// An expression over one column is bounded exactly.
func TestBoundsOfOneColumnAreExact(t *testing.T) {
	for seed := range 1000 {
		rng := rand.New(rand.NewPCG(uint64(seed), 6))
		all := domains()
		e := boundedExpr(rng, [][]any{all[rng.IntN(len(all))]}, 1+rng.IntN(10))
		_, exact := predicate.Bounds(e, 0)
		require.True(t, exact, "%+v", e)
	}
}

func TestBoundsOfStrangers(t *testing.T) {
	for _, e := range []predicate.Expr{
		nil,
		predicate.And{Terms: []predicate.Expr{
			predicate.Compare{Column: 0, Op: predicate.Eq, Value: int32(1)}, predicate.Compare{Column: 0, Op: predicate.Eq, Value: int64(1)}}},
		predicate.Compare{Column: 0, Op: predicate.Eq, Value: struct{}{}},
		predicate.Compare{Column: 0, Op: 77, Value: int32(1)},
		predicate.In{Column: 0, Values: []any{nil}},
	} {
		r, exact := predicate.Bounds(e, 0)
		require.True(t, r.IsEverything(), "%+v", e)
		require.False(t, exact)
	}
}

func TestBoundsOfLongLists(t *testing.T) {
	const n = 20000
	var values []any
	var ors []predicate.Expr
	for i := range n {
		values = append(values, int64((i*7919)%n))
		ors = append(ors, predicate.Compare{Column: 0, Op: predicate.Eq, Value: int64((i * 7919) % n)})
	}
	for _, e := range []predicate.Expr{predicate.In{Column: 0, Values: values}, predicate.Or{Terms: ors}} {
		r, exact := predicate.Bounds(e, 0)
		require.True(t, exact)
		points, ok := r.Points()
		require.True(t, ok)
		require.Len(t, points, n)
		none, _ := predicate.Bounds(predicate.Not{Term: e}, 0)
		require.Len(t, none.Intervals, n+1)
	}
}

func TestHasPrefix(t *testing.T) {
	texts := []any{"", "a", "ab", "abc", "ac", "b", "\xff", "\xff\xff", "\xff\xffa", "é", "éa", "ê"}
	for _, p := range texts {
		e, ok := predicate.HasPrefix(0, p)
		require.True(t, ok)
		for _, v := range texts {
			got, err := predicate.EvalRow(e, arrowx.Row{v})
			require.NoError(t, err)
			p, v := p.(string), v.(string)
			require.Equal(t, len(v) >= len(p) && v[:len(p)] == p, got, "%q begins with %q", v, p)
		}
		null, err := predicate.EvalRow(e, arrowx.Row{nil})
		require.NoError(t, err)
		require.False(t, null)
	}
	e, ok := predicate.HasPrefix(3, []byte{1, 0xff})
	require.True(t, ok)
	r, _ := predicate.Bounds(e, 3)
	require.Equal(t, []predicate.Interval{{Low: []byte{1, 0xff}, High: []byte{2}, HighOpen: true}}, r.Intervals)
	_, ok = predicate.HasPrefix(0, int32(1))
	require.False(t, ok)
}

func BenchmarkBoundsOfIn(b *testing.B) {
	var values []any
	for i := range 1000 {
		values = append(values, int64((i*7919)%1000))
	}
	e := predicate.And{Terms: []predicate.Expr{predicate.In{Column: 0, Values: values}, predicate.Compare{Column: 0, Op: predicate.Lt, Value: int64(500)}}}
	for b.Loop() {
		predicate.Bounds(e, 0)
	}
}
