package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"lancesql/engine/journal"
	"lancesql/lsm"
)

// Durability says when a commit is acknowledged.
type Durability uint8

const (
	// SyncCommit: after its journal record is synced.
	SyncCommit Durability = iota
	// SyncEverySecond: after its journal record is written. The death of the process loses nothing, that of the
	// machine the last second at most, and always a suffix of the history.
	SyncEverySecond
)

// syncEvery bounds what SyncEverySecond may lose.
const syncEvery = time.Second

// commitLog is the commit journal as the engine uses it: it knows which records some table still needs.
//
// A record is needed until every part of it is in a WAL entry of its shard. Who holds a part that is not:
//
//   - handed < J: the group is durable, but its tables have not taken it over (Logged) yet;
//   - open: an open table (lsm.Table.Behind);
//   - waiting: a table that is not open and will re-put its parts when it is opened.
//
// Invariant: needed never exceeds a record that is not in entries. A table moves from open to waiting, or back,
// without ever being in neither, and Behind of a closed table still tells what it held.
//
// Immutable: w, planted, unsynced, prepare, guard. mu guards the rest but the atomics; it is innermost and nothing is called under it.
type commitLog struct {
	w          *journal.Writer
	durability atomic.Uint32
	planted    planted
	unsynced   func()    // called when a record was written and not synced
	prepare    func()    // called when the next segment should be made
	guard      *dirGuard // nil: nobody else can have the journal

	mu      sync.Mutex
	handed  journal.J             // every commit record up to it has been taken over by its tables
	started journal.J             // From of the newest start record
	last    map[TableID]journal.J // newest record naming the table
	open    map[TableID]*lsm.Table
	waiting map[TableID][]lsm.JournalPart
	ends    map[TableID]map[uuid.UUID]uint64 // how far the WALs reach, as far as known; of an open table it knows better itself
	cut     bool                             // ends are less than the newest start record says: another one has to follow
	held    bool                             // the journal may not be shortened
	goal    journal.J                        // where the journal should start, because WAL files wait for it; 0 = no matter
	stuck   error                            // why write-behind cannot proceed, nil while it can
}

// append makes the record durable, or written, as the durability in force says.
func (l *commitLog) append(ctx context.Context, r *journal.Record) (journal.J, error) {
	if err := l.guard.check(); err != nil {
		return 0, err
	}
	if l.w.Low() {
		l.prepare()
	}
	if Durability(l.durability.Load()) == SyncCommit && !l.planted.skipSync {
		j, err := l.w.Append(ctx, r)
		if err == nil {
			// Why again: a process may have been stopped just before it wrote. Who took the directory over since then did not
			// read this record; who does so from now on will.
			err = l.guard.check()
		}
		return j, err
	}
	j, err := l.w.Write(ctx, r)
	if err == nil && !l.planted.skipSync {
		l.unsynced()
	}
	return j, err
}

// handedOver notes that the tables have taken over record j, in ascending order.
func (l *commitLog) handedOver(r *journal.Record, j journal.J) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handed = j
	for _, p := range r.Parts {
		l.last[TableID(p.Table)] = j
	}
}

// needed returns the first record that must stay.
func (l *commitLog) needed() journal.J {
	l.mu.Lock()
	from := l.handed + 1
	open := make([]*lsm.Table, 0, len(l.open))
	for _, t := range l.open {
		open = append(open, t)
	}
	for _, parts := range l.waiting {
		from = min(from, journal.J(parts[0].Journal))
	}
	l.mu.Unlock()
	// Why in this order: what is handed over after the look at handed has a greater number.
	for _, t := range open {
		if first, _, ok := t.Behind(); ok {
			from = min(from, journal.J(first))
		}
	}
	return from
}

// opened takes an open table in; what it was to re-put is in entries.
func (l *commitLog) opened(id TableID, t *lsm.Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = t
	delete(l.waiting, id)
}

// closed keeps what a closed table had not written behind for its next opening.
func (l *commitLog) closed(id TableID, t *lsm.Table) {
	parts, ends := t.Unlogged(), t.WALEnds()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[id] = ends
	if l.open[id] == t {
		delete(l.open, id)
	}
	if len(parts) > 0 {
		l.waiting[id] = parts
	}
}

// parts returns what a table has to re-put when it is opened.
func (l *commitLog) parts(id TableID) []lsm.JournalPart {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting[id]
}

// forget drops everything about a table that is no more.
func (l *commitLog) forget(id TableID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
	delete(l.waiting, id)
	delete(l.last, id)
	delete(l.ends, id)
}

