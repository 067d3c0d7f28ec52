package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"

	"lancesql/engine/journal"
)

// counters is every AUTO_INCREMENT and row id counter in use or known from the journal. They belong to the table,
// not to its being open, so that a rename or a reopening does not set them back.
//
// A counter is written into the record of every commit of its table that finds it changed; a start record takes along
// those whose record it gives up. So the newest value is always in the journal, and a counter does not go back over
// a restart even if its rows are gone. Values handed out by a transaction that rolled back may be handed out again after
// a crash, as in MySQL.
//
// mu guards all; Sequence.mu is taken under it.
type counters struct {
	mu sync.Mutex
	m  map[counterKey]*counter
}

type counterKey struct {
	table TableID
	kind  journal.CounterKind
}

type counter struct {
	seq    Sequence
	logged uint64    // value in the newest record, 0 if there is none
	at     journal.J // of that record
}

// of returns the sequence of a table's counter.
func (c *counters) of(id TableID, kind journal.CounterKind) *Sequence {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.getLocked(counterKey{id, kind}).seq
}

func (c *counters) getLocked(key counterKey) *counter {
	n := c.m[key]
	if n == nil {
		if c.m == nil {
			c.m = make(map[counterKey]*counter)
		}
		n = &counter{}
		c.m[key] = n
	}
	return n
}

// recovered takes in the counters of a record found at open.
func (c *counters) recovered(r journal.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range r.Counters {
		n := c.getLocked(counterKey{TableID(v.Table), v.Kind})
		if r.Kind == journal.Start && n.at >= r.From {
			continue // Why: a start record holds what was true before From; the record between knows better
		}
		n.logged, n.at = v.Value, r.J
		n.seq.recover(v.Value)
	}
}

// appendChanged adds the counters of the table that are not in the journal as they are now.
func (c *counters) appendChanged(to []journal.Counter, id TableID) []journal.Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range [...]journal.CounterKind{journal.AutoIncrement, journal.RowID} {
		n := c.m[counterKey{id, kind}]
		if n == nil {
			continue
		}
		if v, ok := n.seq.current(); ok && v != n.logged {
			to = append(to, journal.Counter{Table: uuid.UUID(id), Kind: kind, Value: v})
		}
	}
	return to
}

// logged notes what record j holds, in ascending order of j.
func (c *counters) logged(list []journal.Counter, j journal.J) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range list {
		n := c.getLocked(counterKey{TableID(v.Table), v.Kind})
		n.logged, n.at = v.Value, j
	}
}

// carry calls write with the counters whose newest record is before from, and notes that the record it returns holds
// them.
func (c *counters) carry(from journal.J, write func([]journal.Counter) (journal.J, error)) error {
	var list []journal.Counter
	c.mu.Lock()
	for key, n := range c.m {
		if n.at != 0 && n.at < from {
			list = append(list, journal.Counter{Table: uuid.UUID(key.table), Kind: key.kind, Value: n.logged})
		}
	}
	c.mu.Unlock()
	slices.SortFunc(list, func(a, b journal.Counter) int {
		return slices.Compare(append(a.Table[:], byte(a.Kind)), append(b.Table[:], byte(b.Kind)))
	})
	j, err := write(list)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range list {
		// Why the look: a commit may have logged a newer value meanwhile, which is in its own record.
		if n := c.m[counterKey{TableID(v.Table), v.Kind}]; n != nil && n.at < from {
			n.at = j
		}
	}
	return nil
}

// forget drops the counters of a table that is no more.
func (c *counters) forget(id TableID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, counterKey{id, journal.AutoIncrement})
	delete(c.m, counterKey{id, journal.RowID})
}

// tables lists the tables with counters.
func (c *counters) tables() []TableID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []TableID
	for key := range c.m {
		ids = append(ids, key.table)
	}
	return ids
}

// SetAutoIncrement makes v the next AUTO_INCREMENT value of the table, whether higher or lower, durably.
func (e *Engine) SetAutoIncrement(ctx context.Context, tbl *TableEntry, v uint64) error {
	if err := e.changeable(); err != nil {
		return err
	}
	s, err := e.AutoIncrement(ctx, tbl)
	if err != nil {
		return err
	}
	s.Set(v)
	return e.logCounters(ctx, tbl.ID)
}

// logCounters makes the table's counters as they are now durable.
func (e *Engine) logCounters(ctx context.Context, id TableID) error {
	req := &commitRequest{counters: []TableID{id}, done: make(chan struct{}), promoted: make(chan struct{})}
	return e.commitRequest(context.WithoutCancel(ctx), req)
}

// inheritCounter lets a table that takes another's place go on with its AUTO_INCREMENT values, be the rows there or not.
func (e *Engine) inheritCounter(ctx context.Context, old, fresh *TableEntry) error {
	if old.AutoColumn < 0 || fresh.AutoColumn < 0 {
		return nil
	}
	from, err := e.AutoIncrement(ctx, old)
	if err != nil {
		return err
	}
	to, err := e.AutoIncrement(ctx, fresh)
	if err != nil || to.Peek() >= from.Peek() {
		return err
	}
	return e.SetAutoIncrement(ctx, fresh, from.Peek())
}
