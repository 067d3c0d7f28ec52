package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
	"lancesql/memtable"
	"lancesql/wal"
)

// walReplayBytesMax bounds one WAL entry read at replay.
const walReplayBytesMax = 1 << 30

// Open claims the table's shard, fences older writers, replays the WAL and rebuilds the death logs, so that
// everything recovered is visible to every view. Spec: memwal.md §7.5, §8.4.
func Open(ctx context.Context, o Options, root string) (*Table, error) {
	o = o.withDefaults()
	t := &Table{o: o, root: root, alive: make(map[*Version]struct{}), lastCleanup: o.Clock.Now()}
	ds, err := table.Open(ctx, o.Store, root)
	if err != nil {
		return nil, err
	}
	if err := t.bind(ds); err != nil {
		return nil, err
	}
	m, err := t.claim(ctx)
	if err != nil {
		return nil, err
	}
	// Why: the claim fences foreign mergers of the shard, so the base is read after it.
	if ds, err = table.Open(ctx, o.Store, root); err != nil {
		return nil, err
	}
	b, err := t.loadBase(ctx, ds)
	if err != nil {
		return nil, err
	}
	r := &recovery{t: t, v: &Version{base: b, floor: o.Floor}}
	if err := r.generations(ctx, m, ds.MemWAL().MergedUpTo(t.shard.id)); err != nil {
		return nil, err
	}
	if err := r.replay(ctx, m); err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.publishLocked(r.v)
	t.mu.Unlock()
	r.releaseMemTables()
	t.sweepOrphans(ctx, m)
	t.sweepTemp(ctx)
	return t, nil
}

// sweepTemp removes the unfinished objects of a process that died, where the store leaves any.
func (t *Table) sweepTemp(ctx context.Context) {
	st, ok := t.o.Store.(interface {
		SweepTemp(ctx context.Context, dir string) (int, error)
	})
	if !ok {
		return
	}
	for _, dir := range []string{"data", "_versions", "_transactions", "_deletions"} {
		if _, err := st.SweepTemp(ctx, t.root+"/"+dir); err != nil {
			t.o.Log.Warn("sweep unfinished objects", "directory", dir, "error", err)
		}
	}
	for _, dir := range []string{"manifest", "wal"} {
		if _, err := st.SweepTemp(ctx, t.shard.path+"/"+dir); err != nil {
			t.o.Log.Warn("sweep unfinished objects", "directory", dir, "error", err)
		}
	}
}

// bind derives what never changes while the table is open.
func (t *Table) bind(ds *table.Dataset) error {
	var err error
	if ds.MemWAL() == nil {
		return fmt.Errorf("dataset %s has no MemWAL entry: %w", t.root, errs.ErrUnsupported)
	}
	if t.physical, err = ds.Schema().Arrow(); err != nil {
		return err
	}
	if t.keyCols, err = keyColumns(ds.Schema()); err != nil {
		return err
	}
	if t.encoder, err = KeyEncoder(t.physical, t.keyCols); err != nil {
		return err
	}
	t.memSchema = memSchema(t.physical, t.keyCols)
	t.shard = newShardDir(t.o.Store, t.root, unshardedID())
	return nil
}

// claim takes the shard over and leaves a fence sentinel at the tip of its WAL.
func (t *Table) claim(ctx context.Context) (*pb.ShardManifest, error) {
	m, err := t.shard.claim(ctx, specID)
	if err != nil {
		return nil, err
	}
	t.epoch = wal.Epoch(m.WriterEpoch)
	tip := wal.Position(m.ReplayAfterWalEntryPosition)
	tail, err := walTip(ctx, t.o.Store, t.shard.path, tip)
	if err != nil {
		return nil, err
	}
	t.log = wal.Open(t.o.Store, t.shard.path, t.epoch, tail+1, t.shard.epoch)
	if t.epoch >= 2 {
		if _, err := t.log.Fence(ctx); err != nil {
			return nil, fmt.Errorf("write fence sentinel: %w", err)
		}
	}
	return m, nil
}

// walTip returns the greatest position present in the shard's WAL, at least from.
func walTip(ctx context.Context, st objstore.Store, shard string, from wal.Position) (wal.Position, error) {
	tip := from
	err := st.List(ctx, shard+"/wal", func(i objstore.Info) error {
		name, ok := strings.CutSuffix(i.Name[strings.LastIndexByte(i.Name, '/')+1:], ".arrow")
		if p, valid := wal.ParseBitReversed(name); ok && valid {
			tip = max(tip, wal.Position(p))
		}
		return nil
	})
	return tip, err
}

