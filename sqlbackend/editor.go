package sqlbackend

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// editor writes rows of one table into the session's transaction. It serves INSERT, UPDATE, DELETE and REPLACE; the
// write set is the transaction's, so any number of editors of a statement see each other's writes.
//
// Making one takes no locks: the frontend makes editors it never uses.
type editor struct {
	table *Table
	txn   *engine.Txn // nil until the statement begins
	what  string      // what it is for, if that changes rows that are there
	mark  historyMark // when the statement began
	rows  int64       // rows written since, for messages

	replaced  arrowx.Row // REPLACE: the last row deleted for the one to be written
	replacedN int        // and how many were
}

var (
	_ sql.TableEditor       = (*editor)(nil)
	_ sql.InsertableTable   = (*Table)(nil)
	_ sql.UpdatableTable    = (*Table)(nil)
	_ sql.DeletableTable    = (*Table)(nil)
	_ sql.ReplaceableTable  = (*Table)(nil)
	_ sql.TruncateableTable = (*Table)(nil)
)

// Inserter implements sql.InsertableTable.
func (t *Table) Inserter(*sql.Context) sql.RowInserter { return &editor{table: t} }

// Updater implements sql.UpdatableTable.
func (t *Table) Updater(*sql.Context) sql.RowUpdater { return &editor{table: t, what: "UPDATE"} }

// Deleter implements sql.DeletableTable.
func (t *Table) Deleter(*sql.Context) sql.RowDeleter { return &editor{table: t, what: "DELETE"} }

// Replacer implements sql.ReplaceableTable.
func (t *Table) Replacer(*sql.Context) sql.RowReplacer { return &editor{table: t, what: "REPLACE"} }

// StatementBegin implements sql.EditOpenerCloser. With IGNORE it is called for each row.
func (e *editor) StatementBegin(ctx *sql.Context) {
	txn, err := e.table.txn(ctx)
	if err != nil {
		return // the first write reports it
	}
	e.txn, e.mark = txn, connOf(ctx).mark()
}

// DiscardChanges implements sql.EditOpenerCloser: the statement's writes are undone, its locks stay.
func (e *editor) DiscardChanges(ctx *sql.Context, _ error) error {
	if e.txn != nil && !e.txn.Done() {
		connOf(ctx).rollbackTo(e.mark)
	}
	return nil
}

// StatementComplete implements sql.EditOpenerCloser.
func (e *editor) StatementComplete(*sql.Context) error { return nil }

// Close implements sql.Closer. It writes nothing: it is called after errors as well.
func (e *editor) Close(*sql.Context) error { return nil }

// begin returns the transaction to write to. It checks for cancellation, since the frontend's REPLACE loop does not.
func (e *editor) begin(ctx *sql.Context) (*engine.Txn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.what != "" && e.table.info.appendOnly() {
		return nil, e.table.info.errAppendOnly(e.what)
	}
	txn, err := e.table.txn(ctx)
	if err != nil {
		return nil, err
	}
	if e.txn != txn {
		e.txn, e.mark = txn, connOf(ctx).mark()
	}
	return txn, nil
}

// Insert implements sql.RowInserter. A taken key is sql.ErrPrimaryKeyViolation with the complete stored row.
func (e *editor) Insert(ctx *sql.Context, row sql.Row) error {
	txn, err := e.begin(ctx)
	if err != nil {
		return err
	}
	e.rows++
	t := e.table.info
	if err := t.refuseZeroDates(ctx, nil, row, e.rows); err != nil {
		return err
	}
	phys, err := t.encodeRow(ctx, row)
	if err != nil {
		return err
	}
	if t.rowID >= 0 {
		id, err := txn.NextRowID(ctx, t.entry)
		if err != nil {
			return err
		}
		phys[t.rowID] = id
	}
	if err := t.fill(phys); err != nil {
		return err
	}
	if err := txn.Insert(ctx, t.entry, phys); err != nil {
		return e.failed(ctx, err, row)
	}
	switch {
	case e.replacedN == 1 && connOf(ctx).stmt.replacing == nil && t.uniqueKeys() == 1 && t.sameRow(e.replaced, phys):
		connOf(ctx).stmt.replaced--
	case e.replacedN > 1:
		connOf(ctx).stmt.replaced += e.replacedN - 1
	}
	e.replacedN = 0
	connOf(ctx).stmt.inserted++
	return nil
}

