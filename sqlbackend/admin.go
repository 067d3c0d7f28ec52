package sqlbackend

import (
	"context"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine"
)

// adminOp is a statement about tables as files.
type adminOp string

const (
	adminNothing  adminOp = "nothing"
	adminStatus   adminOp = "status" // FLUSH STATUS
	adminFlush    adminOp = "flush"
	adminOptimize adminOp = "optimize"
	adminCheck    adminOp = "check"
	adminRepair   adminOp = "repair"
	adminAnalyze  adminOp = "analyze" // parsed here, run by the frontend
)

// adminStatement is a parsed admin statement; no tables means all.
type adminStatement struct {
	op       adminOp
	tables   sqlparser.TableNames
	extended bool // CHECK TABLE … EXTENDED
	readLock bool // FLUSH TABLES … WITH READ LOCK
}

// injectAdmin returns a function that makes an admin statement an AST the frontend accepts: it plans to an adminNode.
func injectAdmin(e *engine.Engine) func(adminStatement) sqlparser.Statement {
	return func(s adminStatement) sqlparser.Statement {
		auth := sqlparser.AuthInformation{AuthType: sqlparser.AuthType_RELOAD, TargetType: sqlparser.AuthTargetType_Global}
		if len(s.tables) > 0 && s.op != adminFlush {
			auth = sqlparser.AuthInformation{
				AuthType: sqlparser.AuthType_INSERT, TargetType: sqlparser.AuthTargetType_MultipleTableIdentifiers,
				TargetNames: s.tables.AuthMultipleTableIdentifiers(),
			}
		}
		return sqlparser.InjectedStatement{Auth: auth, Statement: &adminNode{adminStatement: s, engine: e}}
	}
}

// adminNode runs an admin statement. It is its own AST leaf and its own plan node, and immutable.
type adminNode struct {
	adminStatement
	engine *engine.Engine
}

var _ sql.ExecSourceRel = (*adminNode)(nil)
var _ sqlparser.Injectable = (*adminNode)(nil)

// WithResolvedChildren implements sqlparser.Injectable.
func (n *adminNode) WithResolvedChildren(context.Context, []any) (any, error) { return n, nil }

// Resolved implements sql.Node.
func (n *adminNode) Resolved() bool { return true }

// IsReadOnly implements sql.Node: no row changes.
func (n *adminNode) IsReadOnly() bool { return true }

// Children implements sql.Node.
func (n *adminNode) Children() []sql.Node { return nil }

// WithChildren implements sql.Node.
func (n *adminNode) WithChildren(_ *sql.Context, children ...sql.Node) (sql.Node, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(n, len(children), 0)
	}
	return n, nil
}

// String implements fmt.Stringer.
func (n *adminNode) String() string { return string(n.op) + " table" }

// Schema implements sql.Node.
func (n *adminNode) Schema(*sql.Context) sql.Schema {
	if n.op == adminFlush || n.op == adminNothing || n.op == adminStatus {
		return types.OkResultSchema
	}
	column := func(name string, length int64) *sql.Column {
		return &sql.Column{Name: name, Type: types.MustCreateStringWithDefaults(sqltypes.VarChar, length), Nullable: true}
	}
	return sql.Schema{column("Table", 128), column("Op", 10), column("Msg_type", 10), column("Msg_text", 1024)}
}

