package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"lancesql/engine/sched"
	"lancesql/internal/errs"
)

// behindQueue says when which table's journal records are due to become WAL entries: writeBehindDelay after the first
// commit that is not in one. The delay is the same for all, so that the queue is in order of time. Nothing runs while it
// is empty.
//
// mu guards all; no job is submitted under it.
type behindQueue struct {
	mu    sync.Mutex
	queue []dueTable
	in    map[TableID]bool
	timer *alarm // nil while the queue is empty
	stop  bool
}

type dueTable struct {
	id TableID
	at time.Time
}

// add queues the table unless it is queued.
func (q *behindQueue) add(id TableID, now time.Time, delay time.Duration, fire func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stop || q.in[id] {
		return
	}
	if q.in == nil {
		q.in = make(map[TableID]bool)
	}
	q.in[id] = true
	q.queue = append(q.queue, dueTable{id, now.Add(delay)})
	if q.timer == nil {
		q.timer = setAlarm(delay, fire)
	}
}

// take removes the tables that are due, oldest first, and sets the timer for the next.
func (q *behindQueue) take(now time.Time, fire func()) []TableID {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.queue) && !q.queue[n].at.After(now) {
		n++
	}
	due := make([]TableID, n)
	for i, d := range q.queue[:n] {
		due[i] = d.id
		delete(q.in, d.id)
	}
	q.queue = q.queue[n:]
	q.timer = nil
	if len(q.queue) > 0 && !q.stop {
		q.timer = setAlarm(q.queue[0].at.Sub(now), fire)
	}
	return due
}

// close stops the timer for good.
func (q *behindQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop = true
	q.timer.stop()
}

// behindLater makes sure that what the table has in the journal is written behind in time.
func (e *Engine) behindLater(ot *openTable) {
	first, bytes, ok := ot.table.Behind()
	switch {
	case !ok:
	case e.cfg.Workers == NoWorkers || bytes >= e.cfg.WriteBehindBytes:
		e.submitBehind(ot.entry.ID, first, false)
	default:
		e.behind.add(ot.entry.ID, e.clock.Now(), e.cfg.WriteBehindDelay, e.fireBehind)
	}
}

func (e *Engine) fireBehind() {
	for _, id := range e.behind.take(e.clock.Now(), e.fireBehind) {
		if ot := e.opened(id); ot != nil {
			if first, _, ok := ot.table.Behind(); ok {
				e.submitBehind(id, first, false)
			}
		}
	}
}

// submitBehind queues the write-behind job of a table; the one with the oldest record goes first.
func (e *Engine) submitBehind(id TableID, first uint64, force bool) {
	e.submitJob(sched.Job{Kind: sched.WriteBehind, Table: logJobs(id), Force: force, Pressure: math.MaxInt64 - int64(first),
		Run: func(ctx context.Context) error { return ignoreClosed(e.writeBehind(ctx, id)) }})
}

// logJobs is the name under which a table's write-behind runs. Why another than that of its other jobs: a flush that
// fails and pauses must not pause it as well.
func logJobs(id TableID) string { return "log of " + id.String() }

// writeBehind puts everything the table has in the journal into WAL entries.
func (e *Engine) writeBehind(ctx context.Context, id TableID) error {
	ot := e.opened(id)
	if ot == nil {
		return nil
	}
	err := ot.table.WriteBehind(ctx)
	switch {
	case err == nil:
	case errors.Is(err, errs.ErrSync):
		// Why: what the disk did with an entry whose sync failed cannot be known, and its presence would count as
		// evidence. The record stays in the journal; recovery decides.
		e.fail(err)
		return err
	case foreign(err):
		if err = e.reclaim(ctx, ot, err); err != nil {
			return err
		}
	default:
		e.journal.blocked(err)
		return err
	}
	e.journal.blocked(nil)
	if e.journal.due() {
		e.submitTrim()
	}
	return nil
}

