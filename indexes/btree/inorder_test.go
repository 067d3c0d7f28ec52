package btree_test

import (
	"errors"
	"io"
	"math/rand"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
)

// TestOrderedModel: the rows of a range, both ways, in SQL's order, for every type.
func TestOrderedModel(t *testing.T) {
	for i, typ := range types() {
		rng := rand.New(rand.NewSource(int64(i)))
		values := randomArray(t, typ, rng, 700, 10)
		x := build(t, values, btree.Options{PageRows: 16})
		for range 12 {
			a := draw(typ, rng)
			q, ok := a.q.(indexes.Range)
			if !ok {
				continue
			}
			expect := map[uint64]bool{}
			for _, addr := range want(t, a.e, values) {
				expect[uint64(addr)] = true
			}
			for _, down := range []bool{false, true} {
				s, err := x.Ordered(q, down)
				require.NoError(t, err)
				var last any
				seen := 0
				for {
					b, err := s(t.Context())
					if errors.Is(err, io.EOF) {
						break
					}
					require.NoError(t, err)
					for n, id := range b.IDs {
						require.True(t, expect[id], "%s %#v: row %d", typ, q, id)
						v := arrowx.Value(b.Values, n)
						order, ok := predicate.CompareCells(v, arrowx.Value(values, int(id)))
						require.True(t, ok && order == 0)
						if last != nil {
							order, _ = predicate.CompareCells(last, v)
							require.True(t, order == 0 || order > 0 == down, "%s: %v after %v", typ, v, last)
						}
						last = v
						seen++
					}
				}
				require.Equal(t, len(expect), seen)
			}
		}
	}
}

// TestOrderedReadsLittle: the first rows of an order cost one page.
func TestOrderedReadsLittle(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int32
	cells := make([]any, 1000)
	for i := range cells {
		cells[i] = int32(i)
	}
	x := build(t, cellsOf(t, typ, cells...), btree.Options{PageRows: 10})
	s, err := x.Ordered(indexes.Range{High: indexes.Bound{Value: int32(500), Exclusive: true}}, true)
	require.NoError(t, err)
	b, err := s(t.Context())
	require.NoError(t, err)
	require.Equal(t, "[499 498 497 496 495 494 493 492 491 490]", b.Values.String())
	want := counting(490, 10)
	slices.Reverse(want)
	require.Equal(t, want, b.IDs)
	require.Equal(t, uint64(1), x.Counters().PagesRead)
	_, err = x.Ordered(indexes.Equals("text"), false)
	require.ErrorIs(t, err, errs.ErrInvalid)
}
