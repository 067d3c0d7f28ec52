package engine

import (
	"context"
	"errors"
	"fmt"

	"lancesql/engine/sched"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// What makes the base of a table worth a compaction in the background.
const (
	compactSmall   = 8  // more small fragments than this
	compactDeleted = 10 // or more percent of deleted rows than this
	compactRemap   = 4  // index segments are rewritten once their rows have moved so often
)

// Optimized is what Optimize did.
type Optimized struct {
	lsm.Compacted
	Removed     []string // files and directories
	Unsupported error    // why fragments were left as they are, nil if they were not
}

// Optimize drains a table, joins its fragments, drops deleted rows, rewrites the index segments that rows have moved away
// from, and removes what is past retention. A table with nothing to do stays byte for byte as it is.
func (e *Engine) Optimize(ctx context.Context, id TableID) (done Optimized, err error) {
	if err := e.FlushTables(ctx, []TableID{id}); err != nil {
		return done, err
	}
	err = e.withTable(ctx, id, func(ot *openTable) error {
		ot.tune()
		done.Compacted, err = ot.table.Compact(ctx, e.mergeHooks(), lsm.Compaction{RemapFrom: 1, CatchUp: true})
		if errors.Is(err, errs.ErrUnsupported) {
			done.Unsupported, err = err, nil
		}
		if err == nil {
			done.Removed, err = ot.table.CleanupNow(ctx, e.views.lowWater(&e.seq))
		}
		return err
	})
	return done, err
}

// CatchUpIndexes builds what BITMAP and BLOOMFILTER indexes and zone maps lack over the base of a table.
func (e *Engine) CatchUpIndexes(ctx context.Context, id TableID) error {
	return e.withTable(ctx, id, func(ot *openTable) error {
		ot.tune()
		_, err := ot.table.CatchUp(ctx, e.mergeHooks())
		return err
	})
}

// DropScanIndex takes a BITMAP or BLOOMFILTER index out of the base of a table, whose definition has it no more.
func (e *Engine) DropScanIndex(ctx context.Context, id TableID, name string) error {
	return e.withTable(ctx, id, func(ot *openTable) error {
		ot.tune()
		return ot.table.DropScanIndex(ctx, e.mergeHooks(), name)
	})
}

// Recluster drains a table and rewrites its base so that rows of near values of some columns lie together: see
// lsm.Table.Recluster. Writers go on meanwhile.
func (e *Engine) Recluster(ctx context.Context, id TableID, o lsm.Recluster) (done lsm.Reclustered, err error) {
	if err := e.FlushTables(ctx, []TableID{id}); err != nil {
		return done, err
	}
	err = e.withTable(ctx, id, func(ot *openTable) error {
		ot.tune()
		done, err = ot.table.Recluster(ctx, e.mergeHooks(), o)
		return err
	})
	return done, err
}

// withTable runs f on the open table, once more if another opening took its place meanwhile.
func (e *Engine) withTable(ctx context.Context, id TableID, f func(*openTable) error) error {
	if err := e.changeable(); err != nil {
		return err
	}
	for range 3 {
		entry := e.Catalog().TableByID(id)
		if entry == nil {
			return fmt.Errorf("table %s: %w", id, errs.ErrNotFound)
		}
		ot, err := e.openTable(ctx, entry)
		if err != nil {
			return err
		}
		err = f(ot)
		switch {
		case foreign(err):
			if err := e.reclaim(ctx, ot, err); err != nil {
				return err
			}
		case !errors.Is(err, errs.ErrClosed):
			return err
		}
		if err := e.checkOpen(); err != nil {
			return err
		}
	}
	return fmt.Errorf("closed again and again: %w", errs.ErrConflict)
}

// compactLater asks for a compaction if the base is worth one.
func (ot *openTable) compactLater() {
	if ot.options().NoCompaction {
		return
	}
	b := ot.table.Base()
	if b.Small > compactSmall || b.Deleted*100 > (b.Rows+b.Deleted)*compactDeleted {
		ot.submit(sched.Compact, false, ot.compact)
	}
}

// compact rewrites one group of fragments, so that merges do not wait long, and asks for the next.
func (ot *openTable) compact(ctx context.Context) error {
	o := ot.options()
	if o.RemapFrom == 0 {
		o.RemapFrom = compactRemap
	}
	ot.table.Tune(o.Tuning)
	done, err := ot.table.Compact(ctx, ot.e.mergeHooks(), lsm.Compaction{Small: true, Groups: 1, RemapFrom: o.RemapFrom, NoWait: true})
	switch {
	case foreign(err):
		return ot.e.reclaim(ctx, ot, err)
	case errors.Is(err, errs.ErrUnsupported):
		// Why only once in the log: it stays so until somebody changes the table.
		if ot.rigid.CompareAndSwap(false, true) {
			ot.e.log.Warn("table is not compacted", "table", ot.entry.Path, "reason", err)
		}
		return nil
	case err == nil && done.Groups > 0:
		ot.e.log.Info("compacted", "table", ot.entry.Path, "rows", done.Rows, "fragments", done.FragmentsRemoved, "into", done.FragmentsAdded,
			"segments", done.Remapped)
		ot.submitUpkeep(false)
		ot.compactLater()
	}
	return ignoreClosed(err)
}
