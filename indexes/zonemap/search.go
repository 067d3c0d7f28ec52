package zonemap

import (
	"context"
	"fmt"
	"math/bits"

	"lancesql/indexes"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
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
	r, err := RangesOf(q)
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

// RangesOf is the set of cells a query asks for. Values of In are ordered; errs.ErrInvalid if they are not of one Go
// type, errs.ErrUnsupported for a query this package does not know.
func RangesOf(q indexes.Query) (predicate.Ranges, error) {
	var e predicate.Expr
	switch q := q.(type) {
	case indexes.IsNull:
		e = predicate.IsNull{}
	case indexes.NotNull:
		e = predicate.Not{Term: predicate.IsNull{}}
	case indexes.In:
		e = predicate.In{Values: q.Values}
	case indexes.Range:
		e = rangeExpr(q)
	default:
		return predicate.Ranges{}, fmt.Errorf("query %T: %w", q, errs.ErrUnsupported)
	}
	r, exact := predicate.Bounds(e, 0)
	if !exact {
		return predicate.Ranges{}, fmt.Errorf("query %+v mixes types: %w", q, errs.ErrInvalid)
	}
	return r, nil
}

func rangeExpr(q indexes.Range) predicate.Expr {
	terms := []predicate.Expr{predicate.Not{Term: predicate.IsNull{}}}
	if q.Low.Value != nil {
		op := predicate.Ge
		if q.Low.Exclusive {
			op = predicate.Gt
		}
		terms = append(terms, predicate.Compare{Op: op, Value: q.Low.Value})
	}
	if q.High.Value != nil {
		op := predicate.Le
		if q.High.Exclusive {
			op = predicate.Lt
		}
		terms = append(terms, predicate.Compare{Op: op, Value: q.High.Value})
	}
	return predicate.And{Terms: terms}
}
