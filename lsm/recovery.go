package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"lancesql/indexes/pkstore"
	"lancesql/indexes/zonemap"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
	"lancesql/memtable"
	"lancesql/wal"
)

// recovery builds the first Version: for each shard the flushed generations ascending, then the WAL. Every row
// found to replace an older one is a settled death (sequence 0).
type recovery struct {
	t         *Table
	v         *Version
	manifests []*pb.ShardManifest // by shard ordinal
	mems      []*memtable.MemTable
}

// claim takes over every shard that exists, that the journal names, and the one shard of an unsharded table.
func (r *recovery) claim(ctx context.Context) error {
	var want []uuid.UUID
	if r.v.set.sharder.single() {
		want = append(want, unshardedID())
	}
	for _, p := range r.t.o.Journal {
		want = append(want, p.Shard)
	}
	ids, err := shardIDs(ctx, r.t.o.Store, r.t.root, want...)
	if err != nil {
		return err
	}
	if len(ids) > shardsLimit {
		return fmt.Errorf("table has %d shards: %w", len(ids), errs.ErrLimit)
	}
	for id, end := range r.t.o.WALEnds {
		if !slices.Contains(ids, id) {
			return walShort(newShardDir(r.t.o.Store, r.t.root, id).path, 0, end)
		}
	}
	for i, id := range ids {
		sh, m, err := r.t.claim(ctx, id, i, nil)
		if err != nil {
			return err
		}
		r.v.set = r.v.set.with(sh)
		r.v.gens = append(r.v.gens, nil)
		r.manifests = append(r.manifests, m)
	}
	return nil
}

// shard recovers one shard.
func (r *recovery) shard(ctx context.Context, sh *shard, m *pb.ShardManifest, merged uint64) error {
	if err := r.generations(ctx, sh, m, merged); err != nil {
		return err
	}
	if err := r.covered(ctx, sh); err != nil {
		return err
	}
	if err := r.newMemTable(sh, max(m.CurrentGeneration, 1)); err != nil {
		return err
	}
	rows, err := r.replay(ctx, sh, sh.cursor+1)
	if err != nil {
		return replayStopped(err)
	}
	again, err := r.putBack(ctx, sh)
	if err != nil {
		return err
	}
	if rows+again > 0 {
		r.t.o.Log.Info("replayed WAL", "table", r.t.root, "shard", sh.dir.id.String(), "rows", rows, "from journal", again)
	}
	return nil
}

func (r *recovery) generations(ctx context.Context, sh *shard, m *pb.ShardManifest, merged uint64) error {
	for _, g := range m.FlushedGenerations {
		if g.Generation <= merged {
			// Why: already in the base; it only waits for its removal (I5).
			r.t.retired = append(r.t.retired, retired{sh: sh, number: g.Generation, dir: g.Path, since: r.t.o.Clock.Now()})
			continue
		}
		gen, err := r.t.openGeneration(ctx, sh, g.Generation, g.Path)
		if err != nil {
			return fmt.Errorf("open generation %d: %w", g.Generation, err)
		}
		r.v.gens[sh.ordinal] = append(r.v.gens[sh.ordinal], gen)
		if err := r.rebuild(ctx, gen); err != nil {
			return fmt.Errorf("rebuild generation %d: %w", g.Generation, err)
		}
	}
	return nil
}

// covered notes the entries behind the replay cursor that are still there: the evidence for journal records whose
// rows are flushed.
func (r *recovery) covered(ctx context.Context, sh *shard) error {
	return wal.Covered(ctx, r.t.o.Store, sh.dir.path, sh.cursor, walReplayBytesMax, func(e wal.Entry) error {
		if !e.Sentinel {
			sh.present(mark{at: e.Position, journal: e.Journal}, 0)
		}
		return nil
	})
}

