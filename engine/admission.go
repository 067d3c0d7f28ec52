package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lancesql/internal/errs"
)

// Stall is a reason why writers wait now.
type Stall struct {
	Table  string // path of the table, "" for the whole engine
	Reason string
	Since  time.Time
}

// stalls are the reasons for which somebody waits.
type stalls struct {
	mu  sync.Mutex
	now map[string]*stall // by table and reason
}

type stall struct {
	Stall
	waiters int
}

// begin notes a waiting writer; the caller calls the returned function when it goes on.
func (e *Engine) stall(table, reason string) (end func()) {
	s := &e.stalls
	if e.hold.on.Load() {
		reason += "; a session has LOCK INSTANCE FOR BACKUP"
	}
	key := table + "\x00" + reason
	s.mu.Lock()
	if s.now == nil {
		s.now = make(map[string]*stall)
	}
	st := s.now[key]
	first := st == nil
	if first {
		st = &stall{Stall: Stall{Table: table, Reason: reason, Since: e.clock.Now()}}
		s.now[key] = st
	}
	st.waiters++
	s.mu.Unlock()
	if first {
		e.log.Warn("writers wait", "table", table, "reason", reason)
	}
	return func() {
		s.mu.Lock()
		st.waiters--
		last := st.waiters == 0
		if last {
			delete(s.now, key)
		}
		s.mu.Unlock()
		if last {
			e.log.Info("writers go on", "table", table, "reason", reason, "after", e.clock.Now().Sub(st.Since))
		}
	}
}

// Stalls lists why writers wait now, sorted by table; empty if none does.
func (e *Engine) Stalls() []Stall {
	e.stalls.mu.Lock()
	defer e.stalls.mu.Unlock()
	var out []Stall
	for _, st := range e.stalls.now {
		out = append(out, st.Stall)
	}
	slices.SortFunc(out, func(a, b Stall) int { return strings.Compare(a.Table+a.Reason, b.Table+b.Reason) })
	return out
}

// JournalStats describes the commit journal.
type JournalStats struct {
	Next, Start uint64 // number of the next record, and of the first one still needed
	Bytes       int64  // of the segments in use
	Limit       int64  // at which writers wait
	Behind      int    // open tables with records not yet in WAL entries
	Unopened    int    // tables that could not be opened and hold the journal
}

// Journal returns the state of the commit journal; zero for a read-only engine.
func (e *Engine) Journal() JournalStats {
	if e.journal == nil {
		return JournalStats{}
	}
	next := e.journal.w.Next()
	unopened, _ := e.journal.unopened()
	return JournalStats{Next: uint64(next), Start: uint64(e.journal.w.From()), Bytes: e.journal.w.Bytes(), Limit: e.cfg.JournalBytes,
		Behind: len(e.journal.behind(next)), Unopened: len(unopened)}
}

// admit stalls a writer whose table has more unflushed data than memory should hold, or while the journal is full. It
// fails if upkeep cannot proceed (disk full), and never waits for ever without a reason.
func (ot *openTable) admit(ctx context.Context) error {
	if err := ot.e.admitJournal(ctx); err != nil {
		return err
	}
	if err := ot.e.admitMemory(ctx); err != nil {
		return err
	}
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
	reason := fmt.Sprintf("%d frozen MemTables wait for their flush", p.Frozen)
	if p.Generations >= cfg.GenerationsHard {
		reason = fmt.Sprintf("%d generations wait for their merge", p.Generations)
	}
	defer ot.e.stall(ot.entry.Path, reason)()
	runs, _ := ot.upkeepOutcome()
	for {
		ot.submitUpkeep(true)
		if err := ot.upkeepFailed(runs); err != nil {
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

// admitJournal delays writers from half of the journal's limit on and stops them at the limit.
func (e *Engine) admitJournal(ctx context.Context) error {
	bytes, limit := e.journal.w.Bytes(), e.cfg.JournalBytes
	if bytes < limit/2 {
		return nil
	}
	e.hurryBehind(false)
	if bytes < limit {
		return sleep(ctx, time.Duration(20*(2*bytes-limit)/limit)*time.Millisecond)
	}
	defer e.stall("", "the commit journal is full: WAL entries cannot be written fast enough")()
	for {
		e.hurryBehind(true)
		if e.journal.w.Bytes() < limit {
			return nil
		}
		unopened, stuck := e.journal.unopened()
		if stuck != nil {
			return fmt.Errorf("commit journal is full, %d bytes: %w", bytes, stuck)
		}
		for _, id := range unopened {
			if entry := e.Catalog().TableByID(id); entry != nil {
				if _, err := e.openTable(ctx, entry); err != nil {
					return fmt.Errorf("commit journal is full, %d bytes, held by a table that cannot be opened: %w", bytes, err)
				}
			}
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		if err := e.Failed(); err != nil {
			return err
		}
		if err := e.checkOpen(); err != nil {
			return err
		}
	}
}

// hurryBehind asks for everything that holds the journal back.
func (e *Engine) hurryBehind(force bool) {
	for _, id := range e.journal.behind(e.journal.w.Next()) {
		e.submitBehind(id, 0, force)
	}
	e.submitTrim()
}

// foreign reports whether the error says that another writer has taken over a shard of ours, or that what we wrote last
// must be read back: the table has to be opened again.
func foreign(err error) bool { return isAny(err, errs.ErrFenced, errs.ErrPoisoned) }
