package engine

import (
	"context"
	"time"

	"lancesql/engine/sched"
	"lancesql/lsm"
)

// TableState is what an open table looks like now.
type TableState struct {
	Size     TableStats
	Lag      Lag
	Pressure lsm.Pressure
	Base     lsm.BaseInfo
	Twice    int   // keys that other writers have brought a second time since the table was opened
	Failure  error // of the last flush or merge, nil if it succeeded
}

// State returns the state of a table; ok is false if it is not open. It opens nothing and does no I/O.
func (e *Engine) State(id TableID) (s TableState, ok bool) {
	ot := e.opened(id)
	if ot == nil {
		return TableState{}, false
	}
	s = TableState{Lag: ot.lag(), Pressure: ot.table.Pressure(), Base: ot.table.Base(), Twice: ot.table.Twice(), Failure: ot.upkeepFailure()}
	s.Size.Rows, s.Size.Bytes = ot.table.Size()
	return s, true
}

// Jobs lists the background jobs that wait, run or are paused, in the order they would run.
func (e *Engine) Jobs() []sched.State { return e.jobs.List() }

// Lag returns how far outside readers of the table are behind. It opens the table.
func (e *Engine) Lag(ctx context.Context, tbl *TableEntry) (Lag, error) {
	ot, err := e.openTable(ctx, tbl)
	if err != nil {
		return Lag{}, err
	}
	return ot.lag(), nil
}

// Now is the time on the engine's clock.
func (e *Engine) Now() time.Time { return e.clock.Now() }