// uniqueKeys counts the keys that must be unique. MySQL leaves an equal row where it is only if it is found by the last of them.
func (t *tableInfo) uniqueKeys() int {
	n := min(len(t.shape.Key), 1)
	for i := range t.shape.Indexes {
		if t.shape.Indexes[i].Unique {
			n++
		}
	}
	return n
}

// sameRow reports whether two rows are the same but for a hidden row id.
func (t *tableInfo) sameRow(a, b arrowx.Row) bool {
	for i := range a {
		if i != t.rowID && !reflect.DeepEqual(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Update implements sql.RowUpdater.
func (e *editor) Update(ctx *sql.Context, old, new sql.Row) error {
	txn, err := e.begin(ctx)
	if err != nil {
		return err
	}
	e.rows++
	t := e.table.info
	if err := t.refuseZeroDates(ctx, old, new, e.rows); err != nil {
		return err
	}
	before, err := t.encodeRow(ctx, old)
	if err != nil {
		return err
	}
	after, err := t.encodeRow(ctx, new)
	if err != nil {
		return err
	}
	if err := t.identify(ctx, txn, before, old); err != nil {
		return err
	}
	if t.rowID >= 0 {
		after[t.rowID] = before[t.rowID]
	}
	if err := t.fill(before); err != nil {
		return err
	}
	if err := t.fill(after); err != nil {
		return err
	}
	return e.failed(ctx, txn.Update(ctx, t.entry, before, after), new)
}

// Delete implements sql.RowDeleter.
func (e *editor) Delete(ctx *sql.Context, row sql.Row) error {
	txn, err := e.begin(ctx)
	if err != nil {
		return err
	}
	e.rows++
	t := e.table.info
	fires := connOf(ctx).stmt.replacing
	if fires != nil && fires.table != t.entry.ID {
		fires = nil
	}
	if fires != nil {
		if err := fires.fire(ctx, e.table.provider.operators, fires.before, row); err != nil {
			return err
		}
	}
	phys, err := t.encodeRow(ctx, row)
	if err != nil {
		return err
	}
	if err := t.identify(ctx, txn, phys, row); err != nil {
		return err
	}
	if err := t.fill(phys); err != nil {
		return err
	}
	if err := txn.Delete(ctx, t.entry, phys); err != nil {
		return e.failed(ctx, err, nil)
	}
	if e.what == "REPLACE" {
		e.replaced = phys
		e.replacedN++
	}
	if fires != nil {
		return fires.fire(ctx, e.table.provider.operators, fires.after, row)
	}
	return nil
}

// duplicateRow is the row whose unique key was taken, as the frontend has it: without its row id.
type duplicateRow struct {
	table engine.TableID
	row   sql.Row
	id    any
}

// identify fills in the row id of a row of a table without a key, if the row does not say it: a trigger does not see
// hidden columns. as is the row as the frontend gave it. Rows of equal content are the same to everybody, so the first one is taken.
func (t *tableInfo) identify(ctx *sql.Context, txn *engine.Txn, row arrowx.Row, as sql.Row) error {
	if t.rowID < 0 || row[t.rowID] != nil {
		return nil
	}
	if d := connOf(ctx).stmt.duplicate; d.table == t.entry.ID && len(as) == len(d.row) && &as[0] == &d.row[0] {
		row[t.rowID] = d.id
		return nil
	}
	start := txn.StatementStart()
	txn.SetStatementStart(txn.Mark()) // the row may be one that the statement itself wrote
	defer func() { txn.SetStatementStart(start) }()
	columns := make([]int, len(row))
	for i := range columns {
		columns[i] = i
	}
	r, err := txn.Scan(ctx, t.entry, engine.Current, lsm.ScanSpec{Columns: columns})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // read only
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("row of %s.%s is no longer there: %w", t.entry.Database, t.entry.Name, errs.ErrWriteConflict)
		}
		if err != nil {
			return err
		}
		for i := range int(b.NumRows()) {
			if t.sameContent(b, i, row[:t.rowID]) { // what indexes keep behind it is not filled in yet
				row[t.rowID] = arrowx.Value(b.Column(t.rowID), i)
				b.Release()
				return nil
			}
		}
		b.Release()
	}
}

func (t *tableInfo) sameContent(b arrow.RecordBatch, i int, row arrowx.Row) bool {
	for c, v := range row {
		if !reflect.DeepEqual(arrowx.Value(b.Column(c), i), v) {
			return false
		}
	}
	return true
}

// failed translates what the frontend acts on; other errors go up as they are and get their MySQL number at the top.
// row is the row that was to be written.
func (e *editor) failed(ctx *sql.Context, err error, row sql.Row) error {
	if err == nil {
		return nil
	}
	var dup *engine.DuplicateKeyError
	if errors.As(err, &dup) {
		t := e.table.info
		existing, derr := t.decodeRow(ctx, dup.Existing)
		if derr != nil {
			return derr
		}
		if t.rowID >= 0 && len(row) == t.rowID {
			// Why cut: the frontend puts it beside the new row and counts on both being of one length.
			existing = existing[:t.rowID:t.rowID]
			connOf(ctx).stmt.duplicate = duplicateRow{table: t.entry.ID, row: existing, id: dup.Existing[t.rowID]}
		}
		return sql.NewUniqueKeyErr(e.table.info.duplicateText(ctx, row, dup.Index), dup.Index == "", existing)
	}
	connOf(ctx).lost(err)
	return err
}

// duplicateText is MySQL's message for a row whose value of a unique key, named by index, is taken.
func (t *tableInfo) duplicateText(ctx *sql.Context, row sql.Row, index string) string {
	name, parts := primaryIndex, t.key.parts
	if index != "" {
		name, parts = index, t.partsOf(index)
	}
	values := make([]string, len(parts))
	for i, p := range parts {
		values[i] = "NULL"
		if p.column >= len(row) || row[p.column] == nil {
			continue
		}
		if b, ok := row[p.column].([]byte); ok {
			values[i] = printable(string(b))
		} else if s, err := t.schema.Schema[p.column].Type.SQL(ctx, nil, row[p.column]); err == nil {
			values[i] = leading(s.ToString(), p.length)
		}
	}
	return "Duplicate entry '" + strings.Join(values, "-") + "' for key '" + t.entry.Name + "." + name + "'"
}

// Truncate implements sql.TruncateableTable: an empty table takes the place of this one, in one step. It serves DELETE without a
// condition as well, which deletes row by row.
func (t *Table) Truncate(ctx *sql.Context) (int, error) {
	c := connOf(ctx)
	if c.stmt.truncate {
		if ddl, ok := c.stmt.marked.(*sqlparser.DDL); ok && !t.named(ctx, ddl.Table) { // the table below a view
			return 0, sql.ErrTableNotFound.New(databaseOf(ctx, ddl.Table) + "." + ddl.Table.Name.String())
		}
		if err := c.implicitCommit(ctx); err != nil {
			return 0, err
		}
		if t.info.appendOnly() {
			return 0, t.info.errAppendOnly("TRUNCATE")
		}
		return 0, t.recreate(ctx) // no rows, as MySQL answers
	}
	if t.info.appendOnly() {
		return 0, t.info.errAppendOnly("DELETE")
	}
	c.stmt.current = true
	return t.deleteAll(ctx)
}

// named reports whether a name in the running statement is this table's.
func (t *Table) named(ctx *sql.Context, name sqlparser.TableName) bool {
	return strings.EqualFold(name.Name.String(), t.info.entry.Name) && strings.EqualFold(databaseOf(ctx, name), t.info.entry.Database)
}

func (t *Table) deleteAll(ctx *sql.Context) (int, error) {
	all := newTable(t.provider, t.info)
	parts, err := all.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	rows := sql.NewTableRowIter(ctx, all, parts)
	defer func() { _ = rows.Close(ctx) }() // read only
	e := &editor{table: all}
	e.StatementBegin(ctx)
	n := 0
	for {
		row, err := rows.Next(ctx)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err == nil {
			err = e.Delete(ctx, row)
		}
		if err != nil {
			_ = e.DiscardChanges(ctx, err) // never fails
			return 0, err
		}
		n++
	}
}
