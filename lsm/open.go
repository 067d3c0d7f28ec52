package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
	"lancesql/lance/table"
	"lancesql/wal"
)

// walReplayBytesMax bounds one WAL entry read at replay.
const walReplayBytesMax = 1 << 30

// rebuildKeys is how many keys of a generation are looked up at a time when its deaths are rebuilt.
const rebuildKeys = 8192

// Open claims the table's shards, fences older writers, replays the WAL and rebuilds the death logs, so that
// everything recovered is visible to every view. What Options.Journal has and no entry of its shard covers is put
// into entries first. Spec: memwal.md §7.5, §8.4.
func Open(ctx context.Context, o Options, root string) (*Table, error) {
	ctx = objstore.Unheld(ctx) // as for claims: it adds the records of the journal to the WAL
	o.Store = objstore.Metered(o.Store)
	t := &Table{root: root, alive: make(map[*Version]struct{})}
	ds, err := openMemWAL(ctx, o.Store, o.Clock, root)
	if err != nil {
		return nil, err
	}
	t.o = o.under(ds.MemWAL().WriterDefaults).withDefaults()
	t.lastCleanup = t.o.Clock.Now()
	sharder, err := t.bind(ds)
	if err != nil {
		return nil, err
	}
	r := &recovery{t: t, v: &Version{set: &shardSet{sharder: sharder}, floor: o.Floor}}
	if err := r.claim(ctx); err != nil {
		return nil, err
	}
	// Why: the claims fence foreign mergers of the shards, so the base is read after them.
	if ds, err = openMemWAL(ctx, o.Store, o.Clock, root); err != nil {
		return nil, err
	}
	if r.v.base, err = t.loadBase(ctx, ds); err != nil {
		return nil, err
	}
	for i, sh := range r.v.set.list {
		if err := r.shard(ctx, sh, r.manifests[i], ds.MemWAL().MergedUpTo(sh.dir.id)); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	t.publishLocked(r.v)
	t.mu.Unlock()
	r.releaseMemTables()
	for i, sh := range r.v.set.list {
		t.sweepOrphans(ctx, sh, r.manifests[i])
	}
	t.sweepTemp(ctx, r.v.set)
	// An overwrite while nobody served the table is taken in as one while somebody does.
	if _, err := t.Adopt(ctx, Hooks{Advance: func() uint64 { return o.Floor }}); err != nil {
		return nil, errors.Join(err, t.Close(ctx))
	}
	return t, nil
}

// openMemWAL opens the newest version of a dataset that has a MemWAL entry: the newest there is, unless another writer
// overwrote the table, which drops the entry. errs.ErrUnsupported if there is none.
func openMemWAL(ctx context.Context, st objstore.Store, c clock.Clock, root string) (*table.Dataset, error) {
	ds, err := table.OpenWith(ctx, st, root, table.Options{Clock: c})
	if err != nil || ds.MemWAL() != nil {
		return ds, err
	}
	list, err := ds.Versions(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Backward(list) {
		old, err := ds.At(ctx, v.Version)
		if errors.Is(err, errs.ErrNotFound) {
			continue // cleaned up meanwhile
		}
		if err != nil || old.MemWAL() != nil {
			return old, err
		}
	}
	return nil, fmt.Errorf("dataset %s has no MemWAL entry: %w", root, errs.ErrUnsupported)
}

// bind derives what never changes while the table is open.
func (t *Table) bind(ds *table.Dataset) (*sharder, error) {
	return t.bindTo(ds.Schema(), ds.MemWAL())
}

func (t *Table) bindTo(s *schema.Schema, m *table.MemWAL) (*sharder, error) {
	var err error
	if t.physical, err = s.Arrow(); err != nil {
		return nil, err
	}
	if t.keyCols, err = keyColumns(s); err != nil {
		return nil, err
	}
	if t.encoder, err = KeyEncoder(t.physical, t.keyCols); err != nil {
		return nil, err
	}
	for _, d := range t.o.Indexes {
		if d.Column < 0 || d.Column >= t.physical.NumFields() {
			return nil, fmt.Errorf("index %s on column %d of %d: %w", d.Name, d.Column, t.physical.NumFields(), errs.ErrInvalid)
		}
		enc, err := KeyEncoder(t.physical, []int{d.Column})
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", d.Name, err)
		}
		t.indexed = append(t.indexed, enc)
	}
	t.memSchema = memSchema(t.physical, t.keyCols)
	if t.bodies, err = wal.NewBodyEncoder(t.memSchema); err != nil {
		return nil, err
	}
	return newSharder(m, s, t.physical, t.keyCols, t.encoder)
}

// loadBase opens the base and reads the keys of the fragments that its primary index does not cover.
func (t *Table) loadBase(ctx context.Context, ds *table.Dataset) (*base, error) {
	b, err := t.openBase(ctx, ds, nil, nil)
	if err != nil {
		return nil, err
	}
	return b, t.readKeys(ctx, b, func(uint32) bool { return true })
}

// readKeys puts the keys of those wanted fragments into memory that the primary index of b does not cover.
func (t *Table) readKeys(ctx context.Context, b *base, wanted func(id uint32) bool) error {
	for _, f := range b.frags {
		id := uint32(f.ID)
		if b.pk.covered.Contains(id) || !wanted(id) {
			continue
		}
		err := t.eachKey(ctx, b.ds, f, b.fieldIDs, false, func(first uint64, keys []rowkey.Key, _ *array.Boolean) error {
			return b.index(id, first, keys)
		})
		if err != nil {
			return fmt.Errorf("index keys of fragment %d: %w", f.ID, err)
		}
	}
	return nil
}

// index adds the live rows among keys, which lie at first, first+1, … of the fragment.
func (b *base) index(frag uint32, first uint64, keys []rowkey.Key) error {
	dv := b.deleted[frag]
	live := make([]rowkey.Key, 0, len(keys))
	rows := make([]uint64, 0, len(keys))
	for i, k := range keys {
		off := uint32(first) + uint32(i)
		if dv != nil && dv.Contains(off) {
			continue
		}
		live = append(live, k)
		rows = append(rows, uint64(rowaddr.New(frag, off)))
	}
	return b.keys.Put(live, rows, nil)
}

// eachKey visits the keys of a fragment in row order, with the tombstone column if asked for (then the last
// of ids). The column is valid during the call only. A table without a key has nothing to visit.
func (t *Table) eachKey(ctx context.Context, ds *table.Dataset, f *table.Fragment, ids []int32, tombstones bool,
	visit func(first uint64, keys []rowkey.Key, tomb *array.Boolean) error) error {
	if t.keyless() {
		return nil
	}
	var want []int32
	var positions []int
	for i, c := range t.keyCols {
		want = append(want, ids[c])
		positions = append(positions, i)
	}
	if tombstones {
		want = append(want, ids[len(ids)-1])
	}
	return eachBatch(ctx, ds, f, want, t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
		keys, err := t.encoder.Batch(rec, positions)
		if err != nil {
			return err
		}
		var tomb *array.Boolean
		if tombstones {
			tomb, _ = rec.Column(len(want) - 1).(*array.Boolean)
			if tomb == nil {
				return errs.Corrupt(ds.Root(), -1, "tombstone column is not boolean")
			}
		}
		return visit(first, keys, tomb)
	})
}

// eachBatch visits the physical rows of a fragment in order; rec is valid during the call.
func eachBatch(ctx context.Context, ds *table.Dataset, f *table.Fragment, ids []int32, batchRows int,
	visit func(first uint64, rec arrow.RecordBatch) error) error {
	r, err := ds.ScanFragment(ctx, f, ids, 0, f.PhysicalRows, batchRows)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		first, rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = visit(first, rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}
