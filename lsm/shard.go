package lsm

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
	"lancesql/lance/pb"
	"lancesql/wal"
)

// shard is one claimed shard of an open table. Immutable: ordinal, dir, epoch, log, manual. writing is held while
// entries are put and taken before Table.mu, which guards the rest.
type shard struct {
	ordinal int
	dir     shardDir
	epoch   wal.Epoch
	log     *wal.Log
	manual  bool // made by hand (spec id 0): any key may lie in it

	writing sync.Mutex

	behind      []logged // durable in the caller's journal, in no entry yet; ascending
	behindBytes int64
	unflushed   int64                   // bytes logged since the last freeze
	marks       []mark                  // data entries present, ascending
	evidence    uint64                  // greatest journal number in any entry
	ends        map[uint64]wal.Position // last entry of each generation not yet flushed
	cursor      wal.Position            // replay cursor of the newest manifest
	tip         wal.Position            // last entry put or met
}

// logged is what one journal record writes into a shard.
type logged struct {
	journal    uint64
	generation uint64
	body       []byte
}

// mark is a data entry of the WAL.
type mark struct {
	at      wal.Position
	journal uint64
}

// shardSet is the shards of a table by ordinal. Immutable: a new shard makes a new set.
type shardSet struct {
	sharder *sharder
	list    []*shard
	byID    map[uuid.UUID]int
	manual  []int
}

// with returns the set with one more shard, whose ordinal is the number of shards so far.
func (s *shardSet) with(sh *shard) *shardSet {
	n := &shardSet{sharder: s.sharder, list: append(slices.Clone(s.list), sh), byID: make(map[uuid.UUID]int), manual: s.manual}
	for i, x := range n.list {
		n.byID[x.dir.id] = i
	}
	if sh.manual {
		n.manual = append(slices.Clone(s.manual), sh.ordinal)
	}
	return n
}

// of returns the ordinal of the shard that takes writes of the key; ok is false while that shard does not exist.
func (s *shardSet) of(k rowkey.Key) (ordinal int, id uuid.UUID, ok bool, err error) {
	return s.ofWrite(Op{Key: k})
}

// ofWrite is of for a write, which in a table without a key goes where its row says.
func (s *shardSet) ofWrite(op Op) (ordinal int, id uuid.UUID, ok bool, err error) {
	v, err := s.sharder.value(op)
	if err == nil {
		id, err = s.sharder.shard(v)
	}
	if err != nil {
		return 0, id, false, err
	}
	ordinal, ok = s.byID[id]
	return ordinal, id, ok, nil
}

// shardIDs lists the shards a table has on disk and those of want, in order of id.
func shardIDs(ctx context.Context, st objstore.Store, root string, want ...uuid.UUID) ([]uuid.UUID, error) {
	ids := slices.Clone(want)
	err := st.List(ctx, root+"/"+memWALDir, func(i objstore.Info) error {
		if id, err := uuid.Parse(path.Base(i.Name)); err == nil && i.Dir {
			ids = append(ids, id)
		}
		return nil
	})
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(string(a[:]), string(b[:])) })
	return slices.Compact(ids), err
}

// claim takes a shard over and leaves a fence sentinel at the tip of its WAL. entry is the sharding value of a new
// shard. Spec: memwal.md §7.5.
func (t *Table) claim(ctx context.Context, id uuid.UUID, ordinal int, entry []byte) (*shard, *pb.ShardManifest, error) {
	ctx = objstore.Unheld(ctx) // Why: a first row in a shard, or another writer, would stop all commits until a backup is made
	sh := &shard{ordinal: ordinal, dir: newShardDir(t.o.Store, t.root, id), ends: make(map[uint64]wal.Position)}
	m, err := sh.dir.claim(ctx, entry)
	if err != nil {
		return nil, nil, err
	}
	sh.manual = m.ShardSpecId == 0
	sh.epoch = wal.Epoch(m.WriterEpoch)
	sh.cursor = wal.Position(m.ReplayAfterWalEntryPosition)
	tail, err := walTip(ctx, t.o.Store, sh.dir.path, sh.cursor)
	if err != nil {
		return nil, nil, err
	}
	if end := t.o.WALEnds[id]; uint64(tail) < end {
		return nil, nil, walShort(sh.dir.path, uint64(tail), end)
	}
	sh.log = wal.Open(t.o.Store, sh.dir.path, sh.epoch, tail+1, sh.dir.epoch)
	if sh.epoch >= 2 {
		if _, err := sh.log.Fence(ctx); err != nil {
			return nil, nil, fmt.Errorf("write fence sentinel: %w", err)
		}
	}
	return sh, m, nil
}