// putBack puts the journal's parts that no entry covers into entries of their shard and replays those.
func (r *recovery) putBack(ctx context.Context, sh *shard) (rows int, err error) {
	number := r.v.active(sh.ordinal).number
	for _, p := range r.t.o.Journal {
		if p.Shard == sh.dir.id && p.Journal > sh.evidence {
			sh.behind = append(sh.behind, logged{journal: p.Journal, generation: number, body: p.Body})
			sh.behindBytes += int64(len(p.Body))
		}
	}
	if len(sh.behind) == 0 {
		return 0, nil
	}
	from := sh.log.Next()
	full := r.t.writeBehind(ctx, sh)
	if full != nil && !errors.Is(full, errs.ErrNoSpace) {
		return 0, full
	}
	if rows, err = r.replay(ctx, sh, from); err != nil || full == nil {
		return rows, err
	}
	// Why: on a full disk the rows are readable all the same; they go into entries when there is room again.
	r.t.o.Log.Warn("journal records cannot be written into WAL entries yet", "table", r.t.root, "error", full)
	for _, l := range sh.behind {
		n, err := r.fromJournal(ctx, sh, l)
		if err != nil {
			return rows, err
		}
		rows += n
	}
	return rows, nil
}

// fromJournal replays a part of a journal record that is in no entry.
func (r *recovery) fromJournal(ctx context.Context, sh *shard, l logged) (rows int, err error) {
	data, err := wal.EncodeDraft(r.t.memSchema, sh.epoch, wal.Draft{Generation: l.generation, Journal: l.journal, Bodies: [][]byte{l.body}})
	if err != nil {
		return 0, err
	}
	e, err := wal.DecodeEntry(fmt.Sprintf("journal record %d", l.journal), data)
	if err != nil {
		return 0, err
	}
	defer e.Release()
	for _, rec := range e.Batches {
		if err := r.append(ctx, sh, rec); err != nil {
			return rows, fmt.Errorf("replay journal record %d: %w", l.journal, err)
		}
		rows += int(rec.NumRows())
	}
	return rows, nil
}

// openGeneration opens a flushed generation directory. Its key space is still empty.
func (t *Table) openGeneration(ctx context.Context, sh *shard, number uint64, dir string) (*generation, error) {
	ds, err := table.Open(ctx, t.o.Store, sh.dir.path+"/"+dir)
	if err != nil {
		return nil, err
	}
	frags := ds.Fragments()
	if len(frags) != 1 || frags[0].ID != 0 {
		return nil, errs.Corrupt(ds.Root(), -1, "a generation has one fragment with id 0, found %d fragments", len(frags))
	}
	gs := &genState{
		sh: sh, number: number, id: sourceID(sh.ordinal, number), births: &memtable.Births{}, deaths: NewDeathLog(), dir: dir,
	}
	gs.births.Add(0, uint32(frags[0].PhysicalRows))
	return t.attach(ctx, gs, ds)
}

// attach is the flushed form of a generation, with its keys.
func (t *Table) attach(ctx context.Context, gs *genState, ds *table.Dataset) (*generation, error) {
	g, err := t.flushedForm(gs, ds)
	if err != nil {
		return nil, err
	}
	if g.graves, err = t.tombstones(ctx, ds, g.frag, g.fieldIDs[len(g.fieldIDs)-1]); err != nil {
		return nil, err
	}
	keys, err := t.openKeys(ctx, g)
	if err != nil {
		return nil, err
	}
	g.keys = &genKeysRef{genKeys: keys}
	return g, t.openSecondary(ctx, g)
}

// flushedForm is the flushed form of a generation, without its keys.
func (t *Table) flushedForm(gs *genState, ds *table.Dataset) (*generation, error) {
	ids, err := fieldIDs(ds, t.memSchema)
	if err != nil {
		return nil, err
	}
	return &generation{genState: gs, ds: ds, frag: ds.Fragments()[0], fieldIDs: ids, zones: &generationZones{columns: make(map[int]*zonemap.Segment)}}, nil
}

