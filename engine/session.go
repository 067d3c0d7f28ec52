package engine

import (
	"context"
	"strings"
	"time"

	"lancesql/engine/lock"
)

// Session is the locks of one connection: those of its transactions, of LOCK TABLES, of a running DDL statement and by
// name. They are one owner in the waits-for graph, so that a deadlock through any of them is found. Calls are serial,
// except Close.
type Session struct {
	e     *Engine
	id    uint64
	owner *lock.Owner
	names map[string]int // advisory locks held, with how often they were taken
	holds bool           // LockInstance is in force
}

// NewSession returns a session without locks; id is what HolderOfName tells of it.
func (e *Engine) NewSession(id uint64) *Session {
	return &Session{e: e, id: id, owner: lock.NewTaggedOwner(e.txnIDs.Add(1), id), names: map[string]int{}}
}

// Begin starts a transaction of the session, which has no other one.
func (s *Session) Begin(o TxnOptions) *Txn {
	t := s.e.begin(o, s.owner)
	t.session = s
	s.e.locks.Renew(s.owner, s.e.txnIDs.Add(1))
	return t
}

// orphan leaves the locks to a transaction whose outcome is unknown, and goes on with none.
func (s *Session) orphan() {
	s.owner = lock.NewTaggedOwner(s.e.txnIDs.Add(1), s.id)
	clear(s.names)
}

// LockMeta takes the metadata lock of a table's name: IS to read the table, IX to write it, S to keep writers out, X to
// change what the name stands for. Errors as lock.Manager.LockFor.
func (s *Session) LockMeta(ctx context.Context, db, table string, mode lock.Mode, scope lock.Scope, wait time.Duration) error {
	return s.e.locks.LockFor(ctx, s.owner, metaResource(db, table), mode, scope, wait)
}

func metaResource(db, table string) lock.Resource {
	return lock.Resource{Kind: lock.Meta, Key: strings.ToLower(db) + "\x00" + strings.ToLower(table)}
}

// MetaHeld returns the mode in which the session holds the metadata lock of a name.
func (s *Session) MetaHeld(db, table string) lock.Mode {
	return s.e.locks.Held(s.owner, metaResource(db, table))
}

// Release releases the locks of a scope.
func (s *Session) Release(scope lock.Scope) {
	s.e.locks.Release(s.owner, scope)
	if scope == lock.Advisory {
		clear(s.names)
	}
}

// LockName takes an advisory lock, once more if the session has it already. A negative wait has no end.
// errs.ErrLockTimeout, errs.ErrDeadlock (nothing but this wait ends), ctx's error.
func (s *Session) LockName(ctx context.Context, name string, wait time.Duration) error {
	if err := s.e.locks.LockFor(ctx, s.owner, namedResource(name), lock.X, lock.Advisory, wait); err != nil {
		return err
	}
	s.names[name]++
	return nil
}

// UnlockName releases an advisory lock once; false if the session does not have it.
func (s *Session) UnlockName(name string) bool {
	switch s.names[name] {
	case 0:
		return false
	case 1:
		delete(s.names, name)
		s.e.locks.Unlock(s.owner, namedResource(name))
	default:
		s.names[name]--
	}
	return true
}

// UnlockNames releases all advisory locks and returns how often they had been taken.
func (s *Session) UnlockNames() int {
	n := 0
	for _, times := range s.names {
		n += times
	}
	s.Release(lock.Advisory)
	return n
}

// HolderOfName returns the id of the session that has an advisory lock; false if none has.
func (e *Engine) HolderOfName(name string) (id uint64, held bool) {
	return e.locks.HolderOf(namedResource(name))
}

func namedResource(name string) lock.Resource { return lock.Resource{Kind: lock.Named, Key: name} }

// Waiting returns the kinds of locks that sessions wait for now, by their ids.
func (e *Engine) Waiting() map[uint64]lock.Kind {
	out := make(map[uint64]lock.Kind)
	for id, r := range e.locks.Waiting() {
		out[id] = r.Kind
	}
	return out
}

// Close releases everything and ends a pending wait. The session may go on being used.
func (s *Session) Close() {
	s.UnlockInstance()
	s.e.locks.ReleaseAll(s.owner)
	clear(s.names)
}
