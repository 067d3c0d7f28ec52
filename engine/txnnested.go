package engine

import (
	"context"
	"errors"

	"lancesql/engine/lock"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// StatementStart returns the mark up to which scans of the running statement see own writes.
func (t *Txn) StatementStart() Mark { return t.start }

// SetStatementStart moves it: to Mark when a statement inside the running one begins (one of a trigger or a procedure),
// and back when that ends. Scans that are open do not notice.
func (t *Txn) SetStatementStart(m Mark) { t.start = min(m, t.overlay.mark()) }

// LockReference takes the lock that stands for a value of columns which a foreign key refers to, whether or not a row
// has it: shared to rely on such a row, exclusive to take it away. It is held to the end of the transaction.
func (t *Txn) LockReference(ctx context.Context, tbl *TableEntry, value []byte, exclusive bool) error {
	if err := t.check(); err != nil {
		return err
	}
	mode := lock.S
	if exclusive {
		mode = lock.X
	}
	err := t.e.locks.Lock(ctx, t.owner, lock.Resource{Table: tbl.ID, Key: "\x00reference\x00" + string(value)}, mode, t.opts.LockWait)
	if errors.Is(err, errs.ErrDeadlock) {
		t.Rollback() // a victim loses its whole transaction
	}
	return err
}

// ScanNewest reads what is committed now and all own writes, whatever the running statement's view is. A row it returns
// may have changed since that view: Update and Delete say errs.ErrWriteConflict then.
func (t *Txn) ScanNewest(ctx context.Context, tbl *TableEntry, spec lsm.ScanSpec) (arrowx.BatchReader, error) {
	view, start := t.stmt, t.start
	t.stmt, t.start = nil, t.overlay.mark()
	defer func() {
		t.e.views.release(t.stmt) // the scan holds it
		t.stmt, t.start = view, start
	}()
	return t.Scan(ctx, tbl, Current, spec)
}
