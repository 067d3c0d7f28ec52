package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"lancesql/engine/journal"
	"lancesql/internal/logfile"
	"lancesql/lsm"
)

// openJournal scans the commit journal and takes in what its records still hold; what it knows of WALs that were
// shortened on purpose is given up. The catalog is open.
func (e *Engine) openJournal(ctx context.Context, dir *logfile.Dir, shortened []TableID) error {
	l := &commitLog{planted: e.planted, guard: e.guard, unsynced: e.syncLater, prepare: e.prepareSegment,
		last: make(map[TableID]journal.J), open: make(map[TableID]*lsm.Table), waiting: make(map[TableID][]lsm.JournalPart),
		ends: make(map[TableID]map[uuid.UUID]uint64)}
	visit := func(r journal.Record) error {
		for _, p := range r.Parts {
			id := TableID(p.Table)
			l.waiting[id] = append(l.waiting[id], lsm.JournalPart{Journal: uint64(r.J), Shard: p.Shard, Body: p.Body})
			l.last[id] = r.J
		}
		e.counters.recovered(r)
		return nil
	}
	w, err := journal.Open(ctx, dir, journal.Options{SegmentBytes: e.cfg.JournalSegmentBytes}, visit)
	if err != nil {
		return fmt.Errorf("open commit journal: %w", err)
	}
	l.w, l.handed, l.started = w, w.Next()-1, w.From()
	l.durability.Store(uint32(e.cfg.Durability))
	l.recovered(w.Ends())
	for _, id := range shortened {
		l.cutEnds(id)
	}
	e.journal = l
	e.forgetDropped()
	return nil
}

// forgetDropped drops what the journal says about tables that the catalog no longer names: their rows are gone.
func (e *Engine) forgetDropped() {
	c := e.Catalog()
	for id := range e.journal.waiting {
		if !c.names(id) {
			e.journal.forget(id)
		}
	}
	for id := range e.journal.ends {
		if !c.names(id) {
			e.journal.forget(id)
		}
	}
	for _, id := range e.counters.tables() {
		if !c.names(id) {
			e.counters.forget(id)
		}
	}
}

// names reports whether a table of that id exists, be it one that cannot be opened while it is being renamed.
func (c *Catalog) names(id TableID) bool {
	if c.byID[id] != nil {
		return true
	}
	return slices.ContainsFunc(c.intents, func(in intent) bool { return in.Kind == intentRename && in.ID == id })
}

// reput opens every table that the retained records name, which puts what they hold into WAL entries. A table that
// cannot be opened keeps its records, so that the journal cannot be shortened, until it can or is dropped; it must not keep
// the others from serving.
func (e *Engine) reput(ctx context.Context) error {
	ids := make([]TableID, 0, len(e.journal.waiting))
	rows := 0
	for id, parts := range e.journal.waiting {
		ids = append(ids, id)
		rows += len(parts)
	}
	slices.SortFunc(ids, func(a, b TableID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		entry := e.Catalog().TableByID(id)
		if entry == nil {
			continue
		}
		if _, err := e.openTable(ctx, entry); err != nil {
			e.log.Error("table cannot be recovered now; its journal records stay", "table", entry.Path, "error", err)
		}
	}
	if len(ids) > 0 {
		e.log.Info("recovered the commit journal", "tables", len(ids), "parts", rows)
		e.journal.want()
		e.submitTrim()
	}
	return nil
}

// passJournal makes the journal start after every record that names one of the tables. Until a statement that destroys
// or reshapes a table has done so, a recovery could bring rows back that the statement removed.
func (e *Engine) passJournal(ctx context.Context, ids ...TableID) error {
	var goal journal.J
	for _, id := range ids {
		if j := e.journal.names(id); j > 0 {
			goal = max(goal, j+1)
		}
	}
	if goal == 0 {
		return nil
	}
	for _, id := range e.journal.behind(goal) {
		if err := e.writeBehind(ctx, id); err != nil {
			return fmt.Errorf("write behind table %s: %w", uuid.UUID(id), err)
		}
	}
	start, err := e.journal.release(ctx, e.counters.carry)
	if err == nil && start < goal {
		err = fmt.Errorf("journal starts at record %d, %d is wanted: a table cannot be opened", start, goal)
	}
	return err
}
