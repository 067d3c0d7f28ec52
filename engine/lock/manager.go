package lock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lancesql/internal/errs"
)

// Manager grants locks to owners. All methods are safe for concurrent use.
//
// One mutex guards everything: each step is a map operation and a few pointer writes, and the deadlock search
// needs the whole graph to stand still. It is a leaf of the lock order: no other lock is taken and nothing is
// called while it is held.
//
// Why not shards: the waits-for graph would have to be searched across them, and a commit takes far longer than
// the locks of its rows.
type Manager struct {
	mu      sync.Mutex
	table   map[Resource]*entry
	peak    int      // largest size of table since it was made
	search  uint64   // number of the latest deadlock search
	visit   []*Owner // work list of the deadlock search, kept to be reused
	stats   Stats
	waiting int
	waiters map[*Owner]struct{} // owners with a pending request
}

// Owner is one session's set of locks, or one transaction's. Its methods of Manager are called by one goroutine at a
// time, except that Release and ReleaseAll may end a pending Lock. tag never changes; the others are guarded by
// Manager.mu.
type Owner struct {
	tag     uint64
	id      uint64
	held    [scopeCount][]*entry // one element per held resource
	waiting *request             // the pending request, if any
	doomed  bool                 // chosen as a victim (I5)

	found  uint64 // number of the deadlock search that reached this owner
	parent *Owner // and from where
}

// Stats counts what a manager did since it was made, and what it holds now.
type Stats struct {
	Resources int    // locked or waited for now
	Waiting   int    // requests pending now
	Waits     uint64 // requests that had to wait
	Timeouts  uint64 // requests that gave up, NOWAIT included
	Deadlocks uint64 // victims
}

// String implements fmt.Stringer.
func (s Stats) String() string {
	return fmt.Sprintf("resources %d, waiting %d, waits %d, timeouts %d, deadlocks %d",
		s.Resources, s.Waiting, s.Waits, s.Timeouts, s.Deadlocks)
}

// tableKeep is the number of resources up to which an empty table is kept rather than made anew.
const tableKeep = 1 << 16

// releaseBatch is the number of locks released in one critical section, so that the end of a large transaction
// does not hold up everybody.
const releaseBatch = 512

// New returns an empty manager.
func New() *Manager {
	return &Manager{table: make(map[Resource]*entry), waiters: make(map[*Owner]struct{})}
}

// NewOwner returns an owner without locks. The greatest id is the youngest owner; ids should be unique.
func NewOwner(id uint64) *Owner { return &Owner{id: id} }

// NewTaggedOwner returns an owner that HolderOf names by tag.
func NewTaggedOwner(id, tag uint64) *Owner { return &Owner{id: id, tag: tag} }

// Renew gives the owner the number of its next transaction.
func (m *Manager) Renew(o *Owner, id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.id = id
}

// Lock is LockFor with scope Transaction.
func (m *Manager) Lock(ctx context.Context, o *Owner, res Resource, mode Mode, wait time.Duration) error {
	return m.LockFor(ctx, o, res, mode, Transaction, wait)
}