// loadBase indexes the keys of every live base row.
func (t *Table) loadBase(ctx context.Context, ds *table.Dataset) (*base, error) {
	b, err := newBase(ctx, ds, t.physical, &keySpace{Space: t.o.Keys.New()}, NewDeathLog())
	if err != nil {
		return nil, err
	}
	for _, f := range b.frags {
		err := t.eachKey(ctx, ds, f, b.fieldIDs, false, func(first uint64, keys []rowkey.Key, _ *array.Boolean) error {
			return b.index(uint32(f.ID), first, keys)
		})
		if err != nil {
			return nil, fmt.Errorf("index keys of fragment %d: %w", f.ID, err)
		}
	}
	return b, nil
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
// of ids). The column is valid during the call only.
func (t *Table) eachKey(ctx context.Context, ds *table.Dataset, f *table.Fragment, ids []int32, tombstones bool,
	visit func(first uint64, keys []rowkey.Key, tomb *array.Boolean) error) error {
	var want []int32
	var positions []int
	for i, c := range t.keyCols {
		want = append(want, ids[c])
		positions = append(positions, i)
	}
	if tombstones {
		want = append(want, ids[len(ids)-1])
	}
	r, err := ds.ScanFragment(ctx, f, want, 0, f.PhysicalRows, t.o.BatchRows)
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
		err = func() error {
			defer rec.Release()
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
		}()
		if err != nil {
			return err
		}
	}
}

// recovery builds the first Version: flushed generations ascending, then the WAL. Every row found to replace
// an older one is a settled death (sequence 0).
type recovery struct {
	t    *Table
	v    *Version
	mems []*memtable.MemTable
}

func (r *recovery) generations(ctx context.Context, m *pb.ShardManifest, merged uint64) error {
	for _, g := range m.FlushedGenerations {
		if g.Generation <= merged {
			// Why: already in the base; it only waits for its removal (I5).
			r.t.retired = append(r.t.retired, retired{number: g.Generation, dir: g.Path, since: r.t.o.Clock.Now()})
			continue
		}
		gen, err := r.t.openGeneration(ctx, g.Generation, g.Path)
		if err != nil {
			return fmt.Errorf("open generation %d: %w", g.Generation, err)
		}
		r.v.gens = append(r.v.gens, gen)
		if err := r.rebuild(ctx, gen); err != nil {
			return fmt.Errorf("rebuild generation %d: %w", g.Generation, err)
		}
	}
	return nil
}

// openGeneration opens a flushed generation directory. Its key space is still empty.
func (t *Table) openGeneration(ctx context.Context, number uint64, dir string) (*generation, error) {
	ds, err := table.Open(ctx, t.o.Store, t.shard.path+"/"+dir)
	if err != nil {
		return nil, err
	}
	frags := ds.Fragments()
	if len(frags) != 1 || frags[0].ID != 0 {
		return nil, errs.Corrupt(ds.Root(), -1, "a generation has one fragment with id 0, found %d fragments", len(frags))
	}
	gs := &genState{number: number, births: &memtable.Births{}, deaths: NewDeathLog(), keys: t.o.Keys.New(), dir: dir}
	gs.births.Add(0, uint32(frags[0].PhysicalRows))
	return t.attach(gs, ds)
}

// attach is the flushed form of a generation.
func (t *Table) attach(gs *genState, ds *table.Dataset) (*generation, error) {
	ids, err := fieldIDs(ds, t.memSchema)
	if err != nil {
		return nil, err
	}
	return &generation{genState: gs, ds: ds, frag: ds.Fragments()[0], fieldIDs: ids}, nil
}

// rebuild indexes the keys of a flushed generation and records which older rows they replace.
func (r *recovery) rebuild(ctx context.Context, g *generation) error {
	return r.t.eachKey(ctx, g.ds, g.frag, g.fieldIDs, true, func(first uint64, keys []rowkey.Key, tomb *array.Boolean) error {
		return r.absorb(g, uint32(first), keys, func(i int) bool { return tomb.Value(i) }, true)
	})
}

// absorb records the deaths that the rows first, first+1, … of g cause, in row order, and indexes their keys
// if put is set.
func (r *recovery) absorb(g *generation, first uint32, keys []rowkey.Key, tomb func(int) bool, put bool) error {
	inBatch := make(map[rowkey.Key]uint32)
	rows := make([]uint64, len(keys))
	dead := make([]bool, len(keys))
	for i, k := range keys {
		row := first + uint32(i)
		rows[i], dead[i] = uint64(row), tomb(i)
		if prev, ok := inBatch[k]; ok {
			g.deaths.Kill(rowaddr.Addr(prev), 0, g.number)
		} else if err := r.killOlder(g, k, first); err != nil {
			return err
		}
		inBatch[k] = row
	}
	if !put {
		return nil
	}
	return g.keys.Put(keys, rows, dead)
}

// killOlder records the death of the newest row of k before row `below` of g.
func (r *recovery) killOlder(g *generation, k rowkey.Key, below uint32) error {
	row, _, ok, err := g.keys.Newest(k, uint64(below))
	if err != nil {
		return err
	}
	if ok {
		g.deaths.Kill(rowaddr.Addr(row), 0, g.number)
		return nil
	}
	older := &Version{base: r.v.base, gens: r.v.gens[:len(r.v.gens)-1]}
	loc, _, ok, err := older.locate(k, ^uint64(0))
	if err != nil || !ok {
		return err
	}
	older.deaths(loc.Source).Kill(loc.Addr, 0, g.number)
	return nil
}

