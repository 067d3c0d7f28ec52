package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/schema"
	"lancesql/lsm"
)

// openTable is one table in use: its lsm table, commit queue and counters. It is opened at first use and stays
// open until it is dropped or the engine closes.
type openTable struct {
	e          *Engine
	entry      *TableEntry
	keyCols    []int // physical positions of the primary key, in key order
	allColumns []int
	encoder    *rowkey.Encoder

	once  sync.Once
	err   error
	table *lsm.Table

	queue  commitQueue
	auto   Sequence
	rowIDs Sequence

	stallMu   sync.Mutex
	upkeepErr error // last failure of flush or merge; cleared by the next success
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
	ot.allColumns = make([]int, ot.entry.Schema.NumFields())
	for i := range ot.allColumns {
		ot.allColumns[i] = i
	}
	ot.table, err = lsm.Open(ctx, ot.e.tableOptions(), ot.entry.Path)
	if err != nil {
		return err
	}
	if !ot.table.Schema().Equal(ot.entry.Schema) {
		_ = ot.table.Close(ctx)
		return fmt.Errorf("catalog and dataset disagree about the columns of %s: %w", ot.entry.Path, errs.ErrSchemaChanged)
	}
	return nil
}

func (ot *openTable) key(row arrowx.Row) (rowkey.Key, error) {
	if len(row) != len(ot.allColumns) {
		return "", fmt.Errorf("row has %d cells, table has %d columns: %w", len(row), len(ot.allColumns), errs.ErrInvalid)
	}
	return ot.encoder.Row(row, ot.keyCols)
}

// closeTable evicts an open table, for DROP. Later uses of the entry fail with errs.ErrNotFound once the
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
	if err := e.jobs.Forget(ctx, id.String()); err != nil {
		return err
	}
	return ot.table.Close(ctx)
}

// createTableFiles writes the empty dataset of a new table.
func (e *Engine) createTableFiles(ctx context.Context, path string, def TableDef) error {
	return lsm.Create(ctx, e.tableOptions(), path, def.Schema, map[string]string{ShapeMetadataKey: string(def.Shape)})
}

// ShapeMetadataKey is the table_metadata key of the manifest that holds the table's SQL shape.
const ShapeMetadataKey = "lancesql:table"

// admit stalls a writer whose table has more unflushed data than memory should hold. It fails if upkeep
// cannot proceed (disk full), and never waits for ever without a reason.
func (ot *openTable) admit(ctx context.Context) error {
	p := ot.table.Pressure()
	cfg := ot.e.cfg
	if p.Frozen < cfg.FrozenSoft && p.Generations < cfg.GenerationsSoft {
		return nil
	}
	if p.Frozen < cfg.FrozenHard && p.Generations < cfg.GenerationsHard {
		// A delay that grows with the backlog lets flush and merge catch up before the hard limit.
		over := max(p.Frozen-cfg.FrozenSoft, 0) + max(p.Generations-cfg.GenerationsSoft, 0)
		return sleep(ctx, time.Duration(over)*time.Millisecond)
	}
	for {
		ot.submitUpkeep(true)
		if err := ot.upkeepFailure(); err != nil {
			return fmt.Errorf("table %s.%s cannot flush: %w", ot.entry.Database, ot.entry.Name, err)
		}
		p = ot.table.Pressure()
		if p.Frozen < cfg.FrozenHard && p.Generations < cfg.GenerationsHard {
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		if err := ot.e.checkOpen(); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (ot *openTable) upkeepFailure() error {
	ot.stallMu.Lock()
	defer ot.stallMu.Unlock()
	return ot.upkeepErr
}

func (ot *openTable) recordUpkeep(err error) {
	ot.stallMu.Lock()
	defer ot.stallMu.Unlock()
	if errors.Is(err, errs.ErrClosed) {
		err = nil
	}
	ot.upkeepErr = err
}
