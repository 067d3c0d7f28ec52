package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"lancesql/engine/journal"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/schema"
	"lancesql/lsm"
)

// openTable is one table in use. It is opened at first use and stays open until it is dropped or renamed, another
// writer takes over one of its shards, or the engine closes.
type openTable struct {
	e          *Engine
	entry      *TableEntry
	prev       *openTable // what it replaces, closed by open; nil once that is done
	keyCols    []int      // physical positions of the primary key, in key order
	allColumns []int
	encoder    *rowkey.Encoder
	indexed    []*rowkey.Encoder // of the columns of secondary indexes

	looked   atomic.Int64 // when outside commits were last asked for, Unix nanoseconds
	reshaped atomic.Bool  // an outside commit with other columns was reported
	rigid    atomic.Bool  // that its base cannot be compacted was reported

	once  sync.Once
	err   error
	table *lsm.Table
	ready atomic.Bool // opened without error

	followed followedTable

	obsoleteWAL  atomic.Uint64 // flushed WAL entries go once the journal starts at this record; 0 = there are none
	pendingSince atomic.Int64  // commit time of the oldest row that may not be in the base yet, Unix ns; 0 = none

	stallMu   sync.Mutex
	upkeepErr error // last failure of flush or merge; cleared by the next success
	upkeepRun int   // how many have ended
}

// openTable returns the table, opening it (claim, replay) if this is its first use. A failed open is retried
// by the next caller.
func (e *Engine) openTable(ctx context.Context, entry *TableEntry) (*openTable, error) {
	if err := e.checkOpen(); err != nil {
		return nil, err
	}
	e.tablesMu.Lock()
	ot := e.tables[entry.ID]
	if ot == nil {
		if cur := e.Catalog().TableByID(entry.ID); cur == nil {
			e.tablesMu.Unlock()
			return nil, fmt.Errorf("table %s.%s: %w", entry.Database, entry.Name, errs.ErrNotFound)
		} else {
			entry = cur
		}
		ot = &openTable{e: e, entry: entry}
		e.tables[entry.ID] = ot
	}
	e.tablesMu.Unlock()
	// Why: cancelling the first user must not leave the table half open for the others.
	ot.once.Do(func() { ot.err = ot.open(context.WithoutCancel(ctx)) })
	if ot.err != nil {
		e.tablesMu.Lock()
		if e.tables[entry.ID] == ot {
			delete(e.tables, entry.ID)
		}
		e.tablesMu.Unlock()
		return nil, fmt.Errorf("open table %s.%s: %w", entry.Database, entry.Name, ot.err)
	}
	ot.lookOutside()
	return ot, nil
}

func (ot *openTable) open(ctx context.Context) error {
	s, err := schema.FromArrow(ot.entry.Schema)
	if err != nil {
		return err
	}
	for _, f := range s.PrimaryKey() {
		ot.keyCols = append(ot.keyCols, ot.entry.Schema.FieldIndices(f.Name)[0])
	}
	if ot.encoder, err = lsm.KeyEncoder(ot.entry.Schema, ot.keyCols); err != nil {
		return err
	}
	for _, d := range ot.entry.Indexes {
		enc, err := lsm.KeyEncoder(ot.entry.Schema, []int{d.Column})
		if err != nil {
			return fmt.Errorf("index %s: %w", d.Name, err)
		}
		ot.indexed = append(ot.indexed, enc)
	}
	ot.allColumns = make([]int, ot.entry.Schema.NumFields())
	for i := range ot.allColumns {
		ot.allColumns[i] = i
	}
	if ot.e.follow != nil {
		return ot.openFollowed(ctx)
	}
	if err := ot.e.guard.check(); err != nil {
		ot.e.fail(err) // Why before a claim: it would take the shards from the server that has the directory now
		return err
	}
	if ot.prev != nil {
		err := ot.prev.table.Close(ctx)
		ot.e.journal.closed(ot.entry.ID, ot.prev.table)
		ot.prev = nil
		// Why: a view that ends with the last commit must not see what another writer brought.
		ot.e.seq.advance()
		if err != nil {
			return err
		}
	}
	o := ot.e.tableOptions()
	o.Floor = ot.e.floor(ot.entry.ID)
	o.Indexes = ot.entry.storedIndexes()
	o.Journal, o.WALEnds, o.BeforeLog = ot.e.journal.parts(ot.entry.ID), ot.e.journal.walEnds(ot.entry.ID), ot.e.syncJournal
	ot.table, err = lsm.Open(ctx, o, ot.entry.Path)
	if err != nil {
		return err
	}
	// Why: a table that comes from elsewhere may have seen greater record numbers than this journal gives out; a
	// recovery would take ours for written.
	if err := ot.e.journal.w.Skip(ctx, journal.J(ot.table.Evidence())+1); err != nil {
		_ = ot.table.Close(ctx)
		return err
	}
	if !ot.table.Schema().Equal(ot.entry.Schema) {
		_ = ot.table.Close(ctx)
		return fmt.Errorf("catalog and dataset disagree about the columns of %s: %w", ot.entry.Path, errs.ErrSchemaChanged)
	}
	ot.e.journal.opened(ot.entry.ID, ot.table)
	ot.e.tablesMu.Lock()
	ot.e.wasOpen[ot.entry.ID] = true
	ot.e.tablesMu.Unlock()
	ot.ready.Store(true)
	ot.notePending()
	return nil
}

