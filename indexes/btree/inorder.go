package btree

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes"
)

// Ordered yields the rows of a range by ascending or descending value, as SQL orders them: every NaN above +inf, NULLs
// not at all. Rows of equal value come in the order of the segment, or its reverse. Pages are read, and cached, when they
// are asked for: a LIMIT reads no more than it needs. errs.ErrInvalid for bounds that are not of the column's Go type.
func (x *Index) Ordered(q indexes.Range, descending bool) (Stream, error) {
	spans, err := x.spansOf(q)
	if err != nil {
		return nil, fmt.Errorf("order of BTREE %s: %w", x.dir.Path(), err)
	}
	if descending {
		slices.Reverse(spans)
	}
	r := &inOrder{x: x, spans: spans, down: descending}
	return r.next, nil
}

// inOrder is the state of an Ordered stream: the pages left of the first of spans.
type inOrder struct {
	x           *Index
	spans       []span
	down        bool
	begun       bool
	first, last int
}

func (r *inOrder) next(ctx context.Context) (Batch, error) {
	t, err := r.x.pages(ctx)
	if err != nil {
		return Batch{}, err
	}
	for len(r.spans) > 0 {
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
		if !r.begun {
			r.first, r.last = t.pagesOf(r.spans[0])
			r.begun = true
		}
		if r.first >= r.last {
			r.spans, r.begun = r.spans[1:], false
			continue
		}
		number := r.first
		if r.down {
			r.last--
			number = r.last
		} else {
			r.first++
		}
		pages, err := r.x.load(ctx, t, number, number+1)
		if err != nil {
			return Batch{}, err
		}
		if from, to := pages[0].valuesOf(r.spans[0]); from < to {
			return r.batch(pages[0], from, to)
		}
	}
	return Batch{}, io.EOF
}

func (r *inOrder) batch(p *page, from, to int) (Batch, error) {
	c := column{wide: p.values.wide}
	ids := slices.Clone(p.ids[p.nulls+from : p.nulls+to])
	if !r.down {
		if err := c.addRange(&p.values, from, to); err != nil {
			return Batch{}, err
		}
	} else {
		slices.Reverse(ids)
		for i := to - 1; i >= from; i-- {
			if err := c.add(p.values.key(i)); err != nil {
				return Batch{}, err
			}
		}
	}
	a, err := c.arrow(memory.DefaultAllocator, r.x.typ, 0)
	return Batch{Values: a, IDs: ids}, err
}
