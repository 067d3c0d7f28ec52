package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"lancesql/engine/journal"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// commitQueue groups the commits of the engine. Whoever finds no leader leads: it takes everything that waits,
// writes one journal record, and hands leadership on as soon as that is durable: the next group is staged and
// written while this one is applied. There is no timer: alone, a commit waits for nobody; under load, the length
// of a sync sets the size of a group.
//
// Invariant: no two requests that are not yet visible write the same key, since each holds the X locks of its keys
// (I3). So the rows a group replaces do not depend on the group before it.
//
// order is taken between the sync and the hand-over and held until the group is visible: groups become visible in
// the order of their records. Lock order: table latches (ascending table id), order, sequencer.mu.
type commitQueue struct {
	mu      sync.Mutex
	leading bool
	closed  bool
	waiting []*commitRequest
	idle    chan struct{} // closed when nobody leads any more, made by shut

	order sync.Mutex
}

// commitRequest is one transaction's writes. done is closed after err is set. A leader hands leadership over by
// closing promoted instead.
type commitRequest struct {
	tables   []tableWrites
	counters []TableID // tables whose counters go along although nothing is written
	bytes    int
	err      error
	done     chan struct{}
	promoted chan struct{}
}

type tableWrites struct {
	entry *TableEntry
	ops   []lsm.Op
}

// commit makes the write sets durable and visible, over any number of tables.
func (e *Engine) commit(ctx context.Context, dirty []*tableOverlay) error {
	req := &commitRequest{done: make(chan struct{}), promoted: make(chan struct{})}
	for _, d := range dirty {
		w := tableWrites{entry: d.entry, ops: d.ops()}
		for _, op := range w.ops {
			req.bytes += len(op.Key) + rowBytes(op.Row)
		}
		req.tables = append(req.tables, w)
	}
	if err := e.commitRequest(context.WithoutCancel(ctx), req); err != nil {
		return err
	}
	if e.cfg.WALAck != AckEntry {
		return nil
	}
	return e.awaitEntries(ctx, req)
}

// commitRequest returns when the request is visible or has failed. ctx has no end: from here on the outcome does not
// depend on whether the caller still waits.
func (e *Engine) commitRequest(ctx context.Context, req *commitRequest) error {
	lead, err := e.commits.join(req)
	if err != nil {
		return err
	}
	if lead {
		e.lead(ctx, req)
		return req.err
	}
	select {
	case <-req.done:
	case <-req.promoted:
		e.lead(ctx, req)
	}
	return req.err
}

// rowBytes estimates what a row adds to a group.
func rowBytes(row arrowx.Row) int {
	n := 16 * len(row)
	for _, cell := range row {
		switch v := cell.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// join adds the request and reports whether the caller leads.
func (q *commitQueue) join(r *commitRequest) (lead bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, fmt.Errorf("engine: %w", errs.ErrClosed)
	}
	q.waiting = append(q.waiting, r)
	if q.leading {
		return false, nil
	}
	q.leading = true
	return true, nil
}

// take removes the next group, bounded by bytes and transactions; the first request always goes.
func (q *commitQueue) take(maxBytes, maxTxns int) []*commitRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.waiting) && n < maxTxns && (n == 0 || bytes+q.waiting[n].bytes <= maxBytes) {
		bytes += q.waiting[n].bytes
		n++
	}
	group := append([]*commitRequest(nil), q.waiting[:n]...)
	q.waiting = q.waiting[n:]
	return group
}

// resign gives up leadership: the oldest waiting request leads next, or nobody.
func (q *commitQueue) resign() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.leading = false
		q.waiting = nil
		if q.idle != nil {
			close(q.idle)
			q.idle = nil
		}
		return
	}
	close(q.waiting[0].promoted)
}

// shut refuses further requests and returns once those that were accepted have ended.
func (q *commitQueue) shut() {
	q.mu.Lock()
	q.closed = true
	var idle chan struct{}
	if q.leading {
		if q.idle == nil {
			q.idle = make(chan struct{})
		}
		idle = q.idle
	}
	q.mu.Unlock()
	if idle != nil {
		<-idle
	}
	q.order.Lock() // the last group may still be on its way from durable to visible
	defer q.order.Unlock()
}

// lead commits one group, which contains the leader's own request, and resigns.
func (e *Engine) lead(ctx context.Context, own *commitRequest) {
	group := e.commits.take(e.cfg.CommitGroupBytes, e.cfg.CommitGroupTxns)
	resigned := false
	resign := func() {
		if !resigned {
			resigned = true
			e.commits.resign()
		}
	}
	touched := e.commitEach(ctx, group, resign)
	resign()
	for _, r := range group {
		if r != own {
			close(r.done)
		}
	}
	for _, ot := range touched {
		e.afterCommit(ot)
	}
}

// commitEach commits the group as one and sets each request's outcome; it returns the tables written. If that fails
// before anything could be durable, each goes alone: one transaction's fault (a row that cannot be stored, too much
// for one record) must not fail those that happened to share its sync.
func (e *Engine) commitEach(ctx context.Context, group []*commitRequest, durable func()) (touched []*openTable) {
	touched, err := e.commitGroup(ctx, group, durable)
	// Why not on a full disk: each would try to make room again, and fail the same way.
	alone := err != nil && len(group) > 1 && e.failed.Load() == nil && !errors.Is(err, errs.ErrNoSpace)
	for i, r := range group {
		if alone {
			last := func() {}
			if i == len(group)-1 {
				last = durable
			}
			var more []*openTable
			more, err = e.commitGroup(ctx, group[i:i+1], last)
			touched = append(touched, more...)
		}
		r.err = err
	}
	return touched
}

// errUndecided marks the error of a commit that may or may not have happened.
var errUndecided = errors.New("the outcome of the commit is unknown until restart")

