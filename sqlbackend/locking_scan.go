package sqlbackend

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/engine"
	"lancesql/engine/lock"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// A locking read locks the rows that pass the filter on their table, in the order in which they come. The scan adds to
// each row a last cell that says which row it is (lockedRow); a lockNode above the filter, and above the sort if there
// is only one table, locks it, takes the cell off, and puts in the row as it is now if it changed since the scan's view
// was taken. So what is returned is the newest committed version, as in InnoDB, and the statement need not run again.

// lockedRow is the last cell of a row that a locking scan returns. It belongs to the row.
type lockedRow struct {
	table   *Table
	columns []int // physical positions of the row's own cells, which are its last ones
	zone    *time.Location
	key     rowkey.Key
	seq     uint64          // at which the scan read it, see engine.Txn.LockRow
	index   *lsm.IndexRange // by which it was found, if by a secondary index
}

// found reports whether the row would be found again, by the cell of the index that LockRow read behind its columns. A
// join that looks rows up has no filter above the scan that would say so.
func (r *lockedRow) found(cells arrowx.Row) (bool, error) {
	if r.index == nil {
		return true, nil
	}
	k, err := r.table.info.indexes[r.index.Index].key.prefix[0].Row(cells[len(r.columns):], []int{0})
	return k >= r.index.Range.Lo && (r.index.Range.Hi == "" || k < r.index.Range.Hi), err
}

// lockColumns returns columns with those of the key behind them, and where the key's are.
func (t *Table) lockColumns(columns []int) (all, keyAt []int) {
	all, keyAt = append(all, columns...), []int{}
	for _, k := range t.info.key.columns {
		at := -1
		for i, c := range all {
			if c == k {
				at = i
			}
		}
		if at < 0 {
			at = len(all)
			all = append(all, k)
		}
		keyAt = append(keyAt, at)
	}
	return all, keyAt
}

// lockKeyOf returns the key of a row whose cells at returns by position.
func (t *Table) lockKeyOf(keyAt []int, cell func(i int) any) (rowkey.Key, error) {
	if len(keyAt) == 0 {
		return "", nil
	}
	cells, columns := make(arrowx.Row, len(keyAt)), make([]int, len(keyAt))
	for i, at := range keyAt {
		cells[i], columns[i] = cell(at), i
	}
	return t.info.key.prefix[len(keyAt)-1].Row(cells, columns)
}

// beforeScan takes the locks that go before a scan, and says at which view it reads; false if nothing is left to scan. A
// scan of full keys by a locking read, or by a statement that changes the table, locks them first, whether or not there are
// such rows. A serializable transaction locks the keys or the whole table.
func (t *Table) beforeScan(ctx *sql.Context, c *Conn, txn *engine.Txn, spec lsm.ScanSpec) (lsm.ScanSpec, engine.ReadKind, bool, error) {
	kind := c.readKind()
	want := *t.lock
	serial := txn.Options().Isolation == engine.Serializable && (c.stmt.current || c.inTransaction())
	changes := c.stmt.current && len(spec.Keys) > 0 && c.stmt.writes(t)
	if !want.wanted() && !serial && !changes {
		return spec, kind, true, nil
	}
	if !want.wanted() {
		want.mode = lock.S
		if c.stmt.current && c.stmt.writes(t) {
			want.mode = lock.X // Why: S first would make two statements that change one row a deadlock
		}
	}
	if t.info.appendOnly() && want.mode != lock.None {
		return t.beforeHeapScan(ctx, txn, spec, want)
	}
	// Why not under READ COMMITTED: what is not there is not locked, as in InnoDB, which has no gap locks there.
	ahead := !t.lock.wanted() || txn.Options().Isolation == engine.RepeatableRead || serial
	if x := spec.Index; x != nil && want.wanted() && ahead && !want.skip && t.info.entry.Indexes[x.Index].Unique && x.Range.Hi == after(x.Range.Lo) {
		// A whole value of a unique index, or the first parts of one, which is a name nobody uses.
		if err := txn.LockUnique(ctx, t.info.entry, x.Index, x.Range.Lo, want.mode, want.noWait); err != nil {
			return spec, kind, false, t.lockFailed(ctx, want, err)
		}
	}
	byKey := ahead && (len(spec.Keys) == 1 || len(spec.Keys) > 1 && !c.stmt.limited)
	switch {
	case byKey:
		var left []rowkey.Key
		for _, k := range spec.Keys {
			err := txn.LockKey(ctx, t.info.entry, k, want.mode, want.noWait || want.skip)
			if want.skip && errors.Is(err, errs.ErrLockTimeout) {
				continue
			}
			if err != nil {
				return spec, kind, false, t.lockFailed(ctx, want, err)
			}
			left = append(left, k)
		}
		spec.Keys = left
	case serial:
		mode := lock.S
		if want.mode == lock.X {
			mode = lock.SIX
		}
		if err := txn.LockTable(ctx, t.info.entry, mode); err != nil {
			return spec, kind, false, t.lockFailed(ctx, want, err)
		}
	}
	if !c.stmt.current || serial {
		// What was waited for is to be seen. Why not for all that change rows: what they read before is checked against
		// the view they read it at; they take theirs after this, or run again.
		txn.RefreshStatement()
	}
	kind = engine.Current
	if t.lock.wanted() && !byKey {
		kind = engine.Locking
	}
	return spec, kind, !byKey || len(spec.Keys) > 0, nil
}

