package engine

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/arrowx"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// viewFor returns the view a read of kind k uses, taking it if this is the first such read.
func (t *Txn) viewFor(k ReadKind) *view {
	perStatement := t.opts.Isolation == ReadCommitted || t.opts.Isolation == ReadUncommitted
	if k != Consistent || perStatement {
		if t.stmt == nil {
			t.stmt = t.e.views.register(&t.e.seq)
		}
		return t.stmt
	}
	if t.view == nil {
		t.view = t.e.views.register(&t.e.seq)
	}
	return t.view
}

// Scan reads the table at the view of k plus own writes made before the running statement began.
func (t *Txn) Scan(ctx context.Context, tbl *TableEntry, k ReadKind, spec lsm.ScanSpec) (arrowx.BatchReader, error) {
	var others map[rowkey.Key]arrowx.Row
	if k == Locking {
		others = t.uncommitted(tbl, spec) // before the view is taken: what is committed in between is in both
	}
	ot, v, snap, err := t.snapshot(ctx, tbl, k)
	if err != nil {
		return nil, err
	}
	r, err := snap.Scan(ctx, spec, withUncommitted(t.own(tbl), others))
	if err != nil {
		snap.Release()
		if t.e.follow != nil {
			err = ot.vanished(ctx, err)
		}
		return nil, fmt.Errorf("scan %s.%s: %w", tbl.Database, tbl.Name, err)
	}
	if t.e.follow != nil {
		r = &followedReader{BatchReader: r, ctx: ctx, ot: ot}
	}
	t.e.views.retain(v)
	return &scanReader{inner: r, seq: v.seq, others: others, release: func() {
		snap.Release()
		t.e.views.release(v)
	}}, nil
}

// PlanScan fills spec.Stats with what Scan would look at, as far as it is known before rows are read.
func (t *Txn) PlanScan(ctx context.Context, tbl *TableEntry, k ReadKind, spec lsm.ScanSpec) error {
	ot, _, snap, err := t.snapshot(ctx, tbl, k)
	if err != nil {
		return err
	}
	defer snap.Release()
	if err = snap.Plan(ctx, spec, t.own(tbl)); err != nil && t.e.follow != nil {
		err = ot.vanished(ctx, err)
	}
	return err
}

// Extreme returns the least or the greatest cell of a column as lsm.Snapshot.Extreme, over what Scan would read.
func (t *Txn) Extreme(ctx context.Context, tbl *TableEntry, k ReadKind, column int, greatest bool, stats *lsm.ReadStats) (any, error) {
	ot, _, snap, err := t.snapshot(ctx, tbl, k)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	cell, err := snap.Extreme(ctx, column, greatest, t.own(tbl), stats)
	if err != nil && t.e.follow != nil {
		err = ot.vanished(ctx, err)
	}
	return cell, err
}

// snapshot opens the table at the view of k. The caller releases the snapshot; the view stays the transaction's.
func (t *Txn) snapshot(ctx context.Context, tbl *TableEntry, k ReadKind) (*openTable, *view, *lsm.Snapshot, error) {
	if err := t.check(); err != nil {
		return nil, nil, nil, err
	}
	ot, err := t.e.openTable(ctx, tbl)
	if err != nil {
		return nil, nil, nil, t.e.lostTable(ctx, err)
	}
	v, err := t.viewOf(ctx, ot, k)
	if err != nil {
		return nil, nil, nil, err
	}
	snap, err := ot.table.Snapshot(v.seq)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read %s.%s: %w", tbl.Database, tbl.Name, err)
	}
	return ot, v, snap, nil
}

// own is the transaction's writes to a table made before the running statement began; nil if there are none.
func (t *Txn) own(tbl *TableEntry) *lsm.Overlay {
	to := t.overlay.tables[tbl.ID]
	if to == nil {
		return nil
	}
	keys, rows := to.visible(t.start)
	if len(keys) == 0 {
		return nil
	}
	return &lsm.Overlay{Keys: keys, Rows: rows}
}

// scanReader keeps the snapshot and the view alive until Close.
type scanReader struct {
	inner   arrowx.BatchReader
	seq     uint64
	others  map[rowkey.Key]arrowx.Row // rows of other transactions
	release func()
}

// SeqOf is the CommitSeq at which the scan read the row of a key, for LockRow; 0 for one that was not committed.
func (s *scanReader) SeqOf(k rowkey.Key) uint64 {
	if _, ok := s.others[k]; ok {
		return 0
	}
	return s.seq
}

func (s *scanReader) Schema() *arrow.Schema { return s.inner.Schema() }

func (s *scanReader) Next() (arrow.RecordBatch, error) {
	if s.release == nil {
		return nil, io.EOF
	}
	return s.inner.Next()
}

func (s *scanReader) Close() error {
	if s.release == nil {
		return nil
	}
	err := s.inner.Close()
	s.release()
	s.release = nil
	return err
}

// Get is a current read of one key including all own writes. columns are physical positions.
func (t *Txn) Get(ctx context.Context, tbl *TableEntry, key rowkey.Key, columns []int) (arrowx.Row, bool, error) {
	if err := t.check(); err != nil {
		return nil, false, err
	}
	if op, ok := t.overlay.newest(tbl.ID, key, t.overlay.mark()); ok {
		if op.row == nil {
			return nil, false, nil
		}
		return project(op.row, columns), true, nil
	}
	ot, err := t.e.openTable(ctx, tbl)
	if err != nil {
		return nil, false, err
	}
	row, place, err := t.e.currentRow(ctx, ot, key, columns)
	return row, place.Live(), err
}

// currentRow reads the newest committed row of the key, and tells what was found.
func (e *Engine) currentRow(ctx context.Context, ot *openTable, key rowkey.Key, columns []int) (arrowx.Row, lsm.Place, error) {
	v := e.views.register(&e.seq)
	defer e.views.release(v)
	snap, err := ot.table.Snapshot(v.seq)
	if err != nil {
		return nil, lsm.Place{}, err
	}
	defer snap.Release()
	place, err := snap.Find(ctx, key)
	if err != nil {
		return nil, place, err
	}
	row, _, err := snap.RowAt(ctx, place, columns)
	return row, place, err
}

func project(row arrowx.Row, columns []int) arrowx.Row {
	out := make(arrowx.Row, len(columns))
	for i, c := range columns {
		out[i] = row[c]
	}
	return out
}
