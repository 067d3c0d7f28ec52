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
// the store) and, from time to time, base versions past retention. Spec: memwal.md §13.
func (t *Table) Cleanup(ctx context.Context, lowWater uint64) error {
	_, err := t.cleanup(ctx, lowWater, false)
	return err
}

// CleanupNow is Cleanup that looks for old base versions whenever it is called. It returns the names of the files and
// directories it removed, sorted, also beside an error.
func (t *Table) CleanupNow(ctx context.Context, lowWater uint64) ([]string, error) {
	return t.cleanup(ctx, lowWater, true)
}

func (t *Table) cleanup(ctx context.Context, lowWater uint64, now bool) ([]string, error) {
	t.mergeMu.Lock() // Why: a merge in flight has written files no version names yet
	defer t.mergeMu.Unlock()
	if err := t.checkOpen(); err != nil {
		return nil, err
	}
	t.Settle(lowWater)
	ready := t.takeReady(true)
	if err := t.removeGenerations(ctx, ready); err != nil {
		t.mu.Lock()
		t.retired = append(t.retired, ready...)
		t.mu.Unlock()
		return nil, err
	}
	removed := generationNames(ready)
	more, err := t.cleanBase(ctx, now)
	removed = append(removed, more...)
	slices.Sort(removed)
	return removed, err
}

// Removable returns what CleanupNow would remove now, and removes nothing.
func (t *Table) Removable(ctx context.Context, lowWater uint64) ([]string, error) {
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	if err := t.checkOpen(); err != nil {
		return nil, err
	}
	t.Settle(lowWater)
	names := generationNames(t.takeReady(false))
	more, err := table.CleanupPlan(ctx, t.o.Store, t.root, t.keepBase(), t.o.Clock)
	names = append(names, more...)
	slices.Sort(names)
	return names, err
}

// generationNames lists the directories of merged generations.
func generationNames(list []retired) []string {
	var names []string
	for _, r := range list {
		names = append(names, r.sh.dir.path+"/"+r.dir)
	}
	return names
}

// takeReady returns what may go now, and with take removes it from the waiting list.
func (t *Table) takeReady(take bool) []retired {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.o.Clock.Now()
	var ready []retired
	var left []retired
	for _, r := range t.retired {
		if (r.state == nil || r.state.refs == 0) && now.Sub(r.since) >= t.o.GenerationGrace {
			ready = append(ready, r)
		} else {
			left = append(left, r)
		}
	}
	if take {
		t.retired = left
	}
	return ready
}

// oldestLocked is the oldest base version that a live Version reads.
func (t *Table) oldestLocked() uint64 {
	oldest := ^uint64(0)
	for v := range t.alive {
		oldest = min(oldest, v.base.ds.Version())
	}
	return oldest
}

func (t *Table) removeGenerations(ctx context.Context, ready []retired) error {
	gone := make(map[*shard]map[uint64]string)
	for _, r := range ready {
		if gone[r.sh] == nil {
			gone[r.sh] = make(map[uint64]string)
		}
		gone[r.sh][r.number] = r.dir
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

// keepBase says which base versions stay: those within the retention, and those that a live Version reads.
func (t *Table) keepBase() func(version uint64, at time.Time) bool {
	now := t.o.Clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.oldestLocked()
	return func(version uint64, at time.Time) bool {
		return version >= oldest || now.Sub(at) < t.o.Retention
	}
}

// cleanBase removes base versions older than the retention that no live Version reads; not more often than cleanupEvery
// unless it must be now.
func (t *Table) cleanBase(ctx context.Context, must bool) ([]string, error) {
	now := t.o.Clock.Now()
	t.mu.Lock()
	due := must || now.Sub(t.lastCleanup) >= min(cleanupEvery, t.o.Retention)
	if due {
		t.lastCleanup = now
	}
	t.mu.Unlock()
	if !due {
		return nil, nil
	}
	return table.CleanupWith(ctx, t.o.Store, t.root, t.keepBase(), t.o.Clock)
}
