package btree

import (
	"context"
	"fmt"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
)

// Hit is a row that has one of the keys of a look-up.
type Hit struct {
	Row int32  // place of the key in what Keys was made of
	ID  uint64 // of the row
}

// Lookup appends the rows that have one of keys to hits: by ascending key, those of one key in the order of the index.
// The result is not restricted to the coverage. errs.ErrInvalid for keys of another type than the index.
// Cost: one binary search a key, in pages that are decoded once for the whole batch; neighbouring pages are read at once.
func (x *Index) Lookup(ctx context.Context, keys *Keys, hits []Hit) ([]Hit, error) {
	err := x.walk(ctx, keys, func(i int, p *page, from, to int) bool {
		row := keys.row(i)
		for _, id := range p.ids[p.nulls+from : p.nulls+to] {
			hits = append(hits, Hit{row, id})
		}
		return true
	})
	return hits, err
}

// walk visits the rows of each key that has any, by ascending key: rows [from, to) of the values of a page, several times
// if they lie in several pages. visit returns false when it wants no further rows of this key.
func (x *Index) walk(ctx context.Context, keys *Keys, visit func(i int, p *page, from, to int) bool) error {
	if !arrow.TypeEqual(keys.typ, x.typ) {
		return fmt.Errorf("keys of type %s for an index over %s: %w", keys.typ, x.typ, errs.ErrInvalid)
	}
	if keys.Len() == 0 || x.rows == 0 {
		return nil
	}
	t, err := x.pages(ctx)
	if err != nil {
		return err
	}
	w := walker{x: x, t: t, keys: keys}
	for i := 0; i < keys.Len(); {
		k := keys.col.key(i)
		w.at = t.firstFrom(w.at, k, false)
		if w.at >= t.count {
			return nil
		}
		if t.beginsAbove(w.at, k, true) {
			i++ // between two pages
			continue
		}
		p, err := w.page(ctx, i)
		if err != nil {
			return err
		}
		for pos := 0; i < keys.Len(); i++ {
			k = keys.col.key(i)
			pos = p.values.lower(pos, k)
			if pos == p.values.len() {
				break // the next page may have it
			}
			end := p.values.upper(pos, k)
			if end > pos && visit(i, p, pos, end) && end == p.values.len() {
				if err := w.follow(ctx, i, visit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// walker is the state of a walk: the page it is at, and the pages read together with it.
type walker struct {
	x     *Index
	t     *pageTable
	keys  *Keys
	at    int
	first int // of group
	group []*page
}

// page returns page at, which key i needs. What the following keys need of its neighbours is read with it.
func (w *walker) page(ctx context.Context, i int) (*page, error) {
	if w.at < w.first || w.at >= w.first+len(w.group) {
		end := w.at + 1
		limit := min(w.t.count, w.at+max(1, groupRows/int(w.t.pageRows)))
		for end < limit {
			// The first key behind the pages so far.
			last := w.t.maxs.key(end - 1 - w.t.nullMaxs)
			i += sort.Search(w.keys.Len()-i, func(j int) bool { return w.keys.col.compare(i+j, last) > 0 })
			if i == w.keys.Len() || w.t.firstFrom(end, w.keys.col.key(i), false) != end || w.t.beginsAbove(end, w.keys.col.key(i), true) {
				break
			}
			end++
		}
		group, err := w.x.load(ctx, w.t, w.at, end)
		if err != nil {
			return nil, err
		}
		w.first, w.group = w.at, group
	}
	return w.group[w.at-w.first], nil
}

// follow visits the rows of key i in the pages behind the one that ends with it.
func (w *walker) follow(ctx context.Context, i int, visit func(i int, p *page, from, to int) bool) error {
	k := w.keys.col.key(i)
	for n := w.at + 1; n < w.t.count && !w.t.beginsAbove(n, k, true); n++ {
		pages, err := w.x.load(ctx, w.t, n, n+1)
		if err != nil {
			return err
		}
		end := pages[0].values.upper(0, k)
		if !visit(i, pages[0], 0, end) || end < pages[0].values.len() {
			return nil
		}
	}
	return nil
}
