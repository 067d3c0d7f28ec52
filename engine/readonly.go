package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/engine/lock"
	"lancesql/engine/sched"
	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// An engine opened for reading only stands beside the process that writes the directory. It holds no lock and has no
// store method that changes anything. Each table is read as lsm.OpenReadOnly says: a prefix of what was written for
// every shard, in WAL entries at least; what is in the journal only is not seen. Tables are looked at one by one, when a
// transaction first reads them, so states of different tables need not belong together.

// following is what an engine opened for reading only has beside the rest.
type following struct {
	staleness time.Duration
	closeIt   func() error // the store, if it is ours

	mu    sync.Mutex
	timer *alarm
	stop  bool
}

// OpenReadOnly opens a data directory that another process may be writing. Nothing in it is created, locked or changed.
// With Components.Store set, cfg.DataDir is ignored. Writes, and all else that would change something, fail with
// errs.ErrReadOnly. What a statement reads is at most cfg.Staleness older than its beginning, plus the time the writer
// takes to write behind. errs.ErrInvalid if it is no data directory, errs.ErrNewerFormat.
func OpenReadOnly(ctx context.Context, cfg Config, c Components) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, store: c.Store, log: c.Log, clock: c.Clock, tables: make(map[TableID]*openTable), reclaimed: make(map[TableID]reclaims), wasOpen: make(map[TableID]bool)}
	e.follow = &following{staleness: cfg.Staleness, closeIt: func() error { return nil }}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.clock == nil {
		e.clock = clock.System()
	}
	if e.store == nil {
		st, err := objstore.OpenReadOnly(cfg.DataDir)
		if err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		e.store, e.follow.closeIt = st, st.Close
	}
	if err := e.openFollowing(ctx); err != nil {
		return nil, errors.Join(err, e.follow.closeIt())
	}
	return e, nil
}

func (e *Engine) openFollowing(ctx context.Context) error {
	if _, err := ReadFormat(ctx, e.store); errors.Is(err, errs.ErrNotFound) {
		return fmt.Errorf("%s is not a lancesql data directory: it has no %s/%s: %w", e.cfg.DataDir, systemDir, formatName, errs.ErrInvalid)
	} else if err != nil {
		return err
	}
	e.catalog = newCatalogStore(e.store, e.clock, e.log)
	e.catalog.readOnly = true
	if err := e.followCatalog(ctx); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	var err error
	if e.keys, err = pkstore.Open(); err != nil {
		return err
	}
	e.locks = lock.New()
	e.jobs = sched.New(e.cfg.Workers, e.log)
	e.cfg.JournalSegmentBytes = memorySegmentBytes
	if err := e.openJournal(ctx, logfile.Memory(), nil); err != nil { // nothing is ever appended
		return errors.Join(err, e.abandon(ctx))
	}
	e.lookAgainLater()
	return nil
}

// ReadOnly reports whether the engine was opened by OpenReadOnly.
func (e *Engine) ReadOnly() bool { return e.follow != nil }

// changeable returns errs.ErrReadOnly if nothing may be changed.
func (e *Engine) changeable() error {
	if e.follow != nil {
		return fmt.Errorf("change data: %w", errs.ErrReadOnly)
	}
	return nil
}

// lookAgainLater has the catalog looked at once the staleness has passed.
func (e *Engine) lookAgainLater() {
	f := e.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop || e.cfg.Workers == NoWorkers {
		return
	}
	f.timer = setAlarm(f.staleness, func() {
		e.submitJob(sched.Job{Kind: sched.WriteBehind, Table: catalogJobs, Force: true, Run: func(ctx context.Context) error {
			defer e.lookAgainLater()
			return e.followCatalog(ctx)
		}})
	})
}

// catalogJobs is the name under which looks at the catalog run.
const catalogJobs = "catalog"

// stopFollowing ends the looks at the catalog.
func (f *following) stopFollowing() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = true
	f.timer.stop()
}

// followCatalog takes in the newest catalog and closes the tables that it has dropped, renamed or given other columns.
func (e *Engine) followCatalog(ctx context.Context) error {
	newest, err := newestSnapshot(ctx, e.store)
	if err != nil || newest == e.Catalog().Version {
		return err
	}
	var c *Catalog
	for try := 1; ; try++ {
		// Why again: the snapshot may have been pruned between the listing and the reading.
		if c, err = ReadCatalog(ctx, e.store); !errors.Is(err, errs.ErrNotFound) || try == 5 {
			break
		}
	}
	if err != nil {
		return err
	}
	e.catalog.image.Store(c)
	for _, ot := range e.openTables() {
		if cur := c.TableByID(ot.entry.ID); cur == nil || cur.Path != ot.entry.Path || !cur.Schema.Equal(ot.entry.Schema) {
			if err := e.closeTable(ctx, ot.entry.ID); err != nil {
				e.log.Warn("close a table that has changed", "table", ot.entry.Path, "error", err)
			}
		}
	}
	return nil
}

