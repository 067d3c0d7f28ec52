package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"lancesql/engine/sched"
)

// freshness merges tables in the background so that readers of the base tables are at most a bound behind, while the
// disk keeps up. Only tables with pending rows are in the queue; quiet tables cost nothing. One table is drained at a
// time, and after each the job rests as long as that took: thousands of busy tables stretch the bound, not the disk.
//
// mu guards all; no job is submitted under it.
type freshness struct {
	mu    sync.Mutex
	bound time.Duration // 0 = off
	queue []dueTable    // by time
	rest  time.Time     // no drain before
	timer *alarm
	stop  bool
}

// set changes the bound; the queue starts over with what add brings.
func (f *freshness) set(bound time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bound = bound
	f.queue = nil
}

// add queues a table whose oldest pending row is of the given time. own is the table's own bound, 0 = that of the
// server, negative = never.
func (f *freshness) add(id TableID, since time.Time, own time.Duration, fire func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bound := f.bound
	if own != 0 {
		bound = own
	}
	if bound <= 0 || f.stop {
		return
	}
	// Why once: a second place would have the table drained twice, and each drain queues it anew, for ever.
	f.queue = slices.DeleteFunc(f.queue, func(q dueTable) bool { return q.id == id })
	d := dueTable{id, since.Add(bound)}
	i, _ := slices.BinarySearchFunc(f.queue, d, func(a, b dueTable) int { return a.at.Compare(b.at) })
	f.queue = slices.Insert(f.queue, i, d)
	f.armLocked(since, fire)
}

// armLocked sets the timer for the first table of the queue.
func (f *freshness) armLocked(now time.Time, fire func()) {
	f.timer.stop()
	f.timer = nil
	if len(f.queue) == 0 || f.stop || fire == nil {
		return
	}
	at := f.queue[0].at
	if f.rest.After(at) {
		at = f.rest
	}
	f.timer = setAlarm(at.Sub(now), fire)
}

// take removes the first table if it is due.
func (f *freshness) take(now time.Time) (id TableID, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 || f.queue[0].at.After(now) || f.rest.After(now) {
		return id, false
	}
	id = f.queue[0].id
	f.queue = slices.Delete(f.queue, 0, 1)
	return id, true
}

// done notes that a drain has ended and sets the timer for the next.
func (f *freshness) done(began, now time.Time, fire func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rest = now.Add(now.Sub(began))
	f.armLocked(now, fire)
}

func (f *freshness) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = true
	f.timer.stop()
}

// SetFreshness changes how old pending rows may become before they are merged into their base table; 0 or less = they
// are merged only as the load demands.
func (e *Engine) SetFreshness(bound time.Duration) {
	e.fresh.set(max(bound, 0))
	for _, ot := range e.openTables() {
		if since := ot.pendingSince.Load(); since != 0 {
			ot.queueFresh(time.Unix(0, since))
		}
	}
}

// Freshness returns the bound in force, 0 = off.
func (e *Engine) Freshness() time.Duration {
	e.fresh.mu.Lock()
	defer e.fresh.mu.Unlock()
	return e.fresh.bound
}

// notePending notes that the table may have rows that are not in the base.
func (ot *openTable) notePending() {
	if ot.pendingSince.Load() != 0 || ot.table.Pending() == 0 {
		return
	}
	now := ot.e.clock.Now()
	if ot.pendingSince.CompareAndSwap(0, now.UnixNano()) {
		ot.queueFresh(now)
	}
}

// settlePending looks again after a merge that began at the given time: rows that are still pending were committed after
// it.
func (ot *openTable) settlePending(began time.Time) {
	old := ot.pendingSince.Swap(0)
	if old == 0 || ot.table.Pending() == 0 {
		return
	}
	if ot.pendingSince.CompareAndSwap(0, max(old, began.UnixNano())) {
		ot.queueFresh(time.Unix(0, max(old, began.UnixNano())))
	}
}

func (ot *openTable) queueFresh(since time.Time) {
	ot.e.fresh.add(ot.entry.ID, since, ot.options().Freshness, ot.e.fireFresh())
}

// fireFresh is what the timer calls; nil when jobs run only on demand.
func (e *Engine) fireFresh() func() {
	if e.cfg.Workers == NoWorkers {
		return nil
	}
	return func() {
		e.submitJob(sched.Job{Kind: sched.Merge, Table: "freshness", Force: true, Run: func(ctx context.Context) error {
			e.freshen(ctx)
			return nil
		}})
	}
}

// freshen drains the table that has waited longest, if one is due. It returns whether there was one.
func (e *Engine) freshen(ctx context.Context) bool {
	began := e.clock.Now()
	id, ok := e.fresh.take(began)
	defer func() { e.fresh.done(began, e.clock.Now(), e.fireFresh()) }()
	if !ok {
		return false
	}
	ot := e.opened(id)
	if ot == nil {
		return true
	}
	since := ot.pendingSince.Load()
	if since == 0 {
		return true // merged meanwhile, because of the load
	}
	if err := e.drain(ctx, ot.entry); err != nil {
		e.log.Warn("table stays behind for outside readers", "table", ot.entry.Path, "since", time.Unix(0, since), "error", err)
		ot.queueFresh(e.clock.Now()) // once more after the bound
	}
	return true
}

// Lag says how far readers of the base table are behind.
type Lag struct {
	Rows uint64        // pending rows: in WAL, MemTables and generations; deletes count, rows replaced twice count twice
	Age  time.Duration // of the oldest of them, at most that of the opening of the table; 0 without pending rows
}

// lag is how far outside readers of the table are behind.
func (ot *openTable) lag() Lag {
	lag := Lag{Rows: ot.table.Pending()}
	if since := ot.pendingSince.Load(); since != 0 && lag.Rows > 0 {
		lag.Age = max(ot.e.clock.Now().Sub(time.Unix(0, since)), 0)
	}
	return lag
}