// rebuild records which rows a flushed generation replaces: its own older ones, which its deletion vector lists, and
// those of older sources, by its keys in order.
func (r *recovery) rebuild(ctx context.Context, g *generation) error {
	dv, err := g.ds.Deletions(ctx, g.frag)
	if err != nil {
		return err
	}
	if dv != nil {
		for _, off := range dv.ToArray() {
			g.deaths.Kill(rowaddr.New(0, off), 0, g.id)
		}
	}
	var keys []rowkey.Key
	err = g.keys.ordered(ctx).Range("", "", func(k rowkey.Key, _ uint64, _ bool) (bool, error) {
		if len(keys) > 0 && keys[len(keys)-1] == k {
			return true, nil
		}
		if len(keys) == rebuildKeys {
			if err := r.killOlder(ctx, g, keys); err != nil {
				return false, err
			}
			keys = keys[:0]
		}
		keys = append(keys, k)
		return true, nil
	})
	if err != nil {
		return err
	}
	return r.killOlder(ctx, g, keys)
}

// killOlder records that g replaces the newest rows of keys in older sources.
func (r *recovery) killOlder(ctx context.Context, g *generation, keys []rowkey.Key) error {
	// Why not the Version's locate: a key of a shard made by hand counts within that shard only.
	own := r.v.gens[g.sh.ordinal]
	out, idx := make([]found, len(keys)), make([]int, len(keys))
	for i := range idx {
		idx[i] = i
	}
	all := func(g *generation) uint64 { return uint64(g.births.At(^uint64(0))) }
	left, err := search(ctx, newestFirst(own[:len(own)-1]), keys, idx, all, out)
	if err != nil {
		return err
	}
	for _, f := range out {
		if f.ok {
			r.v.deaths(f.loc.Source).Kill(f.loc.Addr, 0, g.id)
		}
	}
	rest := make([]rowkey.Key, len(left))
	for n, i := range left {
		rest[n] = keys[i]
	}
	return r.v.base.killKeys(ctx, rest, g.id)
}

// absorb records the deaths that rows first, first+1, … of the active MemTable cause, before they are appended.
func (r *recovery) absorb(ctx context.Context, g *generation, keys []rowkey.Key) error {
	first := g.mem.Rows()
	inBatch := make(map[rowkey.Key]uint32)
	var fresh []rowkey.Key
	for i, k := range keys {
		if prev, ok := inBatch[k]; ok {
			g.deaths.Kill(rowaddr.New(0, prev), 0, g.id)
		} else {
			fresh = append(fresh, k)
		}
		inBatch[k] = first + uint32(i)
	}
	known := make([]bool, len(fresh))
	err := g.keys.newest(ctx, fresh, uint64(first), func(i int, row uint64, _ bool) {
		known[i] = true
		g.deaths.Kill(addrOf(row), 0, g.id)
	})
	if err != nil {
		return err
	}
	var older []rowkey.Key
	for i, k := range fresh {
		if !known[i] {
			older = append(older, k)
		}
	}
	return r.killOlder(ctx, g, older)
}

