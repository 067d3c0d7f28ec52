package engine

import (
	"context"

	"lancesql/engine/sched"
	"lancesql/lsm"
)

// Planted names the rules that a simulation may switch off to prove that it would notice. The zero value switches off
// none.
type Planted struct {
	LSM      lsm.Planted
	SkipSync bool // commits are acknowledged without a sync
}

// OpenPlanted is Open with rules switched off. Only tests call it.
func OpenPlanted(ctx context.Context, cfg Config, c Components, p Planted) (*Engine, error) {
	return openWith(ctx, cfg, c, planted{lsm: p.LSM, skipSync: p.SkipSync})
}

// RunJob runs the next background job that is due, in the caller's goroutine; false if there is none. It is for engines
// opened with NoWorkers, whose background work is a test's to schedule.
func (e *Engine) RunJob() bool { return e.jobs.RunOne() }

// RunFreshness drains the table that has waited longest for it, if one is due; false if none is. As RunJob.
func (e *Engine) RunFreshness(ctx context.Context) bool { return e.freshen(ctx) }

// RunUpkeep does one kind of background work on a table now, as its job would. As RunJob.
func (e *Engine) RunUpkeep(ctx context.Context, tbl *TableEntry, kind sched.Kind) error {
	ot, err := e.openTable(ctx, tbl)
	if err != nil {
		return err
	}
	switch kind {
	case sched.WriteBehind:
		return e.writeBehind(ctx, tbl.ID)
	case sched.Flush:
		return ot.flush(ctx)
	case sched.Trim:
		return e.trim(ctx)
	case sched.Adopt:
		return ot.adopt(ctx)
	case sched.Merge:
		return ot.merge(ctx)
	case sched.Compact:
		return ot.compact(ctx)
	default:
		return ot.cleanup(ctx)
	}
}

// Freeze makes the MemTables of a table ready for a flush, whatever their size. As RunJob.
func (e *Engine) Freeze(ctx context.Context, tbl *TableEntry) error {
	ot, err := e.openTable(ctx, tbl)
	if err != nil {
		return err
	}
	return ignoreClosed(ot.table.Freeze())
}
