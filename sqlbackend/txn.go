package sqlbackend

import (
	"errors"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"lancesql/engine"
	"lancesql/engine/lock"
	"lancesql/internal/errs"
)

// transaction is what the frontend holds as "the transaction". The engine's transaction begins at the first use,
// so that BEGIN, PREPARE and SET cost nothing, and again after an implicit commit.
type transaction struct {
	conn    *Conn
	options engine.TxnOptions
	begun   bool        // by BEGIN: options are fixed; otherwise they are the session's when the transaction is first used
	txn     *engine.Txn // nil until first used
}

var _ sql.Transaction = (*transaction)(nil)

// String implements sql.Transaction.
func (t *transaction) String() string { return "lancesql transaction" }

// IsReadOnly implements sql.Transaction.
func (t *transaction) IsReadOnly() bool { return t.current().ReadOnly }

// current returns the options the transaction has, or would have if it were used now.
func (t *transaction) current() engine.TxnOptions {
	switch {
	case t.txn != nil:
		return t.txn.Options()
	case t.begun:
		return t.options
	default:
		return t.conn.txnOptions(sql.ReadWrite)
	}
}

// begin returns the engine's transaction, beginning one if there is none or the old one has ended.
func (t *transaction) begin() *engine.Txn {
	if t.txn == nil || t.txn.Done() {
		t.txn = nil
		o := t.current()
		if !t.begun {
			t.conn.next = nextTransaction{}
		}
		t.txn = t.conn.locks.Begin(o)
	}
	return t.txn
}

func (t *transaction) rollback() {
	t.conn.temps.rollback()
	if t.txn != nil {
		t.txn.Rollback()
		t.txn = nil
	}
}

// SetTransaction overrides the base session's: the frontend drops transactions without rolling them back, and
// what is dropped must not keep its locks and views.
func (c *Conn) SetTransaction(tx sql.Transaction) {
	if old, ok := c.GetTransaction().(*transaction); ok && old != nil && old != tx {
		old.rollback()
	}
	c.BaseSession.SetTransaction(tx)
}

// keepsTransaction reports whether the open transaction lives on between statements.
func (c *Conn) keepsTransaction() bool {
	if c.GetIgnoreAutoCommit() {
		return true
	}
	v, err := c.GetSessionVariable(nil, sql.AutoCommitSessionVar)
	return err == nil && !isTrue(v)
}

func isTrue(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case int8:
		return v != 0
	case int64:
		return v != 0
	case string:
		return v == "1" || v == "ON" || v == "on"
	default:
		return false
	}
}

// StartTransaction implements sql.TransactionSession. Nothing is read, and no view is taken unless the statement asks for
// it.
func (c *Conn) StartTransaction(ctx *sql.Context, characteristic sql.TransactionCharacteristic) (sql.Transaction, error) {
	t := &transaction{conn: c, options: c.txnOptions(characteristic), begun: c.stmt.kind == beginsTransaction}
	if t.begun && c.stmt.snapshot {
		t.begin().TakeView()
	}
	return t, nil
}

// txnOptions is what a transaction begun now is like.
func (c *Conn) txnOptions(characteristic sql.TransactionCharacteristic) engine.TxnOptions {
	o := engine.TxnOptions{Isolation: c.isolation()}
	if c.next.isolation != nil {
		o.Isolation = *c.next.isolation
	}
	if v, err := c.GetSessionVariable(nil, "transaction_read_only"); err == nil {
		o.ReadOnly = isTrue(v)
	}
	if c.next.readOnly != nil {
		o.ReadOnly = *c.next.readOnly
	}
	if characteristic == sql.ReadOnly {
		o.ReadOnly = true
	}
	return o
}

func (c *Conn) isolation() engine.Isolation {
	v, err := c.GetSessionVariable(nil, "transaction_isolation")
	if err != nil {
		return engine.RepeatableRead
	}
	switch v {
	case "READ-COMMITTED":
		return engine.ReadCommitted
	case "READ-UNCOMMITTED":
		return engine.ReadUncommitted
	case "SERIALIZABLE":
		return engine.Serializable
	default:
		return engine.RepeatableRead
	}
}

