package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine/lock"
	"lancesql/sqlbackend/program"
	"lancesql/sqlbackend/wire"
)

// Statements inside statements: those of routines and triggers. Each sees what was written before it began.

// statementRunner runs the statements of routines and of DDL hooks, each as a statement of its own.
type statementRunner struct {
	sql.StatementRunner
}

// QueryWithBindings implements sql.StatementRunner.
func (r statementRunner) QueryWithBindings(ctx *sql.Context, query string, parsed sqlparser.Statement, bindings map[string]sqlparser.Expr, flags *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	c := connOf(ctx)
	if c == nil {
		return r.StatementRunner.QueryWithBindings(ctx, query, parsed, bindings, flags)
	}
	return c.nest(ctx, parsed, func() (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
		return r.StatementRunner.QueryWithBindings(ctx, query, parsed, bindings, flags)
	})
}

// nest runs a statement inside the running one, by a function that plans it.
func (c *Conn) nest(ctx *sql.Context, parsed sqlparser.Statement, start func() (sql.Schema, sql.RowIter, *sql.QueryFlags, error)) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	it := &innerStatement{conn: c, inside: isInside(ctx)}
	if it.inside {
		if err := commits(parsed); err != nil {
			return nil, nil, nil, err
		}
	}
	it.enter()
	defer it.leave()
	if parsed != nil {
		c.MarkStatement(parsed)
	}
	for {
		schema, rows, f, err := start()
		if err == nil {
			it.RowIter = rows
			return schema, it, f, nil
		}
		again, werr := c.AwaitBusy(ctx, err)
		if again && werr == nil {
			continue
		}
		it.failed(ctx)
		if werr != nil {
			return nil, nil, nil, werr
		}
		return nil, nil, nil, err
	}
}

// commits returns the error of a statement that commits, of those inside another one; nil if it does not.
func commits(stmt sqlparser.Statement) error {
	if injected, ok := stmt.(sqlparser.InjectedStatement); ok {
		if s, ok := injected.Statement.(*serverStatement); ok && (s.ddl || s.commits) {
			return program.CommitFault()
		}
	}
	return program.Commits(stmt)
}

// innerStatement is the rows of a statement inside another. While it works, the session knows about it and not about the
// statement around it.
type innerStatement struct {
	sql.RowIter
	conn  *Conn
	inner statement

	outer statement

	begun bool        // the outer statement has begun in its transaction
	start historyMark // of the outer statement
	own   historyMark // where this one began, once it has

	inside     bool // it belongs to the statement around it: nothing may be committed before that ends
	autocommit bool // of the outer statement
}

func (i *innerStatement) enter() {
	i.outer, i.begun = i.conn.stmt, i.conn.stmt.begun != nil
	if i.begun {
		i.start = i.conn.statementStart()
	}
	if i.conn.stmt = i.inner; i.begun && i.inner.begun != nil {
		i.conn.setStatementStart(i.own)
	}
	if i.inside {
		i.autocommit = !i.conn.GetIgnoreAutoCommit()
		i.conn.SetIgnoreAutoCommit(true)
	}
}

func (i *innerStatement) leave() {
	i.inner, i.conn.stmt = i.conn.stmt, i.outer
	if i.begun {
		i.own = i.conn.statementStart()
		i.conn.setStatementStart(i.start)
	}
	if i.inside {
		i.conn.SetIgnoreAutoCommit(!i.autocommit)
	}
}

// failed does what the end of a command does after an error: a transaction that nobody asked to keep is rolled back, and locks
// of a definition are released. The statement itself has been undone.
func (i *innerStatement) failed(ctx *sql.Context) {
	if i.RowIter != nil {
		wire.CloseFailed(ctx, i.RowIter)
	}
	i.conn.undoFunctions()
	if i.conn.stmt.ddl {
		i.conn.locks.Release(lock.Statement)
	}
	if !i.conn.keepsTransaction() {
		i.conn.SetTransaction(nil)
	}
}

// Next implements sql.RowIter.
func (i *innerStatement) Next(ctx *sql.Context) (sql.Row, error) {
	i.enter()
	defer i.leave()
	return i.RowIter.Next(ctx)
}

// Close implements sql.RowIter.
func (i *innerStatement) Close(ctx *sql.Context) error {
	i.enter()
	defer i.leave()
	return i.RowIter.Close(ctx)
}

// abandon closes it after an error of its own or of who reads it.
func (i *innerStatement) abandon(ctx *sql.Context) {
	i.enter()
	defer i.leave()
	i.failed(ctx)
}

// isInside reports whether a statement is one of a trigger or of a function.
func isInside(ctx *sql.Context) bool { return ctx.Value(inTrigger{}) != nil }

// TakeResults hands over the results of a CALL.
func (c *Conn) TakeResults() []wire.Result {
	results := c.results
	c.results = nil
	return results
}

// inTrigger is the key of a context value: the statement is one of a trigger or of a function.
type inTrigger struct{}

// wireNested makes the builders of nested statements.
func (o *operators) wireNested(overrides sql.EngineOverrides, runner sql.StatementRunner) {
	o.stock = rowexec.NewBuilder(nil, overrides)
	o.stock.Runner, o.runner = runner, runner
}
