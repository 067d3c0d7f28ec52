package engine

import (
	"context"
	"errors"
	"time"

	"lancesql/engine/lock"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// rowLocksMax is the number of row locks of one table from which a transaction tries to lock the whole table instead,
// without waiting. A lock takes about 250 bytes.
const rowLocksMax = 100_000

// tableLock is what a transaction holds on one table.
type tableLock struct {
	mode lock.Mode // on the table
	rows int       // row locks taken
	next int       // number of row locks at which the table is tried
}

// LockMeta takes the metadata lock of a table's name until the transaction ends; see Session.LockMeta.
func (t *Txn) LockMeta(ctx context.Context, db, table string, mode lock.Mode) error {
	if err := t.check(); err != nil {
		return err
	}
	return t.locksEnd(t.e.locks.Lock(ctx, t.owner, metaResource(db, table), mode, t.opts.MetaWait))
}

// TryLockMeta is LockMeta without waiting: errs.ErrLockTimeout if somebody else's lock is in the way.
func (t *Txn) TryLockMeta(ctx context.Context, db, table string, mode lock.Mode) error {
	if err := t.check(); err != nil {
		return err
	}
	return t.locksEnd(t.e.locks.Lock(ctx, t.owner, metaResource(db, table), mode, 0))
}

// LockTable locks the rows of a table as a whole, those that do not exist included: S against writers, X against
// everybody.
func (t *Txn) LockTable(ctx context.Context, tbl *TableEntry, mode lock.Mode) error {
	if err := t.check(); err != nil {
		return err
	}
	return t.lockTable(ctx, tbl, mode, false)
}

// TryLockTable is LockTable; with noWait, errs.ErrLockTimeout at once if somebody else's lock is in the way.
func (t *Txn) TryLockTable(ctx context.Context, tbl *TableEntry, mode lock.Mode, noWait bool) error {
	if err := t.check(); err != nil {
		return err
	}
	return t.lockTable(ctx, tbl, mode, noWait)
}

// LockKey takes the lock of a key, S or X, whether or not its row exists. With noWait, errs.ErrLockTimeout at once if
// somebody else's lock is in the way.
func (t *Txn) LockKey(ctx context.Context, tbl *TableEntry, key rowkey.Key, mode lock.Mode, noWait bool) error {
	if err := t.check(); err != nil {
		return err
	}
	wait := t.opts.LockWait
	if noWait {
		wait = 0
	}
	return t.lock(ctx, tbl, key, mode, wait)
}

// LockUnique is LockKey for a value of the table's i-th index, which is unique: nobody takes the value before the
// transaction ends.
func (t *Txn) LockUnique(ctx context.Context, tbl *TableEntry, i int, value rowkey.Key, mode lock.Mode, noWait bool) error {
	return t.LockKey(ctx, tbl, indexLock(i, value), mode, noWait)
}

// LockRow is LockKey for a row that a scan returned, seq being what its SeqOf says. It returns the columns of the row as it is
// now; changed is false, and row nil, if that is what the scan returned; gone is true if there is no such row any more.
func (t *Txn) LockRow(ctx context.Context, tbl *TableEntry, key rowkey.Key, mode lock.Mode, noWait bool, seq uint64, columns []int) (row arrowx.Row, changed, gone bool, err error) {
	if err := t.LockKey(ctx, tbl, key, mode, noWait); err != nil {
		return nil, false, false, err
	}
	if _, own := t.overlay.newest(tbl.ID, key, t.overlay.mark()); own {
		return nil, false, false, nil // Why: our own write, and the lock has been ours since before it
	}
	ot, err := t.e.openTable(ctx, tbl)
	if err != nil {
		return nil, false, false, err
	}
	if seq > 0 {
		same, err := t.unchanged(ctx, ot, key, seq)
		if err != nil || same {
			return nil, false, false, err
		}
	}
	row, stored, err := t.e.currentRow(ctx, ot, key, columns)
	return row, true, !stored.Live(), err
}

func (t *Txn) heldOn(tbl *TableEntry) *tableLock {
	held := t.locked[tbl.ID]
	if held == nil {
		if t.locked == nil {
			t.locked = make(map[TableID]*tableLock)
		}
		held = &tableLock{next: rowLocksMax}
		t.locked[tbl.ID] = held
	}
	return held
}

func (t *Txn) lockTable(ctx context.Context, tbl *TableEntry, mode lock.Mode, noWait bool) error {
	held := t.heldOn(tbl)
	if held.mode.Covers(mode) {
		return nil
	}
	wait := t.opts.LockWait
	if noWait {
		wait = 0
	}
	if err := t.locksEnd(t.e.locks.Lock(ctx, t.owner, lock.Resource{Kind: lock.Table, Table: tbl.ID}, mode, wait)); err != nil {
		return err
	}
	held.mode = held.mode.With(mode)
	return nil
}

// lock takes the lock of a key and, before it, the table's intention lock. Nothing is taken that a lock of the whole
// table covers.
func (t *Txn) lock(ctx context.Context, tbl *TableEntry, key rowkey.Key, mode lock.Mode, wait time.Duration) error {
	intention := lock.IS
	if mode == lock.X {
		intention = lock.IX
	}
	if err := t.lockTable(ctx, tbl, intention, wait == 0); err != nil {
		return err
	}
	held := t.heldOn(tbl)
	if held.mode.Covers(mode) {
		return nil
	}
	if held.rows >= held.next {
		held.next *= 2
		err := t.lockTable(ctx, tbl, mode, true)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errs.ErrLockTimeout) {
			return err
		}
	}
	if err := t.locksEnd(t.e.locks.Lock(ctx, t.owner, lock.Resource{Table: tbl.ID, Key: string(key)}, mode, wait)); err != nil {
		return err
	}
	held.rows++
	return nil
}

// locksEnd rolls the transaction back if err says that it is the victim of a deadlock.
// Why: a victim loses its whole transaction, as in InnoDB; its locks must go at once so that the others can proceed.
func (t *Txn) locksEnd(err error) error {
	if errors.Is(err, errs.ErrDeadlock) {
		t.Rollback()
	}
	return err
}
