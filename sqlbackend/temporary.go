package sqlbackend

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// Temporary tables lie in an engine of the session's own, in memory, with the same names of databases and tables as the
// server's. A *Table knows by its provider which engine it is of; what differs otherwise is here: which of two tables of one
// name a statement means, and that the session's transaction is one on both engines.

// temporaryTables are those of one session. Calls are serial.
type temporaryTables struct {
	provider *Provider
	locks    *engine.Session
	txn      *engine.Txn // what the session's transaction did to them; nil: nothing yet
}

var _ sql.TemporaryTableCreator = (*Database)(nil)
var _ sql.TemporaryTableDatabase = (*Database)(nil)

// temporaryDatabase returns the session's own database of that name, which it makes if need be.
func (c *Conn) temporaryDatabase(ctx *sql.Context, name string) (*Database, error) {
	if c.temps == nil {
		e, err := c.provider.engine.OpenTemporary(ctx)
		if err != nil {
			return nil, err
		}
		p := NewProvider(e)
		p.temporary = true
		c.temps = &temporaryTables{provider: p, locks: e.NewSession(uint64(c.ID()))}
	}
	p := c.temps.provider
	d := p.engine.Catalog().Database(name)
	if d == nil {
		if err := p.engine.CreateDatabase(ctx, name, nil); err != nil {
			return nil, err
		}
		d = p.engine.Catalog().Database(name)
	}
	return &Database{provider: p, name: d.Name}, nil
}

// CreateTemporaryTable implements sql.TemporaryTableCreator. The rest of the statement is in the plan that CreateTableHook
// noted.
func (d *Database) CreateTemporaryTable(ctx *sql.Context, name string, schema sql.PrimaryKeySchema, collation sql.CollationID) error {
	c := connOf(ctx)
	if c == nil || c.locks == nil {
		return sql.ErrTemporaryTableNotSupported.New()
	}
	e, err := d.entry(ctx)
	if err != nil {
		return err
	}
	var key []sql.IndexColumn
	comment := ""
	if n := c.stmt.creating; n != nil && strings.EqualFold(n.Name(), name) {
		if len(n.ForeignKeys()) > 0 {
			return mysql.NewSQLError(1215, "HY000", "Cannot add foreign key constraint")
		}
		comment, _ = n.TableOpts["comment"].(string)
		for _, x := range n.Indexes() {
			if x.IsPrimary() {
				key = x.Columns
			}
		}
	}
	if collation == sql.Collation_Unspecified {
		collation = d.GetCollation(ctx)
	}
	own, err := c.temporaryDatabase(ctx, e.Name)
	if err != nil {
		return err
	}
	return own.createTable(ctx, name, schema, key, collation, comment)
}

// GetAllTemporaryTables implements sql.TemporaryTableDatabase.
func (d *Database) GetAllTemporaryTables(ctx *sql.Context) ([]sql.Table, error) {
	c := connOf(ctx)
	if c == nil || c.temps == nil {
		return nil, nil
	}
	own := c.temps.provider.catalog(ctx).Database(d.name)
	if own == nil {
		return nil, nil
	}
	var list []sql.Table
	for _, entry := range own.Tables() {
		if entry.IsRebuild() {
			continue
		}
		info, err := c.temps.provider.info(ctx, entry)
		if err != nil {
			return nil, err
		}
		list = append(list, newTable(c.temps.provider, info))
	}
	return list, nil
}

