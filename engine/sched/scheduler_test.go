package sched

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// start makes a scheduler that is closed, and found idle, at the end of the test.
func start(t *testing.T, workers int) *Scheduler {
	s := New(workers, nil)
	t.Cleanup(func() { require.NoError(t, s.Close(background(t))) })
	return s
}

// trace records which jobs ran.
type trace struct {
	mu   sync.Mutex
	runs []string
}

func (tr *trace) job(k Kind, table string, err error) Job {
	return Job{Kind: k, Table: table, Run: func(context.Context) error {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.runs = append(tr.runs, fmt.Sprintf("%s %s", k, table))
		return err
	}}
}

func (tr *trace) list() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return append([]string{}, tr.runs...)
}

// gate is a job that runs until it is opened.
type gate struct{ entered, open chan struct{} }

func newGate() *gate { return &gate{entered: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) job(k Kind, table string) Job {
	return Job{Kind: k, Table: table, Run: func(ctx context.Context) error {
		g.entered <- struct{}{}
		select {
		case <-g.open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

func TestPriorityAndPressure(t *testing.T) {
	s, tr := start(t, 0), &trace{}
	for _, j := range []Job{tr.job(Cleanup, "a", nil), tr.job(Merge, "a", nil), tr.job(Merge, "b", nil), tr.job(Flush, "a", nil), tr.job(Flush, "c", nil)} {
		if j.Table != "a" {
			j.Pressure = 7
		}
		require.NoError(t, s.Submit(j))
	}
	require.Equal(t, 5, s.Stats().Queued)
	require.NoError(t, s.Drain(background(t)))
	require.Equal(t, []string{"flush c", "flush a", "merge b", "merge a", "cleanup a"}, tr.list())
	require.False(t, s.RunOne())
}

func TestQueuedJobsOfAKindMerge(t *testing.T) {
	s, tr := start(t, 0), &trace{}
	old := tr.job(Flush, "a", errors.New("replaced"))
	old.Pressure = 3
	require.NoError(t, s.Submit(old))
	require.NoError(t, s.Submit(tr.job(Flush, "b", nil)))
	require.NoError(t, s.Submit(tr.job(Flush, "a", nil)))
	require.NoError(t, s.Drain(background(t)))
	require.Equal(t, []string{"flush a", "flush b"}, tr.list(), "place and pressure of the first, work of the last")
}

func TestJobSubmittedWhileItsLikeRunsRunsAgain(t *testing.T) {
	s, g := start(t, 3), newGate()
	ctx := background(t)
	require.NoError(t, s.Submit(g.job(Merge, "a")))
	<-g.entered
	for range 5 {
		require.NoError(t, s.Submit(g.job(Merge, "a")))
	}
	require.Equal(t, Stats{Queued: 1, Running: 1, Runs: 1}, s.Stats())
	require.Empty(t, g.entered, "never two at a time")
	close(g.open)
	require.NoError(t, s.Drain(ctx))
	require.EqualValues(t, 2, s.Stats().Runs)
}

func TestOneWorkerIsKeptForFlushes(t *testing.T) {
	s, g := start(t, 2), newGate()
	for _, table := range []string{"a", "b", "c"} {
		require.NoError(t, s.Submit(g.job(Merge, table)))
	}
	<-g.entered
	flushed := make(chan struct{})
	require.NoError(t, s.Submit(Job{Kind: Flush, Table: "z", Run: func(context.Context) error { close(flushed); return nil }}))
	select {
	case <-flushed:
	case <-time.After(10 * time.Second):
		t.Fatal("merges held up a flush")
	}
	require.Eventually(t, func() bool { return s.Stats().Running == 1 }, 10*time.Second, time.Millisecond, "the other merges wait")
	close(g.open)
}

func TestCompactionsHoldNothingUp(t *testing.T) {
	s, g := start(t, 2), newGate()
	for _, table := range []string{"a", "b", "c"} {
		require.NoError(t, s.Submit(g.job(Compact, table)))
	}
	<-g.entered
	merged := make(chan struct{})
	require.NoError(t, s.Submit(Job{Kind: Merge, Table: "a", Run: func(context.Context) error { close(merged); return nil }}))
	select {
	case <-merged:
	case <-time.After(10 * time.Second):
		t.Fatal("compactions held up a merge")
	}
	require.Eventually(t, func() bool { return s.Stats().Running == 1 }, 10*time.Second, time.Millisecond, "one compaction at a time")
	close(g.open)
}

func TestConflictsAreRetried(t *testing.T) {
	for _, workers := range []int{0, 1} {
		s := start(t, workers)
		s.OnError(func(j Job, err error) { t.Errorf("%s: %v", j.Kind, err) })
		runs := 0
		err := s.Do(background(t), Job{Kind: Merge, Table: "a", Run: func(context.Context) error {
			if runs++; runs < 4 {
				return fmt.Errorf("commit: %w", errs.ErrConflict)
			}
			return nil
		}})
		require.NoError(t, err)
		require.Equal(t, 4, runs)
		require.EqualValues(t, 3, s.Stats().Conflicts)
	}
}

func TestEndlessConflictsAreAnError(t *testing.T) {
	s := start(t, 0)
	var reported error
	s.OnError(func(_ Job, err error) { reported = err })
	err := s.Do(background(t), Job{Kind: Merge, Table: "a", Run: func(context.Context) error { return errs.ErrConflict }})
	require.ErrorIs(t, err, errs.ErrConflict)
	require.ErrorIs(t, reported, errs.ErrConflict)
	require.EqualValues(t, attemptsMax+1, s.Stats().Runs)
	require.Equal(t, 1, s.Stats().Paused)
}

func TestErrorPausesOnlyItsTable(t *testing.T) {
	s, tr := start(t, 0), &trace{}
	broken := errors.New("disk on fire")
	var reported []string
	s.OnError(func(j Job, err error) { reported = append(reported, fmt.Sprintf("%s %s: %v", j.Kind, j.Table, err)) })
	require.NoError(t, s.Submit(tr.job(Flush, "a", broken)))
	require.NoError(t, s.Submit(tr.job(Merge, "a", nil)))
	require.NoError(t, s.Submit(tr.job(Merge, "b", nil)))
	require.NoError(t, s.Drain(background(t)))
	require.Equal(t, []string{"flush a", "merge b"}, tr.list())
	require.Equal(t, []string{"flush a: disk on fire"}, reported)

	require.NoError(t, s.Submit(tr.job(Flush, "a", nil)))
	require.False(t, s.RunOne(), "an ordinary job waits for the end of the pause")
	forced := tr.job(Flush, "a", nil)
	forced.Force = true
	require.NoError(t, s.Submit(forced))
	require.NoError(t, s.Drain(background(t)))
	require.Equal(t, []string{"flush a", "merge b", "flush a", "merge a"}, tr.list())
	require.Zero(t, s.Stats().Paused)
}

func TestPauseAfterAnErrorEndsByItself(t *testing.T) {
	s := start(t, 1)
	var runs atomic.Int64
	require.NoError(t, s.Submit(Job{Kind: Flush, Table: "a", Run: func(context.Context) error {
		if runs.Add(1) == 1 {
			return errs.ErrNoSpace
		}
		return nil
	}}))
	require.Eventually(t, func() bool { return runs.Load() == 2 }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Drain(background(t)))
}

func TestExplicitPause(t *testing.T) {
	s, tr := start(t, 1), &trace{}
	s.Pause("a")
	s.Pause("a")
	require.NoError(t, s.Submit(tr.job(Flush, "a", nil)))
	require.NoError(t, s.Drain(background(t)))
	require.Empty(t, tr.list())
	s.Resume("a")
	require.NoError(t, s.Drain(background(t)))
	require.Len(t, tr.list(), 1)
}

func TestPanicIsAnError(t *testing.T) {
	s := start(t, 1)
	reported := make(chan error, 1)
	s.OnError(func(_ Job, err error) { reported <- err })
	err := s.Do(background(t), Job{Kind: Merge, Table: "a", Run: func(context.Context) error {
		var none []int
		_ = none[len(reported)+3]
		return nil
	}})
	var p *PanicError
	require.ErrorAs(t, err, &p)
	require.Contains(t, err.Error(), "index out of range")
	require.Contains(t, string(p.Stack), "TestPanicIsAnError")
	require.Equal(t, err, <-reported)
	require.NoError(t, s.Do(background(t), Job{Kind: Merge, Table: "b", Run: func(context.Context) error { return nil }}), "the worker lives on")
}

func TestDoWaitsForARunThatBeganLater(t *testing.T) {
	s, g := start(t, 2), newGate()
	require.NoError(t, s.Submit(g.job(Merge, "a")))
	<-g.entered
	second := errors.New("the second run")
	done := make(chan error, 1)
	go func() {
		done <- s.Do(background(t), Job{Kind: Merge, Table: "a", Run: func(context.Context) error { return second }})
	}()
	require.Eventually(t, func() bool { return s.Stats().Queued == 1 }, 10*time.Second, time.Millisecond)
	require.Empty(t, done)
	close(g.open)
	require.ErrorIs(t, <-done, second)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Pause("b")
	require.ErrorIs(t, s.Do(ctx, newGate().job(Merge, "c")), context.Canceled)
}

func TestForget(t *testing.T) {
	s, g, tr := start(t, 2), newGate(), &trace{}
	failing := Job{Kind: Merge, Table: "a", Run: func(ctx context.Context) error {
		if err := g.job(Merge, "a").Run(ctx); err != nil {
			return err
		}
		return errors.New("table is gone")
	}}
	s.OnError(func(_ Job, err error) { t.Errorf("reported: %v", err) })
	require.NoError(t, s.Submit(failing))
	<-g.entered
	require.NoError(t, s.Submit(tr.job(Merge, "a", nil)))
	require.NoError(t, s.Submit(tr.job(Cleanup, "a", nil)))
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Forget(short, "a"), context.DeadlineExceeded, "waits for the running job")
	close(g.open)
	require.NoError(t, s.Forget(background(t), "a"))
	require.Empty(t, tr.list())
	require.Equal(t, Stats{Runs: 1}, s.Stats())
	require.NoError(t, s.Do(background(t), tr.job(Merge, "a", nil)), "the table may come back")
}

func TestClose(t *testing.T) {
	s, g, tr := New(2, nil), newGate(), &trace{}
	require.NoError(t, s.Submit(g.job(Merge, "a")))
	<-g.entered
	require.NoError(t, s.Submit(tr.job(Merge, "b", nil)))
	waiting := make(chan error, 1)
	go func() { waiting <- s.Do(background(t), tr.job(Merge, "c", nil)) }()
	require.Eventually(t, func() bool { return s.Stats().Queued == 2 }, 10*time.Second, time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- s.Close(background(t)) }()
	require.ErrorIs(t, <-waiting, errs.ErrClosed)
	require.ErrorIs(t, s.Submit(tr.job(Flush, "d", nil)), errs.ErrClosed)
	require.ErrorIs(t, s.Do(background(t), tr.job(Flush, "d", nil)), errs.ErrClosed)
	require.Empty(t, closed, "a job still runs")
	close(g.open)
	require.NoError(t, <-closed)
	require.NoError(t, s.Close(background(t)))
	require.Empty(t, tr.list(), "queued jobs are dropped")
}

func TestCloseGivesUpWaiting(t *testing.T) {
	s, g := New(1, nil), newGate()
	require.NoError(t, s.Submit(g.job(Merge, "a")))
	<-g.entered
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Close(ctx), context.DeadlineExceeded)
	require.NoError(t, s.Close(background(t)), "the job's context was cancelled, so it ends")
}

func TestBackOff(t *testing.T) {
	require.Equal(t, retryMin, backOff(retryMin, retryMax, 1))
	require.Equal(t, 4*retryMin, backOff(retryMin, retryMax, 3))
	require.Equal(t, retryMax, backOff(retryMin, retryMax, 1_000_000))
}

// TestStress submits from many goroutines while jobs fail, conflict and panic: never two runs of one (kind, table),
// and everything comes to rest.
func TestStress(t *testing.T) {
	s := New(4, nil)
	const tables = 5
	var active [3 * tables]atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				k, table := Kind((g+i)%3), (g*7+i)%tables
				slot := &active[int(k)*tables+table]
				_ = s.Submit(Job{Kind: k, Table: fmt.Sprint(table), Force: i%3 == 0, Pressure: int64(i % 5), Run: func(context.Context) error {
					if slot.Add(1) != 1 {
						t.Error("two runs at once")
					}
					defer slot.Add(-1)
					switch i % 50 {
					case 0:
						return errs.ErrConflict
					case 1:
						return errs.ErrNoSpace
					case 2:
						panic("job")
					}
					return nil
				}})
			}
		})
	}
	wg.Wait()
	for i := range tables {
		s.Resume(fmt.Sprint(i))
	}
	require.NoError(t, s.Drain(background(t)))
	require.NoError(t, s.Close(background(t)))
	require.Contains(t, s.Stats().String(), "queued 0, running 0")
}

func ExampleScheduler() {
	s := New(0, nil) // no workers: jobs run when asked for
	_ = s.Submit(Job{Kind: Merge, Table: "t", Run: func(context.Context) error { fmt.Println("merge"); return nil }})
	_ = s.Submit(Job{Kind: Flush, Table: "t", Run: func(context.Context) error { fmt.Println("flush"); return nil }})
	for s.RunOne() {
	}
	// Output:
	// flush
	// merge
}
