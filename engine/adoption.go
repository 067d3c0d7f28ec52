package engine

import (
	"context"
	"errors"

	"lancesql/engine/sched"
	"lancesql/internal/errs"
)

// lookOutside asks, at most once in Config.AdoptEvery, for a look whether another Lance writer has committed to the
// table. Why when the table is used and not by a timer: a table that nobody uses costs nothing, and a merge looks anyway.
func (ot *openTable) lookOutside() {
	e := ot.e
	if e.cfg.AdoptEvery <= 0 || e.cfg.Workers == NoWorkers {
		return
	}
	now := e.clock.Now().UnixNano()
	last := ot.looked.Load()
	if now-last < int64(e.cfg.AdoptEvery) || !ot.looked.CompareAndSwap(last, now) {
		return
	}
	ot.submit(sched.Adopt, false, ot.adopt)
}

// adopt takes in what others have committed.
func (ot *openTable) adopt(ctx context.Context) error {
	_, err := ot.table.Adopt(ctx, ot.e.mergeHooks())
	switch {
	case foreign(err):
		return ot.e.reclaim(ctx, ot, err)
	case errors.Is(err, errs.ErrSchemaChanged):
		// Why only once in the log: nothing changes until somebody undoes it.
		if ot.reshaped.CompareAndSwap(false, true) {
			ot.e.log.Error("another writer changed the columns of a table; it is served as it was before, and cannot be merged",
				"table", ot.entry.Database+"."+ot.entry.Name, "error", err)
		}
		return nil
	case err == nil:
		ot.reshaped.Store(false)
		ot.submitUpkeep(false)
	}
	return ignoreClosed(err)
}
