package engine

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"lancesql/engine/lock"
	"lancesql/engine/sched"
	"lancesql/indexes/pkstore"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// Engine is one open data directory. All methods are safe for concurrent use.
//
// Immutable after Open: cfg, store, log, clock, keys, locks, jobs, catalog, release. Own synchronisation:
// views, seq, tables. failed is set once, by the first durability error, and stops all later commits.
type Engine struct {
	cfg     Config
	store   objstore.Store
	log     *slog.Logger
	clock   clock.Clock
	keys    *pkstore.Store
	locks   *lock.Manager
	jobs    *sched.Scheduler
	catalog *catalogStore
	durable Durable
	release func() error // data directory lock

	planted lsm.Planted // set by tests only, before the first use of a table

	views  views
	seq    sequencer
	txnIDs atomic.Uint64
	failed atomic.Pointer[failure]

	tablesMu sync.Mutex
	tables   map[TableID]*openTable
	closing  atomic.Bool
}

type failure struct{ err error }

// Catalog returns the current immutable image. It does no I/O and never waits.
func (e *Engine) Catalog() *Catalog { return e.catalog.image.Load() }

// fail records the first error after which nothing may be acknowledged any more.
func (e *Engine) fail(err error) {
	if e.failed.CompareAndSwap(nil, &failure{err: err}) {
		e.log.Error("engine stopped accepting writes", "error", err)
	}
}

// Failed returns the error that stopped all writes, or nil.
func (e *Engine) Failed() error {
	if f := e.failed.Load(); f != nil {
		return fmt.Errorf("writes are stopped until restart: %w", f.err)
	}
	return nil
}

func (e *Engine) tableOptions() lsm.Options {
	return lsm.Options{
		Store: e.store, Keys: e.keys, Log: e.log, Clock: e.clock,
		MemTableRows: int64(e.cfg.MemTableRows), MemTableBytes: int64(e.cfg.MemTableBytes),
		UnflushedWAL: int64(e.cfg.UnflushedWALBytes), Retention: e.cfg.ManifestRetention,
		GenerationGrace: e.cfg.GenerationGrace, Floor: e.seq.visible.Load(), Planted: e.planted,
	}
}

func (e *Engine) checkOpen() error {
	if e.closing.Load() {
		return fmt.Errorf("engine: %w", errs.ErrClosed)
	}
	return nil
}
