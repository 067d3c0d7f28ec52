package engine

import (
	"context"
	"fmt"
	"log/slog"

	"lancesql/engine/lock"
	"lancesql/engine/sched"
	"lancesql/indexes/pkstore"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// Open opens or initialises a data directory. With Components.Store set, cfg.DataDir is ignored and the store
// is used as it is, without a lock file. errs.ErrLocked if another process has the directory open,
// errs.ErrInvalid if it is not a data directory, errs.ErrNewerFormat if a newer version wrote it.
//
// Start-up does not depend on the number of tables: each is claimed and replayed at its first use.
func Open(ctx context.Context, cfg Config, c Components) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, store: c.Store, log: c.Log, clock: c.Clock, durable: walDurable{}, tables: make(map[TableID]*openTable)}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.clock == nil {
		e.clock = clock.System()
	}
	if e.store == nil {
		st, release, err := openDataDir(ctx, cfg.DataDir)
		if err != nil {
			return nil, err
		}
		e.store, e.release = st, release
	}
	if err := e.openParts(ctx); err != nil {
		if e.release != nil {
			_ = e.release()
		}
		return nil, err
	}
	return e, nil
}

func (e *Engine) openParts(ctx context.Context) error {
	var err error
	if e.catalog, err = openCatalog(ctx, e.store, e.clock, e.log); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if e.keys, err = pkstore.Open(); err != nil {
		return err
	}
	e.locks = lock.New()
	e.jobs = sched.New(e.cfg.Workers, e.log)
	return nil
}

func (e *Engine) mergeHooks() lsm.Hooks {
	return lsm.Hooks{
		LowWater: func() uint64 { return e.views.lowWater(&e.seq) },
		Advance:  e.seq.advance,
	}
}

// Close stops background work and closes every table. Unflushed rows stay in the WAL and are replayed at the
// next open. It is idempotent; running statements fail with errs.ErrClosed.
func (e *Engine) Close(ctx context.Context) error {
	if !e.closing.CompareAndSwap(false, true) {
		return nil
	}
	first := e.jobs.Close(ctx)
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	e.tablesMu.Lock()
	tables := e.tables
	e.tables = make(map[TableID]*openTable)
	e.tablesMu.Unlock()
	for _, ot := range tables {
		ot.once.Do(func() { ot.err = errs.ErrClosed })
		if ot.err == nil {
			keep(ot.table.Close(ctx))
		}
	}
	keep(e.keys.Close())
	if e.release != nil {
		keep(e.release())
	}
	return first
}
