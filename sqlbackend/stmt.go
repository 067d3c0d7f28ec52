package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// statement is what a session knows of the running statement. Its zero value is a plain consistent read.
type statement struct {
	begun     *engine.Txn          // the transaction in which the statement has begun; another one begins it anew
	begunOwn  *engine.Txn          // the same of the one on temporary tables
	current   bool                 // scans read what is newest (DML, locking reads)
	building  bool                 // it is being built, or runs
	replacing *replacing           // the triggers of rows that a REPLACE deletes
	prepared  bool                 // its plan has been prepared before (see planRepeated)
	bare      bool                 // writes no rows of existing tables by identity: hidden row ids stay out of sight
	truncate  bool                 // TRUNCATE TABLE, which resets AUTO_INCREMENT and commits
	pushed    bool                 // filters have been handed to the scans
	catalog   bool                 // shows definitions, so that secondary indexes are listed
	creating  *plan.CreateTable    // the CREATE TABLE being executed: its indexes and checks
	duplicate duplicateRow         // the last one met by an INSERT into a table without a primary key
	replaced  int                  // what REPLACE adds to the frontend's count, which has one row at most that gave way to another
	ignores   bool                 // DELETE IGNORE
	kept      int                  // rows it has left
	inserted  int64                // rows an INSERT has written, for messages
	lenient   bool                 // INSERT IGNORE, UPDATE IGNORE
	built     sql.Schema           // of the plan that runs, if that was changed after the frontend has told its types
	altering  *alterations         // what the steps of a DDL statement have changed so far; nil if it has one
	altered   []func(*sql.Context) // what is to be done once that is committed

	marked   sqlparser.Statement // its tree
	kind     statementKind
	uses     []tableUse         // the tables it names
	admitted bool               // its metadata locks are held
	ddl      bool               // it holds locks of its own until it ends
	refused  error              // why it must not run, if that was found while it was parsed
	busy     *tableUse          // the metadata lock that was not free while it was planned
	rows     map[string]rowLock // locking clauses by table
	planned  bool               // the locking clauses are in the plan
	limited  bool               // the query has a LIMIT: not all rows found are returned
	keeps    bool               // defines temporary tables only, so that the transaction goes on
	snapshot bool               // START TRANSACTION WITH CONSISTENT SNAPSHOT
	explain  *explained         // it is being analyzed
	outside  map[outerPlace]*outerHash
	undo     *historyMark // before the first function that it called; nil: none, or the statement undoes itself

	diagnostics bool // it shows warnings
	cleared     bool // the warnings of the statement before are gone
	mustExist   bool // ALTER VIEW: there is one of that name
}

// MarkText is MarkStatement with the statement's text, which says more than the tree: the frontend's grammar forgets
// CONSISTENT SNAPSHOT, CHAIN and RELEASE. ctx is nil if the statement was prepared before.
//
// The wire handler parses before it lets the frontend run a statement, which then is admitted by ValidateSession. Without
// it the frontend parses last, and this is the place.
func (c *Conn) MarkText(ctx *sql.Context, stmt sqlparser.Statement, text string) {
	c.MarkStatement(stmt)
	switch stmt.(type) {
	case *sqlparser.Begin:
		c.stmt.snapshot = containsFold(text, "snapshot")
	case *sqlparser.Commit, *sqlparser.Rollback:
		c.markEnd(text)
	case *sqlparser.DDL:
		c.stmt.mustExist = strings.Contains(text, alterViewMark)
	}
	if ctx != nil && !c.stmt.admitted && !c.inCommand() {
		c.stmt.admitted = true
		c.stmt.refused = c.admit(ctx)
	}
}

// markEnd reads [WORK] [AND [NO] CHAIN] [[NO] RELEASE] of a COMMIT or ROLLBACK.
func (c *Conn) markEnd(text string) {
	s := newTokens(text, sqlparser.ParserOptions{})
	s.next()
	s.takeWord("work")
	if s.takeWord("and") && !s.takeWord("no") && s.takeWord("chain") {
		if t, ok := c.GetTransaction().(*transaction); ok && t != nil {
			o := t.current()
			c.chain = &o
		}
	}
	s.takeWord("chain")
	c.leave = c.leave || s.takeWord("release")
}

