package lsm

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// indexRows adds rows first, first+1, … of a MemTable to its secondary indexes. Tombstones have no values.
func (t *Table) indexRows(g *generation, rec arrow.RecordBatch, first uint32) error {
	if len(g.secondary) == 0 {
		return nil
	}
	tomb, ok := rec.Column(int(rec.NumCols()) - 1).(*array.Boolean)
	if !ok {
		return errs.Corrupt(g.sh.dir.path, -1, "tombstone column is not boolean")
	}
	for i, d := range t.o.Indexes {
		all, err := t.indexed[i].Batch(rec, []int{d.Column})
		if err != nil {
			return fmt.Errorf("index %s: %w", d.Name, err)
		}
		keys, rows := make([]rowkey.Key, 0, len(all)), make([]uint64, 0, len(all))
		for r, k := range all {
			if !tomb.Value(r) {
				keys, rows = append(keys, k), append(rows, uint64(first)+uint64(r))
			}
		}
		space := g.secondary[i].genKeys.(memKeys).space
		if err := space.Put(keys, rows, nil); err != nil {
			return fmt.Errorf("index %s: %w", d.Name, err)
		}
	}
	return nil
}

// fileIndex is a secondary index of a flushed generation.
type fileIndex struct{ x *btree.Index }

// newest is not asked of a secondary index.
func (f fileIndex) newest(context.Context, []rowkey.Key, uint64, func(int, uint64, bool)) error {
	return fmt.Errorf("newest row by a secondary index: %w", errs.ErrUnsupported)
}

func (f fileIndex) ordered(ctx context.Context) keyRanger { return indexFileRange{ctx: ctx, x: f.x} }

func (f fileIndex) close() error { return f.x.Close() }

// indexFileRange is a BTREE as a source of ordered values.
type indexFileRange struct {
	ctx context.Context //nolint:containedctx // of one step of a scan
	x   *btree.Index
}

// Range implements keyRanger.
func (r indexFileRange) Range(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	return r.x.Tuples(r.ctx, false, lo, hi, func(k rowkey.Key, id uint64) (bool, error) { return visit(k, id, false) })
}

// Backward implements keyRanger.
func (r indexFileRange) Backward(lo, hi rowkey.Key, visit func(k rowkey.Key, row uint64, tombstone bool) (bool, error)) error {
	return r.x.TuplesBackward(r.ctx, false, lo, hi, func(k rowkey.Key, id uint64) (bool, error) { return visit(k, id, false) })
}

// openSecondary opens the secondary indexes of a flushed generation. One that it lacks, because the index is younger or
// another writer flushed it, is made in memory from its column.
func (t *Table) openSecondary(ctx context.Context, g *generation) error {
	if len(t.o.Indexes) == 0 {
		return nil
	}
	entries, err := g.ds.Indexes()
	if err != nil {
		return err
	}
	for i, d := range t.o.Indexes {
		var keys genKeys
		for _, e := range entries {
			info, known := indexes.KindOf(e.DetailsType)
			if !known || info.Kind != indexes.BTree || !info.Readable(e.Version) || !slices.Equal(e.Fields, []int32{g.fieldIDs[d.Column]}) {
				continue
			}
			x, err := btree.Open(ctx, store.NewDir(t.o.Store, indexes.SegmentDir(g.ds.Root(), e.UUID), t.o.Alloc), btree.OpenOptions{Cache: t.o.Pages})
			if err != nil {
				t.o.Log.Warn("index of a generation cannot be used", "generation", g.ds.Root(), "index", d.Name, "error", err)
				continue
			}
			keys = fileIndex{x}
			break
		}
		if keys == nil {
			if keys, err = t.columnInMemory(ctx, g, i); err != nil {
				return err
			}
		}
		g.secondary = append(g.secondary, &genKeysRef{genKeys: keys})
	}
	return nil
}

func (t *Table) columnInMemory(ctx context.Context, g *generation, i int) (genKeys, error) {
	space := t.o.Keys.New()
	return memKeys{space: space}, eachBatch(ctx, g.ds, g.frag, []int32{g.fieldIDs[t.o.Indexes[i].Column]}, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
		keys, err := t.indexed[i].Batch(rec, []int{0})
		if err != nil {
			return err
		}
		rows := make([]uint64, len(keys))
		for r := range rows {
			rows[r] = first + uint64(r)
		}
		return space.Put(keys, rows, nil)
	})
}

// uncovered is the base fragments that an index has no segment for.
func (ci *columnIndex) uncovered(b *base) *roaring.Bitmap {
	out := roaring.New()
	for _, f := range b.frags {
		if !ci.covered.Contains(uint32(f.ID)) {
			out.Add(uint32(f.ID))
		}
	}
	return out
}
