package sched

import (
	"context"
	"fmt"
	"time"
)

// Kind orders jobs: a smaller kind runs first.
type Kind uint8

// Kinds by priority.
const (
	WriteBehind Kind = iota // journal records to WAL entries
	Flush                   // MemTables to generations
	Trim                    // removal of journal records and WAL entries
	Adopt                   // commits of other writers into memory
	Merge                   // generations to the base table
	Compact                 // small fragments of the base table into larger ones
	Cleanup                 // removal of everything else
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	switch k {
	case WriteBehind:
		return "write-behind"
	case Trim:
		return "trim"
	case Flush:
		return "flush"
	case Adopt:
		return "adopt"
	case Merge:
		return "merge"
	case Compact:
		return "compact"
	case Cleanup:
		return "cleanup"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Job is a unit of background work on one table. Run must be idempotent, must heed its context, and may return
// errs.ErrConflict to be run again later. A job of the same kind and table that is already queued is replaced.
type Job struct {
	Kind     Kind
	Table    string
	Pressure int64 // among queued jobs of one kind the greatest runs first
	Force    bool  // lift the pause of the table
	Run      func(ctx context.Context) error
}

// PanicError is what a job that panicked is reported with.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error; the stack is not part of the text.
func (p *PanicError) Error() string { return fmt.Sprintf("background job panicked: %v", p.Value) }

// Back-off after errors.
const (
	retryMin    = 5 * time.Millisecond // first repetition after a conflict; doubles
	retryMax    = time.Second
	attemptsMax = 20              // conflicts in a row after which the error counts as unknown
	pauseMin    = time.Second     // first pause of a table after an unknown error; doubles
	pauseMax    = 1 * time.Minute // long enough not to fill a log, short enough to notice that a disk has room again
)

// backOff doubles first n-1 times, up to limit.
func backOff(first, limit time.Duration, n int) time.Duration {
	d := first
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}

// task is the state of one (kind, table). All fields are guarded by Scheduler.mu.
type task struct {
	job       Job
	order     uint64 // arrival of the queued job
	queued    bool
	delayed   bool // queued, but not before its back-off has passed
	running   bool
	forgotten bool // running, but Forget or Close dropped it
	conflicts int  // in a row
	failures  int  // unknown errors in a row
	waiters   []chan error
}

type taskKey struct {
	kind  Kind
	table string
}

// goesBefore is the order of the queue.
func (t *task) goesBefore(u *task) bool {
	switch {
	case t.job.Kind != u.job.Kind:
		return t.job.Kind < u.job.Kind
	case t.job.Pressure != u.job.Pressure:
		return t.job.Pressure > u.job.Pressure
	default:
		return t.order < u.order
	}
}
