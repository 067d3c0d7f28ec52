package sqlbackend

import (
	"context"
	"io"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
	"lancesql/engine/lock"
	"lancesql/sqlbackend/program"
	"lancesql/sqlbackend/wire"
)

// Conn is the session of one connection. It owns the statement boundaries (I5): the frontend opens a
// transaction for a statement and closes it on success only.
//
// Calls are serial except CommandBegin and CommandEnd, which overlap while a server cursor is open; mu guards
// what they touch.
type Conn struct {
	*sql.BaseSession
	provider *Provider

	mu       sync.Mutex
	commands int                    // commands begun and not ended
	readers  map[io.Closer]struct{} // open scans, closed at the latest when the last command ends
	closed   bool

	stmt           statement
	locks          *engine.Session        // all locks of the connection
	temps          *temporaryTables       // nil until the first is made
	tables         map[string]lockedTable // LOCK TABLES, by alias; nil if not in force
	readLocked     bool                   // FLUSH TABLES WITH READ LOCK is in force
	next           nextTransaction        // what SET TRANSACTION said of the next transaction
	chain          *engine.TxnOptions     // COMMIT AND CHAIN: what the transaction was begun with that follows
	leave          bool                   // COMMIT RELEASE: the connection is to be closed
	warned, failed int64                  // warnings and errors that the statement before the running one has left
	roles          *[]account             // SET ROLE: the active roles; nil: those active at login
	results        []wire.Result          // of the statements of a CALL
	running        *activation            // the innermost routine that runs
	bodies         map[*program.Body]*program.Kept
	changes        uint64 // how often a system variable was set
	modeText       string // a value of sql_mode, and what it means
	mode           *sql.SqlMode
}

var (
	_ sql.Session               = (*Conn)(nil)
	_ sql.TransactionSession    = (*Conn)(nil)
	_ sql.LifecycleAwareSession = (*Conn)(nil)
)

// NewSession returns the session of a connection. base is owned by it from now on.
func NewSession(base *sql.BaseSession, p *Provider) *Conn {
	c := &Conn{BaseSession: base, provider: p, readers: make(map[io.Closer]struct{})}
	if p != nil { // a session that runs no statements needs none
		c.locks = p.engine.NewSession(uint64(base.ID()))
	}
	return c
}

// Of reports whether the session's databases are those of p.
func (c *Conn) Of(p *Provider) bool { return c.provider == p }

// connOf returns the session of a context; every context of this server has one of ours.
func connOf(ctx *sql.Context) *Conn {
	c, _ := ctx.Session.(*Conn)
	return c
}

// CommandBegin implements sql.LifecycleAwareSession.
func (c *Conn) CommandBegin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands++
	if c.commands == 1 {
		c.stmt, c.results = statement{}, nil
	}
	return nil
}

// CommandEnd implements sql.LifecycleAwareSession. After the last open command it closes what the statement left
// behind: scans, and a transaction nobody asked to keep (after an error, a PREPARE, a failed commit).
func (c *Conn) CommandEnd() {
	c.mu.Lock()
	c.commands = max(c.commands-1, 0)
	last := c.commands == 0
	c.mu.Unlock()
	if last {
		c.endStatement()
	}
}

// SessionEnd implements sql.LifecycleAwareSession. It rolls back whatever is open.
func (c *Conn) SessionEnd() {
	c.mu.Lock()
	c.commands, c.closed = 0, true
	c.mu.Unlock()
	c.closeReaders()
	c.SetTransaction(nil)
	c.tables, c.readLocked = nil, false
	if c.locks != nil {
		c.locks.Close()
	}
	_ = c.temps.close(context.Background()) // of tables that are gone with it
	c.temps = nil
}

func (c *Conn) endStatement() {
	c.closeReaders()
	if c.stmt.ddl {
		c.locks.Release(lock.Statement)
	}
	if c.stmt.kind == beginsTransaction {
		c.next = nextTransaction{}
	}
	c.stmt = statement{}
	if !c.keepsTransaction() {
		c.SetTransaction(nil)
	}
	if o := c.chain; o != nil {
		c.chain = nil
		c.SetTransaction(&transaction{conn: c, options: *o, begun: true})
		c.SetIgnoreAutoCommit(true)
	}
}

// WantsClose reports whether the client asked, by COMMIT RELEASE, for its connection to be closed.
func (c *Conn) WantsClose() bool { return c.leave }

// inCommand reports whether the caller brackets statements. In-process users of the frontend's engine do not.
func (c *Conn) inCommand() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands > 0
}

// track remembers an open scan; the returned function forgets it.
func (c *Conn) track(r io.Closer) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[r] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.readers, r)
	}
}

func (c *Conn) closeReaders() {
	c.mu.Lock()
	open := make([]io.Closer, 0, len(c.readers))
	for r := range c.readers {
		open = append(open, r)
	}
	clear(c.readers)
	c.mu.Unlock()
	for _, r := range open {
		_ = r.Close() // read only
	}
}

// Txn returns the running engine transaction, beginning one and the statement if need be. It is nil only when
// the frontend has opened no transaction.
func (c *Conn) Txn() *engine.Txn {
	t, ok := c.GetTransaction().(*transaction)
	if !ok || t == nil {
		return nil
	}
	txn := t.begin()
	if c.stmt.begun != txn {
		txn.SetLockWait(c.seconds("innodb_lock_wait_timeout"), c.metaWait())
		txn.BeginStatement()
		c.stmt.begun = txn
	}
	return txn
}

// activeTxn is Txn for callers inside a statement: it opens a transaction if there is none, which happens after a
// deadlock took the old one.
func (c *Conn) activeTxn(ctx *sql.Context) (*engine.Txn, error) {
	if c.stmt.refused != nil {
		return nil, c.stmt.refused
	}
	if t := c.Txn(); t != nil {
		return t, nil
	}
	t, err := c.StartTransaction(ctx, sql.ReadWrite)
	if err != nil {
		return nil, err
	}
	c.SetTransaction(t)
	return c.Txn(), nil
}

// GetPreparedQuery overrides the base session's: it is called for every statement before tables are resolved, and
// returns the syntax tree of an executed prepared statement, which the parser does not see again.
func (c *Conn) GetPreparedQuery(q string) (sqlparser.Statement, bool) {
	if !c.inCommand() {
		c.endStatement() // Why: without brackets this is the only sign that a statement begins
	}
	stmt, ok := c.BaseSession.GetPreparedQuery(q)
	if ok {
		c.MarkText(nil, stmt, q)
	}
	return stmt, ok
}
