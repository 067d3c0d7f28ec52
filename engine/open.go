package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"lancesql/engine/lock"
	"lancesql/engine/sched"
	"lancesql/indexes/pkstore"
	"lancesql/indexes/store"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// Open opens or initialises a data directory. With Components.Store set, cfg.DataDir is ignored and the store
// is used as it is, without a lock file. errs.ErrLocked if another process has the directory open,
// errs.ErrInvalid if it is not a data directory, errs.ErrNewerFormat if a newer version wrote it.
//
// Start-up does not depend on the number of tables: those with unfinished journal records are claimed and replayed now,
// the others at their first use.
func Open(ctx context.Context, cfg Config, c Components) (*Engine, error) {
	return openWith(ctx, cfg, c, planted{})
}

func openWith(ctx context.Context, cfg Config, c Components, p planted) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, store: c.Store, log: c.Log, clock: c.Clock, tableOptionsOf: c.TableOptions,
		tables: make(map[TableID]*openTable), reclaimed: make(map[TableID]reclaims), wasOpen: make(map[TableID]bool), planted: p}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.clock == nil {
		e.clock = clock.System()
	}
	dir := c.Journal
	if e.store == nil {
		st, release, err := openDataDir(ctx, cfg.DataDir)
		if err != nil {
			return nil, err
		}
		e.store, e.release = st, release
		if e.guard, err = guardDataDir(cfg.DataDir); err != nil {
			return nil, errors.Join(err, release())
		}
		if dir == nil {
			if dir, err = logfile.OpenDisk(filepath.Join(cfg.DataDir, filepath.FromSlash(journalDir))); err != nil {
				return nil, errors.Join(err, release())
			}
		}
	}
	if dir == nil {
		dir = logfile.Memory()
		e.cfg.JournalSegmentBytes = min(e.cfg.JournalSegmentBytes, memorySegmentBytes)
	}
	if err := e.openParts(ctx, dir, c.shortened); err != nil {
		if e.release != nil {
			_ = e.release()
		}
		return nil, err
	}
	return e, nil
}

// Place of the commit journal in the data directory, and size of its segments if it is in memory.
const (
	journalDir         = systemDir + "/journal"
	memorySegmentBytes = 1 << 20
)

func (e *Engine) openParts(ctx context.Context, dir *logfile.Dir, shortened []TableID) error {
	e.hold.gate = objstore.NewGate(e.store)
	e.store = e.hold.gate
	var err error
	if e.catalog, err = openCatalog(ctx, e.store, e.clock, e.log); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	e.catalog.guard = e.guard
	if e.keys, err = pkstore.Open(); err != nil {
		return err
	}
	e.pages = store.NewCache(e.cfg.IndexCacheBytes)
	e.locks = lock.New()
	e.fresh.set(max(e.cfg.Freshness, 0))
	e.jobs = sched.New(e.cfg.Workers, e.log)
	if err = e.openJournal(ctx, dir, shortened); err == nil {
		err = e.reput(ctx)
	}
	if err != nil {
		return errors.Join(err, e.abandon(ctx))
	}
	e.finishRebuilds(ctx)
	return nil
}

func (e *Engine) mergeHooks() lsm.Hooks {
	return lsm.Hooks{
		LowWater: func() uint64 { return e.views.lowWater(&e.seq) },
		Advance:  e.seq.advance,
	}
}

// abandon undoes a failed Open.
func (e *Engine) abandon(ctx context.Context) error {
	e.closing.Store(true)
	faults := []error{e.stopJobs(ctx)}
	for _, ot := range e.takeTables() {
		faults = append(faults, ot.table.Close(ctx))
	}
	if e.journal != nil {
		faults = append(faults, e.journal.w.Close())
	}
	return errors.Join(append(faults, e.keys.Close())...)
}

// Close lets running commits end, writes what is in the journal into WAL entries, and closes every table. Unflushed rows
// stay in the WAL and are replayed at the next open; the journal holds nothing then. It is idempotent; running statements
// fail with errs.ErrClosed.
func (e *Engine) Close(ctx context.Context) error {
	if !e.closing.CompareAndSwap(false, true) {
		return nil
	}
	if e.follow != nil {
		e.follow.stopFollowing()
	}
	e.ReleaseInstance()
	faults := []error{e.stopJobs(ctx)}
	e.commits.shut()
	for _, ot := range e.takeTables() {
		faults = append(faults, e.detach(ctx, ot))
	}
	if e.failed.Load() == nil {
		// Why now: the next start has nothing to recover.
		_, err := e.journal.release(ctx, e.counters.carry)
		faults = append(faults, err)
	}
	faults = append(faults, e.journal.w.Close(), e.keys.Close())
	e.temporary.discard()
	if e.release != nil {
		faults = append(faults, e.release())
	}
	if e.follow != nil {
		faults = append(faults, e.follow.closeIt())
	}
	return errors.Join(faults...)
}

func (e *Engine) stopJobs(ctx context.Context) error {
	e.behind.close()
	e.fresh.close()
	return e.jobs.Close(ctx)
}

// takeTables makes every table unfindable and returns those that are open.
func (e *Engine) takeTables() []*openTable {
	e.tablesMu.Lock()
	tables := e.tables
	e.tables = make(map[TableID]*openTable)
	e.tablesMu.Unlock()
	var list []*openTable
	for _, ot := range tables {
		ot.once.Do(func() { ot.err = errs.ErrClosed })
		if ot.err == nil {
			list = append(list, ot)
		}
	}
	return list
}
