package sqlbackend

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine/lock"
	"lancesql/internal/errs"
)

// LOCK INSTANCE FOR BACKUP keeps the files of the data directory as they are, so that they can be copied, while rows are read
// and written. What changes files otherwise waits: DDL, statements about accounts, FLUSH TABLES, OPTIMIZE and ANALYZE.

// lockInstance reads what follows LOCK; nil unless it is INSTANCE FOR BACKUP.
func (s *tokens) lockInstance() sqlparser.Statement {
	if !s.takeWord("instance") || !s.take(sqlparser.FOR) || !s.takeWord("backup") {
		return nil
	}
	n := &serverStatement{name: "lock instance", run: func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		return nil, c.locks.LockInstance(ctx, c.metaWait())
	}}
	return n.inject(globally(sqlparser.AuthType_RELOAD))
}

// unlockInstance reads what follows UNLOCK; nil unless it is INSTANCE.
func (s *tokens) unlockInstance() sqlparser.Statement {
	if !s.takeWord("instance") {
		return nil
	}
	n := &serverStatement{name: "unlock instance", run: func(_ *sql.Context, c *Conn) ([]sql.Row, error) {
		c.locks.UnlockInstance()
		return nil, nil
	}}
	return n.inject(globally(sqlparser.AuthType_RELOAD))
}

// changesFiles reports whether a statement that is no DDL changes files in other ways than by writing rows.
func changesFiles(stmt sqlparser.Statement) bool {
	switch s := stmt.(type) {
	case *sqlparser.Analyze, *sqlparser.CreateUser, *sqlparser.RenameUser, *sqlparser.DropUser, *sqlparser.CreateRole, *sqlparser.DropRole,
		*sqlparser.GrantRole, *sqlparser.RevokeRole, *sqlparser.GrantPrivilege, *sqlparser.RevokePrivilege,
		*sqlparser.GrantProxy, *sqlparser.RevokeProxy:
		return true
	case sqlparser.InjectedStatement:
		switch n := s.Statement.(type) {
		case *adminNode:
			return n.op == adminFlush && !n.readLock || n.op == adminOptimize
		case *serverStatement:
			return n.commits // they are about accounts
		}
	}
	return false
}

// shareInstance waits until no other session holds the files of the server, and has such sessions wait until the statement
// ends.
func (c *Conn) shareInstance(ctx *sql.Context) error {
	if !c.inCommand() {
		return nil // Why: nobody would say when the statement has ended
	}
	if c.readLocked && c.stmt.kind == commitsFirst {
		return errReadLocked()
	}
	c.stmt.ddl = true
	err := c.locks.InstanceShared(ctx, c.metaWait())
	if errors.Is(err, errs.ErrConflict) {
		return errReadLocked()
	}
	return err
}

func errReadLocked() error {
	return mysql.NewSQLError(1223, "HY000", "Can't execute the query because you have a conflicting read lock")
}

// readLock is FLUSH TABLES WITH READ LOCK: nobody writes to a table or defines one until UNLOCK TABLES. With names it is LOCK
// TABLES … READ of those.
func (c *Conn) readLock(ctx *sql.Context, tables sqlparser.TableNames) error {
	if len(tables) > 0 {
		var w useWalk
		for _, t := range tables {
			w.add(sqlparser.TableName{DbQualifier: sqlparser.NewTableIdent(databaseOf(ctx, t)), Name: t.Name}, "", lock.S)
		}
		return c.lockTables(ctx, w.uses)
	}
	if c.tables != nil { // as MySQL: a lock on all tables would wait for those of its own session
		return mysql.NewSQLError(1192, "HY000", "Can't execute the given command because you have active locked tables or an active transaction")
	}
	wait := c.metaWait()
	err := c.locks.LockDefinitions(ctx, wait)
	for _, d := range c.provider.engine.Catalog().Databases() {
		for _, t := range d.Tables() {
			if err == nil {
				err = c.locks.LockMeta(ctx, d.Name, t.Name, lock.S, lock.Session, wait)
			}
		}
	}
	if err != nil {
		c.locks.Release(lock.Session)
		return err
	}
	c.readLocked = true
	return nil
}

// checkReadLocked refuses a statement that writes while its session has FLUSH TABLES WITH READ LOCK.
func (c *Conn) checkReadLocked(ctx *sql.Context, uses []tableUse) error {
	if !c.readLocked {
		return nil
	}
	for _, u := range uses {
		if u.mode != lock.IS && u.mode != lock.None && c.isStored(u) && !c.isTemporary(ctx, u) {
			return errReadLocked()
		}
	}
	return nil
}
