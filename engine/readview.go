package engine

import "sync"

// view is one registered read view: a CommitSeq that keeps the low-water mark from passing it.
type view struct {
	seq  uint64
	refs int // guarded by views.mu
}

// views is the set of CommitSeq numbers some reader still needs.
//
// Invariant: lowWater never exceeds a registered view, now or later: a view registers the visible number
// under the same mutex under which lowWater is computed, and visible only grows.
type views struct {
	mu     sync.Mutex
	active map[uint64]int
}

// register takes a view of everything visible now.
func (v *views) register(q *sequencer) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.active == nil {
		v.active = make(map[uint64]int)
	}
	s := q.visible.Load()
	v.active[s]++
	return &view{seq: s, refs: 1}
}

// retain adds a holder, for a scan that outlives its statement.
func (v *views) retain(w *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.refs++
}

// release drops one holder; nil is allowed.
func (v *views) release(w *view) {
	if w == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	w.refs--
	if w.refs > 0 {
		return
	}
	if v.active[w.seq]--; v.active[w.seq] == 0 {
		delete(v.active, w.seq)
	}
}

// lowWater is the smallest CommitSeq any present or future view can have.
func (v *views) lowWater(q *sequencer) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	low := q.visible.Load()
	for s := range v.active {
		low = min(low, s)
	}
	return low
}
