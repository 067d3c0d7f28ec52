package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lancesql/engine/lock"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// Isolation is a transaction isolation level.
type Isolation uint8

// Isolation levels as MySQL names them. ReadUncommitted reads like ReadCommitted. Serializable reads like RepeatableRead
// here: its caller locks what it reads (LockTable, LockKey) and makes current reads.
const (
	RepeatableRead Isolation = iota
	ReadCommitted
	ReadUncommitted
	Serializable
)

// ReadKind says at which CommitSeq a read looks.
type ReadKind uint8

const (
	// Consistent reads use the transaction's view (REPEATABLE READ) or the statement's (READ COMMITTED).
	Consistent ReadKind = iota
	// Current reads use a fresh view of the statement: locking statements and DML.
	Current
	// Locking reads are Current ones that also return rows which other transactions have inserted and not committed: they
	// are to be waited for. Each row is to be locked by LockRow, which says what it is by then.
	Locking
)

// TxnOptions configures Begin; the zero value is REPEATABLE READ, read-write, the configured lock wait.
type TxnOptions struct {
	ReadOnly  bool
	Isolation Isolation
	LockWait  time.Duration // for rows and tables; 0 = Config.LockWaitTimeout
	MetaWait  time.Duration // for metadata locks; 0 = a year
}

// metaWaitDefault is MySQL's lock_wait_timeout.
const metaWaitDefault = 365 * 24 * time.Hour

// Mark is a position in a transaction's write history; RollbackTo undoes everything written after it.
type Mark uint64

// DuplicateKeyError is returned by Insert and Update when the key is taken. It matches errs.ErrDuplicateKey.
type DuplicateKeyError struct {
	Table    *TableEntry
	Key      rowkey.Key
	Existing arrowx.Row // complete stored row, all physical columns
	Index    string     // name of the unique index, "" = the primary key
}

// Error implements error.
func (d *DuplicateKeyError) Error() string {
	return "duplicate key in table " + d.Table.Database + "." + d.Table.Name
}

// Is reports whether target is errs.ErrDuplicateKey.
func (d *DuplicateKeyError) Is(target error) bool { return target == errs.ErrDuplicateKey }

// Txn is one transaction. It belongs to one session: calls are serial, except that another goroutine may
// cancel their contexts. Locks are held to Commit or Rollback (I3).
type Txn struct {
	e       *Engine
	opts    TxnOptions
	owner   *lock.Owner
	done    bool
	view    *view // REPEATABLE READ view, taken at the first consistent read
	stmt    *view // view of the running statement: current reads, READ COMMITTED
	start   Mark  // overlay mark at which the running statement began
	overlay overlay
	saves   []savepoint
	locked  map[TableID]*tableLock // what the transaction holds on tables
	session *Session               // nil: the owner is the transaction's own
	// undecided is set when the outcome of the commit is unknown: its locks are kept until restart, so that nobody
	// builds on rows that may or may not be there.
	undecided bool

	followed map[TableID]tableView // views of single tables, of an engine opened for reading only
}

type savepoint struct {
	name string
	mark Mark
}

// Begin starts a transaction of its own session. It is cheap: no view is taken and nothing is written.
func (e *Engine) Begin(o TxnOptions) *Txn {
	return e.begin(o, lock.NewOwner(e.txnIDs.Add(1)))
}

func (e *Engine) begin(o TxnOptions, owner *lock.Owner) *Txn {
	t := &Txn{e: e, opts: o, owner: owner, overlay: overlay{limit: e.cfg.TxnBytes, account: &e.account.writeSets, writers: &e.writers}}
	t.SetLockWait(o.LockWait, o.MetaWait)
	return t
}

// SetLockWait changes how long later statements wait for locks; zero means the default.
func (t *Txn) SetLockWait(rows, meta time.Duration) {
	if rows <= 0 {
		rows = t.e.cfg.LockWaitTimeout
	}
	if meta <= 0 {
		meta = metaWaitDefault
	}
	t.opts.LockWait, t.opts.MetaWait = rows, meta
}

// Options returns what the transaction was begun with.
func (t *Txn) Options() TxnOptions { return t.opts }

