package sqlbackend

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

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
		n, ok := s.Statement.(*adminNode)
		return ok && (n.op == adminFlush || n.op == adminOptimize)
	}
	return false
}

// shareInstance waits until no other session holds the files of the server, and has such sessions wait until the statement
// ends.
func (c *Conn) shareInstance(ctx *sql.Context) error {
	if !c.inCommand() {
		return nil // Why: nobody would say when the statement has ended
	}
	c.stmt.ddl = true
	err := c.locks.InstanceShared(ctx, c.metaWait())
	if errors.Is(err, errs.ErrConflict) {
		return mysql.NewSQLError(1223, "HY000", "Can't execute the query because you have a conflicting read lock")
	}
	return err
}