// temporary returns the session's temporary table that a name in the running statement stands for, nil if it stands for
// another table. One hides the table of its name in all that the statement itself names, but not in views it uses, in
// foreign keys and triggers of other tables, and in lists of tables.
func (c *Conn) temporary(ctx *sql.Context, db, name string) *engine.TableEntry {
	if c == nil || c.temps == nil {
		return nil
	}
	own := c.temps.provider.catalog(ctx).Database(db)
	if own == nil {
		return nil
	}
	entry := own.Table(name)
	if entry == nil || c.stmt.marked == nil {
		return entry
	}
	d := c.provider.catalog(ctx).Database(db)
	switch s := c.stmt.marked.(type) {
	case *sqlparser.Show:
		if strings.HasPrefix(strings.ToLower(s.Type), "table") {
			return nil
		}
		return entry
	case *sqlparser.DDL:
		if createsTable(s) && !s.Temporary && strings.EqualFold(s.Table.Name.String(), name) {
			return nil // CREATE TABLE makes the other one
		}
	}
	if d != nil && d.Table(name) != nil && !c.namesTable(db, name) {
		return nil
	}
	return entry
}

func createsTable(s *sqlparser.DDL) bool {
	return strings.EqualFold(s.Action, sqlparser.CreateStr) && !s.Table.Name.IsEmpty() && s.ViewSpec == nil && s.TriggerSpec == nil && s.ProcedureSpec == nil
}

// namesTable reports whether the running statement names a table, other than in views and triggers.
func (c *Conn) namesTable(db, name string) bool {
	for _, u := range c.stmt.uses {
		if !strings.EqualFold(u.table, name) {
			continue
		}
		if u.db == "" && strings.EqualFold(c.GetCurrentDatabase(), db) || strings.EqualFold(u.db, db) {
			return true
		}
	}
	return false
}

// isTemporary reports whether a table that the statement names is a temporary one.
func (c *Conn) isTemporary(ctx *sql.Context, u tableUse) bool {
	return c.temporary(ctx, u.db, u.table) != nil
}

// refuseTemporary refuses definitions that would outlive a temporary table they are about.
func (c *Conn) refuseTemporary(ctx *sql.Context) error {
	if c == nil || c.temps == nil {
		return nil
	}
	s, ok := c.stmt.marked.(*sqlparser.DDL)
	if !ok || !strings.EqualFold(s.Action, sqlparser.CreateStr) {
		return nil
	}
	of := func(n sqlparser.TableName) bool {
		u := tableUse{db: n.DbQualifier.String(), table: n.Name.String()}
		if u.db == "" {
			u.db = c.GetCurrentDatabase()
		}
		own := c.temps.provider.catalog(ctx).Database(u.db)
		return own != nil && own.Table(u.table) != nil
	}
	if s.TriggerSpec != nil && of(s.Table) {
		return newError(1361, "Trigger's '%s' is view or temporary table", s.Table.Name)
	}
	if s.ViewSpec == nil {
		return nil
	}
	var w useWalk
	w.walk(s.ViewSpec.ViewExpr, 0)
	for _, u := range w.uses {
		if of(sqlparser.TableName{DbQualifier: sqlparser.NewTableIdent(u.db), Name: sqlparser.NewTableIdent(u.table)}) {
			return newError(1352, "View's SELECT refers to a temporary table '%s'", u.table)
		}
	}
	return nil
}

// txn returns the transaction in which the running statement reads and writes the table.
func (t *Table) txn(ctx *sql.Context) (*engine.Txn, error) {
	c := connOf(ctx)
	txn, err := c.activeTxn(ctx) // the frontend's, which ends both
	if err != nil || !t.provider.temporary {
		return txn, err
	}
	own := c.temps
	if own == nil || own.provider != t.provider {
		return nil, sql.ErrTableNotFound.New(t.Name())
	}
	if own.txn == nil || own.txn.Done() {
		// Why not the session's level: nobody else changes these tables, and a view kept for long keeps dead rows.
		own.txn = own.locks.Begin(engine.TxnOptions{Isolation: engine.ReadCommitted})
	}
	if c.stmt.begunOwn != own.txn {
		own.txn.BeginStatement()
		c.stmt.begunOwn = own.txn
	}
	return own.txn, nil
}

// current returns the open transaction on temporary tables, nil if there is none.
func (t *temporaryTables) current() *engine.Txn {
	if t == nil || t.txn == nil || t.txn.Done() {
		return nil
	}
	return t.txn
}

