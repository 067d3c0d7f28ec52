package sqlbackend

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// nextTransaction is what SET TRANSACTION without SESSION or GLOBAL says of the next transaction. A nil field says
// nothing.
type nextTransaction struct {
	isolation *engine.Isolation
	readOnly  *bool
}

// injectTransaction replaces SET TRANSACTION … of the next transaction only, which the frontend takes for SET SESSION, by
// a node of our own.
func injectTransaction(stmt sqlparser.Statement) sqlparser.Statement {
	set, ok := stmt.(*sqlparser.Set)
	if !ok {
		return stmt
	}
	n := &setTransaction{}
	for _, e := range set.Exprs {
		v, ok := e.Expr.(*sqlparser.SQLVal)
		if !ok || e.Scope != sqlparser.SetScope_None || e.Name == nil || !strings.EqualFold(e.Name.String(), sqlparser.TransactionStr) {
			return stmt
		}
		yes, no := true, false
		level := engine.RepeatableRead
		switch strings.ToLower(string(v.Val)) {
		case "isolation level repeatable read":
			n.next.isolation = &level
		case "isolation level read committed":
			level = engine.ReadCommitted
			n.next.isolation = &level
		case "isolation level read uncommitted":
			level = engine.ReadUncommitted
			n.next.isolation = &level
		case "isolation level serializable":
			level = engine.Serializable
			n.next.isolation = &level
		case "read only":
			n.next.readOnly = &yes
		case "read write":
			n.next.readOnly = &no
		default:
			return stmt
		}
	}
	return sqlparser.InjectedStatement{Statement: n, Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE}}
}

// setTransaction is its own AST leaf and its own plan node, and immutable.
type setTransaction struct{ next nextTransaction }

var _ sql.ExecSourceRel = (*setTransaction)(nil)
var _ sqlparser.Injectable = (*setTransaction)(nil)

// WithResolvedChildren implements sqlparser.Injectable.
func (n *setTransaction) WithResolvedChildren(context.Context, []any) (any, error) { return n, nil }

// Resolved implements sql.Node.
func (n *setTransaction) Resolved() bool { return true }

// IsReadOnly implements sql.Node.
func (n *setTransaction) IsReadOnly() bool { return true }

// Children implements sql.Node.
func (n *setTransaction) Children() []sql.Node { return nil }

// WithChildren implements sql.Node.
func (n *setTransaction) WithChildren(_ *sql.Context, children ...sql.Node) (sql.Node, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(n, len(children), 0)
	}
	return n, nil
}

// String implements fmt.Stringer.
func (n *setTransaction) String() string { return "SET TRANSACTION" }

// Schema implements sql.Node.
func (n *setTransaction) Schema(*sql.Context) sql.Schema { return types.OkResultSchema }

// RowIter implements sql.ExecSourceRel.
func (n *setTransaction) RowIter(ctx *sql.Context, _ sql.Row) (sql.RowIter, error) {
	c := connOf(ctx)
	if c.inTransaction() {
		return nil, mysql.NewSQLError(1568, "25001", "Transaction characteristics can't be changed while a transaction is in progress")
	}
	if n.next.isolation != nil {
		c.next.isolation = n.next.isolation
	}
	if n.next.readOnly != nil {
		c.next.readOnly = n.next.readOnly
	}
	return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
}

// inTransaction reports whether a transaction is open that lives on after the statement: by BEGIN, or without autocommit
// once a table was used.
func (c *Conn) inTransaction() bool {
	if c.GetIgnoreAutoCommit() {
		return true
	}
	t, ok := c.GetTransaction().(*transaction)
	return ok && t != nil && t.txn != nil && !t.txn.Done() && c.keepsTransaction()
}
