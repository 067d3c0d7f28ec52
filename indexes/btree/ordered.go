package btree

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// Tuples visits the rows of an index over a primary key whose tuples are in [lo, hi), by ascending key and, within a key,
// by descending id; an empty bound is open, and bounds need not be whole tuples. composite is that of KeysOfTuples. visit
// returns false to end. NULLs are not visited. errs.ErrInvalid for a type that tuples cannot have.
func (x *Index) Tuples(ctx context.Context, composite bool, lo, hi rowkey.Key, visit func(k rowkey.Key, id uint64) (bool, error)) error {
	if composite && x.typ.ID() != arrow.BINARY || !composite && !rowkey.Encodable(x.typ) {
		return fmt.Errorf("tuples of an index over %s: %w", x.typ, errs.ErrInvalid)
	}
	if x.rows == 0 {
		return nil
	}
	t, err := x.pages(ctx)
	if err != nil {
		return err
	}
	w := tupleWalk{wide: t.maxs.wide, composite: composite, boolean: x.typ.ID() == arrow.BOOL, hi: hi, visit: visit}
	first := t.nullMaxs + sort.Search(t.count-t.nullMaxs, func(i int) bool { return w.tuple(nil, t.maxs.key(i)) >= lo })
	for p := first; p < t.count && !w.done; p++ {
		pages, err := x.load(ctx, t, p, p+1)
		if err != nil {
			return err
		}
		from := 0
		if p == first {
			from = sort.Search(pages[0].values.len(), func(i int) bool { return w.tuple(nil, pages[0].values.key(i)) >= lo })
		}
		if err := w.page(pages[0], from); err != nil {
			return err
		}
	}
	return w.flush()
}

// TuplesBackward is Tuples by descending key.
func (x *Index) TuplesBackward(ctx context.Context, composite bool, lo, hi rowkey.Key, visit func(k rowkey.Key, id uint64) (bool, error)) error {
	if composite && x.typ.ID() != arrow.BINARY || !composite && !rowkey.Encodable(x.typ) {
		return fmt.Errorf("tuples of an index over %s: %w", x.typ, errs.ErrInvalid)
	}
	if x.rows == 0 {
		return nil
	}
	t, err := x.pages(ctx)
	if err != nil {
		return err
	}
	w := tupleWalk{wide: t.maxs.wide, composite: composite, boolean: x.typ.ID() == arrow.BOOL, lo: lo, visit: visit}
	last := t.count - 1
	if hi != "" { // the first page that has a tuple at or above hi may have some below
		last = min(last, t.nullMaxs+sort.Search(t.count-t.nullMaxs, func(i int) bool { return w.tuple(nil, t.maxs.key(i)) >= hi }))
	}
	for p := last; p >= t.nullMaxs && !w.done; p-- {
		pages, err := x.load(ctx, t, p, p+1)
		if err != nil {
			return err
		}
		to := pages[0].values.len()
		if p == last && hi != "" {
			to = sort.Search(to, func(i int) bool { return w.tuple(nil, pages[0].values.key(i)) >= hi })
		}
		if err := w.pageBackward(pages[0], to); err != nil {
			return err
		}
	}
	return w.flush()
}

// tupleWalk collects the ids of one key at a time.
type tupleWalk struct {
	wide, composite, boolean bool
	lo, hi                   rowkey.Key // of those only the one the walk goes towards
	visit                    func(rowkey.Key, uint64) (bool, error)

	key  rowkey.Key
	ids  []uint64 // of key
	done bool
	buf  []byte
}

// tuple is the tuple encoding of a value.
func (w *tupleWalk) tuple(buf []byte, k key) rowkey.Key {
	switch {
	case w.composite:
		return rowkey.Key(k.wide)
	case w.wide:
		return rowkey.Key(rowkey.AppendBytes(buf[:0], k.wide))
	case w.boolean:
		return rowkey.Key(rowkey.AppendBool(buf[:0], k.fixed != 0))
	}
	return rowkey.Key(binary.BigEndian.AppendUint64(append(buf[:0], 1), k.fixed))
}

func (w *tupleWalk) page(p *page, from int) error {
	for i := from; i < p.values.len(); i++ {
		k := w.tuple(w.buf, p.values.key(i))
		if k != w.key || len(w.ids) == 0 {
			if err := w.flush(); err != nil || w.done {
				return err
			}
			if w.hi != "" && k >= w.hi {
				w.done = true
				return nil
			}
			w.key = k
		}
		w.ids = append(w.ids, p.ids[p.nulls+i])
	}
	return nil
}

// pageBackward walks over the values before to.
func (w *tupleWalk) pageBackward(p *page, to int) error {
	for i := to - 1; i >= 0; i-- {
		k := w.tuple(w.buf, p.values.key(i))
		if k != w.key || len(w.ids) == 0 {
			if err := w.flush(); err != nil || w.done {
				return err
			}
			if k < w.lo {
				w.done = true
				return nil
			}
			w.key = k
		}
		w.ids = append(w.ids, p.ids[p.nulls+i])
	}
	return nil
}

// flush visits the rows of the key collected last.
func (w *tupleWalk) flush() error {
	slices.Sort(w.ids)
	for _, id := range slices.Backward(w.ids) {
		more, err := w.visit(w.key, id)
		if err != nil || !more {
			w.done, w.ids = true, w.ids[:0]
			return err
		}
	}
	w.ids = w.ids[:0]
	return nil
}