// stagedTable is one table's share of a group.
type stagedTable struct {
	ot     *openTable
	staged *lsm.Staged
}

// commitGroup makes the requests one record and visible as one step. durable is called once the record is durable
// and groups behind it may be written.
func (e *Engine) commitGroup(ctx context.Context, group []*commitRequest, durable func()) ([]*openTable, error) {
	if err := e.Failed(); err != nil {
		return nil, err
	}
	share, err := e.stage(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("stage commit: %w", err)
	}
	defer func() {
		for _, s := range share {
			s.staged.Release()
		}
	}()
	rec, err := e.record(group, share)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if len(rec.Parts) == 0 && len(rec.Counters) == 0 {
		return nil, nil
	}
	if n := len(rec.Parts); n > 1 && e.planted.skipPart {
		rec.Parts = rec.Parts[:n-1]
	}
	j, err := journal.J(0), e.planted.failJournal
	if err == nil {
		j, err = e.journal.append(ctx, rec)
	}
	if err != nil {
		if errors.Is(err, errs.ErrSync) {
			// Why: what a failed sync left behind cannot be known; recovery decides. Nothing later may be
			// acknowledged on top of it.
			e.fail(err)
			return nil, fmt.Errorf("%w: %w", errUndecided, err)
		}
		return nil, fmt.Errorf("commit: %w", err)
	}
	// Durable: the group survives a crash from here on (with SyncEverySecond, of the process).
	e.commits.order.Lock()
	defer e.commits.order.Unlock()
	durable()
	return e.expose(rec, j, share)
}

// expose applies a durable group and makes it visible. The caller holds order.
func (e *Engine) expose(rec *journal.Record, j journal.J, share []stagedTable) ([]*openTable, error) {
	if err := e.Failed(); err != nil {
		return nil, fmt.Errorf("%w: committed, but not visible: %w", errUndecided, err)
	}
	touched := make([]*openTable, len(share))
	for i, s := range share {
		s.ot.table.Logged(s.staged, uint64(j))
		touched[i] = s.ot
	}
	e.counters.logged(rec.Counters, j)
	e.journal.handedOver(rec, j)
	err := e.seq.publish(func(seq uint64) error {
		for _, s := range share {
			if err := s.ot.table.Apply(s.staged, seq); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		e.fail(err)
		return touched, fmt.Errorf("%w: committed, but not visible: apply: %w", errUndecided, err)
	}
	return touched, nil
}

// stage prepares the writes of the group on every table it touches. On error nothing stays staged.
//
// Why in order of table id: staging takes the table's latch shared; whoever waits for a latch holds only latches of
// smaller ids, so that groups and movers, which take one latch at a time, cannot wait for each other in a circle.
func (e *Engine) stage(ctx context.Context, group []*commitRequest) (share []stagedTable, err error) {
	tables := joinWrites(group)
	slices.SortFunc(tables, func(a, b tableWrites) int { return bytes.Compare(a.entry.ID[:], b.entry.ID[:]) })
	defer func() {
		if err != nil {
			for _, s := range share {
				s.staged.Release()
			}
		}
	}()
	for _, w := range tables {
		s, err := e.stageTable(ctx, w)
		if err != nil {
			return share, err
		}
		if s.staged.Empty() {
			s.staged.Release()
			continue
		}
		share = append(share, s)
	}
	return share, nil
}

// joinWrites returns the writes of the group by table.
func joinWrites(group []*commitRequest) []tableWrites {
	var tables []tableWrites
	at := make(map[TableID]int)
	own := make(map[TableID]bool) // the ops are a copy
	for _, r := range group {
		for _, w := range r.tables {
			i, ok := at[w.entry.ID]
			if !ok {
				at[w.entry.ID] = len(tables)
				tables = append(tables, w)
				continue
			}
			if !own[w.entry.ID] {
				own[w.entry.ID] = true
				tables[i].ops = slices.Clip(tables[i].ops)
			}
			tables[i].ops = append(tables[i].ops, w.ops...)
		}
	}
	return tables
}

// stageTable stages on the table as it is open now: it may be reopened while a transaction runs, and must be here if
// another writer made a shard that the rows belong to. Latches of other tables are held meanwhile, which reopening this
// one never takes.
func (e *Engine) stageTable(ctx context.Context, w tableWrites) (s stagedTable, err error) {
	for range 3 {
		if s.ot, err = e.openTable(ctx, w.entry); err != nil {
			return s, err
		}
		s.staged, err = s.ot.table.Stage(ctx, w.ops)
		if foreign(err) {
			if again := e.reclaim(ctx, s.ot, err); again != nil {
				return s, again
			}
			continue
		}
		if !errors.Is(err, errs.ErrClosed) {
			break
		}
	}
	if err != nil {
		return s, fmt.Errorf("table %s.%s: %w", w.entry.Database, w.entry.Name, err)
	}
	return s, nil
}

// record is the journal record of a group.
func (e *Engine) record(group []*commitRequest, share []stagedTable) (*journal.Record, error) {
	rec := &journal.Record{Kind: journal.Commit}
	for _, r := range group {
		for _, id := range r.counters {
			rec.Counters = e.counters.appendChanged(rec.Counters, id)
		}
	}
	for _, s := range share {
		parts, err := s.staged.Parts()
		if err != nil {
			return nil, fmt.Errorf("table %s.%s: %w", s.ot.entry.Database, s.ot.entry.Name, err)
		}
		for _, p := range parts {
			rec.Parts = append(rec.Parts, journal.Part{Table: uuid.UUID(s.ot.entry.ID), Shard: p.Shard, Body: p.Body})
		}
		rec.Counters = e.counters.appendChanged(rec.Counters, s.ot.entry.ID)
	}
	return rec, nil
}
