package lock

import (
	"fmt"

	"lancesql/internal/errs"
)

// The waits-for graph has an edge from a waiting owner to every holder its request is incompatible with and to
// every earlier, incompatible request of the same queue. An owner waits for one request at a time, so all edges
// that a blocking request adds start or end at its owner: every new cycle passes through it, and a search from it
// finds one if there is any. Grants and departures only remove edges, or turn an edge to an earlier request into
// an edge to the same owner as a holder. That is I4.
//
// The search is breadth first over true edges, so that the cycle found is a shortest one and each of its owners
// really keeps it closed: ending any one of them breaks it.
// Why not only the nearest predecessor in a queue: reachability would be the same, but victims would be picked
// among owners whose departure changes nothing.

// visited says how far one search has already followed the edges of a queue: everything a request at or before a
// place waits for has been reached. It keeps a search linear in the length of a hot row's queue.
type visited struct {
	number uint64   // the search these fields belong to
	x      *request // furthest X request followed, nil if none
	s      *request // furthest S request followed, nil if none
}

// breakCyclesLocked ends victims until the owner of the new request r is in no cycle, or is a victim itself.
func (m *Manager) breakCyclesLocked(r *request) {
	for r.owner.waiting == r {
		end := m.findCycleLocked(r.owner)
		if end == nil {
			return
		}
		victim := end
		for o := end; o != nil; o = o.parent {
			if o.id > victim.id {
				victim = o
			}
		}
		m.stats.Deadlocks++
		victim.doomed = true
		m.decideLocked(victim.waiting, fmt.Errorf("row lock: %w", errs.ErrDeadlock))
	}
}

// findCycleLocked returns the last owner of a shortest cycle through start, nil if there is none. The others are
// its parents, up to start.
func (m *Manager) findCycleLocked(start *Owner) *Owner {
	m.search++
	m.visit = append(m.visit[:0], start)
	start.found, start.parent = m.search, nil
	defer func() { clear(m.visit) }() // Why: the list must not keep ended owners alive
	for i := 0; i < len(m.visit); i++ {
		o := m.visit[i]
		if o.waiting != nil && m.followLocked(o.waiting, start) {
			return o
		}
	}
	return nil
}

// followLocked reaches every owner the request waits for; it reports whether start is one of them.
func (m *Manager) followLocked(r *request, start *Owner) bool {
	e := r.entry
	v := &e.search
	if v.number != m.search {
		*v = visited{number: m.search}
	}
	if before(r, v.x) || r.mode == S && before(r, v.s) {
		return false
	}
	if r.mode == X && v.x == nil {
		for _, h := range e.shared {
			if m.reachLocked(h, r.owner, start) {
				return true
			}
		}
	}
	if e.exclusive != nil && m.reachLocked(e.exclusive, r.owner, start) {
		return true
	}
	q := e.first
	if v.x != nil {
		q = v.x
	}
	for ; q != nil && q != r; q = q.next {
		if !compatible(q.mode, r.mode) && m.reachLocked(q.owner, r.owner, start) {
			return true
		}
	}
	if r.owner == start {
		// Why: start skipped itself as a holder; whoever comes here next must not skip it.
		return false
	}
	if r.mode == X {
		v.x = r
	} else {
		v.s = r
	}
	return false
}

// before reports whether r stands at or before the request seen, which may be nil.
func before(r, seen *request) bool { return seen != nil && r.place <= seen.place }

// reachLocked adds o, which from waits for, to the work list; it reports whether o closes the cycle.
func (m *Manager) reachLocked(o, from, start *Owner) bool {
	if o == from {
		return false
	}
	if o == start {
		return true
	}
	if o.found != m.search {
		o.found, o.parent = m.search, from
		m.visit = append(m.visit, o)
	}
	return false
}
