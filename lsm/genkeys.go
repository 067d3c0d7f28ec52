package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/btree"
	"lancesql/indexes/pkstore"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/table"
)

// genKeys finds rows of one generation by key: in memory, or in the sidecar of a flushed one.
type genKeys interface {
	// newest visits the keys that have a row below below, with the greatest such row, in any order.
	newest(ctx context.Context, keys []rowkey.Key, below uint64, visit func(i int, row uint64, tombstone bool)) error
	// ordered is the keys in order, the rows of a key descending.
	ordered(ctx context.Context) keyRanger
	close() error
}

// genKeysRef counts the Versions that use a genKeys; guarded by Table.mu.
type genKeysRef struct {
	genKeys
	refs int
}

// eachKeys visits the key sources of a generation, the primary one first.
func (g *generation) eachKeys(visit func(*genKeysRef)) {
	visit(g.keys)
	for _, k := range g.secondary {
		visit(k)
	}
}

// memKeys are keys in a key space. filter, if set, holds all of them.
type memKeys struct {
	space  *pkstore.Space
	filter *pkstore.Filter
}

func (m memKeys) newest(_ context.Context, keys []rowkey.Key, below uint64, visit func(i int, row uint64, tombstone bool)) error {
	if keys, visit = filtered(m.filter, keys, visit); len(keys) == 0 {
		return nil
	}
	if len(keys) == 1 {
		row, tombstone, ok, err := m.space.Newest(keys[0], below)
		if ok {
			visit(0, row, tombstone)
		}
		return err
	}
	return m.space.NewestOf(keys, below, func(i int, h pkstore.Hit) error {
		visit(i, h.Row, h.Tombstone)
		return nil
	})
}

func (m memKeys) ordered(context.Context) keyRanger { return m.space }

func (m memKeys) close() error { return m.space.Drop() }

// filtered leaves out the keys that a filter says are not there; visit of the result gets the places in keys.
func filtered(f *pkstore.Filter, keys []rowkey.Key, visit func(i int, row uint64, tombstone bool)) ([]rowkey.Key, func(i int, row uint64, tombstone bool)) {
	if f == nil {
		return keys, visit
	}
	if len(keys) == 1 {
		if f.MayHold(keys[0]) {
			return keys, visit
		}
		return nil, visit
	}
	var some []rowkey.Key
	var places []int
	for i, k := range keys {
		if f.MayHold(k) {
			some, places = append(some, k), append(places, i)
		}
	}
	if len(some) == len(keys) {
		return keys, visit
	}
	return some, func(i int, row uint64, tombstone bool) { visit(places[i], row, tombstone) }
}

// fileKeys are keys in a `_pk_index`.
type fileKeys struct {
	filter     *pkstore.Filter
	pk         *btree.PK
	typ        arrow.DataType
	composite  bool
	tombstones *roaring.Bitmap
}

func (f *fileKeys) newest(ctx context.Context, keys []rowkey.Key, below uint64, visit func(i int, row uint64, tombstone bool)) error {
	if keys, visit = filtered(f.filter, keys, visit); len(keys) == 0 {
		return nil
	}
	sorted, err := btree.KeysOfTuples(f.typ, f.composite, keys)
	if err != nil {
		return err
	}
	hits, err := f.pk.Last(ctx, sorted, below, nil)
	for _, h := range hits {
		visit(int(h.Row), h.ID, f.tombstones.Contains(uint32(h.ID)))
	}
	return err
}

func (f *fileKeys) ordered(ctx context.Context) keyRanger { return fileRange{ctx: ctx, f: f} }

func (f *fileKeys) close() error { return f.pk.Close() }

// fileRange is a sidecar as a source of ordered keys.
type fileRange struct {
	ctx context.Context //nolint:containedctx // of one step of a scan
	f   *fileKeys
}

// Range implements keyRanger.
func (r fileRange) Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	return r.f.pk.Index().Tuples(r.ctx, r.f.composite, lo, hi, func(k rowkey.Key, id uint64) (bool, error) {
		return visit(k, id, r.f.tombstones.Contains(uint32(id)))
	})
}

// Backward implements keyRanger.
func (r fileRange) Backward(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	return r.f.pk.Index().TuplesBackward(r.ctx, r.f.composite, lo, hi, func(k rowkey.Key, id uint64) (bool, error) {
		return visit(k, id, r.f.tombstones.Contains(uint32(id)))
	})
}

