package engine

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"lancesql/engine/lock"
	"lancesql/engine/sched"
	"lancesql/indexes/pkstore"
	"lancesql/indexes/store"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// Engine is one open data directory. All methods are safe for concurrent use.
//
// Immutable after Open: cfg, store, log, clock, keys, locks, jobs, catalog, journal, release, tableOptionsOf. Own
// synchronisation: views, seq, commits, writers, counters, behind, fresh, stalls. tablesMu guards tables, reclaimed and wasOpen. failed is
// set once, by the first durability error, and stops all later commits.
type Engine struct {
	cfg     Config
	store   objstore.Store
	log     *slog.Logger
	clock   clock.Clock
	keys    *pkstore.Store
	pages   *store.Cache // of index files, over all tables
	account account
	writers writers
	locks   *lock.Manager
	jobs    *sched.Scheduler
	catalog *catalogStore
	journal *commitLog
	release func() error // data directory lock
	guard   *dirGuard    // of it; nil without one
	follow  *following   // of an engine opened for reading only, else nil

	tableOptionsOf func(*TableEntry) TableOptions // nil = every table has the server's

	planted planted

	views    views
	seq      sequencer
	commits  commitQueue
	counters counters
	behind   behindQueue
	fresh    freshness
	stalls   stalls
	hold     hold
	txnIDs   atomic.Uint64
	ownKeys  atomic.Uint64 // made up so far
	failed   atomic.Pointer[failure]
	syncing  atomic.Bool // a sync of the journal is due within a second
	making   atomic.Bool // the journal's next segment is being made, or could not be made just now

	temporary      *temporary   // of an engine of temporary tables; nil otherwise
	temporaryBytes atomic.Int64 // files of all engines of temporary tables that this one opened

	tablesMu  sync.Mutex
	tables    map[TableID]*openTable
	reclaimed map[TableID]reclaims
	wasOpen   map[TableID]bool // tables that have been opened
	closing   atomic.Bool
}

type failure struct{ err error }

// planted names the rules that a test may switch off to prove that it would notice. The zero value switches off none.
type planted struct {
	lsm           lsm.Planted
	skipSync      bool  // commits are acknowledged without a sync
	failJournal   error // what the next commit's record fails with
	skipPart      bool  // a record misses the last of several parts
	trimAll       bool  // the journal gives up what is in no entry
	skipBeforeLog bool  // entries are written although their record is not synced
	trimBefore    bool  // WAL entries go although the journal still has their records
}

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

// SetDurability changes when commits are acknowledged; commits in progress may still follow the old setting. A read-only
// engine has none.
func (e *Engine) SetDurability(d Durability) {
	if e.journal != nil {
		e.journal.durability.Store(uint32(d))
	}
}

// Durability returns the setting in force.
func (e *Engine) Durability() Durability {
	if e.journal == nil {
		return SyncCommit
	}
	return Durability(e.journal.durability.Load())
}

func (e *Engine) tableOptions() lsm.Options {
	return lsm.Options{
		Store: e.store, Keys: e.keys, Pages: e.pages, Log: e.log, Clock: e.clock,
		MemTableRows: int64(e.cfg.MemTableRows), MemTableBytes: int64(e.cfg.MemTableBytes),
		UnflushedWAL: int64(e.cfg.UnflushedWALBytes), Retention: e.cfg.ManifestRetention,
		GenerationGrace: e.cfg.GenerationGrace, Floor: e.seq.visible.Load(), Planted: e.planted.lsm,
	}
}

func (e *Engine) checkOpen() error {
	if e.closing.Load() {
		return fmt.Errorf("engine: %w", errs.ErrClosed)
	}
	return nil
}
