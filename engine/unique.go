package engine

import (
	"context"
	"fmt"
	"slices"

	"lancesql/engine/lock"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// IndexDef is a secondary index of a table: a BTREE over one physical column. Parts are the physical positions of the
// columns that its values stand for; a unique index admits any number of rows of which one part is NULL.
type IndexDef struct {
	Name   string `json:"name"`
	Column int    `json:"column"`
	Unique bool   `json:"unique,omitempty"`
	Parts  []int  `json:"parts"`
}

// indexesMax is how many secondary indexes a table may have: MySQL's limit.
const indexesMax = 64

func checkIndexes(list []IndexDef, columns int) error {
	if len(list) > indexesMax {
		return fmt.Errorf("%d indexes, at most %d: %w", len(list), indexesMax, errs.ErrLimit)
	}
	for _, d := range list {
		for _, c := range append([]int{d.Column}, d.Parts...) {
			if c < 0 || c >= columns {
				return fmt.Errorf("index %s on column %d of %d: %w", d.Name, c, columns, errs.ErrInvalid)
			}
		}
	}
	return nil
}

// storedIndexes is the indexes as the table layer keeps them.
func (t *TableEntry) storedIndexes() []lsm.IndexDef {
	out := make([]lsm.IndexDef, len(t.Indexes))
	for i, d := range t.Indexes {
		out[i] = lsm.IndexDef{Name: d.Name, Column: d.Column}
	}
	return out
}

// uniqueKey returns the tuple of the row in a unique index; ok is false if the index does not restrict it.
func (ot *openTable) uniqueKey(i int, row arrowx.Row) (k rowkey.Key, ok bool, err error) {
	d := ot.entry.Indexes[i]
	if !d.Unique || row == nil || slices.ContainsFunc(d.Parts, func(c int) bool { return row[c] == nil }) {
		return "", false, nil
	}
	k, err = ot.indexed[i].Row(row, []int{d.Column})
	return k, err == nil, err
}

// indexLock is the name of the lock of a value of a unique index, apart from those of rows, which begin with 0 or 1.
func indexLock(i int, k rowkey.Key) rowkey.Key { return rowkey.Key([]byte{0xff, byte(i)}) + k }

// claimUnique locks the values that newRow has in unique indexes and oldRow (nil: none) has not, and fails if another
// row has one of them: with a *DuplicateKeyError whose row is locked. Values that a write gives up are locked too, so that
// nobody takes them before the transaction ends. key is the primary key of newRow.
func (t *Txn) claimUnique(ctx context.Context, ot *openTable, key rowkey.Key, oldRow, newRow arrowx.Row) error {
	for i := range ot.entry.Indexes {
		given, gives, err := ot.uniqueKey(i, oldRow)
		if err != nil {
			return err
		}
		wanted, wants, err := ot.uniqueKey(i, newRow)
		if err != nil {
			return err
		}
		if gives && wants && given == wanted {
			continue
		}
		if gives {
			if err := t.lock(ctx, ot.entry, indexLock(i, given), lock.X, t.opts.LockWait); err != nil {
				return err
			}
		}
		if !wants {
			continue
		}
		if err := t.lock(ctx, ot.entry, indexLock(i, wanted), lock.X, t.opts.LockWait); err != nil {
			return err
		}
		if err := t.checkUnique(ctx, ot, i, wanted, key); err != nil {
			return err
		}
	}
	return nil
}

// checkUnique fails if a row other than that of key has a value in a unique index. The value's lock is held, so no other
// transaction can give the value to a row, but one may be changing the row that has it: its lock is taken, and then the
// row is looked at again.
func (t *Txn) checkUnique(ctx context.Context, ot *openTable, i int, value, key rowkey.Key) error {
	for {
		row, other, err := t.rowWith(ctx, ot, i, value, key)
		if err != nil || row == nil {
			return err
		}
		if err := t.lock(ctx, ot.entry, other, lock.X, t.opts.LockWait); err != nil {
			return err
		}
		again, still, err := t.rowWith(ctx, ot, i, value, key)
		if err != nil || again == nil {
			return err
		}
		if still == other {
			return &DuplicateKeyError{Table: ot.entry, Key: other, Existing: again, Index: ot.entry.Indexes[i].Name}
		}
	}
}

// rowWith finds the row, other than that of key, that has a value in a unique index: among own writes, then among the
// newest committed rows that no own write replaces. nil if there is none.
func (t *Txn) rowWith(ctx context.Context, ot *openTable, i int, value, key rowkey.Key) (arrowx.Row, rowkey.Key, error) {
	to := t.overlay.tables[ot.entry.ID]
	if to != nil {
		for _, k := range to.candidates(ot, i, value) {
			op, ok := newestOp(to.keys[k], t.overlay.mark())
			if !ok || op.row == nil || k == key {
				continue
			}
			if has, ok, err := ot.uniqueKey(i, op.row); err != nil {
				return nil, "", err
			} else if ok && has == value {
				return op.row, k, nil
			}
		}
	}
	v := t.e.views.register(&t.e.seq)
	defer t.e.views.release(v)
	snap, err := ot.table.Snapshot(v.seq)
	if err != nil {
		return nil, "", err
	}
	defer snap.Release()
	rows, err := snap.FindByIndex(ctx, i, value, ot.allColumns)
	if err != nil {
		return nil, "", fmt.Errorf("look up index %s: %w", ot.entry.Indexes[i].Name, err)
	}
	for _, row := range rows {
		k, err := ot.key(row)
		if err != nil {
			return nil, "", err
		}
		if _, own := t.overlay.newest(ot.entry.ID, k, t.overlay.mark()); k != key && !own {
			return row, k, nil
		}
	}
	return nil, "", nil
}

// candidates are the keys of own writes that have, or once had, a value in a unique index. What was written since the last
// call is taken in first.
func (t *tableOverlay) candidates(ot *openTable, i int, value rowkey.Key) []rowkey.Key {
	if t.unique == nil {
		t.unique = make(map[rowkey.Key][]rowkey.Key)
	}
	for _, k := range t.fresh {
		for _, op := range t.keys[k] {
			for n := range ot.entry.Indexes {
				if v, ok, err := ot.uniqueKey(n, op.row); err == nil && ok {
					if at := indexLock(n, v); !slices.Contains(t.unique[at], k) {
						t.unique[at] = append(t.unique[at], k)
					}
				}
			}
		}
	}
	t.fresh = t.fresh[:0]
	return t.unique[indexLock(i, value)]
}