// awaitEntries returns once the records of a committed request are in WAL entries: AckEntry.
func (e *Engine) awaitEntries(ctx context.Context, req *commitRequest) error {
	for _, w := range req.tables {
		for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			err := e.writeBehind(ctx, w.entry.ID)
			if err == nil {
				break
			}
			if failed := e.Failed(); failed != nil {
				return fmt.Errorf("committed, but not in a WAL entry: %w", failed)
			}
			if err := errors.Join(ctx.Err(), e.checkOpen()); err != nil {
				return fmt.Errorf("committed, but not in a WAL entry: %w", err)
			}
			e.log.Warn("WAL entry of a commit is late", "table", w.entry.Path, "error", err)
			_ = sleep(ctx, wait) // the loop looks at ctx
		}
	}
	return nil
}

// syncLater makes sure that a journal record that was only written is synced within a second.
func (e *Engine) syncLater() {
	if e.cfg.Workers == NoWorkers {
		e.submitSync()
		return
	}
	if e.syncing.CompareAndSwap(false, true) {
		setAlarm(syncEvery, e.submitSync)
	}
}

func (e *Engine) submitSync() {
	e.submitJob(sched.Job{Kind: sched.WriteBehind, Table: journalJobs, Force: true, Pressure: math.MaxInt64, Run: func(ctx context.Context) error {
		e.syncing.Store(false) // before the sync: what is written from now on asks again
		return e.syncJournal(ctx)
	}})
}

// syncJournal makes everything written to the journal durable. It is called before anything of it becomes a WAL entry.
func (e *Engine) syncJournal(ctx context.Context) error {
	if e.planted.skipBeforeLog {
		return nil
	}
	err := e.journal.w.Sync(ctx)
	if errors.Is(err, errs.ErrSync) {
		e.fail(err)
	}
	return ignoreClosed(err)
}

// prepareSegment has the journal's next segment made before a commit needs it.
func (e *Engine) prepareSegment() {
	if !e.making.CompareAndSwap(false, true) {
		return
	}
	e.submitJob(sched.Job{Kind: sched.Flush, Table: "journal segment", Force: true, Run: func(ctx context.Context) error {
		err := e.journal.guard.check()
		if err == nil {
			err = e.journal.w.Prepare(ctx)
		}
		if err == nil {
			e.making.Store(false)
			return nil
		}
		e.log.Warn("the journal's next segment cannot be made", "error", err)
		setAlarm(time.Second, func() { e.making.Store(false) })
		return nil
	}})
}

// journalJobs is the name under which jobs of the whole engine run.
const journalJobs = "journal"

// submitTrim queues the removal of journal records and WAL entries that nobody needs.
func (e *Engine) submitTrim() {
	e.submitJob(sched.Job{Kind: sched.Trim, Table: journalJobs, Run: e.trim})
}

// trimLater lets the journal start after everything there is now, as soon as that is in entries, and the WAL files of
// the table that a flush made obsolete go then.
func (e *Engine) trimLater(ot *openTable) {
	ot.obsoleteWAL.Store(uint64(e.journal.want()))
	if e.journal.due() {
		e.submitTrim()
	}
}

// trim shortens the journal, then the WAL. Why in this order: a WAL entry behind the replay cursor is the evidence that
// its journal records are written; without it a recovery would put them again, over newer rows.
func (e *Engine) trim(ctx context.Context) error {
	if e.failed.Load() != nil {
		return nil
	}
	start, err := e.journal.release(ctx, e.counters.carry)
	if errors.Is(err, errs.ErrSync) {
		e.fail(err)
	}
	if err != nil {
		return ignoreClosed(err)
	}
	var faults []error
	for _, ot := range e.openTables() {
		below := ot.obsoleteWAL.Load()
		if below == 0 {
			continue
		}
		if e.planted.trimBefore {
			start = math.MaxInt64
		}
		if err := ot.table.RemoveWAL(ctx, uint64(start)); ignoreClosed(err) != nil {
			faults = append(faults, err)
		} else if below <= uint64(start) {
			ot.obsoleteWAL.CompareAndSwap(below, 0)
		} else {
			e.journal.want() // the rest waits for a later start
		}
	}
	return errors.Join(faults...)
}

func (e *Engine) submitJob(j sched.Job) {
	// Why ignored: a job is refused only by a scheduler that was closed, and Close does what is left itself.
	_ = e.jobs.Submit(j)
}
