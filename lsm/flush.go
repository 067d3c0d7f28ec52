package lsm

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
	"lancesql/lance/table"
	"lancesql/wal"
)

// FreezeIfFull rotates the active MemTable when it has reached a threshold.
func (t *Table) FreezeIfFull() error {
	v, err := t.newest()
	if err != nil {
		return nil //nolint:nilerr // a closed table has nothing to freeze
	}
	mem := v.active().mem
	rows, bytes := int64(mem.Rows()), mem.Bytes()
	t.release(v)
	t.mu.Lock()
	logged := t.unflushedWAL
	t.mu.Unlock()
	if rows < t.o.MemTableRows && bytes < t.o.MemTableBytes && logged < t.o.UnflushedWAL {
		return nil
	}
	return t.Freeze()
}

// Freeze makes the active MemTable immutable and puts an empty one in its place; an empty one stays. It waits
// for the commit in flight, so that a WAL entry never spans two generations.
func (t *Table) Freeze() error {
	t.latch.Lock()
	defer t.latch.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
	}
	cur := t.chain[len(t.chain)-1]
	old := cur.active()
	if old.mem.Rows() == 0 {
		return nil
	}
	next, err := t.newGeneration(old.number + 1)
	if err != nil {
		return err
	}
	old.walEnd = t.log.Next() - 1
	t.unflushedWAL = 0
	t.publishLocked(&Version{base: cur.base, gens: append(slices.Clone(cur.gens), next), floor: cur.floor})
	next.mem.Release() // the Version holds its own reference
	return nil
}

// Flush writes every frozen MemTable as a generation, oldest first (I5). On error nothing is lost: the rows
// stay in the MemTable and in the WAL, and a later Flush starts over in a new directory.
func (t *Table) Flush(ctx context.Context) error {
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	for {
		v, err := t.newest()
		if err != nil {
			return err
		}
		var g *generation
		for _, c := range v.gens[:len(v.gens)-1] {
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
	dir := fmt.Sprintf("%08x_gen_%d", t.o.Random(), g.number)
	ds, err := t.writeGeneration(ctx, g, t.shard.path+"/"+dir)
	if err != nil {
		t.discard(ctx, t.shard.path+"/"+dir)
		return err
	}
	flushed, err := t.attach(g.genState, ds)
	if err != nil {
		return err
	}
	_, err = t.shard.update(ctx, uint64(t.epoch), func(m *pb.ShardManifest) error {
		for _, have := range m.FlushedGenerations {
			if have.Generation >= g.number {
				return fmt.Errorf("generation %d is recorded already: %w", have.Generation, errs.ErrConflict)
			}
		}
		bytes, rows := uint64(g.mem.Bytes()), uint64(g.mem.Rows())
		m.FlushedGenerations = append(m.FlushedGenerations, &pb.FlushedGeneration{
			Generation: g.number, Path: dir, InMemoryBytes: &bytes, PhysicalRows: &rows,
		})
		m.ReplayAfterWalEntryPosition = max(m.ReplayAfterWalEntryPosition, uint64(g.walEnd))
		m.WalEntryPositionLastSeen = max(m.WalEntryPositionLastSeen, uint64(t.log.Next()-1))
		m.CurrentGeneration = g.number + 1
		return nil
	})
	if err != nil {
		return err
	}
	// Durable: the generation is live and the WAL up to its end is garbage.
	t.publishFlushed(flushed, dir)
	if err := wal.Remove(ctx, t.o.Store, t.shard.path, g.walEnd); err != nil {
		t.o.Log.Warn("remove flushed WAL entries", "table", t.root, "error", err)
	}
	return nil
}

func (t *Table) writeGeneration(ctx context.Context, g *generation, root string) (*table.Dataset, error) {
	v, err := t.newest()
	if err != nil {
		return nil, err
	}
	defer t.release(v)
	s, err := t.generationSchema(v.base.ds.Schema())
	if err != nil {
		return nil, err
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
	return table.CreateGeneration(ctx, t.o.Store, root, s, batches, settledDuplicates(g))
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
		at := slices.IndexFunc(v.gens, func(g *generation) bool { return g.genState == flushed.genState })
		if at < 0 {
			continue
		}
		n := &Version{base: v.base, gens: slices.Clone(v.gens), floor: v.floor, chained: true}
		n.gens[at] = flushed
		t.retainLocked(n)
		t.chain[i] = n
		v.chained = false
		t.freeLocked(v)
	}
}
