package engine

import (
	"context"
	"encoding/binary"
	"fmt"

	"lancesql/engine/lock"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// A table without a primary key is append-only: transactions add rows and read them, and nothing else. The write set
// needs a key for each row; it is made up, is unique in the engine, and goes nowhere else.

// ownKey makes up the key of a row of a table without one. Keys ascend.
func (e *Engine) ownKey() rowkey.Key {
	return rowkey.Key(binary.BigEndian.AppendUint64(nil, e.ownKeys.Add(1)))
}

// append adds a row to a table without a key. The lock is what keeps it apart from those who lock the table as a whole.
func (t *Txn) append(ctx context.Context, ot *openTable, key rowkey.Key, row arrowx.Row) error {
	if len(row) != len(ot.allColumns) {
		return fmt.Errorf("row has %d cells, table has %d columns: %w", len(row), len(ot.allColumns), errs.ErrInvalid)
	}
	if err := t.lockTable(ctx, ot.entry, lock.IX, false); err != nil {
		return err
	}
	return t.overlay.write(ot.entry, key, overlayOp{row: row})
}

// changeable is writable for a statement that changes rows. errs.ErrUnsupported for a table without a key.
func (t *Txn) changeable(ctx context.Context, tbl *TableEntry) (*openTable, error) {
	ot, err := t.writable(ctx, tbl)
	if err == nil && ot.keyless() {
		return nil, fmt.Errorf("changing rows of table %s.%s, which has no primary key: %w", tbl.Database, tbl.Name, errs.ErrUnsupported)
	}
	return ot, err
}