// commit ends the transaction. It comes after the one on the server's tables has been committed, which may fail.
func (t *temporaryTables) commit(ctx context.Context) error {
	txn := t.current()
	if txn == nil {
		return nil
	}
	t.txn = nil
	return txn.Commit(ctx)
}

func (t *temporaryTables) rollback() {
	if txn := t.current(); txn != nil {
		txn.Rollback()
		t.txn = nil
	}
}

// forget takes back what the transaction did to a table that is being dropped, which it cannot commit.
func (t *temporaryTables) forget(entry *engine.TableEntry) {
	if txn := t.current(); txn != nil && entry != nil {
		txn.Forget(entry.ID)
	}
}

// close drops all tables.
func (t *temporaryTables) close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.rollback()
	t.locks.Close()
	return t.provider.engine.Close(ctx)
}

// historyMark is a place in the session's writes, to both engines.
type historyMark struct{ shared, own txnMark }

// txnMark is a place in the writes of a transaction; before all of them if that has not begun.
type txnMark struct {
	txn *engine.Txn
	at  engine.Mark
}

func markIn(txn *engine.Txn) txnMark {
	if txn == nil {
		return txnMark{}
	}
	return txnMark{txn, txn.Mark()}
}

func startIn(txn *engine.Txn) txnMark {
	if txn == nil {
		return txnMark{}
	}
	return txnMark{txn, txn.StatementStart()}
}

// of reports whether the place is one of the transaction that is open now.
func (m txnMark) of(now *engine.Txn) bool {
	return now != nil && !now.Done() && (m.txn == nil || m.txn == now)
}

// sharedTxn returns the transaction on the server's tables if it has begun.
func (c *Conn) sharedTxn() *engine.Txn {
	t, ok := c.GetTransaction().(*transaction)
	if !ok || t == nil || t.txn == nil || t.txn.Done() {
		return nil
	}
	return t.txn
}

// mark returns the present place.
func (c *Conn) mark() historyMark {
	return historyMark{markIn(c.sharedTxn()), markIn(c.temps.current())}
}

// rollbackTo undoes what was written after m; locks stay.
func (c *Conn) rollbackTo(m historyMark) {
	if now := c.sharedTxn(); m.shared.of(now) {
		now.RollbackTo(m.shared.at)
	}
	if now := c.temps.current(); m.own.of(now) {
		now.RollbackTo(m.own.at)
	}
}

// statementStart returns the place up to which the running statement sees own writes.
func (c *Conn) statementStart() historyMark {
	return historyMark{startIn(c.sharedTxn()), startIn(c.temps.current())}
}

// setStatementStart moves it.
func (c *Conn) setStatementStart(m historyMark) {
	if now := c.sharedTxn(); m.shared.of(now) {
		now.SetStatementStart(m.shared.at)
	}
	if now := c.temps.current(); m.own.of(now) {
		now.SetStatementStart(m.own.at)
	}
}

// refreshStatement lets the running statement read what is newest now.
func (c *Conn) refreshStatement() {
	if txn := c.sharedTxn(); txn != nil {
		txn.RefreshStatement()
	}
	if txn := c.temps.current(); txn != nil {
		txn.RefreshStatement()
	}
}

// dropsTemporary reports whether the running statement is DROP TEMPORARY TABLE.
func (c *Conn) dropsTemporary() bool {
	if c == nil {
		return false
	}
	s, ok := c.stmt.marked.(*sqlparser.DDL)
	return ok && s.Temporary && strings.EqualFold(s.Action, sqlparser.DropStr)
}

// aboutTemporary reports whether a trigger is on a table that a temporary one of the running statement hides.
func (c *Conn) aboutTemporary(ctx *sql.Context, db string, s *storedText) bool {
	if c == nil || c.temps == nil {
		return false
	}
	t, err := c.provider.parser.readTrigger(ctx, db, s)
	return err == nil && c.temporary(ctx, db, t.table) != nil // who fires an unreadable one says so
}