// replay appends the WAL behind the cursor to MemTables. Spec: memwal.md §8.4.
func (r *recovery) replay(ctx context.Context, m *pb.ShardManifest) error {
	if err := r.newMemTable(max(m.CurrentGeneration, 1)); err != nil {
		return err
	}
	cursor := wal.Position(m.ReplayAfterWalEntryPosition)
	rows := 0
	_, err := wal.Read(ctx, r.t.o.Store, r.t.shard.path, cursor+1, walReplayBytesMax, func(e wal.Entry) error {
		if e.Epoch > r.t.epoch {
			return fmt.Errorf("WAL entry %d has epoch %d, ours is %d: %w", e.Position, e.Epoch, r.t.epoch, errs.ErrFenced)
		}
		if e.Sentinel || len(e.Batches) == 0 {
			return nil
		}
		active := r.v.active()
		if e.Generation != 0 && e.Generation < active.number {
			return nil // Why: its generation is flushed already
		}
		if e.Generation > active.number {
			if err := r.newMemTable(e.Generation); err != nil {
				return err
			}
		}
		for _, rec := range e.Batches {
			if err := r.append(rec); err != nil {
				return fmt.Errorf("replay WAL entry %d: %w", e.Position, err)
			}
			rows += int(rec.NumRows())
		}
		r.v.active().walEnd = e.Position
		return nil
	})
	if err == nil && rows > 0 {
		r.t.o.Log.Info("replayed WAL", "table", r.t.root, "rows", rows)
	}
	return err
}

func (r *recovery) newMemTable(number uint64) error {
	g, err := r.t.newGeneration(number)
	if err != nil {
		return err
	}
	r.mems = append(r.mems, g.mem)
	r.v.gens = append(r.v.gens, g)
	return nil
}

// newGeneration is an empty active generation. The caller owns one reference to its MemTable.
func (t *Table) newGeneration(number uint64) (*generation, error) {
	keys := t.o.Keys.New()
	mem, err := memtable.New(number, t.memSchema, t.keyCols, keys)
	if err != nil {
		return nil, err
	}
	gs := &genState{number: number, births: mem.Births(), deaths: NewDeathLog(), keys: keys}
	return &generation{genState: gs, mem: mem}, nil
}

func (r *recovery) append(rec arrow.RecordBatch) error {
	conf, err := wal.Conform(rec, r.t.memSchema, r.t.keyCols)
	if err != nil {
		return err
	}
	defer conf.Release()
	keys, err := r.t.encoder.Batch(conf, r.t.keyCols)
	if err != nil {
		return err
	}
	tomb, _ := conf.Column(len(r.t.memSchema.Fields()) - 1).(*array.Boolean)
	if tomb == nil {
		return errs.Corrupt(r.t.shard.path, -1, "tombstone column is not boolean")
	}
	g := r.v.active()
	if r.t.o.Planted.SkipReplayedTombstone && tomb.Len() > 0 && tomb.Value(0) {
		return nil
	}
	if err := r.absorb(g, g.mem.Rows(), keys, tomb.Value, false); err != nil {
		return err
	}
	_, err = g.mem.Append(conf, 0)
	return err
}

// releaseMemTables gives up the recovery's own references; the published Version has its own.
func (r *recovery) releaseMemTables() {
	for _, m := range r.mems {
		m.Release()
	}
}

// sweepOrphans removes generation directories of failed flush attempts: no retained manifest names them, and
// no flush of ours or of a fenced writer can still succeed with them.
func (t *Table) sweepOrphans(ctx context.Context, m *pb.ShardManifest) {
	named := make(map[string]bool)
	for _, g := range m.FlushedGenerations {
		named[g.Path] = true
	}
	var orphans []string
	err := t.o.Store.List(ctx, t.shard.path, func(i objstore.Info) error {
		dir := i.Name[strings.LastIndexByte(i.Name, '/')+1:]
		if i.Dir && generationDir(dir) && !named[dir] {
			orphans = append(orphans, i.Name)
		}
		return nil
	})
	for _, dir := range orphans {
		err = errors.Join(err, t.o.Store.RemoveAll(ctx, dir))
	}
	if err != nil {
		t.o.Log.Warn("remove orphan generations", "table", t.root, "error", err)
	}
}

// generationDir reports whether a name has the form {8 hex}_gen_{number}.
func generationDir(s string) bool {
	if len(s) < 14 || s[8:13] != "_gen_" {
		return false
	}
	for _, c := range s[:8] {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	for _, c := range s[13:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// settledDuplicates are the rows of a generation that a newer row of the same generation replaced: its
// deletion vector. Tombstones that are newest stay. Spec: MemWAL, "Flushed MemTable".
func settledDuplicates(g *generation) *roaring.Bitmap {
	bm := roaring.New()
	g.deaths.each(func(a rowaddr.Addr, d death) {
		if d.killer == g.number {
			bm.Add(a.Offset())
		}
	})
	return bm
}
