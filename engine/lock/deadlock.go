package lock

import (
	"fmt"

	"lancesql/internal/errs"
)

// The waits-for graph has an edge from a waiting owner to every holder its request is incompatible with and to
// every earlier, incompatible request of the same queue. An owner waits for one request at a time. Edges arise when a
// request blocks and when an upgrade is granted; all of them start or end at its owner, so every new cycle passes
// through it, and an owner whose upgrade was granted waits for nobody. A search from the owner of a blocking request
// therefore finds a cycle if there is any. Other grants, and departures, only remove edges, or turn an edge to an
// earlier request into an edge to the same owner as a holder. That is I4.
//
// The search is breadth first over true edges, so that the cycle found is a shortest one and each of its owners
// really keeps it closed: ending any one of them breaks it.
// Why not only the nearest predecessor in a queue: reachability would be the same, but victims would be picked
// among owners whose departure changes nothing.

// visited says how far one search has already followed the edges of a queue: for each mode, the furthest request of
// that mode whose edges were followed. It keeps a search linear in the length of a hot row's queue.
type visited struct {
	number uint64 // the search the field below belongs to
	seen   [modeCount]*request
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
			if cheaper(o, victim) {
				victim = o
			}
		}
		if r.scope == Advisory {
			victim = r.owner // it loses nothing but this wait
		}
		m.stats.Deadlocks++
		victim.doomed = victim.waiting.scope == Transaction
		m.decideLocked(victim.waiting, fmt.Errorf("lock: %w", errs.ErrDeadlock))
	}
}

// cheaper reports whether a is rather to be the victim than b: the youngest of those that wait for their transaction,
// which can be run again; statements that define tables, only if there is no other.
func cheaper(a, b *Owner) bool {
	if x, y := a.waiting.scope == Transaction, b.waiting.scope == Transaction; x != y {
		return x
	}
	return a.id > b.id
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
	if e.search == nil {
		e.search = &visited{}
	}
	v := e.search
	if v.number != m.search {
		*v = visited{number: m.search}
	}
	if before(r, v.seen[X]) || before(r, v.seen[r.mode]) {
		return false
	}
	q := v.seen[r.mode]
	if q == nil {
		q = e.first
		for i := range e.holders {
			h := &e.holders[i]
			if !compatible(h.mode, r.mode) && m.reachLocked(h.owner, r.owner, start) {
				return true
			}
		}
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
	v.seen[r.mode] = r
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
