package lsm

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// A table without a primary key is append-only: every write is a new row, nothing is looked up, no row of ours ever
// replaces another, and all sources together are the table. Deletes come from outside alone, as deletion vectors of the
// base. What the two kinds of tables do not share is decided here and where keyless is asked.
//
// Why a row is never read twice: a generation counts exactly while it is above the merged generation of the base
// version that is read, and a WAL entry exactly while it is above the replay cursor and of no flushed generation. With a
// key an error there would go unnoticed, since the newest row wins; without one it doubles rows.
//
// Spec: MemWAL, "Append-only MemWAL tables may omit a primary key"; memwal.md §10.1, §14.

// keyless reports whether the table has no primary key.
func (t *Table) keyless() bool { return len(t.keyCols) == 0 }

// keysOf returns the keys of a batch of the table's physical columns (a tombstone column may follow); nil without a key.
func (t *Table) keysOf(rec arrow.RecordBatch) ([]rowkey.Key, error) {
	if t.keyless() {
		return nil, nil
	}
	return t.encoder.Batch(rec, t.keyCols)
}

// requireKey fails in a table without a key.
func (t *Table) requireKey() error {
	if t.keyless() {
		return fmt.Errorf("look-up by key in table %s, which has none: %w", t.root, errs.ErrUnsupported)
	}
	return nil
}

// noKeys are the keys of a generation of a table without any.
type noKeys struct{}

func (noKeys) newest(context.Context, []rowkey.Key, uint64, func(int, uint64, bool)) error {
	return nil
}

func (noKeys) ordered(context.Context) keyRanger { return noKeys{} }

// Range implements keyRanger.
func (noKeys) Range(rowkey.Key, rowkey.Key, func(rowkey.Key, uint64, bool) (bool, error)) error {
	return nil
}

// Backward implements keyRanger.
func (noKeys) Backward(rowkey.Key, rowkey.Key, func(rowkey.Key, uint64, bool) (bool, error)) error {
	return nil
}

func (noKeys) close() error { return nil }
