package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lancesql/lance/pb"
	"lancesql/lance/table"
)

// cleanupEvery is how often old base versions are looked for.
const cleanupEvery = 10 * time.Minute

// Cleanup removes what no view needs any more: merged generations (first from the shard manifest, then from
// the store), stale base key entries, and base versions past retention. Spec: memwal.md §13.
func (t *Table) Cleanup(ctx context.Context, lowWater uint64) error {
	t.mergeMu.Lock() // Why: a merge in flight has written files no version names yet
	defer t.mergeMu.Unlock()
	if err := t.checkOpen(); err != nil {
		return err
	}
	t.Settle(lowWater)
	ready := t.takeReady()
	err := t.removeGenerations(ctx, ready)
	if err != nil {
		t.mu.Lock()
		t.retired = append(t.retired, ready...)
		t.mu.Unlock()
		return err
	}
	return t.cleanBase(ctx)
}

// takeReady removes from the waiting list what may go now.
func (t *Table) takeReady() []retired {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.o.Clock.Now()
	oldest := ^uint64(0)
	for v := range t.alive {
		oldest = min(oldest, v.base.ds.Version())
	}
	var ready []retired
	t.retired = slices.DeleteFunc(t.retired, func(r retired) bool {
		ok := false
		switch {
		case r.stale != nil:
			ok = oldest >= r.stale.from
		case r.state == nil || r.state.refs == 0:
			ok = now.Sub(r.since) >= t.o.GenerationGrace
		}
		if ok {
			ready = append(ready, r)
		}
		return ok
	})
	return ready
}

func (t *Table) removeGenerations(ctx context.Context, ready []retired) error {
	gone := make(map[*shard]map[uint64]string)
	for _, r := range ready {
		if r.stale == nil {
			if gone[r.sh] == nil {
				gone[r.sh] = make(map[uint64]string)
			}
			gone[r.sh][r.number] = r.dir
			continue
		}
		t.mu.Lock()
		inUse := r.stale.keys.refs > 0
		t.mu.Unlock()
		if inUse {
			if err := r.stale.keys.Remove(r.stale.key, r.stale.row); err != nil {
				return err
			}
		}
	}
	var errAll error
	for sh, dirs := range gone {
		errAll = errors.Join(errAll, t.removeFrom(ctx, sh, dirs))
	}
	return errAll
}

// removeFrom removes generations from a shard's manifest, then their directories.
func (t *Table) removeFrom(ctx context.Context, sh *shard, gone map[uint64]string) error {
	_, err := sh.dir.update(ctx, uint64(sh.epoch), func(m *pb.ShardManifest) error {
		m.FlushedGenerations = slices.DeleteFunc(m.FlushedGenerations, func(g *pb.FlushedGeneration) bool {
			return gone[g.Generation] == g.Path
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove generations from the shard manifest: %w", err)
	}
	// Durable: nobody finds the directories any more; what a crash leaves is swept at the next open.
	var errAll error
	for _, dir := range gone {
		errAll = errors.Join(errAll, t.o.Store.RemoveAll(ctx, sh.dir.path+"/"+dir))
	}
	return errAll
}

// cleanBase removes base versions older than the retention that no live Version reads.
func (t *Table) cleanBase(ctx context.Context) error {
	now := t.o.Clock.Now()
	t.mu.Lock()
	due := now.Sub(t.lastCleanup) >= min(cleanupEvery, t.o.Retention)
	if due {
		t.lastCleanup = now
	}
	oldest := ^uint64(0)
	for v := range t.alive {
		oldest = min(oldest, v.base.ds.Version())
	}
	t.mu.Unlock()
	if !due {
		return nil
	}
	_, err := table.Cleanup(ctx, t.o.Store, t.root, func(version uint64, at time.Time) bool {
		return version >= oldest || now.Sub(at) < t.o.Retention
	})
	return err
}