// openKeys opens the sidecar of a flushed generation; one without it, or with a damaged one, has its keys read into
// memory.
func (t *Table) openKeys(ctx context.Context, g *generation) (genKeys, error) {
	if t.keyless() {
		return noKeys{}, nil
	}
	ds, frag, ids := g.ds, g.frag, g.fieldIDs
	typ, err := t.pkType()
	if err != nil {
		return nil, err
	}
	pk, err := btree.OpenPK(ctx, store.NewDir(t.o.Store, ds.Root()+"/"+btree.PKDir, t.o.Alloc), typ, frag.PhysicalRows, t.o.Pages)
	switch {
	case err == nil:
		f := &fileKeys{pk: pk, typ: typ, composite: len(t.keyCols) > 1, tombstones: g.graves}
		return f, f.fillFilter(ctx, frag.PhysicalRows)
	case errors.Is(err, errs.ErrCorruption):
		t.o.Log.Warn("primary key sidecar cannot be used", "generation", ds.Root(), "error", err)
	case !errors.Is(err, errs.ErrNotFound):
		return nil, err
	}
	space := t.o.Keys.New()
	err = t.eachKey(ctx, ds, frag, ids, true, func(first uint64, keys []rowkey.Key, tomb *array.Boolean) error {
		rows, dead := make([]uint64, len(keys)), make([]bool, len(keys))
		for i := range keys {
			rows[i], dead[i] = first+uint64(i), tomb.Value(i)
		}
		return space.Put(keys, rows, dead)
	})
	if err != nil {
		return nil, errors.Join(err, space.Drop())
	}
	return memKeys{space: space}, nil
}

// fillFilter makes the filter of a generation's keys, which costs a pass over its sidecar.
func (f *fileKeys) fillFilter(ctx context.Context, rows uint64) error {
	filter := pkstore.NewFilter(int(rows))
	err := f.ordered(ctx).Range("", "", func(k rowkey.Key, _ uint64, _ bool) (bool, error) {
		filter.Add(k)
		return true, nil
	})
	f.filter = filter
	return err
}

// tombstone reports whether a row of a flushed generation is a delete row.
func (g *generation) tombstone(row uint64) bool {
	return g.graves != nil && g.graves.Contains(uint32(row))
}

// tombstones reads which rows of a generation are delete rows.
func (t *Table) tombstones(ctx context.Context, ds *table.Dataset, f *table.Fragment, id int32) (*roaring.Bitmap, error) {
	out := roaring.New()
	return out, eachBatch(ctx, ds, f, []int32{id}, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
		tomb, ok := rec.Column(0).(*array.Boolean)
		if !ok {
			return errs.Corrupt(ds.Root(), -1, "tombstone column is not boolean")
		}
		for i := range tomb.Len() {
			if tomb.Value(i) {
				out.Add(uint32(first) + uint32(i))
			}
		}
		return nil
	})
}

// search finds rows by key in the generations of one shard, in the order given: the first hit decides. below bounds
// the rows of each generation. It fills out for those of idx, positions in keys, and returns the others.
func search(ctx context.Context, gens []*generation, keys []rowkey.Key, idx []int, below func(*generation) uint64, out []found) (left []int, err error) {
	left = idx
	for _, g := range gens {
		limit := below(g)
		if limit == 0 || len(left) == 0 {
			continue
		}
		some := keys
		if len(left) < len(keys) {
			some = make([]rowkey.Key, len(left))
			for n, i := range left {
				some[n] = keys[i]
			}
		}
		hits := 0
		err := g.keys.newest(ctx, some, limit, func(n int, row uint64, tombstone bool) {
			out[left[n]] = found{loc: Location{Source: g.id, Addr: addrOf(row)}, ok: true, tombstone: tombstone}
			hits++
		})
		if err != nil {
			return nil, fmt.Errorf("look up keys in generation %d: %w", g.number, err)
		}
		if hits > 0 {
			left = without(left, out)
		}
	}
	return left, nil
}

// without returns the positions whose key is not found yet.
func without(idx []int, out []found) []int {
	var left []int
	for _, i := range idx {
		if !out[i].ok {
			left = append(left, i)
		}
	}
	return left
}
