package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/indexes/zonemap"
	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
	"lancesql/lance/table"
	"lancesql/wal"
)

// FreezeIfFull rotates the active MemTables that have reached a threshold.
func (t *Table) FreezeIfFull() error {
	v, err := t.newest()
	if err != nil {
		return nil //nolint:nilerr // a closed table has nothing to freeze
	}
	var full []int
	for o := range v.gens {
		mem := v.active(o).mem
		t.mu.Lock()
		logged := v.set.list[o].unflushed
		t.mu.Unlock()
		if int64(mem.Rows()) >= t.o.MemTableRows || mem.Bytes() >= t.o.MemTableBytes || logged >= t.o.UnflushedWAL {
			full = append(full, o)
		}
	}
	t.release(v)
	if len(full) == 0 {
		return nil
	}
	return t.freeze(func(o int) bool { return slices.Contains(full, o) })
}

// Freeze makes the active MemTables immutable and puts empty ones in their place; an empty one stays. It waits
// for the commits in flight, so that a WAL entry never spans two generations.
func (t *Table) Freeze() error { return t.freeze(func(int) bool { return true }) }

func (t *Table) freeze(which func(shard int) bool) error {
	t.latch.Lock()
	defer t.latch.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
	}
	cur := t.chain[len(t.chain)-1]
	v := cur
	for o, sh := range cur.set.list {
		old := cur.active(o)
		if !which(o) || old.mem.Rows() == 0 {
			continue
		}
		next, err := t.newGeneration(sh, old.number+1)
		if err != nil {
			return err
		}
		defer next.mem.Release() // the Version holds its own reference
		sh.unflushed = 0
		v = v.replaced(o, append(slices.Clone(cur.gens[o]), next))
	}
	if v != cur {
		t.publishLocked(v)
	}
	return nil
}

// Flush writes every frozen MemTable as a generation, oldest first within a shard (I5), shards in parallel. On error
// nothing is lost: the rows stay in the MemTable, in the journal and in the WAL, and a later Flush starts over in a
// new directory.
func (t *Table) Flush(ctx context.Context) error {
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	v, err := t.newest()
	if err != nil {
		return err
	}
	list := v.set.list
	t.release(v)
	return eachShard(list, func(sh *shard) error { return t.flushShard(ctx, sh) })
}

func (t *Table) flushShard(ctx context.Context, sh *shard) error {
	for {
		v, err := t.newest()
		if err != nil {
			return err
		}
		var g *generation
		for _, c := range v.gens[sh.ordinal][:len(v.gens[sh.ordinal])-1] {
			if c.mem != nil {
				g = c
				break
			}
		}
		if g == nil {
			t.release(v)
			return nil
		}
		err = t.flushOne(ctx, g)
		t.release(v)
		if err != nil {
			return fmt.Errorf("flush generation %d: %w", g.number, err)
		}
	}
}

// flushOne writes one generation and commits it to the shard manifest. Spec: memwal.md §10.
func (t *Table) flushOne(ctx context.Context, g *generation) error {
	sh := g.sh
	// Why first: the replay cursor may pass the generation's rows only when they are all in entries.
	if err := t.writeBehind(ctx, sh); err != nil {
		return err
	}
	t.mu.Lock()
	end := sh.ends[g.number]
	t.mu.Unlock()
	dir := fmt.Sprintf("%08x_gen_%d", t.o.Random(), g.number)
	ds, keyBytes, zones, err := t.writeGeneration(ctx, g, sh.dir.path+"/"+dir)
	if err != nil {
		t.discard(ctx, sh.dir.path+"/"+dir)
		return err
	}
	flushed, err := t.attach(ctx, g.genState, ds)
	if err != nil {
		return err
	}
	flushed.zones.columns = zones
	recorded := ""
	m, err := sh.dir.update(ctx, uint64(sh.epoch), func(m *pb.ShardManifest) error {
		for _, have := range m.FlushedGenerations {
			if have.Generation == g.number {
				recorded = have.Path
				return errRecorded
			}
			if have.Generation > g.number {
				return fmt.Errorf("generation %d is recorded already: %w", have.Generation, errs.ErrConflict)
			}
		}
		bytes, rows := uint64(g.mem.Bytes()), uint64(g.mem.Rows())
		next := &pb.FlushedGeneration{Generation: g.number, Path: dir, InMemoryBytes: &bytes, PhysicalRows: &rows}
		if !t.keyless() {
			next.PrimaryKeyBytes = &keyBytes
		}
		m.FlushedGenerations = append(m.FlushedGenerations, next)
		m.ReplayAfterWalEntryPosition = max(m.ReplayAfterWalEntryPosition, uint64(end))
		m.WalEntryPositionLastSeen = max(m.WalEntryPositionLastSeen, uint64(sh.log.Next()-1))
		m.CurrentGeneration = g.number + 1
		return nil
	})
	if errors.Is(err, errRecorded) {
		// Why believed: the shard is ours, so an earlier attempt wrote it and was told otherwise.
		t.discard(ctx, sh.dir.path+"/"+dir)
		dir = recorded
		flushed, m, err = t.recorded(ctx, g, dir)
	}
	if err != nil {
		return err
	}
	// Durable: the generation is live and the WAL up to its end is garbage.
	t.mu.Lock()
	sh.cursor = wal.Position(m.ReplayAfterWalEntryPosition)
	delete(sh.ends, g.number)
	t.mu.Unlock()
	t.publishFlushed(flushed, dir)
	if err := t.removeWAL(ctx, sh, 0); err != nil {
		t.o.Log.Warn("remove flushed WAL entries", "table", t.root, "error", err)
	}
	return nil
}

