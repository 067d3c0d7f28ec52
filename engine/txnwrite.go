package engine

import (
	"context"
	"fmt"

	"lancesql/engine/lock"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// Insert adds a row (all physical columns). It takes the X lock of the key, then looks at the newest
// committed row and at own writes; a taken key is a *DuplicateKeyError with the complete stored row.
func (t *Txn) Insert(ctx context.Context, tbl *TableEntry, row arrowx.Row) error {
	ot, err := t.writable(ctx, tbl)
	if err != nil {
		return err
	}
	if err := t.e.temporary.admit(); err != nil {
		return err
	}
	key, err := ot.key(row)
	if err != nil {
		return err
	}
	if ot.keyless() {
		return t.append(ctx, ot, key, row)
	}
	stored, err := t.claim(ctx, ot, key)
	if err != nil {
		return err
	}
	if err := t.claimUnique(ctx, ot, key, nil, row); err != nil {
		return err
	}
	return t.overlay.write(tbl, key, overlayOp{row: row, found: stored, absent: true})
}

// Update replaces oldRow, as a scan of this statement returned it, by newRow. errs.ErrWriteConflict if another
// transaction changed the row after the statement's view was taken: undo the statement, RefreshStatement, run again.
func (t *Txn) Update(ctx context.Context, tbl *TableEntry, oldRow, newRow arrowx.Row) error {
	ot, err := t.changeable(ctx, tbl)
	if err != nil {
		return err
	}
	if err := t.e.temporary.admit(); err != nil {
		return err
	}
	oldKey, err := ot.key(oldRow)
	if err != nil {
		return err
	}
	newKey, err := ot.key(newRow)
	if err != nil {
		return err
	}
	if err := t.lockUnchanged(ctx, ot, oldKey); err != nil {
		return err
	}
	write := overlayOp{row: newRow}
	if newKey != oldKey {
		if write.found, err = t.claim(ctx, ot, newKey); err != nil {
			return err
		}
		write.absent = true
	}
	if err := t.claimUnique(ctx, ot, newKey, oldRow, newRow); err != nil {
		return err
	}
	if newKey != oldKey {
		if err := t.overlay.write(tbl, oldKey, overlayOp{}); err != nil {
			return err
		}
	}
	return t.overlay.write(tbl, newKey, write)
}

// Delete removes oldRow; errors as for Update.
func (t *Txn) Delete(ctx context.Context, tbl *TableEntry, oldRow arrowx.Row) error {
	ot, err := t.changeable(ctx, tbl)
	if err != nil {
		return err
	}
	key, err := ot.key(oldRow)
	if err != nil {
		return err
	}
	if err := t.lockUnchanged(ctx, ot, key); err != nil {
		return err
	}
	if err := t.claimUnique(ctx, ot, key, oldRow, nil); err != nil {
		return err
	}
	return t.overlay.write(tbl, key, overlayOp{})
}

func (t *Txn) writable(ctx context.Context, tbl *TableEntry) (*openTable, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.opts.ReadOnly {
		return nil, fmt.Errorf("write in a read-only transaction: %w", errs.ErrInvalid)
	}
	if err := t.e.changeable(); err != nil {
		return nil, err
	}
	if err := t.e.Failed(); err != nil {
		return nil, err
	}
	ot, err := t.e.openTable(ctx, tbl)
	if err != nil {
		return nil, err
	}
	return ot, ot.admit(ctx)
}

// claim locks a key that is about to be written and fails if its row exists. It returns what is stored under the key.
func (t *Txn) claim(ctx context.Context, ot *openTable, key rowkey.Key) (lsm.Place, error) {
	if err := t.lock(ctx, ot.entry, key, lock.X, t.opts.LockWait); err != nil {
		return lsm.Place{}, err
	}
	if op, ok := t.overlay.newest(ot.entry.ID, key, t.overlay.mark()); ok {
		if op.row != nil {
			return lsm.Place{}, &DuplicateKeyError{Table: ot.entry, Key: key, Existing: project(op.row, ot.allColumns)}
		}
		return op.found, nil
	}
	row, place, err := t.e.currentRow(ctx, ot, key, ot.allColumns)
	if err != nil {
		return lsm.Place{}, err
	}
	if place.Live() {
		return lsm.Place{}, &DuplicateKeyError{Table: ot.entry, Key: key, Existing: row}
	}
	return place, nil
}

// lockUnchanged locks the key of a row read by this statement and verifies that nobody replaced it since.
func (t *Txn) lockUnchanged(ctx context.Context, ot *openTable, key rowkey.Key) error {
	if err := t.lock(ctx, ot.entry, key, lock.X, t.opts.LockWait); err != nil {
		return err
	}
	if _, own := t.overlay.newest(ot.entry.ID, key, t.overlay.mark()); own {
		return nil // Why: our own write, and the lock has been ours since before it
	}
	same, err := t.unchanged(ctx, ot, key, t.viewFor(Current).seq)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("table %s.%s: %w", ot.entry.Database, ot.entry.Name, errs.ErrWriteConflict)
	}
	return nil
}

// unchanged reports whether nobody replaced the row of a locked key after the view seq.
func (t *Txn) unchanged(ctx context.Context, ot *openTable, key rowkey.Key, seq uint64) (bool, error) {
	now := t.e.views.register(&t.e.seq)
	defer t.e.views.release(now)
	if now.seq == seq {
		return true, nil
	}
	snap, err := ot.table.Snapshot(now.seq)
	if err != nil {
		return false, err
	}
	defer snap.Release()
	return snap.Unchanged(ctx, key, seq)
}