// replay appends the WAL from a position on to MemTables and returns the number of rows. Spec: memwal.md §8.4.
func (r *recovery) replay(ctx context.Context, sh *shard, from wal.Position) (rows int, err error) {
	_, err = wal.Read(ctx, r.t.o.Store, sh.dir.path, from, walReplayBytesMax, func(e wal.Entry) error {
		if e.Epoch > sh.epoch {
			return fmt.Errorf("WAL entry %d has epoch %d, ours is %d: %w", e.Position, e.Epoch, sh.epoch, errs.ErrFenced)
		}
		if e.Sentinel {
			return nil
		}
		known := slices.ContainsFunc(sh.marks, func(m mark) bool { return m.at == e.Position })
		if len(e.Batches) == 0 || e.Generation != 0 && e.Generation < r.v.active(sh.ordinal).number {
			// Why skipped: its generation is flushed already.
			if !known {
				sh.present(mark{at: e.Position, journal: e.Journal}, 0)
			}
			return nil
		}
		if e.Generation > r.v.active(sh.ordinal).number {
			if err := r.newMemTable(sh, e.Generation); err != nil {
				return err
			}
		}
		for _, rec := range e.Batches {
			if err := r.append(ctx, sh, rec); err != nil {
				return fmt.Errorf("replay WAL entry %d: %w", e.Position, err)
			}
			rows += int(rec.NumRows())
			sh.unflushed += arrowx.Bytes(rec)
		}
		number := r.v.active(sh.ordinal).number
		if known {
			sh.ends[number] = e.Position
		} else {
			sh.present(mark{at: e.Position, journal: e.Journal}, number)
		}
		return nil
	})
	return rows, err
}

func (r *recovery) newMemTable(sh *shard, number uint64) error {
	g, err := r.t.newGeneration(sh, number)
	if err != nil {
		return err
	}
	r.mems = append(r.mems, g.mem)
	r.v.gens[sh.ordinal] = append(r.v.gens[sh.ordinal], g)
	return nil
}

// newGeneration is an empty active generation. The caller owns one reference to its MemTable.
func (t *Table) newGeneration(sh *shard, number uint64) (*generation, error) {
	if number >= 1<<generationBits {
		return nil, errs.Corrupt(sh.dir.path, -1, "generation %d", number)
	}
	var space *pkstore.Space
	if !t.keyless() {
		space = t.o.Keys.New()
	}
	mem, err := memtable.New(number, t.memSchema, t.keyCols, space)
	if err != nil {
		return nil, err
	}
	var keys genKeys = noKeys{}
	if !t.keyless() {
		keys = memKeys{space: space, filter: mem.Filter()}
	}
	gs := &genState{sh: sh, number: number, id: sourceID(sh.ordinal, number), births: mem.Births(), deaths: NewDeathLog()}
	g := &generation{genState: gs, keys: &genKeysRef{genKeys: keys}, mem: mem}
	for range t.o.Indexes {
		g.secondary = append(g.secondary, &genKeysRef{genKeys: memKeys{space: t.o.Keys.New()}})
	}
	return g, nil
}

func (r *recovery) append(ctx context.Context, sh *shard, rec arrow.RecordBatch) error {
	conf, err := wal.Conform(rec, r.t.memSchema, r.t.keyCols)
	if err != nil {
		return err
	}
	defer conf.Release()
	keys, err := r.t.keysOf(conf)
	if err != nil {
		return err
	}
	tomb, _ := conf.Column(len(r.t.memSchema.Fields()) - 1).(*array.Boolean)
	if tomb == nil {
		return errs.Corrupt(sh.dir.path, -1, "tombstone column is not boolean")
	}
	g := r.v.active(sh.ordinal)
	if r.t.o.Planted.SkipReplayedTombstone && tomb.Len() > 0 && tomb.Value(0) {
		return nil
	}
	if err := r.absorb(ctx, g, keys); err != nil {
		return err
	}
	first, err := g.mem.Append(conf, 0)
	if err != nil {
		return err
	}
	return r.t.indexRows(g, conf, first)
}

// releaseMemTables gives up the recovery's own references; the published Version has its own.
func (r *recovery) releaseMemTables() {
	for _, m := range r.mems {
		m.Release()
	}
}

// settledDuplicates are the rows of a generation that a newer row of the same generation replaced: its
// deletion vector. Tombstones that are newest stay. Spec: MemWAL, "Flushed MemTable".
func settledDuplicates(g *generation) *roaring.Bitmap {
	bm := roaring.New()
	g.deaths.each(func(a rowaddr.Addr, d death) {
		if d.killer == g.id {
			bm.Add(a.Offset())
		}
	})
	return bm
}
