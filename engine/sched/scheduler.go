package sched

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"lancesql/internal/errs"
)

// Scheduler runs jobs in its own workers, or, made with no workers, in the goroutine that calls RunOne. All
// methods are safe for concurrent use.
//
// Immutable: workers, log, base, cancel. Under mu: everything else. No job, callback or log call runs under mu.
type Scheduler struct {
	workers int
	log     *slog.Logger
	base    context.Context // parent of every job's context; ends when Close gives up waiting
	cancel  context.CancelFunc

	mu      sync.Mutex
	onError func(Job, error)
	tasks   map[taskKey]*task
	pauses  map[string]*pause // by table
	arrival uint64
	running int
	closed  bool
	changed chan struct{} // closed and replaced whenever something happened
	stats   Stats
}

// pause stops a table's jobs. A pause after an error ends by itself.
type pause struct{ cancel context.CancelFunc }

// Stats counts what a scheduler did, and what it holds now.
type Stats struct {
	Queued, Running, Paused   int
	Runs, Conflicts, Failures uint64
}

// String implements fmt.Stringer.
func (s Stats) String() string {
	return fmt.Sprintf("queued %d, running %d, tables paused %d, runs %d, conflicts %d, failures %d",
		s.Queued, s.Running, s.Paused, s.Runs, s.Conflicts, s.Failures)
}

// New starts a scheduler with that many workers and one more that runs only write-behind; with two or more, the first
// runs nothing that may wait longer than a flush, and one more runs compactions, which no other does (I2). With none
// nothing runs by itself: RunOne and Drain run jobs in their caller's goroutine, in a fixed order, and back-off
// takes no time. A nil log discards.
func New(workers int, log *slog.Logger) *Scheduler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	base, cancel := context.WithCancel(context.Background())
	s := &Scheduler{workers: max(workers, 0), log: log, base: base, cancel: cancel, tasks: make(map[taskKey]*task),
		pauses: make(map[string]*pause), changed: make(chan struct{})}
	s.running = s.workers
	if s.workers > 0 {
		s.running++
		go s.work(func(k Kind) bool { return k == WriteBehind })
	}
	if s.workers > 1 {
		s.running++
		go s.work(func(k Kind) bool { return k == Compact })
	}
	for i := range s.workers {
		switch {
		case s.workers == 1:
			go s.work(anyKind)
		case i == 0:
			go s.work(func(k Kind) bool { return k <= Flush })
		default:
			go s.work(func(k Kind) bool { return k != Compact })
		}
	}
	return s
}

func anyKind(Kind) bool { return true }

