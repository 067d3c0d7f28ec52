package lock

import (
	"math"
	"slices"
)

// entry is one locked resource: its holders and its queue. All fields are guarded by Manager.mu.
//
// Invariant: exclusive == nil or shared is empty (I1). The queue is in ascending place order: first the upgrades
// in arrival order, then the other requests in arrival order (I3).
type entry struct {
	res       Resource
	exclusive *Owner
	shared    []*Owner
	first     *request
	last      *request
	arrivals  int64
	search    visited
}

// request is one pending request.
type request struct {
	owner      *Owner
	entry      *entry
	mode       Mode
	upgrade    bool
	place      int64 // position in the queue; upgrades have negative places
	prev, next *request
	done       chan error // capacity 1: receives nil when granted, or why not
}

func (e *entry) heldBy(o *Owner) Mode {
	switch {
	case e.exclusive == o:
		return X
	case slices.Contains(e.shared, o):
		return S
	default:
		return None
	}
}

// free reports whether the holders allow a request of this mode. An upgrade is allowed when its owner is the
// only holder.
func (e *entry) free(mode Mode, upgrade bool) bool {
	switch {
	case e.exclusive != nil:
		return false
	case upgrade:
		return len(e.shared) == 1
	case mode == S:
		return true
	default:
		return len(e.shared) == 0
	}
}

func (e *entry) grant(o *Owner, mode Mode, upgrade bool) {
	if mode == S {
		e.shared = append(e.shared, o)
	} else {
		e.exclusive, e.shared = o, nil
	}
	if !upgrade {
		o.held = append(o.held, e)
	}
}

// remove takes a holder out.
func (e *entry) remove(o *Owner) {
	if e.exclusive == o {
		e.exclusive = nil
		return
	}
	if i := slices.Index(e.shared, o); i >= 0 {
		last := len(e.shared) - 1
		e.shared[i] = e.shared[last]
		e.shared[last] = nil
		e.shared = e.shared[:last]
	}
}

// enqueue puts a request at its place: an upgrade behind the other upgrades, any other request at the end.
func (e *entry) enqueue(r *request) {
	e.arrivals++
	r.place = e.arrivals
	after := e.last
	if r.upgrade {
		r.place += math.MinInt64
		after = nil
		for q := e.first; q != nil && q.upgrade; q = q.next {
			after = q
		}
	}
	r.prev = after
	if after == nil {
		r.next, e.first = e.first, r
	} else {
		r.next, after.next = after.next, r
	}
	if r.next == nil {
		e.last = r
	} else {
		r.next.prev = r
	}
}

func (e *entry) dequeue(r *request) {
	if r.prev == nil {
		e.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		e.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}