// newestSnapshot returns the greatest number of a catalog snapshot, 0 if there is none.
func newestSnapshot(ctx context.Context, st SystemStore) (newest uint64, err error) {
	err = st.List(ctx, catalogDir, func(i objstore.Info) error {
		if v, ok := parseSnapshotName(i.Name); ok && !i.Dir {
			newest = max(newest, v)
		}
		return nil
	})
	return newest, err
}

// followedTable is what an open table of an engine opened for reading only has beside the rest.
type followedTable struct {
	mu    sync.Mutex // held over a look
	since time.Time  // when the last look that succeeded began
}

// openFollowed opens the table beside its writer.
func (ot *openTable) openFollowed(ctx context.Context) error {
	since := ot.e.clock.Now()
	o := ot.e.tableOptions()
	// Why not what is visible now: states of tables need not belong together, and a view that is older than the first
	// look at a table may see what that look finds.
	o.Floor = 0
	var err error
	if ot.table, err = lsm.OpenReadOnly(ctx, o, ot.entry.Path); err != nil {
		return err
	}
	if !ot.table.Schema().Equal(ot.entry.Schema) {
		_ = ot.table.Close(ctx)
		return fmt.Errorf("%s has other columns than the catalog says: %w", ot.entry.Path, errs.ErrVanished)
	}
	ot.followed.since = since
	ot.ready.Store(true)
	return nil
}

// look takes in what the writer has done, unless the last look is recent enough.
func (ot *openTable) look(ctx context.Context) error {
	e := ot.e
	asked := e.clock.Now()
	ot.followed.mu.Lock()
	defer ot.followed.mu.Unlock()
	if asked.Sub(ot.followed.since) <= e.follow.staleness {
		return nil
	}
	since := e.clock.Now()
	err := ot.table.Refresh(ctx, lsm.FollowHooks{
		Publish:  e.seq.publish,
		LowWater: func() uint64 { return e.views.lowWater(&e.seq) },
	})
	if err == nil {
		ot.followed.since = since
	}
	return err
}

// vanished makes the next use of the table look anew, and turns an error that says that the writer has removed or
// changed what was being read into errs.ErrVanished: the statement may run again.
func (ot *openTable) vanished(ctx context.Context, err error) error {
	if !errors.Is(err, errs.ErrNotFound) && !errors.Is(err, errs.ErrSchemaChanged) && !errors.Is(err, errs.ErrClosed) {
		return err
	}
	ot.followed.mu.Lock()
	ot.followed.since = time.Time{}
	ot.followed.mu.Unlock()
	if cerr := ot.e.followCatalog(context.WithoutCancel(ctx)); cerr != nil {
		ot.e.log.Warn("look at the catalog", "error", cerr)
	}
	if errors.Is(err, errs.ErrSchemaChanged) {
		if cerr := ot.e.closeTable(context.WithoutCancel(ctx), ot.entry.ID); cerr != nil {
			ot.e.log.Warn("close a table that has changed", "table", ot.entry.Path, "error", cerr)
		}
	}
	return fmt.Errorf("read %s beside its writer: %w (%v)", ot.entry.Path, errs.ErrVanished, err)
}

// lostTable is vanished for a table that cannot be opened.
func (e *Engine) lostTable(ctx context.Context, err error) error {
	if e.follow == nil || !errors.Is(err, errs.ErrNotFound) && !errors.Is(err, errs.ErrSchemaChanged) && !errors.Is(err, errs.ErrVanished) {
		return err
	}
	if cerr := e.followCatalog(context.WithoutCancel(ctx)); cerr != nil {
		e.log.Warn("look at the catalog", "error", cerr)
	}
	return fmt.Errorf("%w (%v)", errs.ErrVanished, err)
}

// tableView is a transaction's view of one table of an engine opened for reading only: taken after a look at the table,
// for as long as base is what the transaction reads by.
type tableView struct{ base, own *view }

// viewOf is viewFor for a table.
func (t *Txn) viewOf(ctx context.Context, ot *openTable, k ReadKind) (*view, error) {
	base := t.viewFor(k)
	if t.e.follow == nil {
		return base, nil
	}
	if v, ok := t.followed[ot.entry.ID]; ok {
		if v.base == base {
			return v.own, nil
		}
		t.e.views.release(v.own)
		delete(t.followed, ot.entry.ID)
	}
	if err := ot.look(ctx); err != nil {
		return nil, ot.vanished(ctx, err)
	}
	own := t.e.views.register(&t.e.seq)
	if t.followed == nil {
		t.followed = make(map[TableID]tableView)
	}
	t.followed[ot.entry.ID] = tableView{base: base, own: own}
	return own, nil
}

// endFollowed gives up the views of single tables.
func (t *Txn) endFollowed() {
	for _, v := range t.followed {
		t.e.views.release(v.own)
	}
	t.followed = nil
}

// followedReader is a scan beside the writer.
type followedReader struct {
	arrowx.BatchReader
	ctx context.Context //nolint:containedctx // of the scan
	ot  *openTable
}

// Next implements arrowx.BatchReader; errs.ErrVanished if the writer removed what was being read.
func (r *followedReader) Next() (arrow.RecordBatch, error) {
	rec, err := r.BatchReader.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.ot.vanished(r.ctx, err)
	}
	return rec, err
}
