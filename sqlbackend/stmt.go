package sqlbackend

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// statement is what a session knows of the running statement. Its zero value is a plain consistent read.
type statement struct {
	begun    *engine.Txn       // the transaction in which the statement has begun; another one begins it anew
	current  bool              // scans read what is newest (DML, locking reads)
	bare     bool              // writes no rows of existing tables by identity: hidden row ids stay out of sight
	truncate bool              // TRUNCATE TABLE, which resets AUTO_INCREMENT and commits
	pushed   bool              // filters have been handed to the scans
	catalog  bool              // shows definitions, so that secondary indexes are listed
	creating *plan.CreateTable // the CREATE TABLE being executed: its indexes and checks
}

// MarkStatement notes what the syntax tree says and the plan does not keep. The parser wrapper and
// GetPreparedQuery call it; calling it twice for one statement changes nothing.
func (c *Conn) MarkStatement(stmt sqlparser.Statement) {
	switch s := stmt.(type) {
	case *sqlparser.Update, *sqlparser.Delete:
		c.stmt.current, c.stmt.bare = true, false
		return
	case *sqlparser.Insert, *sqlparser.Load:
		c.stmt.current = true
	case *sqlparser.Select:
		c.stmt.current = locks(s.Lock)
		c.stmt.catalog = c.namesInformationSchema(s)
	case *sqlparser.SetOp:
		c.stmt.current = locks(s.Lock)
		c.stmt.catalog = c.namesInformationSchema(s)
	case *sqlparser.DDL:
		c.stmt.truncate = strings.EqualFold(s.Action, sqlparser.TruncateStr)
		c.stmt.catalog = !c.stmt.truncate
	case *sqlparser.Show, *sqlparser.AlterTable:
		c.stmt.catalog = true
	default:
		return
	}
	c.stmt.bare = true
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
