package engine

import (
	"context"
	"time"
)

// All waiting of the engine for a while is in this file. Nothing that is stored or returned depends on how long.

// sleep waits for d; it returns early with the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// alarm calls f in its own goroutine once d has passed, unless it is stopped before. f must only submit work.
type alarm struct{ t *time.Timer }

func setAlarm(d time.Duration, f func()) *alarm { return &alarm{time.AfterFunc(d, f)} }

// stop cancels the alarm; nil is allowed.
func (a *alarm) stop() {
	if a != nil {
		a.t.Stop()
	}
}
