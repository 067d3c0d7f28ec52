package sqlbackend

import (
	"errors"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/internal/arrowx"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// onePartition is the only partition of a table: the frontend reads partitions one after another anyway.
type onePartition struct{ scans []lsm.ScanSpec }

// Key implements sql.Partition.
func (onePartition) Key() []byte { return []byte("all") }

// Partitions implements sql.Table.
func (t *Table) Partitions(ctx *sql.Context) (sql.PartitionIter, error) {
	if t.lookup != nil {
		return t.LookupPartitions(ctx, *t.lookup)
	}
	return sql.PartitionsToPartitionIter(onePartition{scans: []lsm.ScanSpec{{}}}), nil
}

// PartitionRows implements sql.Table. The scan opens at the first Next, with the context given there.
func (t *Table) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	t, err := t.present(ctx)
	if err != nil {
		return nil, err
	}
	one, ok := p.(onePartition)
	if !ok {
		return nil, sql.ErrPartitionNotFound.New(p.Key())
	}
	it := &rowIter{table: t, scans: one.scans, columns: t.projection}
	if it.columns == nil {
		it.columns = make([]int, len(t.schema))
		for i := range it.columns {
			it.columns[i] = i
		}
	}
	it.read = it.columns
	if t.lock.wanted() {
		it.read, it.keyAt = t.lockColumns(it.columns)
	}
	return it, nil
}

// present returns the table as it is now, where an earlier clause of an ALTER TABLE has put another in its place.
func (t *Table) present(ctx *sql.Context) (*Table, error) {
	c := connOf(ctx)
	if c == nil || t.projection != nil || !defines(c.stmt.marked) {
		return t, nil
	}
	d := t.provider.catalog(ctx).Database(t.info.entry.Database)
	if d == nil || d.Table(t.Name()) == nil || d.Table(t.Name()).ID == t.info.entry.ID {
		return t, nil
	}
	info, err := t.provider.info(ctx, d.Table(t.Name()))
	if err != nil {
		return nil, err
	}
	nt := newTable(t.provider, info)
	nt.plainVirtual(c)
	if info.rowID >= 0 && c.stmt.bare {
		nt.schema = nt.schema[:info.rowID]
	}
	return nt, nil
}

// rowIter turns the batches of one or several scans into rows. One goroutine at a time uses it.
type rowIter struct {
	table    *Table
	scans    []lsm.ScanSpec          // not yet opened
	loosened bool                    // scans may have become one that returns rows in any order
	columns  []int                   // physical positions, in output order
	read     []int                   // and those of the key behind them, if rows are to be locked
	keyAt    []int                   // where the key's are; nil: rows are not locked
	seqOf    func(rowkey.Key) uint64 // at which the open scan read a row, if rows are locked
	index    *lsm.IndexRange         // and what it looks for, if by a secondary index

	zone   *time.Location // of TIMESTAMP columns, nil = UTC
	reader arrowx.BatchReader
	forget func()
	batch  arrow.RecordBatch
	row    int
}

var _ sql.RowIter = (*rowIter)(nil)

// Next implements sql.RowIter. The row belongs to the caller.
func (r *rowIter) Next(ctx *sql.Context) (sql.Row, error) {
	for r.batch == nil || r.row >= int(r.batch.NumRows()) {
		if err := r.nextBatch(ctx); err != nil {
			return nil, err
		}
	}
	row := make(sql.Row, len(r.columns))
	for i, c := range r.columns {
		v, err := r.table.info.decodeCell(c, arrowx.Value(r.batch.Column(i), r.row), r.zone)
		if err != nil {
			return nil, err
		}
		row[i] = v
	}
	if r.keyAt != nil {
		key, err := r.table.lockKeyOf(r.keyAt, func(i int) any { return arrowx.Value(r.batch.Column(i), r.row) })
		if err != nil {
			return nil, err
		}
		row = append(row, &lockedRow{table: r.table, columns: r.columns, zone: r.zone, key: key, seq: r.seqOf(key), index: r.index})
	}
	r.row++
	return row, nil
}

// nextBatch moves to the next batch, opening the next scan when one is exhausted; io.EOF after the last.
func (r *rowIter) nextBatch(ctx *sql.Context) error {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		if r.reader == nil {
			if len(r.scans) == 0 {
				return io.EOF
			}
			if err := r.open(ctx); err != nil {
				return err
			}
			if r.reader == nil {
				continue // all its keys were skipped
			}
		}
		b, err := r.reader.Next()
		if errors.Is(err, io.EOF) {
			r.closeReader()
			continue
		}
		if err != nil {
			return err
		}
		r.batch, r.row = b, 0
		return nil
	}
}

func (r *rowIter) open(ctx *sql.Context) error {
	c := connOf(ctx)
	txn, err := r.table.txn(ctx)
	if err != nil {
		return err
	}
	r.zone = r.table.info.zone(ctx)
	if r.table.anyOrder && !r.loosened {
		r.loosened = true
		if r.scans, err = r.table.loosened(ctx, txn, c.readKind(), r.scans); err != nil {
			return err
		}
	}
	spec := r.scans[0]
	r.scans = r.scans[1:]
	spec, kind, more, err := r.table.beforeScan(ctx, c, txn, spec)
	if err != nil || !more {
		return err
	}
	r.index = spec.Index
	spec.Columns, spec.Filter, spec.Within = r.read, r.table.filter, append(spec.Within, r.table.within...)
	spec.Stats, spec.Verify = c.stmt.explain.statsOf(r.table, spec), verifyIndexes(ctx)
	// Why this context and not Build's: it belongs to whoever pulls rows, and lives as long as they are pulled.
	var reader arrowx.BatchReader
	if r.table.newest {
		reader, err = txn.ScanNewest(ctx, r.table.info.entry, spec)
	} else {
		reader, err = txn.Scan(ctx, r.table.info.entry, kind, spec)
	}
	if err != nil {
		return err
	}
	r.seqOf = func(rowkey.Key) uint64 { return 0 } // a row is read again when it is locked
	if v, ok := reader.(interface{ SeqOf(rowkey.Key) uint64 }); ok {
		r.seqOf = v.SeqOf
	}
	r.reader, r.forget = reader, c.track(reader)
	return nil
}

func (r *rowIter) closeReader() {
	if r.reader == nil {
		return
	}
	r.forget()
	_ = r.reader.Close() // read only
	r.reader, r.forget = nil, nil
}

// Close implements sql.RowIter. It is idempotent.
func (r *rowIter) Close(*sql.Context) error {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
	r.scans = nil
	r.closeReader()
	return nil
}
