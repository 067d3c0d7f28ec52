package zonemap

import (
	"context"
	"math/bits"

	"lancesql/indexes"
	"lancesql/lance/rowaddr"
)

// each calls visit for every set bit, ascending.
func each(words []uint64, visit func(i int)) {
	for w, word := range words {
		for ; word != 0; word &= word - 1 {
			visit(w*64 + bits.TrailingZeros64(word))
		}
	}
}

// Search implements indexes.Segment. Results are runs of whole zones, to be evaluated again; IS NULL and IS NOT NULL are
// exact where the null bitmap is there.
// Spec: zone map index, "Accelerated Queries".
func (s *Segment) Search(ctx context.Context, q indexes.Query) (indexes.Result, error) {
	if err := ctx.Err(); err != nil {
		return indexes.Result{}, err
	}
	r, err := indexes.RangesOf(q)
	if err != nil {
		return indexes.Result{}, err
	}
	out := indexes.Result{Fragments: s.coverage}
	_, isNull := q.(indexes.IsNull)
	if isNull && s.nulls != nil {
		out.Addrs, out.Exact = s.nulls.Clone(), true
		return out, nil
	}
	sel, err := s.Prune(r)
	if err != nil {
		return indexes.Result{}, err
	}
	out.Addrs = rowaddr.NewTreemap()
	for _, run := range sel.Ranges {
		out.Addrs.AddRange(run.Fragment, run.From, run.To)
	}
	if _, ok := q.(indexes.NotNull); ok && s.nulls != nil { // rows of no zone were deleted before
		out.Addrs.AndNot(s.nulls)
		out.Exact = true
	}
	return out, nil
}
