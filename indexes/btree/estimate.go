package btree

import (
	"context"
	"fmt"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// CountTuples returns how many rows have tuples in [lo, hi), dead ones too. It reads two pages at most, those at the ends
// of the range. Bounds, composite and errors are those of Tuples.
func (x *Index) CountTuples(ctx context.Context, composite bool, lo, hi rowkey.Key) (uint64, error) {
	if composite && x.typ.ID() != arrow.BINARY || !composite && !rowkey.Encodable(x.typ) {
		return 0, fmt.Errorf("tuples of an index over %s: %w", x.typ, errs.ErrInvalid)
	}
	if x.rows == 0 {
		return 0, nil
	}
	t, err := x.pages(ctx)
	if err != nil {
		return 0, err
	}
	w := tupleWalk{wide: t.maxs.wide, composite: composite, boolean: x.typ.ID() == arrow.BOOL}
	from, err := x.rowOf(ctx, t, &w, lo)
	if err != nil || hi == "" {
		return x.rows - from, err
	}
	to, err := x.rowOf(ctx, t, &w, hi)
	return max(to, from) - from, err
}

// rowOf returns the place of the first row whose tuple is not below k; the rows that are NULL come before all.
func (x *Index) rowOf(ctx context.Context, t *pageTable, w *tupleWalk, k rowkey.Key) (uint64, error) {
	p := t.nullMaxs + sort.Search(t.count-t.nullMaxs, func(i int) bool { return w.tuple(nil, t.maxs.key(i)) >= k })
	if p == t.count {
		return x.rows, nil
	}
	first, _ := x.span(t, p)
	if p >= t.nullMins && w.tuple(nil, t.mins.key(p-t.nullMins)) >= k {
		return first, nil
	}
	pages, err := x.load(ctx, t, p, p+1)
	if err != nil {
		return 0, err
	}
	in := pages[0]
	return first + uint64(in.nulls) + uint64(sort.Search(in.values.len(), func(i int) bool { return w.tuple(nil, in.values.key(i)) >= k })), nil
}