// walTip returns the greatest position present in the shard's WAL, at least from.
func walTip(ctx context.Context, st objstore.Store, shard string, from wal.Position) (wal.Position, error) {
	tip := from
	err := st.List(ctx, shard+"/wal", func(i objstore.Info) error {
		name, ok := strings.CutSuffix(path.Base(i.Name), ".arrow")
		if p, valid := wal.ParseBitReversed(name); ok && valid {
			tip = max(tip, wal.Position(p))
		}
		return nil
	})
	return tip, err
}

// ensureShards claims the shards that keys need and that do not exist yet.
func (t *Table) ensureShards(ctx context.Context, ops []Op) error {
	v, err := t.newest()
	if err != nil {
		return err
	}
	missing := make(map[uuid.UUID]Op)
	for _, op := range ops {
		_, id, ok, err := v.set.ofWrite(op)
		if err != nil {
			t.release(v)
			return err
		}
		if !ok {
			missing[id] = op
		}
	}
	t.release(v)
	if len(missing) == 0 {
		return nil
	}
	t.claimMu.Lock()
	defer t.claimMu.Unlock()
	for id, op := range missing {
		if err := t.addShard(ctx, id, op); err != nil {
			return fmt.Errorf("new shard %s: %w", id, err)
		}
	}
	return nil
}

// addShard claims the new shard that takes op and publishes a Version that has it, empty. The caller holds claimMu.
func (t *Table) addShard(ctx context.Context, id uuid.UUID, op Op) error {
	v, err := t.newest()
	if err != nil {
		return err
	}
	n := len(v.set.list)
	_, have := v.set.byID[id]
	sharder := v.set.sharder
	t.release(v)
	switch {
	case have:
		return nil
	case n >= shardsLimit:
		return fmt.Errorf("table has %d shards: %w", n, errs.ErrLimit)
	}
	value, err := sharder.value(op)
	if err != nil {
		return err
	}
	entry, err := sharder.entry(value)
	if err != nil {
		return err
	}
	sh, m, err := t.claim(ctx, id, n, entry)
	if err != nil {
		return err
	}
	fresh := wal.Position(1)
	if sh.epoch >= 2 {
		fresh = 2 // after our fence sentinel
	}
	// Why the log too: what another writer left in it is not flushed, and a flush of ours would pass over it.
	if len(m.FlushedGenerations) > 0 || m.ReplayAfterWalEntryPosition > 0 || sh.log.Next() > fresh {
		return fmt.Errorf("somebody else wrote to it meanwhile, the table must be reopened: %w", errs.ErrPoisoned)
	}
	t.latch.Lock()
	defer t.latch.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("table %s: %w", t.root, errs.ErrClosed)
	}
	g, err := t.newGeneration(sh, max(m.CurrentGeneration, 1))
	if err != nil {
		return err
	}
	cur := t.chain[len(t.chain)-1]
	t.publishLocked(&Version{
		base: cur.base, set: cur.set.with(sh), gens: append(slices.Clone(cur.gens), []*generation{g}), floor: cur.floor,
	})
	g.mem.Release() // the Version holds its own reference
	return nil
}

// sweepTemp removes the unfinished objects of a process that died, where the store leaves any.
func (t *Table) sweepTemp(ctx context.Context, set *shardSet) {
	st, ok := t.o.Store.(interface {
		SweepTemp(ctx context.Context, dir string) (int, error)
	})
	if !ok {
		return
	}
	dirs := []string{t.root + "/data", t.root + "/_versions", t.root + "/_transactions", t.root + "/_deletions"}
	for _, sh := range set.list {
		dirs = append(dirs, sh.dir.path+"/manifest", sh.dir.path+"/wal")
	}
	for _, dir := range dirs {
		if _, err := st.SweepTemp(ctx, dir); err != nil {
			t.o.Log.Warn("sweep unfinished objects", "directory", dir, "error", err)
		}
	}
}

// sweepOrphans removes generation directories of failed flush attempts: no retained manifest names them, and
// no flush of ours or of a fenced writer can still succeed with them.
func (t *Table) sweepOrphans(ctx context.Context, sh *shard, m *pb.ShardManifest) {
	named := make(map[string]bool)
	for _, g := range m.FlushedGenerations {
		named[g.Path] = true
	}
	var orphans []string
	err := t.o.Store.List(ctx, sh.dir.path, func(i objstore.Info) error {
		dir := path.Base(i.Name)
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