// beforeHeapScan is beforeScan for a locking or serializable read of an append-only table: rows have no names to lock them
// by and never change, so the table is locked, against insertions too. SKIP LOCKED leaves out everything then.
func (t *Table) beforeHeapScan(ctx *sql.Context, txn *engine.Txn, spec lsm.ScanSpec, want rowLock) (lsm.ScanSpec, engine.ReadKind, bool, error) {
	err := txn.TryLockTable(ctx, t.info.entry, want.mode, want.noWait || want.skip)
	if want.skip && errors.Is(err, errs.ErrLockTimeout) {
		return spec, engine.Current, false, nil
	}
	if err != nil {
		return spec, engine.Current, false, t.lockFailed(ctx, want, err)
	}
	txn.RefreshStatement()
	return spec, engine.Current, true, nil
}

func (t *Table) lockFailed(ctx *sql.Context, want rowLock, err error) error {
	if want.noWait && errors.Is(err, errs.ErrLockTimeout) {
		return errNoWait()
	}
	connOf(ctx).lost(err)
	return err
}

// lockIter locks the rows of a locking scan and makes them rows of the query again.
type lockIter struct {
	child  sql.RowIter
	filter sql.Expression // what a changed row still has to fulfil; may be nil
}

// Next implements sql.RowIter.
func (l *lockIter) Next(ctx *sql.Context) (sql.Row, error) {
	for {
		row, err := l.child.Next(ctx)
		if err != nil {
			return nil, err
		}
		var ref *lockedRow
		if n := len(row) - 1; n >= 0 {
			ref, _ = row[n].(*lockedRow)
			row = row[:n:n]
		}
		if ref == nil {
			return nil, fmt.Errorf("locking read met a row without its key: %w", errs.ErrInvalid)
		}
		row, ok, err := l.lock(ctx, ref, row)
		if err != nil {
			return nil, err
		}
		if ok {
			return row, nil
		}
	}
}

// lock locks a row and returns it as it is now; false if it is skipped, gone, or no longer passes the filter.
func (l *lockIter) lock(ctx *sql.Context, ref *lockedRow, row sql.Row) (sql.Row, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	want, t := *ref.table.lock, ref.table
	txn, err := t.txn(ctx)
	if err != nil {
		return nil, false, err
	}
	if t.info.appendOnly() {
		return row, true, nil // locked with the table
	}
	columns := ref.columns
	if ref.index != nil {
		columns = append(slices.Clone(columns), t.info.indexes[ref.index.Index].key.columns[0])
	}
	cells, changed, gone, err := txn.LockRow(ctx, t.info.entry, ref.key, want.mode, want.noWait || want.skip, ref.seq, columns)
	switch {
	case want.skip && errors.Is(err, errs.ErrLockTimeout):
		return nil, false, nil
	case err != nil:
		return nil, false, t.lockFailed(ctx, want, err)
	case gone:
		return nil, false, nil
	case !changed:
		return row, true, nil
	}
	if ok, err := ref.found(cells); err != nil || !ok {
		return nil, false, err
	}
	now := row.Copy()
	for i, c := range ref.columns {
		v, err := t.info.decodeCell(c, cells[i], ref.zone)
		if err != nil {
			return nil, false, err
		}
		now[len(now)-len(ref.columns)+i] = v
	}
	if l.filter == nil {
		return now, true, nil
	}
	pass, err := sql.EvaluateCondition(ctx, l.filter, now)
	return now, sql.IsTrue(pass), err
}

// Close implements sql.RowIter.
func (l *lockIter) Close(ctx *sql.Context) error { return l.child.Close(ctx) }

// heldIter holds all rows of a locking read back until every one is locked, so that an error of a lock is the answer and
// not the end of a result.
type heldIter struct {
	child sql.RowIter
	rows  []sql.Row
	read  bool
}

// heldBytesMax bounds what one locking read holds back.
const heldBytesMax = 256 << 20

// Next implements sql.RowIter.
func (h *heldIter) Next(ctx *sql.Context) (sql.Row, error) {
	for size := 0; !h.read; {
		row, err := h.child.Next(ctx)
		if err == io.EOF {
			h.read = true
			break
		}
		if err != nil {
			return nil, err
		}
		if size += sizeOf(row); size > heldBytesMax {
			return nil, fmt.Errorf("locking read of more than %d MiB: %w", heldBytesMax>>20, errs.ErrLimit)
		}
		h.rows = append(h.rows, row)
	}
	if len(h.rows) == 0 {
		return nil, io.EOF
	}
	row := h.rows[0]
	h.rows[0] = nil
	h.rows = h.rows[1:]
	return row, nil
}

// sizeOf estimates the memory of a row.
func sizeOf(row sql.Row) int {
	n := 24 + 24*len(row)
	for _, v := range row {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// Close implements sql.RowIter.
func (h *heldIter) Close(ctx *sql.Context) error {
	h.rows, h.read = nil, true
	return h.child.Close(ctx)
}
