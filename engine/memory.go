package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"lancesql/internal/errs"
)

// memoryLook is how often the account is added up at most; between two looks it can grow by what a few commits bring.
const memoryLook = 20 * time.Millisecond

// lockBytes estimates what a row lock takes.
const lockBytes = 240

// MemoryUse is what the engine holds in memory that grows with its load, in bytes, estimated.
type MemoryUse struct {
	MemTables int64 // rows and keys not yet in files
	Behind    int64 // journal records not yet in WAL entries
	Deaths    int64 // which rows have died, for views and merges
	WriteSets int64 // changes of open transactions
	Locks     int64
	Pages     int64 // cached pages of index files
	Temporary int64 // files of temporary tables, which are not in the sum
	Limit     int64 // of the sum at which writers wait
}

// Total is the sum.
func (m MemoryUse) Total() int64 {
	return m.MemTables + m.Behind + m.Deaths + m.WriteSets + m.Locks + m.Pages
}

// account is the engine's memory account.
type account struct {
	writeSets atomic.Int64 // kept by the overlays
	total     atomic.Int64 // at the last look
	looked    atomic.Int64 // when that was, Unix nanoseconds
}

// Memory adds the account up.
func (e *Engine) Memory() MemoryUse {
	m := MemoryUse{
		WriteSets: e.account.writeSets.Load(), Locks: int64(e.locks.Stats().Resources) * lockBytes, Pages: e.pages.Bytes(), Limit: e.cfg.MemoryBytes,
		Temporary: e.temporaryBytes.Load(),
	}
	for _, ot := range e.openTables() {
		t := ot.table.Memory()
		m.MemTables += t.MemTables
		m.Behind += t.Behind
		m.Deaths += t.Deaths
	}
	e.account.total.Store(m.Total())
	e.account.looked.Store(e.clock.Now().UnixNano())
	return m
}

// memoryTotal is the sum, at most memoryLook old.
func (e *Engine) memoryTotal() int64 {
	if e.clock.Now().UnixNano()-e.account.looked.Load() < int64(memoryLook) {
		return e.account.total.Load()
	}
	return e.Memory().Total()
}

// admitMemory keeps writers within the memory account. From three quarters of the limit on, the largest MemTables are
// flushed; at the limit writers wait for that, and fail with errs.ErrLimit if what fills the account is not for a flush
// to free.
func (e *Engine) admitMemory(ctx context.Context) error {
	limit := e.cfg.MemoryBytes
	used := e.memoryTotal()
	if used < limit/4*3 {
		return nil
	}
	largest := e.relieve()
	if used < limit {
		return nil
	}
	defer e.stall("", fmt.Sprintf("memory account is full: %d MiB", limit>>20))()
	runs := make(map[*openTable]int)
	for {
		if used = e.Memory().Total(); used < limit {
			return nil
		}
		if largest == nil {
			return fmt.Errorf("engine holds %d MiB of changes, locks and histories, %d MiB may be: %w", used>>20, limit>>20, errs.ErrLimit)
		}
		if _, seen := runs[largest]; !seen {
			runs[largest], _ = largest.upkeepOutcome()
		}
		if err := largest.upkeepFailed(runs[largest]); err != nil {
			return fmt.Errorf("memory account is full and %s.%s cannot flush: %w", largest.entry.Database, largest.entry.Name, err)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		if err := e.checkOpen(); err != nil {
			return err
		}
		largest = e.relieve()
	}
}

// relieve has the table that holds most in MemTables and for its WAL flushed and returns it; nil if no table has any worth a flush. What
// no view needs any more is given up on the way.
func (e *Engine) relieve() *openTable {
	const worth = 64 << 10
	var largest *openTable
	most := int64(worth)
	low := e.views.lowWater(&e.seq)
	for _, ot := range e.openTables() {
		m := ot.table.Memory()
		if m.Deaths > 1<<20 {
			ot.table.Settle(low)
		}
		if held := m.MemTables + m.Behind; held > most {
			largest, most = ot, held
		}
	}
	if largest == nil {
		return nil
	}
	if p := largest.table.Pressure(); p.Frozen == 0 {
		if err := largest.table.Freeze(); err != nil {
			return nil
		}
	}
	largest.submitUpkeep(false)
	if first, _, ok := largest.table.Behind(); ok {
		e.submitBehind(largest.entry.ID, first, false)
	}
	return largest
}
