package sqlbackend

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// These tests pin what this package assumes of the frontend. They use the stock frontend engine, without this
// server's parser, rules and operators, and must be run on every change of its version.

// recorder logs the calls of editors, in order.
type recorder struct{ calls []string }

func (r *recorder) add(s string) { r.calls = append(r.calls, s) }

func (r *recorder) take() string {
	s := strings.Join(r.calls, " ")
	r.calls = nil
	return s
}

type recordingProvider struct {
	*Provider
	log *recorder
}

func (p *recordingProvider) Database(ctx *sql.Context, name string) (sql.Database, error) {
	d, err := p.Provider.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	return &recordingDatabase{Database: d.(*Database), log: p.log}, nil
}

type recordingDatabase struct {
	*Database
	log *recorder
}

func (d *recordingDatabase) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	t, ok, err := d.Database.GetTableInsensitive(ctx, name)
	if !ok {
		return nil, ok, err
	}
	return &recordingTable{Table: t.(*Table), log: d.log}, true, nil
}

type recordingTable struct {
	*Table
	log *recorder
}

func (t *recordingTable) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	nt, err := t.Table.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	return &recordingTable{Table: nt.(*Table), log: t.log}, nil
}

func (t *recordingTable) IndexedAccess(ctx *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	return &recordingTable{Table: t.Table.IndexedAccess(ctx, l).(*Table), log: t.log}
}

func (t *recordingTable) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	t.log.add("Scan")
	return t.Table.PartitionRows(ctx, p)
}

func (t *recordingTable) editor(what string) *recordingEditor {
	t.log.add(what)
	return &recordingEditor{editor: &editor{table: t.Table}, log: t.log}
}

func (t *recordingTable) Inserter(*sql.Context) sql.RowInserter { return t.editor("Inserter") }
func (t *recordingTable) Updater(*sql.Context) sql.RowUpdater   { return t.editor("Updater") }
func (t *recordingTable) Deleter(*sql.Context) sql.RowDeleter   { return t.editor("Deleter") }
func (t *recordingTable) Replacer(*sql.Context) sql.RowReplacer { return t.editor("Replacer") }

type recordingEditor struct {
	*editor
	log *recorder
}

func (e *recordingEditor) StatementBegin(ctx *sql.Context) {
	e.log.add("Begin")
	e.editor.StatementBegin(ctx)
}

func (e *recordingEditor) DiscardChanges(ctx *sql.Context, err error) error {
	e.log.add("Discard")
	return e.editor.DiscardChanges(ctx, err)
}

func (e *recordingEditor) StatementComplete(ctx *sql.Context) error {
	e.log.add("Complete")
	return e.editor.StatementComplete(ctx)
}

func (e *recordingEditor) Close(ctx *sql.Context) error {
	e.log.add("Close")
	return e.editor.Close(ctx)
}

func (e *recordingEditor) Insert(ctx *sql.Context, r sql.Row) error {
	e.log.add("insert")
	return e.editor.Insert(ctx, r)
}

func (e *recordingEditor) Update(ctx *sql.Context, o, n sql.Row) error {
	e.log.add("update")
	return e.editor.Update(ctx, o, n)
}

func (e *recordingEditor) Delete(ctx *sql.Context, r sql.Row) error {
	e.log.add("delete")
	return e.editor.Delete(ctx, r)
}

// stock is the stock frontend over recording tables, with one session.
type stock struct {
	t    *testing.T
	log  *recorder
	sql  *sqle.Engine
	conn *Conn
}

func newStock(t *testing.T) *stock {
	e, err := engine.Open(context.Background(), engine.Config{}, engine.Components{Store: objstore.NewMem()})
	require.NoError(t, err)
	p := NewProvider(e)
	s := &stock{t: t, log: &recorder{}, conn: NewSession(sql.NewBaseSession(), p)}
	s.sql = sqle.NewDefault(&recordingProvider{Provider: p, log: s.log})
	t.Cleanup(func() {
		s.conn.SessionEnd()
		require.NoError(t, s.sql.Close())
		require.NoError(t, e.Close(context.Background()))
	})
	s.conn.SetCurrentDatabase("db")
	for _, q := range []string{"CREATE DATABASE db", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)"} {
		require.NoError(t, s.run(q))
	}
	s.log.take()
	return s
}