// LockFor takes res in the given mode and keeps it until Release of the scope or ReleaseAll. A lock already held in this
// or a stronger mode costs nothing and keeps its scope; asking for another mode is an upgrade to what covers both. wait
// bounds how long the request may be pending: 0 does not wait at all, a negative value waits until ctx ends.
//
// Errors: errs.ErrLockTimeout (nothing changed, the owner keeps its other locks); errs.ErrDeadlock (the owner is
// the victim and, if the scope is Transaction, must release it); ctx's error; errs.ErrInvalid for a bad mode or a second
// pending request; errs.ErrClosed if a release ended the wait.
func (m *Manager) LockFor(ctx context.Context, o *Owner, res Resource, mode Mode, scope Scope, wait time.Duration) error {
	if mode < IS || mode > X || int(scope) >= scopeCount {
		return fmt.Errorf("lock mode %d, scope %d: %w", mode, scope, errs.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := m.request(o, res, mode, scope, wait)
	if r == nil {
		return err
	}
	return m.await(ctx, r, wait)
}

// request grants the lock at once, refuses it, or queues and returns a pending request.
func (m *Manager) request(o *Owner, res Resource, mode Mode, scope Scope, wait time.Duration) (*request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.doomed {
		return nil, fmt.Errorf("lock: %w", errs.ErrDeadlock)
	}
	if o.waiting != nil {
		return nil, fmt.Errorf("lock: owner %d is already waiting: %w", o.id, errs.ErrInvalid)
	}
	e := m.table[res]
	if e == nil {
		e = newEntry(res)
		m.table[res] = e
		m.peak = max(m.peak, len(m.table))
		e.grant(o, mode, scope)
		return nil, nil
	}
	had := e.heldBy(o)
	if had != None && had.Covers(mode) {
		return nil, nil
	}
	mode = join(had, mode)
	if e.free(mode, had) && e.overtakes(mode, had != None) {
		e.grant(o, mode, scope)
		return nil, nil
	}
	if wait == 0 {
		m.stats.Timeouts++
		return nil, fmt.Errorf("lock without waiting: %w", errs.ErrLockTimeout)
	}
	r := &request{owner: o, entry: e, mode: mode, had: had, scope: scope, done: make(chan error, 1)}
	e.enqueue(r)
	o.waiting = r
	m.waiting++
	m.waiters[o] = struct{}{}
	m.stats.Waits++
	m.breakCyclesLocked(r)
	return r, nil
}

// await blocks until the request is decided, the wait is over or ctx ends.
func (m *Manager) await(ctx context.Context, r *request, wait time.Duration) error {
	bounded := ctx
	if wait > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	select {
	case err := <-r.done:
		return err
	case <-bounded.Done():
	}
	m.mu.Lock()
	if r.owner.waiting != r {
		// Why: a decision made before we got the mutex stands, else a granted lock would be held by an owner
		// that was told it has none.
		m.mu.Unlock()
		return <-r.done
	}
	err := ctx.Err()
	if err == nil {
		err = fmt.Errorf("lock after %s: %w", wait, errs.ErrLockTimeout)
		m.stats.Timeouts++
	}
	m.decideLocked(r, err)
	m.mu.Unlock()
	return err
}

// ReleaseAll releases every lock of the owner, ends its pending request if there is one, and makes the owner
// usable again after a deadlock.
func (m *Manager) ReleaseAll(o *Owner) {
	for scope := range Scope(scopeCount) {
		m.Release(o, scope)
	}
}

// Release releases the locks of one scope and ends the pending request if it is of that scope. Releasing Transaction
// makes the owner usable again after a deadlock.
func (m *Manager) Release(o *Owner, scope Scope) {
	for m.releaseSome(o, scope) {
	}
}

func (m *Manager) releaseSome(o *Owner, scope Scope) (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.waiting != nil && o.waiting.scope == scope {
		m.decideLocked(o.waiting, fmt.Errorf("lock: %w", errs.ErrClosed))
	}
	held := o.held[scope]
	for n := 0; n < releaseBatch && len(held) > 0; n++ {
		last := len(held) - 1
		e := held[last]
		held[last] = nil
		held = held[:last]
		e.remove(o)
		m.promoteLocked(e)
	}
	o.held[scope] = held
	if len(held) > 0 {
		return true
	}
	if cap(held) > releaseBatch {
		o.held[scope] = nil
	}
	if scope == Transaction {
		o.doomed = false
	}
	if len(m.table) == 0 && m.peak > tableKeep {
		// Why: a Go map never gives memory back.
		m.table, m.peak = make(map[Resource]*entry), 0
	}
	return false
}

// Unlock releases one lock; false if the owner does not hold it.
func (m *Manager) Unlock(o *Owner, res Resource) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.table[res]
	if e == nil {
		return false
	}
	i := e.find(o)
	if i < 0 {
		return false
	}
	list := o.held[e.holders[i].scope]
	at := slices.Index(list, e)
	o.held[e.holders[i].scope] = slices.Delete(list, at, at+1)
	e.remove(o)
	m.promoteLocked(e)
	return true
}

// HolderOf returns the tag of an owner that holds res; false if nobody does.
func (m *Manager) HolderOf(res Resource) (tag uint64, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.table[res]; e != nil && len(e.holders) > 0 {
		return e.holders[0].owner.tag, true
	}
	return 0, false
}

// Held returns the mode in which o holds res, None if it does not.
func (m *Manager) Held(o *Owner, res Resource) Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.table[res]; e != nil {
		return e.heldBy(o)
	}
	return None
}

// Count returns the number of locks the owner holds.
func (m *Manager) Count(o *Owner) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, held := range o.held {
		n += len(held)
	}
	return n
}

// Waiting returns what the pending requests are for, by the tags of their owners.
func (m *Manager) Waiting() map[uint64]Resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[uint64]Resource, len(m.waiters))
	for o := range m.waiters {
		out[o.tag] = o.waiting.entry.res
	}
	return out
}

// Stats returns the counters.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Resources, s.Waiting = len(m.table), m.waiting
	return s
}

// decideLocked ends a pending request that is not granted, and grants whoever it stood in the way of.
func (m *Manager) decideLocked(r *request, err error) {
	r.entry.dequeue(r)
	m.settleLocked(r, err)
	m.promoteLocked(r.entry)
}

func (m *Manager) settleLocked(r *request, err error) {
	r.owner.waiting = nil
	m.waiting--
	delete(m.waiters, r.owner)
	r.done <- err // never blocks: one decision, one slot
}

// promoteLocked grants what can be granted of the queue (I2) and forgets an entry nobody needs.
func (m *Manager) promoteLocked(e *entry) {
	var ahead modeSet // modes of the requests that go on waiting
	for r := e.first; r != nil; {
		next := r.next
		if ahead&^friends(r.mode) == 0 && e.free(r.mode, r.had) {
			e.dequeue(r)
			e.grant(r.owner, r.mode, r.scope)
			m.settleLocked(r, nil)
		} else if ahead |= 1 << r.mode; r.mode == X {
			break
		}
		r = next
	}
	if e.first == nil && len(e.holders) == 0 {
		delete(m.table, e.res)
	}
}
