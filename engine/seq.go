package engine

import (
	"sync"
	"sync/atomic"
)

// sequencer hands out CommitSeq numbers in the order in which commits become visible (I1). mu serialises
// apply and publish over the whole engine; both are in-memory work.
type sequencer struct {
	mu      sync.Mutex
	visible atomic.Uint64
}

// publish applies one commit at the next number and makes it visible. If apply fails nothing is published.
func (q *sequencer) publish(apply func(seq uint64) error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := q.visible.Load() + 1
	if err := apply(next); err != nil {
		return err
	}
	q.visible.Store(next)
	return nil
}

// advance takes a number for an event that is not a commit (an adoption) and makes it visible.
func (q *sequencer) advance() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.visible.Add(1)
}
