package indexes_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/internal/errs"
)

func TestRangesOf(t *testing.T) {
	for _, c := range []struct {
		q       indexes.Query
		in, out []any
	}{
		{indexes.IsNull{}, []any{nil}, []any{int32(1)}},
		{indexes.NotNull{}, []any{int32(1)}, []any{nil}},
		{indexes.Range{}, []any{"", math.NaN()}, []any{nil}},
		{indexes.Equals(int32(3)), []any{int32(3)}, []any{int32(2), int32(4), nil}},
		{indexes.Range{Low: indexes.Bound{Value: 0.0, Exclusive: true}}, []any{1e-300, math.NaN()}, []any{0.0, math.Copysign(0, -1), nil}},
		{indexes.Range{Low: indexes.Bound{Value: "a"}, High: indexes.Bound{Value: "b", Exclusive: true}}, []any{"a", "az"}, []any{"", "b", nil}},
		{indexes.In{Values: []any{int64(5), int64(1), int64(5)}}, []any{int64(1), int64(5)}, []any{int64(2), nil}},
		{indexes.In{}, nil, []any{int64(2), nil}},
		{indexes.Range{Low: indexes.Bound{Value: int8(2)}, High: indexes.Bound{Value: int8(1)}}, nil, []any{int8(1), int8(2), nil}},
	} {
		r, err := indexes.RangesOf(c.q)
		require.NoError(t, err)
		for _, v := range c.in {
			require.True(t, r.Contains(v), "%+v does not ask for %v", c.q, v)
		}
		for _, v := range c.out {
			require.False(t, r.Contains(v), "%+v asks for %v", c.q, v)
		}
	}
	for _, q := range []indexes.Query{indexes.In{Values: []any{nil}}, indexes.In{Values: []any{1.0, int32(1)}}, indexes.Equals(struct{}{})} {
		_, err := indexes.RangesOf(q)
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
	_, err := indexes.RangesOf(nil)
	require.ErrorIs(t, err, errs.ErrUnsupported)
}