func (s *stock) run(q string) error {
	require.NoError(s.t, s.conn.CommandBegin())
	defer s.conn.CommandEnd()
	return s.query(q)
}

// query runs a statement without ending the command.
func (s *stock) query(q string) error {
	ctx := sql.NewContext(s.t.Context(), sql.WithSession(s.conn), sql.WithQuery(q))
	_, it, _, err := s.sql.Query(ctx, q)
	if err != nil {
		return err
	}
	for {
		if _, err := it.Next(ctx); err != nil {
			if errors.Is(err, io.EOF) {
				return it.Close(ctx)
			}
			return err
		}
	}
}

// Assumption 1: the order of editor calls.
func TestEditorCallOrder(t *testing.T) {
	s := newStock(t)
	for _, c := range []struct{ statement, calls string }{
		{"INSERT INTO t VALUES (3,3),(4,4)", "Inserter Begin insert insert Complete Close"},
		{"UPDATE t SET v = 9 WHERE id = 1", "Updater Begin Scan update Complete Close"},
		{"DELETE FROM t WHERE id = 1", "Deleter Begin Scan delete Complete Close"},
		{"REPLACE INTO t VALUES (2,0)", "Replacer Begin insert delete insert Complete Close"},
		{"INSERT IGNORE INTO t VALUES (2,0),(5,5)", "Inserter Begin insert Discard Begin insert Complete Begin Complete Close"},
		{"INSERT INTO t VALUES (2,0) ON DUPLICATE KEY UPDATE v = 7", "Inserter Updater Begin Begin insert update Complete Complete Close Close"},
	} {
		require.NoError(t, s.run(c.statement))
		require.Equal(t, c.calls, s.log.take(), c.statement)
	}
}

// Assumption 2: an error ends in DiscardChanges and Close, and in neither StatementComplete nor Rollback.
func TestEditorErrorPath(t *testing.T) {
	s := newStock(t)
	err := s.run("INSERT INTO t VALUES (8,8),(1,1)")
	require.Error(t, err)
	require.Equal(t, "Inserter Begin insert insert Discard Close", s.log.take())
}

// Assumption 3: after an error the frontend leaves the autocommit transaction set, and CommandEnd ends it.
func TestTransactionAfterError(t *testing.T) {
	s := newStock(t)
	require.NoError(t, s.conn.CommandBegin())
	require.Error(t, s.query("INSERT INTO t VALUES (8,8),(1,1)"))
	require.NotNil(t, s.conn.GetTransaction())
	s.conn.CommandEnd()
	require.Nil(t, s.conn.GetTransaction())

	require.NoError(t, s.conn.CommandBegin())
	ctx := sql.NewContext(t.Context(), sql.WithSession(s.conn))
	_, err := s.sql.PrepareQuery(ctx, "SELECT * FROM t WHERE id = ?")
	require.NoError(t, err)
	s.conn.CommandEnd()
	require.Nil(t, s.conn.GetTransaction())

	require.NoError(t, s.run("BEGIN"))
	require.NotNil(t, s.conn.GetTransaction())
	require.Error(t, s.run("INSERT INTO t VALUES (1,1)"))
	require.NotNil(t, s.conn.GetTransaction(), "an explicit transaction outlives an error")
	require.NoError(t, s.run("ROLLBACK"))
	require.Nil(t, s.conn.GetTransaction())
}

// Assumption 5: errors of inserts are wrapped in a type without Unwrap, which sql.UnwrapError opens.
func TestWrappedInsertError(t *testing.T) {
	err := sql.NewWrappedInsertError(sql.Row{1}, errs.ErrWriteConflict)
	require.NotErrorIs(t, err, errs.ErrWriteConflict)
	require.ErrorIs(t, sql.UnwrapError(err), errs.ErrWriteConflict)

	s := newStock(t)
	require.True(t, sql.ErrPrimaryKeyViolation.Is(sql.UnwrapError(s.run("INSERT INTO t VALUES (1,1)"))))
}

// After the last command of a session nothing of it is left (I5).
func TestSessionEnd(t *testing.T) {
	s := newStock(t)
	require.NoError(t, s.run("BEGIN"))
	require.NoError(t, s.run("UPDATE t SET v = 5 WHERE id = 1"))
	require.NotNil(t, s.conn.Txn())
	txn := s.conn.Txn()
	s.conn.SessionEnd()
	require.True(t, txn.Done())
	require.Empty(t, s.conn.readers)
}