// RowIter implements sql.ExecSourceRel. As in MySQL these statements commit the open transaction first.
func (n *adminNode) RowIter(ctx *sql.Context, _ sql.Row) (sql.RowIter, error) {
	if err := connOf(ctx).implicitCommit(ctx); err != nil {
		return nil, err
	}
	switch n.op {
	case adminStatus:
		for _, v := range ctx.GetAllStatusVariables(ctx) {
			if counter, ok := v.(*sql.MutableStatusVarValue); ok {
				counter.Val.Store(0)
			}
		}
		return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
	case adminNothing:
		return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
	case adminFlush:
		ids := make([]engine.TableID, 0, len(n.tables))
		for _, name := range n.tables {
			entry, err := n.find(ctx, name)
			if err != nil {
				return nil, err
			}
			ids = append(ids, entry.ID)
		}
		if len(ids) == 0 {
			ids = nil
		}
		if n.readLock {
			if err := connOf(ctx).readLock(ctx, n.tables); err != nil {
				return nil, err
			}
			if n.engine.InstanceLocked() {
				return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil // nothing can be flushed now, and the lock is what counts
			}
		}
		if err := n.engine.FlushTables(ctx, ids); err != nil {
			return nil, fmt.Errorf("flush tables: %w", err)
		}
		return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
	}
	var rows []sql.Row
	for _, name := range n.tables {
		more, err := n.table(ctx, name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return sql.RowsToRowIter(rows...), nil
}

// table runs the statement for one table and returns its rows; an error that concerns only the table is a row.
func (n *adminNode) table(ctx *sql.Context, name sqlparser.TableName) ([]sql.Row, error) {
	db := databaseOf(ctx, name)
	row := func(kind, text string) sql.Row {
		return sql.NewRow(db+"."+name.Name.String(), string(n.op), kind, text)
	}
	entry, err := n.find(ctx, name)
	if err != nil {
		if db == "" {
			return nil, err
		}
		return []sql.Row{row("Error", mapToSQLError(err).Message), row("status", "Operation failed")}, nil
	}
	switch n.op {
	case adminRepair:
		return []sql.Row{row("note", "The storage engine for the table doesn't support repair")}, nil
	case adminOptimize:
		return n.optimize(ctx, entry, row)
	}
	return n.check(ctx, entry, row)
}

// optimize runs OPTIMIZE TABLE.
func (n *adminNode) optimize(ctx *sql.Context, entry *engine.TableEntry, row func(kind, text string) sql.Row) ([]sql.Row, error) {
	done, err := n.engine.Optimize(ctx, entry.ID)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return []sql.Row{row("Error", mapToSQLError(err).Message), row("status", "Operation failed")}, nil
	case done.Unsupported != nil:
		return []sql.Row{row("note", "Fragments are left as they are: "+done.Unsupported.Error()), row("status", "OK")}, nil
	case done.Groups == 0 && done.Remapped == 0 && done.CaughtUp == 0 && done.Trimmed == 0 && len(done.Removed) == 0:
		return []sql.Row{row("status", "OK")}, nil
	}
	text := fmt.Sprintf("%d fragments became %d; %d index segments rewritten, %d added; %d files and folders removed",
		done.FragmentsRemoved, done.FragmentsAdded, done.Remapped, done.CaughtUp, len(done.Removed))
	return []sql.Row{row("note", text), row("status", "OK")}, nil
}

// check runs CHECK TABLE: every row is read, files are verified on the way, and every index is compared with it.
func (n *adminNode) check(ctx *sql.Context, entry *engine.TableEntry, row func(kind, text string) sql.Row) ([]sql.Row, error) {
	var rows []sql.Row
	_, err := n.engine.CheckTable(ctx, entry, n.extended, func(what string) { rows = append(rows, row("error", what)) })
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return append(rows, row("Error", err.Error()), row("status", "Operation failed")), nil
	case len(rows) > 0:
		return append(rows, row("error", "Corrupt")), nil
	}
	return []sql.Row{row("status", "OK")}, nil
}

// find returns the catalog entry of a table named in a statement.
func (n *adminNode) find(ctx *sql.Context, name sqlparser.TableName) (*engine.TableEntry, error) {
	db := databaseOf(ctx, name)
	if db == "" {
		return nil, sql.ErrNoDatabaseSelected.New()
	}
	if d := n.engine.Catalog().Database(db); d != nil {
		if entry := d.Table(name.Name.String()); entry != nil {
			return entry, nil
		}
	}
	return nil, sql.ErrTableNotFound.New(db + "." + name.Name.String())
}

func databaseOf(ctx *sql.Context, name sqlparser.TableName) string {
	if !name.DbQualifier.IsEmpty() {
		return name.DbQualifier.String()
	}
	return ctx.GetCurrentDatabase()
}