// Done reports whether the transaction has ended: by Commit, by Rollback, or as the victim of a deadlock.
func (t *Txn) Done() bool { return t.done }

// HasWrites reports whether anything would be committed.
func (t *Txn) HasWrites() bool { return len(t.overlay.log) > 0 }

// BeginStatement starts a new statement: its scans see own writes made so far, and its view is taken at the
// first current read.
func (t *Txn) BeginStatement() {
	t.start = t.overlay.mark()
	t.RefreshStatement()
}

// RefreshStatement drops the statement's view, so that a re-run reads what is newest now. Locks stay.
func (t *Txn) RefreshStatement() {
	t.e.views.release(t.stmt)
	t.stmt = nil
}

// TakeView takes the REPEATABLE READ view now (START TRANSACTION WITH CONSISTENT SNAPSHOT).
func (t *Txn) TakeView() {
	if t.view == nil && t.opts.Isolation != ReadCommitted && t.opts.Isolation != ReadUncommitted {
		t.view = t.e.views.register(&t.e.seq)
	}
}

// Mark returns the current position in the write history.
func (t *Txn) Mark() Mark { return t.overlay.mark() }

// RollbackTo undoes the writes made after m; locks stay held.
func (t *Txn) RollbackTo(m Mark) {
	t.overlay.rollbackTo(m)
	t.start = min(t.start, m)
	for len(t.saves) > 0 && t.saves[len(t.saves)-1].mark > m {
		t.saves = t.saves[:len(t.saves)-1]
	}
}

// Savepoint sets a named position; an older one of the same name is replaced.
func (t *Txn) Savepoint(name string) {
	for i, s := range t.saves {
		if s.name == name {
			t.saves = append(t.saves[:i], t.saves[i+1:]...)
			break
		}
	}
	t.saves = append(t.saves, savepoint{name: name, mark: t.overlay.mark()})
}

// RollbackToSavepoint undoes the writes made after the savepoint and forgets later savepoints.
// errs.ErrNotFound if there is none of that name.
func (t *Txn) RollbackToSavepoint(name string) error {
	i, err := t.findSavepoint(name)
	if err != nil {
		return err
	}
	t.saves = t.saves[:i+1]
	t.RollbackTo(t.saves[i].mark)
	return nil
}

// ReleaseSavepoint forgets the savepoint and all later ones; writes stay. errs.ErrNotFound if there is none.
func (t *Txn) ReleaseSavepoint(name string) error {
	i, err := t.findSavepoint(name)
	if err != nil {
		return err
	}
	t.saves = t.saves[:i]
	return nil
}

func (t *Txn) findSavepoint(name string) (int, error) {
	for i, s := range t.saves {
		if s.name == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("savepoint %s: %w", name, errs.ErrNotFound)
}

// Rollback ends the transaction without effect. It is idempotent.
func (t *Txn) Rollback() {
	if t.done {
		return
	}
	t.end()
}

// end releases changes, views and locks.
func (t *Txn) end() {
	t.done = true
	t.overlay.clear()
	t.endFollowed()
	t.e.views.release(t.stmt)
	t.e.views.release(t.view)
	t.stmt, t.view, t.saves, t.locked = nil, nil, nil, nil
	if !t.undecided {
		t.e.locks.Release(t.owner, lock.Transaction)
	} else if t.session != nil {
		t.session.orphan()
	}
}

func (t *Txn) check() error {
	if t.done {
		return fmt.Errorf("transaction has ended: %w", errs.ErrClosed)
	}
	return t.e.checkOpen()
}

// Commit makes every write of the transaction durable and visible as one step, or none. It ends the
// transaction in any case. Cancelling ctx before the commit point undoes it; after it has no effect.
// errs.ErrSync if the outcome is unknown: recovery decides, and the locks stay until then.
func (t *Txn) Commit(ctx context.Context) error {
	if t.done {
		return fmt.Errorf("transaction has ended: %w", errs.ErrClosed)
	}
	defer t.end()
	dirty := t.overlay.dirty()
	if len(dirty) == 0 {
		return nil
	}
	if err := t.check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := t.e.commit(ctx, dirty)
	t.undecided = errors.Is(err, errUndecided)
	return err
}
