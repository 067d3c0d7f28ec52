package lock

import "math"

// entry is one locked resource: its holders and its queue. All fields are guarded by Manager.mu.
//
// Invariant: the holders' modes are compatible (I1). The queue is in ascending place order: first the upgrades in
// arrival order, then the other requests in arrival order (I3).
type entry struct {
	res      Resource
	holders  []holder
	sole     [1]holder        // room for the commonest case
	held     [modeCount]int32 // holders by mode
	first    *request
	last     *request
	arrivals int64
	search   *visited // made when the first request queues
}

// holder is an owner and the mode in which it holds the resource.
type holder struct {
	owner *Owner
	mode  Mode
	scope Scope
}

// request is one pending request.
type request struct {
	owner      *Owner
	entry      *entry
	mode       Mode // what the owner will hold
	had        Mode // what it holds while it waits; None if this is no upgrade
	scope      Scope
	place      int64 // position in the queue; upgrades have negative places
	prev, next *request
	done       chan error // capacity 1: receives nil when granted, or why not
}

func (r *request) upgrade() bool { return r.had != None }

func newEntry(res Resource) *entry {
	e := &entry{res: res}
	e.holders = e.sole[:0]
	return e
}

func (e *entry) find(o *Owner) int {
	for i := range e.holders {
		if e.holders[i].owner == o {
			return i
		}
	}
	return -1
}

func (e *entry) heldBy(o *Owner) Mode {
	if i := e.find(o); i >= 0 {
		return e.holders[i].mode
	}
	return None
}

// free reports whether the holders allow the mode to an owner that holds had itself.
func (e *entry) free(mode, had Mode) bool {
	for m := IS; m <= X; m++ {
		n := e.held[m]
		if m == had {
			n--
		}
		if n > 0 && !compatible(m, mode) {
			return false
		}
	}
	return true
}

// overtakes reports whether a new request may be granted beside those that wait.
func (e *entry) overtakes(mode Mode, upgrade bool) bool {
	for q := e.first; q != nil; q = q.next {
		if upgrade && !q.upgrade() {
			return true
		}
		if !compatible(q.mode, mode) {
			return false
		}
	}
	return true
}

func (e *entry) grant(o *Owner, mode Mode, scope Scope) {
	e.held[mode]++
	if i := e.find(o); i >= 0 {
		e.held[e.holders[i].mode]--
		e.holders[i].mode = mode
		return
	}
	e.holders = append(e.holders, holder{owner: o, mode: mode, scope: scope})
	o.held[scope] = append(o.held[scope], e)
}

// remove takes a holder out.
func (e *entry) remove(o *Owner) {
	i := e.find(o)
	if i < 0 {
		return
	}
	e.held[e.holders[i].mode]--
	last := len(e.holders) - 1
	e.holders[i] = e.holders[last]
	e.holders[last] = holder{}
	e.holders = e.holders[:last]
}

// enqueue puts a request at its place: an upgrade behind the other upgrades, any other request at the end.
func (e *entry) enqueue(r *request) {
	e.arrivals++
	r.place = e.arrivals
	after := e.last
	if r.upgrade() {
		r.place += math.MinInt64
		after = nil
		for q := e.first; q != nil && q.upgrade(); q = q.next {
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