// floor is the CommitSeq at which everything counts as born that an opening of the table finds. The first time that is
// before every view, since nobody here can have written to it.
func (e *Engine) floor(id TableID) uint64 {
	e.tablesMu.Lock()
	defer e.tablesMu.Unlock()
	if !e.wasOpen[id] {
		return 0
	}
	return e.seq.visible.Load()
}

// opened returns the table if it is open.
func (e *Engine) opened(id TableID) *openTable {
	e.tablesMu.Lock()
	defer e.tablesMu.Unlock()
	if ot := e.tables[id]; ot != nil && ot.ready.Load() {
		return ot
	}
	return nil
}

// openTables lists the tables that are open.
func (e *Engine) openTables() []*openTable {
	e.tablesMu.Lock()
	defer e.tablesMu.Unlock()
	list := make([]*openTable, 0, len(e.tables))
	for _, ot := range e.tables {
		if ot.ready.Load() {
			list = append(list, ot)
		}
	}
	return list
}

// options returns what the table's definition asks for now.
func (ot *openTable) options() TableOptions {
	// Why the catalog: the definition may have changed since the table was opened.
	if entry := ot.e.Catalog().TableByID(ot.entry.ID); entry != nil && ot.e.tableOptionsOf != nil {
		return ot.e.tableOptionsOf(entry)
	}
	return TableOptions{}
}

// tune lets the table's next merge or rewrite follow the definition.
func (ot *openTable) tune() { ot.table.Tune(ot.options().Tuning) }

// keyless reports whether the table has no primary key: it is append-only.
func (ot *openTable) keyless() bool { return len(ot.keyCols) == 0 }

func (ot *openTable) key(row arrowx.Row) (rowkey.Key, error) {
	if len(row) != len(ot.allColumns) {
		return "", fmt.Errorf("row has %d cells, table has %d columns: %w", len(row), len(ot.allColumns), errs.ErrInvalid)
	}
	if ot.keyless() {
		return ot.e.ownKey(), nil
	}
	return ot.encoder.Row(row, ot.keyCols)
}

// closeTable evicts an open table, for DROP and RENAME. Later uses of the entry fail with errs.ErrNotFound once the
// catalog no longer names it.
func (e *Engine) closeTable(ctx context.Context, id TableID) error {
	e.tablesMu.Lock()
	ot := e.tables[id]
	delete(e.tables, id)
	e.tablesMu.Unlock()
	if ot == nil {
		return nil
	}
	ot.once.Do(func() { ot.err = fmt.Errorf("table is being dropped: %w", errs.ErrClosed) })
	if ot.err != nil {
		return nil
	}
	for _, jobs := range [...]string{id.String(), logJobs(id)} {
		if err := e.jobs.Forget(ctx, jobs); err != nil {
			return err
		}
	}
	return e.detach(ctx, ot)
}

// detach closes a table that nobody can find any more. What it has in the journal is written behind if possible and
// kept for its next opening otherwise.
func (e *Engine) detach(ctx context.Context, ot *openTable) error {
	if _, _, ok := ot.table.Behind(); ok && e.failed.Load() == nil {
		if err := ot.table.WriteBehind(ctx); err != nil {
			e.log.Warn("journal records of a closed table wait for its next opening", "table", ot.entry.Path, "error", err)
		}
	}
	err := ot.table.Close(ctx)
	e.journal.closed(ot.entry.ID, ot.table)
	return err
}

// createTableFiles writes the empty dataset of a new table.
func (e *Engine) createTableFiles(ctx context.Context, path string, def TableDef) error {
	return lsm.CreateSharded(ctx, e.tableOptions(), path, def.Schema, map[string]string{ShapeMetadataKey: string(def.Shape)}, def.Sharding)
}

// ShapeMetadataKey is the table_metadata key of the manifest that holds the table's SQL shape.
const ShapeMetadataKey = "lancesql:table"

func (ot *openTable) upkeepFailure() error {
	_, err := ot.upkeepOutcome()
	return err
}

// upkeepOutcome returns how many flushes and merges have ended, and how the last one did.
func (ot *openTable) upkeepOutcome() (runs int, last error) {
	ot.stallMu.Lock()
	defer ot.stallMu.Unlock()
	return ot.upkeepRun, ot.upkeepErr
}

// upkeepFailed returns the failure of a flush or merge that ended after so many had. Why not any failure: what stood in the
// way, a full disk for one, may be gone, and only a new try shows.
func (ot *openTable) upkeepFailed(after int) error {
	if runs, err := ot.upkeepOutcome(); runs > after {
		return err
	}
	return nil
}

func (ot *openTable) recordUpkeep(err error) {
	ot.stallMu.Lock()
	defer ot.stallMu.Unlock()
	if errors.Is(err, errs.ErrClosed) {
		err = nil
	}
	ot.upkeepErr = err
	ot.upkeepRun++
}
