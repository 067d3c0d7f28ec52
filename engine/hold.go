package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lancesql/engine/lock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// hold is LOCK INSTANCE FOR BACKUP: as long as one session has it, the files of the data directory stay as they are but
// for the journal's newest segment, which grows. So whatever is copied, in whatever order, is what a crash at the moment of
// the lock would have left, and some of the commits since.
//
// mu guards the rest but on.
type hold struct {
	gate *objstore.Gate
	on   atomic.Bool // a session has it

	mu       sync.Mutex
	sessions int
	release  func() // nil while no session has it
	closed   bool
}

// LockInstance keeps the data directory as it is, as far as commits do not need it changed, until UnlockInstance or Close.
// It waits for statements that define tables, which wait for it from now on (InstanceShared); several sessions may have it.
// errs.ErrLockTimeout, errs.ErrDeadlock, ctx's error.
func (s *Session) LockInstance(ctx context.Context, wait time.Duration) error {
	if s.holds {
		return nil // as in MySQL
	}
	if err := s.e.locks.LockFor(ctx, s.owner, instanceResource, lock.S, lock.Instance, wait); err != nil {
		return err
	}
	if err := s.e.holdFiles(ctx); err != nil {
		s.e.locks.Release(s.owner, lock.Instance)
		return err
	}
	s.holds = true
	return nil
}

// UnlockInstance ends LockInstance; nothing happens if the session does not have it.
func (s *Session) UnlockInstance() {
	if s.holds {
		s.holds = false
		s.e.unholdFiles()
		s.e.locks.Release(s.owner, lock.Instance)
	}
}

// InstanceShared says that a statement is about to change files in ways of its own: it waits while another session has
// LockInstance, and LockInstance waits until the statement has ended. Errors as lock.Manager.LockFor.
//
// errs.ErrConflict if the session itself has LockInstance.
func (s *Session) InstanceShared(ctx context.Context, wait time.Duration) error {
	if s.holds {
		return fmt.Errorf("files are held by this session: %w", errs.ErrConflict)
	}
	return s.e.locks.LockFor(ctx, s.owner, instanceResource, lock.IX, lock.Statement, wait)
}

// LockDefinitions keeps statements that define tables from beginning, until the locks of lock.Session are released. Errors as
// lock.Manager.LockFor.
func (s *Session) LockDefinitions(ctx context.Context, wait time.Duration) error {
	return s.e.locks.LockFor(ctx, s.owner, instanceResource, lock.S, lock.Session, wait)
}

var instanceResource = lock.Resource{Kind: lock.Server}

// InstanceLocked reports whether a session has LockInstance.
func (e *Engine) InstanceLocked() bool { return e.hold.on.Load() }

func (e *Engine) holdFiles(ctx context.Context) error {
	if err := e.changeable(); err != nil {
		return err
	}
	e.openAll(ctx)
	h := &e.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return e.checkOpen()
	}
	if h.sessions == 0 {
		e.journal.hold(true)
		release, err := h.gate.Hold(ctx)
		if err != nil {
			e.journal.hold(false)
			return err
		}
		h.release = release
		h.on.Store(true)
		e.log.Info("files are held for a backup; flushes and merges wait")
	}
	h.sessions++
	return nil
}

func (e *Engine) unholdFiles() {
	h := &e.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions--; h.sessions == 0 {
		e.freeFilesLocked()
	}
}

// ReleaseInstance ends every LockInstance and refuses further ones: the engine is about to close, and statements that wait for
// files must be able to end.
func (e *Engine) ReleaseInstance() {
	h := &e.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	e.freeFilesLocked()
}

// freeFilesLocked: the caller holds hold.mu.
func (e *Engine) freeFilesLocked() {
	if e.hold.release == nil {
		return
	}
	e.hold.release()
	e.hold.release = nil
	e.hold.on.Store(false)
	e.journal.hold(false)
	e.log.Info("files are free again after a backup")
	for _, ot := range e.openTables() {
		e.behindLater(ot)
	}
	e.submitTrim()
}

// openAll opens every table, as far as that works. Why: an opening changes files, and a table that is not open could not
// be used while they are held.
func (e *Engine) openAll(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(openingsAtOnce)
	for _, d := range e.Catalog().Databases() {
		for _, t := range d.Tables() {
			g.Go(func() error {
				if _, err := e.openTable(ctx, t); err != nil && !errors.Is(err, context.Canceled) {
					e.log.Warn("table cannot be opened before a backup", "table", t.Path, "error", err)
				}
				return nil
			})
		}
	}
	_ = g.Wait() // no error is returned
}

const openingsAtOnce = 8
