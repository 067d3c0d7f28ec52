package sched

import (
	"context"
	"log/slog"

	"lancesql/internal/errs"
)

// Kind orders jobs: a smaller kind runs first.
type Kind uint8

// Kinds by priority.
const (
	Flush Kind = iota
	Merge
	Cleanup
)

// Job is a unit of background work on one table.
type Job struct {
	Kind     Kind
	Table    string
	Pressure int64
	Force    bool
	Run      func(ctx context.Context) error
}

// Scheduler runs jobs.
type Scheduler struct{}

// New starts a scheduler.
func New(workers int, log *slog.Logger) *Scheduler { return &Scheduler{} }

// OnError sets the callback for errors; before the first Submit.
func (s *Scheduler) OnError(f func(Job, error)) {}

// Submit queues a job.
func (s *Scheduler) Submit(job Job) error { return errs.ErrUnsupported }

// Do submits a job with Force and waits until it has run.
func (s *Scheduler) Do(ctx context.Context, job Job) error { return errs.ErrUnsupported }

// RunOne runs the next job in the caller's goroutine.
func (s *Scheduler) RunOne() bool { return false }

// Drain waits until nothing is queued or running.
func (s *Scheduler) Drain(ctx context.Context) error { return nil }

// Pause stops the table's jobs until Resume.
func (s *Scheduler) Pause(table string) {}

// Resume lifts a pause.
func (s *Scheduler) Resume(table string) {}

// Close stops the scheduler.
func (s *Scheduler) Close(ctx context.Context) error { return nil }
