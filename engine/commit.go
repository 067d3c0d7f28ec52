package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// commitQueue groups the commits of one table. Whoever finds no leader leads: it takes everything that waits,
// writes one group, and goes on while more arrived during its sync. There is no timer: alone, a commit waits
// for nobody; under load, the length of a sync sets the size of a group.
//
// Invariant: no two requests of one group write the same key, since each holds the X locks of its keys (I3).
type commitQueue struct {
	mu      sync.Mutex
	leading bool
	waiting []*commitRequest
}

// commitRequest is one transaction's writes on the table. done is closed after err is set. A leader hands
// leadership over by closing promoted instead.
type commitRequest struct {
	ops      []lsm.Op
	bytes    int
	err      error
	done     chan struct{}
	promoted chan struct{}
}

// commit makes the write set durable and visible.
func (e *Engine) commit(ctx context.Context, dirty []*tableOverlay) error {
	if len(dirty) > 1 {
		return fmt.Errorf("commit spans several tables (%s.%s and %s.%s): %w",
			dirty[0].entry.Database, dirty[0].entry.Name, dirty[1].entry.Database, dirty[1].entry.Name, errs.ErrUnsupported)
	}
	ot, err := e.openTable(ctx, dirty[0].entry)
	if err != nil {
		return err
	}
	keys, rows := dirty[0].visible(^Mark(0))
	req := &commitRequest{ops: make([]lsm.Op, len(keys)), done: make(chan struct{}), promoted: make(chan struct{})}
	for i, k := range keys {
		req.ops[i] = lsm.Op{Key: k, Row: rows[i]}
		req.bytes += len(k) + rowBytes(rows[i])
	}
	// Why: from here on the outcome does not depend on whether the caller still waits.
	ctx = context.WithoutCancel(ctx)
	if ot.queue.join(req) {
		e.lead(ctx, ot, req)
		return req.err
	}
	select {
	case <-req.done:
	case <-req.promoted:
		e.lead(ctx, ot, req)
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
func (q *commitQueue) join(r *commitRequest) (lead bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, r)
	if q.leading {
		return false
	}
	q.leading = true
	return true
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
		return
	}
	close(q.waiting[0].promoted)
}

// lead commits one group, which contains the leader's own request, and resigns.
func (e *Engine) lead(ctx context.Context, ot *openTable, own *commitRequest) {
	group := ot.queue.take(e.cfg.CommitGroupBytes, e.cfg.CommitGroupTxns)
	e.commitEach(ctx, ot, group)
	ot.queue.resign()
	for _, r := range group {
		if r != own {
			close(r.done)
		}
	}
	e.afterCommit(ot)
}

// commitEach commits the group as one and sets each request's outcome. If that fails before anything could be
// durable, each goes alone: one transaction's fault (a row that cannot be stored, too much for one entry) must
// not fail those that happened to share its sync.
func (e *Engine) commitEach(ctx context.Context, ot *openTable, group []*commitRequest) {
	err := e.commitGroup(ctx, ot, group)
	alone := err != nil && len(group) > 1 && e.failed.Load() == nil
	for i, r := range group {
		if alone {
			err = e.commitGroup(ctx, ot, group[i:i+1])
		}
		r.err = err
	}
}

func (e *Engine) commitGroup(ctx context.Context, ot *openTable, group []*commitRequest) error {
	if err := e.Failed(); err != nil {
		return err
	}
	var ops []lsm.Op
	for _, r := range group {
		ops = append(ops, r.ops...)
	}
	staged, err := ot.table.Stage(ctx, ops)
	if err != nil {
		return fmt.Errorf("stage commit: %w", err)
	}
	defer staged.Release()
	if staged.Empty() {
		return nil
	}
	if err := e.durable.Commit(ctx, &Group{Table: ot.table, Staged: staged}); err != nil {
		if errors.Is(err, errs.ErrSync) || errors.Is(err, errs.ErrPoisoned) || errors.Is(err, errs.ErrFenced) {
			// Why: what a failed sync left behind cannot be known; recovery decides. Nothing later may be
			// acknowledged on top of it.
			e.fail(err)
		}
		return fmt.Errorf("commit: %w", err)
	}
	// Durable: the group survives a crash from here on.
	if err := e.seq.publish(func(seq uint64) error { return ot.table.Apply(staged, seq) }); err != nil {
		e.fail(err)
		return fmt.Errorf("apply commit: %w", err)
	}
	return nil
}