// MarkStatement notes what the syntax tree says and the plan does not keep. The parser wrapper and
// GetPreparedQuery call it; calling it twice for one statement changes nothing.
func (c *Conn) MarkStatement(stmt sqlparser.Statement) {
	if e, ok := stmt.(*sqlparser.Execute); ok {
		if prepared, ok := c.BaseSession.GetPreparedQuery(foldName(e.Name)); ok {
			c.MarkStatement(prepared)
		}
		return
	}
	if !c.stmt.admitted {
		c.noteWarnings(stmt)
		c.stmt.marked = stmt
		c.stmt.uses, c.stmt.kind = usesOf(stmt)
	}
	switch s := stmt.(type) {
	case *sqlparser.Update:
		c.stmt.current, c.stmt.bare = true, false
		return
	case *sqlparser.Delete:
		c.stmt.current, c.stmt.bare, c.stmt.ignores = true, false, ignoresDeletes(s)
		return
	case *sqlparser.Insert, *sqlparser.Load:
		c.stmt.current = true
	case *sqlparser.Select:
		c.stmt.rows, c.stmt.limited = lockClauses(s), s.Limit != nil
		c.stmt.catalog = c.namesInformationSchema(s)
	case *sqlparser.SetOp:
		c.stmt.rows = lockClauses(s)
		c.stmt.catalog = c.namesInformationSchema(s)
	case *sqlparser.DDL:
		c.stmt.truncate = strings.EqualFold(s.Action, sqlparser.TruncateStr)
		c.stmt.catalog = !c.stmt.truncate
		c.stmt.keeps = s.Temporary
	case *sqlparser.Show, *sqlparser.AlterTable:
		c.stmt.catalog = true
	default:
		return
	}
	c.stmt.bare = true
}

// noteWarnings counts what the statement before has left, and notes whether stmt shows it.
func (c *Conn) noteWarnings(stmt sqlparser.Statement) {
	if c.stmt.marked != nil {
		return // of this statement itself
	}
	if _, set := stmt.(*sqlparser.Set); set {
		return // the frontend keeps them
	}
	c.stmt.diagnostics = showsWarnings(stmt)
	if !c.stmt.diagnostics {
		c.warned, c.failed = c.countWarnings(false), c.countWarnings(true)
	}
}

// showsWarnings reports whether a statement shows what the one before it has left.
func showsWarnings(stmt sqlparser.Statement) bool {
	switch s := stmt.(type) {
	case *sqlparser.Show:
		return strings.EqualFold(s.Type, "warnings")
	case sqlparser.InjectedStatement:
		n, ok := s.Statement.(*serverStatement)
		return ok && n.diagnostics
	}
	return false
}

// BeginDiagnostics forgets what the statement before has left, unless the one that begins shows it. The frontend does so
// only after it has planned the statement, and then keeps the wrong ones.
func (c *Conn) BeginDiagnostics() {
	if _, set := c.stmt.marked.(*sqlparser.Set); set || c.stmt.diagnostics {
		return
	}
	c.ClearWarnings()
}

// ClearWarnings overrides the base session's: the frontend does not know all statements that show warnings.
func (c *Conn) ClearWarnings() {
	if c.stmt.diagnostics {
		c.ClearWarningCount()
		return
	}
	c.stmt.cleared = true
	c.BaseSession.ClearWarnings()
}

// NoteError keeps the error of a statement for SHOW WARNINGS and SHOW ERRORS.
func (c *Conn) NoteError(err *mysql.SQLError) {
	c.undoFunctions()
	if !c.stmt.cleared { // it failed before the frontend came to that
		c.BaseSession.ClearWarnings()
	}
	c.Warn(&sql.Warning{Level: errorLevel, Code: err.Num, Message: err.Message})
}

// GetSessionVariable overrides the base session's: the numbers of warnings and errors are those that the statement before has
// left.
func (c *Conn) GetSessionVariable(ctx *sql.Context, name string) (any, error) {
	switch strings.ToLower(name) {
	case "warning_count":
		return c.warned, nil
	case "error_count":
		return c.failed, nil
	}
	return c.BaseSession.GetSessionVariable(ctx, name)
}

// locks reports whether a query's locking clause is there; the parser makes one without a type otherwise.
func locks(l *sqlparser.Lock) bool { return l != nil && l.Type != "" }

// namesInformationSchema reports whether a query may list definitions.
func (c *Conn) namesInformationSchema(n sqlparser.SQLNode) bool {
	if strings.EqualFold(c.GetCurrentDatabase(), sql.InformationSchemaDatabaseName) {
		return true
	}
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if t, ok := n.(sqlparser.TableName); ok && strings.EqualFold(t.DbQualifier.String(), sql.InformationSchemaDatabaseName) {
			found = true
		}
		return !found, nil
	}, n)
	return found
}

// readKind says at which view the statement's scans look.
func (c *Conn) readKind() engine.ReadKind {
	if c.stmt.current {
		return engine.Current
	}
	return engine.Consistent
}

// CreateTableHook is sql.EngineOverrides.Hooks.CreateTable.PreSQLExecution: the frontend creates a table bare and
// adds indexes and checks by later calls, but a table is made in one step here, so its plan is noted first.
func CreateTableHook(ctx *sql.Context, _ sql.StatementRunner, n sql.Node) (sql.Node, error) {
	if ct, ok := n.(*plan.CreateTable); ok {
		if c := connOf(ctx); c != nil {
			c.stmt.creating = ct
		}
	}
	return n, nil
}
