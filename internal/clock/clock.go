package clock

import (
	"sync"
	"time"
)

// Clock tells the current time. Safe for concurrent use.
type Clock interface {
	Now() time.Time
}

// System returns the operating system's clock. Its times carry the monotonic reading, so differences of
// two of them are not disturbed by adjustments of the wall clock.
func System() Clock { return system{} }

type system struct{}

// Now implements Clock.
func (system) Now() time.Time { return time.Now() }

// Manual is a clock that stands still until a test moves it.
type Manual struct {
	mu  sync.Mutex
	now time.Time // under mu
}

// NewManual returns a clock standing at start.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock by d, which may be negative, and returns the new time.
func (m *Manual) Advance(d time.Duration) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	return m.now
}

// Set moves the clock to t.
func (m *Manual) Set(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = t
}