// OnError sets the callback for errors that are not conflicts. It is called outside all locks and must not block.
func (s *Scheduler) OnError(f func(Job, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onError = f
}

// Submit queues a job; see I1 for what happens to its like. errs.ErrClosed after Close. Submitting to a paused
// table queues the job until the pause ends; Force ends it.
func (s *Scheduler) Submit(job Job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.submitLocked(job)
	return err
}

func (s *Scheduler) submitLocked(job Job) (*task, error) {
	if s.closed {
		return nil, fmt.Errorf("submit %s of %s: %w", job.Kind, job.Table, errs.ErrClosed)
	}
	key := taskKey{job.Kind, job.Table}
	t := s.tasks[key]
	if t == nil {
		t = &task{}
		s.tasks[key] = t
	}
	if job.Force {
		s.resumeLocked(job.Table)
		t.delayed = false
	}
	if t.queued {
		job.Pressure = max(job.Pressure, t.job.Pressure)
	} else {
		t.queued = true
		s.arrival++
		t.order = s.arrival
	}
	t.job = job
	s.signalLocked()
	return t, nil
}

// Do submits the job with Force and waits for a run that began after the call. It returns that run's error;
// conflicts are retried first. If ctx ends the job goes on without the caller.
func (s *Scheduler) Do(ctx context.Context, job Job) error {
	job.Force = true
	result := make(chan error, 1)
	s.mu.Lock()
	t, err := s.submitLocked(job)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	t.waiters = append(t.waiters, result)
	s.mu.Unlock()
	for s.workers == 0 && len(result) == 0 && ctx.Err() == nil && s.RunOne() {
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RunOne runs the next job that may run, in the caller's goroutine; false if there is none.
func (s *Scheduler) RunOne() bool {
	s.mu.Lock()
	t, job, waiters := s.takeLocked(anyKind)
	s.mu.Unlock()
	if t == nil {
		return false
	}
	s.execute(t, job, waiters)
	return true
}

// Drain returns once no job runs or could run; jobs of paused tables do not count. Without workers it runs
// everything itself.
func (s *Scheduler) Drain(ctx context.Context) error {
	for s.workers == 0 && ctx.Err() == nil && s.RunOne() {
	}
	return s.await(ctx, func() bool {
		if s.busyLocked("") {
			return false
		}
		for _, t := range s.tasks {
			if t.queued && s.pauses[t.job.Table] == nil {
				return false
			}
		}
		return true
	})
}

// Pause stops the table's jobs from starting until Resume or a job with Force.
func (s *Scheduler) Pause(table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauseLocked(table, 0)
}

// Resume ends a pause, whether it was asked for or follows from an error.
func (s *Scheduler) Resume(table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumeLocked(table)
	s.signalLocked()
}

// Forget drops the table's queued jobs and its pause, and waits for its running jobs. Jobs submitted afterwards
// run as usual. It must not be called from a job of the table.
func (s *Scheduler) Forget(ctx context.Context, table string) error {
	s.mu.Lock()
	s.resumeLocked(table)
	for key, t := range s.tasks {
		if key.table == table {
			s.dropLocked(key, t)
		}
	}
	s.signalLocked()
	s.mu.Unlock()
	return s.await(ctx, func() bool { return !s.busyLocked(table) })
}

// Close refuses new jobs, drops the queued ones and waits for the running ones. If ctx ends first, their contexts
// are cancelled and ctx's error is returned without waiting further. It may be called again.
func (s *Scheduler) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for key, t := range s.tasks {
		s.dropLocked(key, t)
	}
	for table := range s.pauses {
		s.resumeLocked(table)
	}
	s.signalLocked()
	s.mu.Unlock()
	err := s.await(ctx, func() bool { return s.running == 0 })
	s.cancel()
	if err != nil {
		return fmt.Errorf("wait for background jobs: %w", err)
	}
	return nil
}

// Stats returns the counters.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Paused = len(s.pauses)
	for _, t := range s.tasks {
		if t.queued {
			out.Queued++
		}
		if t.running {
			out.Running++
		}
	}
	return out
}

// work is one worker: it runs jobs of some kinds until the scheduler is closed. It counts as running from
// New on, so that Close waits for workers and for callers of RunOne alike.
func (s *Scheduler) work(runs func(Kind) bool) {
	for {
		s.mu.Lock()
		t, job, waiters := s.takeLocked(runs)
		if t == nil && s.closed {
			s.running--
			s.signalLocked()
			s.mu.Unlock()
			return
		}
		changed := s.changed
		s.mu.Unlock()
		if t == nil {
			<-changed
			continue
		}
		s.execute(t, job, waiters)
	}
}

// takeLocked picks the first job that may run now and marks its task as running.
func (s *Scheduler) takeLocked(runs func(Kind) bool) (*task, Job, []chan error) {
	var best *task
	for _, t := range s.tasks {
		if t.queued && !t.running && !t.delayed && runs(t.job.Kind) && s.pauses[t.job.Table] == nil &&
			(best == nil || t.goesBefore(best)) {
			best = t
		}
	}
	if best == nil {
		return nil, Job{}, nil
	}
	job, waiters := best.job, best.waiters
	best.queued, best.running, best.waiters = false, true, nil
	s.running++
	s.stats.Runs++
	return best, job, waiters
}

// execute runs a taken job and settles its outcome.
func (s *Scheduler) execute(t *task, job Job, waiters []chan error) {
	err := s.call(job)
	report := s.settle(t, job, waiters, err)
	if report == nil {
		return
	}
	s.log.Error("background job", "kind", job.Kind.String(), "table", job.Table, "error", err)
	var p *PanicError
	if errors.As(err, &p) {
		s.log.Error("stack of the panic", "stack", string(p.Stack))
	}
	report(job, err)
}

// call isolates a panic of the job (I3).
func (s *Scheduler) call(job Job) (err error) {
	ctx, cancel := context.WithCancel(s.base)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return job.Run(ctx)
}

// settle decides what follows from a run: forget, repeat after a back-off, or pause the table. It returns the
// callback if the error is to be reported.
func (s *Scheduler) settle(t *task, job Job, waiters []chan error, err error) func(Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.signalLocked()
	s.running--
	t.running = false
	conflict := errors.Is(err, errs.ErrConflict) && t.conflicts < attemptsMax
	switch {
	case err == nil || t.forgotten:
		t.conflicts, t.failures, t.forgotten = 0, 0, false
		finish(waiters, err)
		if !t.queued {
			delete(s.tasks, taskKey{job.Kind, job.Table})
		}
		return nil
	case conflict:
		s.stats.Conflicts++
		t.conflicts++
		t.waiters = append(t.waiters, waiters...)
		s.repeatLocked(t, job)
		s.delayLocked(t, backOff(retryMin, retryMax, t.conflicts))
		return nil
	default:
		s.stats.Failures++
		t.conflicts = 0
		t.failures++
		finish(waiters, err)
		s.repeatLocked(t, job)
		s.pauseLocked(job.Table, backOff(pauseMin, pauseMax, t.failures))
		if s.onError == nil {
			return func(Job, error) {}
		}
		return s.onError
	}
}

// repeatLocked queues the job again unless a newer one of its like is queued already.
func (s *Scheduler) repeatLocked(t *task, job Job) {
	if !t.queued {
		t.queued, t.job = true, job
		s.arrival++
		t.order = s.arrival
	}
}

// delayLocked keeps a queued task from running for d.
func (s *Scheduler) delayLocked(t *task, d time.Duration) {
	if s.workers == 0 || !t.queued {
		return
	}
	t.delayed = true
	s.later(d, func() { t.delayed = false })
}

// pauseLocked stops the table's jobs, for d or, with d = 0 or without workers, until Resume.
func (s *Scheduler) pauseLocked(table string, d time.Duration) {
	if old := s.pauses[table]; old != nil {
		old.cancel()
	}
	p := &pause{cancel: func() {}}
	s.pauses[table] = p
	if d > 0 && s.workers > 0 {
		p.cancel = s.later(d, func() {
			if s.pauses[table] == p {
				delete(s.pauses, table)
			}
		})
	}
}

func (s *Scheduler) resumeLocked(table string) {
	if p := s.pauses[table]; p != nil {
		delete(s.pauses, table)
		p.cancel()
	}
}

// later calls f under mu once d has passed, or the scheduler has ended, or the returned function was called.
func (s *Scheduler) later(d time.Duration, f func()) context.CancelFunc {
	ctx, cancel := context.WithTimeout(s.base, d)
	context.AfterFunc(ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
		s.signalLocked()
	})
	return cancel
}

// dropLocked forgets a task's queued job; a running one goes on, but nothing follows from its outcome.
func (s *Scheduler) dropLocked(key taskKey, t *task) {
	finish(t.waiters, fmt.Errorf("%s of %s was dropped: %w", key.kind, key.table, errs.ErrClosed))
	t.queued, t.delayed, t.waiters = false, false, nil
	if t.running {
		t.forgotten = true
	} else {
		delete(s.tasks, key)
	}
}

// busyLocked reports whether a job of the table ("" = any) runs.
func (s *Scheduler) busyLocked(table string) bool {
	for key, t := range s.tasks {
		if t.running && (table == "" || key.table == table) {
			return true
		}
	}
	return false
}

// await blocks until done, evaluated under mu, is true.
func (s *Scheduler) await(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// signalLocked wakes everybody who waits for a change. Why: jobs are few and long, so that waking all waiters is
// cheap, and nobody can miss what happened.
func (s *Scheduler) signalLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func finish(waiters []chan error, err error) {
	for _, w := range waiters {
		w <- err // never blocks: one result, one slot
	}
}