func toInt64(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(min(v, 1<<62)), true
	case uint32:
		return int64(v), true
	default:
		return 0, false
	}
}

// CommitTransaction implements sql.TransactionSession. The transaction has ended when it returns, also with an
// error: the frontend would otherwise commit it again.
func (c *Conn) CommitTransaction(ctx *sql.Context, tx sql.Transaction) error {
	if c.stmt.ddl {
		defer c.locks.Release(lock.Statement) // the frontend commits when the statement is done
	}
	return c.commit(ctx, tx)
}

func (c *Conn) commit(ctx *sql.Context, tx sql.Transaction) error {
	t, ok := tx.(*transaction)
	if !ok || t == nil {
		return nil
	}
	txn := t.txn
	t.txn = nil
	if txn == nil || txn.Done() {
		return c.temps.commit(ctx)
	}
	err := txn.Commit(ctx)
	if err == nil {
		return c.temps.commit(ctx)
	}
	txn.Rollback()
	c.temps.rollback()
	c.SetIgnoreAutoCommit(false)
	c.SetTransaction(nil)
	return err
}

// Rollback implements sql.TransactionSession.
func (c *Conn) Rollback(ctx *sql.Context, tx sql.Transaction) error {
	if t, ok := tx.(*transaction); ok && t != nil {
		t.rollback()
	}
	return nil
}

// CreateSavepoint implements sql.TransactionSession.
func (c *Conn) CreateSavepoint(ctx *sql.Context, tx sql.Transaction, name string) error {
	txn, err := c.activeTxn(ctx)
	if err != nil {
		return err
	}
	txn.Savepoint(foldName(name))
	if own := c.temps.current(); own != nil {
		own.Savepoint(foldName(name))
	}
	return nil
}

// RollbackToSavepoint implements sql.TransactionSession.
func (c *Conn) RollbackToSavepoint(ctx *sql.Context, tx sql.Transaction, name string) error {
	txn, err := c.activeTxn(ctx)
	if err != nil {
		return err
	}
	if err := savepointError(name, txn.RollbackToSavepoint(foldName(name))); err != nil {
		return err
	}
	if own := c.temps.current(); own != nil && own.RollbackToSavepoint(foldName(name)) != nil {
		own.RollbackTo(0) // it had not begun then
	}
	return nil
}

// ReleaseSavepoint implements sql.TransactionSession.
func (c *Conn) ReleaseSavepoint(ctx *sql.Context, tx sql.Transaction, name string) error {
	txn, err := c.activeTxn(ctx)
	if err != nil {
		return err
	}
	if own := c.temps.current(); own != nil {
		_ = own.ReleaseSavepoint(foldName(name)) // it may not have begun then
	}
	return savepointError(name, txn.ReleaseSavepoint(foldName(name)))
}

func savepointError(name string, err error) error {
	if errors.Is(err, errs.ErrNotFound) {
		return sql.ErrSavepointDoesNotExist.New(name)
	}
	return err
}

// implicitCommit commits pending work before a DDL statement, as MySQL does. The frontend commits only after it.
func (c *Conn) implicitCommit(ctx *sql.Context) error {
	if c == nil {
		return nil
	}
	if c.stmt.refused != nil {
		return c.stmt.refused
	}
	if c.stmt.keeps {
		return nil
	}
	tx := ctx.GetTransaction()
	if tx == nil {
		return nil
	}
	if err := c.commit(ctx, tx); err != nil {
		return fmt.Errorf("implicit commit: %w", err)
	}
	c.SetIgnoreAutoCommit(false)
	if t, ok := tx.(*transaction); ok && t != nil {
		t.begun = false
	}
	c.stmt.begun, c.stmt.begunOwn = nil, nil
	return nil
}

// lost ends the session's transaction if err says that the engine rolled it back (deadlock victim).
func (c *Conn) lost(err error) {
	if !errors.Is(err, errs.ErrDeadlock) {
		return
	}
	c.SetTransaction(nil)
	c.SetIgnoreAutoCommit(false)
}
