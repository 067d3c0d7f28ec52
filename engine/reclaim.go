package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lancesql/internal/errs"
)

// Back-off between two reopenings of a table whose shards others keep claiming.
const (
	reclaimQuiet = 10 * time.Second // after this long the next one counts as the first
	reclaimMax   = time.Minute
)

// reclaims is how often a table was lately taken over by somebody else. Guarded by Engine.tablesMu.
type reclaims struct {
	count int
	last  time.Time
}

// reclaim opens a table again because another writer claimed one of its shards, or because what a write left behind must
// be read back: claim, fence sentinel, replay of what the other wrote, and our own records put again after it. So no
// acknowledged row is lost, and of equal keys ours are newer.
//
// Statements that hold the old table fail with errs.ErrClosed or go on with the new one; views older than the reopening
// get errs.ErrSchemaChanged.
func (e *Engine) reclaim(ctx context.Context, ot *openTable, cause error) error {
	if errors.Is(cause, errs.ErrSync) {
		e.fail(cause) // Why: what the disk did is unknown; reading it back now could believe what is not on it
		return cause
	}
	id := ot.entry.ID
	e.tablesMu.Lock()
	if e.tables[id] != ot {
		e.tablesMu.Unlock()
		return nil // another job has done it, or the table is gone
	}
	r := e.reclaimed[id]
	now := e.clock.Now()
	if now.Sub(r.last) > reclaimQuiet+r.pause() {
		r.count = 0
	}
	// Why not for a table that stopped itself: nobody can use it before it is opened again.
	if wait := r.pause() - now.Sub(r.last); r.count > 0 && wait > 0 && !ot.table.Stopped() {
		e.tablesMu.Unlock()
		// The scheduler pauses the table's jobs after an error and tries again.
		return fmt.Errorf("table %s is claimed again and again by another writer, waiting %s: %w", ot.entry.Path, wait.Round(time.Millisecond), cause)
	}
	r.count++
	r.last = now
	e.reclaimed[id] = r
	next := &openTable{e: e, entry: ot.entry, prev: ot}
	e.tables[id] = next
	e.tablesMu.Unlock()
	e.log.Warn("another writer took a shard over; opening the table again", "table", ot.entry.Path, "times", r.count, "cause", cause)
	_, err := e.openTable(ctx, next.entry)
	return ignoreClosed(err)
}

// pause is how long to wait after the reopening that was the count-th in a row.
func (r reclaims) pause() time.Duration {
	d := time.Duration(0)
	for i := 1; i < r.count; i++ {
		d = min(max(2*d, time.Second), reclaimMax)
	}
	return d
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