// recovered takes in the ends of WALs that the journal names.
func (l *commitLog) recovered(ends []journal.End) {
	for _, e := range ends {
		id := TableID(e.Table)
		if l.ends[id] == nil {
			l.ends[id] = make(map[uuid.UUID]uint64)
		}
		l.ends[id][e.Shard] = e.Position
	}
}

// walEnds returns how far the WALs of a table that is not open are known to reach.
func (l *commitLog) walEnds(id TableID) map[uuid.UUID]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends[id]
}

// cutEnds gives up what is known of a table's WALs, after a recovery tool has set parts of them aside.
func (l *commitLog) cutEnds(id TableID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ends, id)
	l.cut = true
}

// endsNow lists how far the WALs of all tables reach.
func (l *commitLog) endsNow() []journal.End {
	l.mu.Lock()
	open := maps.Clone(l.open)
	l.mu.Unlock()
	now := make(map[TableID]map[uuid.UUID]uint64, len(open))
	for id, t := range open {
		now[id] = t.WALEnds()
	}
	l.mu.Lock()
	for id, ends := range l.ends {
		if open[id] == nil {
			now[id] = ends
		}
	}
	l.mu.Unlock()
	var list []journal.End
	for id, ends := range now {
		for shard, position := range ends {
			list = append(list, journal.End{Table: uuid.UUID(id), Shard: shard, Position: position})
		}
	}
	slices.SortFunc(list, func(a, b journal.End) int {
		return cmp.Or(bytes.Compare(a.Table[:], b.Table[:]), bytes.Compare(a.Shard[:], b.Shard[:]))
	})
	return list
}

// names reports the newest record naming the table that the journal still holds, 0 if there is none.
func (l *commitLog) names(id TableID) journal.J {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j := l.last[id]; j >= l.started {
		return j
	}
	return 0
}

// behind returns the open tables that hold records below j back, oldest first.
func (l *commitLog) behind(j journal.J) []TableID {
	l.mu.Lock()
	open := maps.Clone(l.open)
	l.mu.Unlock()
	type holder struct {
		id    TableID
		first uint64
	}
	var found []holder
	for id, t := range open {
		if first, _, ok := t.Behind(); ok && journal.J(first) < j {
			found = append(found, holder{id, first})
		}
	}
	slices.SortFunc(found, func(a, b holder) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	ids := make([]TableID, len(found))
	for i, h := range found {
		ids[i] = h.id
	}
	return ids
}

// want asks for the journal to start after everything handed over so far, or, if an earlier such wish is open, after what
// that one named: a wish that moves on with every flush might never come true. It returns the number after the newest
// record.
func (l *commitLog) want() journal.J {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.goal == 0 {
		l.goal = l.handed + 1
	}
	return l.handed + 1
}

// due reports whether a start record would do what want asked for, or free a segment.
func (l *commitLog) due() bool {
	l.mu.Lock()
	goal := l.goal
	l.mu.Unlock()
	if goal == 0 && !l.w.Releasable(l.w.Next()) {
		return false
	}
	from := l.needed()
	return goal != 0 && from >= goal || l.w.Releasable(from)
}

// release writes a start record if the journal may start later than it does, and returns where it starts.
// carry calls write with the counters whose last record is before from: the start record takes them along.
func (l *commitLog) release(ctx context.Context, carry func(from journal.J, write func([]journal.Counter) (journal.J, error)) error) (journal.J, error) {
	if err := l.guard.check(); err != nil {
		return 0, err
	}
	from := l.needed()
	if l.planted.trimAll {
		from = l.w.Next()
	}
	l.mu.Lock()
	started, cut, held := l.started, l.cut, l.held
	l.mu.Unlock()
	if from <= started && !cut || held {
		return started, nil
	}
	ends := l.endsNow() // Why after from was found: what needs no record before it is in the WALs by then
	if err := carry(from, func(kept []journal.Counter) (journal.J, error) { return l.w.Release(ctx, from, kept, ends) }); err != nil {
		return started, fmt.Errorf("start the journal at record %d: %w", from, err)
	}
	// Durable: nobody needs the records before from.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = max(l.started, from)
	l.cut = l.cut && !cut
	if l.goal != 0 && l.started >= l.goal {
		l.goal = 0
	}
	return l.started, nil
}

// hold keeps the journal's files as they are but for the newest, which grows, or ends that.
func (l *commitLog) hold(on bool) {
	l.mu.Lock()
	l.held = on
	l.mu.Unlock()
	l.w.Hold(on)
}

// blocked notes how the newest write-behind ended.
func (l *commitLog) blocked(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck = err
}

// unopened returns the tables whose records wait for their opening, and why write-behind cannot proceed otherwise.
func (l *commitLog) unopened() ([]TableID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []TableID
	for id := range l.waiting {
		ids = append(ids, id)
	}
	return ids, l.stuck
}