// errRecorded says that a generation is in its shard's manifest already.
var errRecorded = errors.New("generation is recorded already")

// recorded opens a generation that an earlier attempt flushed, with the newest manifest of its shard.
func (t *Table) recorded(ctx context.Context, g *generation, dir string) (*generation, *pb.ShardManifest, error) {
	m, err := g.sh.dir.latest(ctx)
	if err != nil {
		return nil, nil, err
	}
	ds, err := table.Open(ctx, t.o.Store, g.sh.dir.path+"/"+dir)
	if err != nil {
		return nil, nil, err
	}
	flushed, err := t.attach(ctx, g.genState, ds)
	return flushed, m, err
}

// writeGeneration writes the dataset and the sidecars of a generation. keyBytes is the size of its keys as arrays, zones are by
// physical column.
func (t *Table) writeGeneration(ctx context.Context, g *generation, root string) (ds *table.Dataset, keyBytes uint64, zones map[int]*zonemap.Segment, err error) {
	v, err := t.newest()
	if err != nil {
		return nil, 0, nil, err
	}
	defer t.release(v)
	s, err := t.generationSchema(v.base.ds.Schema())
	if err != nil {
		return nil, 0, nil, err
	}
	chunks := g.mem.Batches(g.mem.Rows())
	batches := make([]arrow.RecordBatch, len(chunks))
	for i, c := range chunks {
		batches[i] = c.Batch
	}
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	if zones, err = t.zonesOf(v.base, batches); err != nil {
		return nil, 0, nil, err
	}
	if keyBytes, err = t.writeSidecars(ctx, root, batches); err != nil {
		return nil, 0, nil, err
	}
	list, err := t.writeIndexes(ctx, root, s, batches)
	if err != nil {
		return nil, 0, nil, err
	}
	files, err := v.base.ds.DataVersion()
	if err != nil {
		return nil, 0, nil, err
	}
	o := table.CreateOptions{Options: table.Options{Clock: t.o.Clock}, Indexes: list, DataVersion: files.String()}
	ds, err = table.CreateGenerationWith(ctx, t.o.Store, root, s, batches, settledDuplicates(g), o)
	return ds, keyBytes, zones, err
}

// generationSchema is the base schema, its field ids kept, with non-key columns nullable and the tombstone last.
func (t *Table) generationSchema(baseSchema *schema.Schema) (*schema.Schema, error) {
	s, err := schema.FromArrow(t.memSchema)
	if err != nil {
		return nil, err
	}
	next := baseSchema.MaxID() + 1
	for _, f := range s.Fields {
		if b := baseSchema.FieldByName(f.Name); b != nil {
			f.ID = b.ID
			continue
		}
		f.ID = next
		next++
	}
	return s, nil
}

// discard removes what a failed flush attempt left behind; what remains is swept at the next open.
func (t *Table) discard(ctx context.Context, dir string) {
	if err := t.o.Store.RemoveAll(context.WithoutCancel(ctx), dir); err != nil {
		t.o.Log.Warn("remove failed flush attempt", "directory", dir, "error", err)
	}
}

// publishFlushed puts the flushed form in the MemTable's place in every Version of the chain, so that no old
// view keeps the MemTable alive. Floors do not change: births and deaths are shared (I3).
func (t *Table) publishFlushed(flushed *generation, dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	flushed.dir = dir
	for i, v := range t.chain {
		o := flushed.sh.ordinal
		if o >= len(v.gens) {
			continue
		}
		at := slices.IndexFunc(v.gens[o], func(g *generation) bool { return g.genState == flushed.genState })
		if at < 0 {
			continue
		}
		gens := slices.Clone(v.gens[o])
		gens[at] = flushed
		n := v.replaced(o, gens)
		n.chained = true
		t.retainLocked(n)
		t.chain[i] = n
		v.chained = false
		t.freeLocked(v)
	}
}
