package engine

import (
	"context"
	"errors"
	"fmt"

	"lancesql/engine/sched"
	"lancesql/internal/errs"
)

// afterCommit freezes a full MemTable and asks for the work that the commit made due.
func (e *Engine) afterCommit(ot *openTable) {
	e.behindLater(ot)
	ot.notePending()
	if err := ot.table.FreezeIfFull(); err != nil {
		e.log.Error("freeze MemTable", "table", ot.entry.Name, "error", err)
		return
	}
	ot.submitUpkeep(false)
}

// submitUpkeep queues flush, merge and clean-up jobs as the table's pressure demands.
func (ot *openTable) submitUpkeep(force bool) {
	p := ot.table.Pressure()
	if p.Frozen > 0 {
		ot.submit(sched.Flush, force, ot.flush)
	}
	if p.Generations >= ot.e.cfg.MergeAfterGenerations {
		ot.submit(sched.Merge, force, ot.merge)
	}
	if p.Obsolete > 0 {
		ot.submit(sched.Cleanup, false, ot.cleanup)
	}
}

func (ot *openTable) submit(kind sched.Kind, force bool, run func(context.Context) error) {
	ot.e.jobs.Submit(sched.Job{Kind: kind, Table: ot.entry.ID.String(), Force: force, Run: run})
}

func (ot *openTable) flush(ctx context.Context) error {
	return ot.upkeep(ctx, false, ot.table.Flush)
}

func (ot *openTable) merge(ctx context.Context) error {
	err := ot.upkeep(ctx, true, func(ctx context.Context) error {
		return ot.table.Merge(ctx, ot.e.mergeHooks())
	})
	if err == nil {
		ot.compactLater()
	}
	return err
}

// upkeep runs a flush, or a merge, and asks for what follows from it.
func (ot *openTable) upkeep(ctx context.Context, merge bool, run func(context.Context) error) error {
	began := ot.e.clock.Now()
	ot.tune()
	err := run(ctx)
	if foreign(err) {
		return ot.e.reclaim(ctx, ot, err)
	}
	ot.recordUpkeep(err)
	if err == nil {
		if merge { // a flush brings nothing to readers of the base
			ot.settlePending(began)
		}
		ot.e.trimLater(ot)
		ot.submitUpkeep(false)
	}
	return ignoreClosed(err)
}

func (ot *openTable) cleanup(ctx context.Context) error {
	return ignoreClosed(ot.table.Cleanup(ctx, ot.e.views.lowWater(&ot.e.seq)))
}

func ignoreClosed(err error) error {
	if errors.Is(err, errs.ErrClosed) {
		return nil
	}
	return err
}

// FlushTables drains the tables: when it returns nil, every row committed before the call is in the base
// table. nil drains all tables.
func (e *Engine) FlushTables(ctx context.Context, ids []TableID) error {
	if err := e.changeable(); err != nil {
		return err
	}
	cat := e.Catalog()
	var entries []*TableEntry
	if ids == nil {
		for _, d := range cat.Databases() {
			entries = append(entries, d.Tables()...)
		}
	}
	for _, id := range ids {
		t := cat.TableByID(id)
		if t == nil {
			return fmt.Errorf("flush table %s: %w", id, errs.ErrNotFound)
		}
		entries = append(entries, t)
	}
	for _, t := range entries {
		if err := e.drain(ctx, t); err != nil {
			return fmt.Errorf("flush table %s.%s: %w", t.Database, t.Name, err)
		}
	}
	return nil
}

func (e *Engine) drain(ctx context.Context, t *TableEntry) error {
	for range 3 {
		ot, err := e.openTable(ctx, t)
		if err != nil {
			if errors.Is(err, errs.ErrNotFound) && e.Catalog().TableByID(t.ID) == nil {
				return nil // Why: dropped meanwhile, so there is nothing left to drain
			}
			return err
		}
		drained := false
		err = ot.upkeep(ctx, true, func(ctx context.Context) error {
			err := ot.table.Freeze()
			if err == nil {
				err = ot.table.Flush(ctx)
			}
			if err == nil {
				err = ot.table.Merge(ctx, e.mergeHooks())
			}
			drained = err == nil
			return err
		})
		if err == nil {
			ot.compactLater()
		}
		if err != nil || drained {
			return err
		}
	}
	return fmt.Errorf("closed again and again: %w", errs.ErrConflict)
}
