package sqlbackend

import (
	"context"
	"fmt"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/procedures"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/errs"
	"lancesql/sqlbackend/wire"
)

// Statements inside statements: those of procedures, which the frontend runs one by one, and those of triggers, which
// are nodes below the statement that fires them. Each sees what was written before it began.

// procedureRunner runs the statements of procedures, each as a statement of its own.
type procedureRunner struct {
	sql.StatementRunner
}

// QueryWithBindings implements sql.StatementRunner.
func (r procedureRunner) QueryWithBindings(ctx *sql.Context, query string, parsed sqlparser.Statement, bindings map[string]sqlparser.Expr, flags *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	c := connOf(ctx)
	if c == nil {
		return r.StatementRunner.QueryWithBindings(ctx, query, parsed, bindings, flags)
	}
	it := &innerStatement{conn: c, triggered: ctx.Value(inTrigger{}) != nil}
	it.call, _ = ctx.Value(inCall{}).(*callState)
	it.enter()
	defer it.leave()
	if parsed != nil {
		c.MarkStatement(parsed)
	}
	wanted := it.call.wants(parsed)
	schema, rows, f, err := r.StatementRunner.QueryWithBindings(ctx, query, parsed, bindings, flags)
	if err != nil {
		return nil, nil, nil, err
	}
	it.RowIter = rows
	if wanted && !types.IsOkResultSchema(schema) {
		it.result = &wire.Result{Schema: schema}
	}
	return schema, it, f, nil
}

// innerStatement is the rows of a procedure's statement. While it works, the session knows about it and not about the
// CALL: cursors are open while other statements run.
type innerStatement struct {
	sql.RowIter
	conn  *Conn
	inner statement

	outer  statement
	result *wire.Result // nil: its rows are no result of the CALL

	begun bool        // the outer statement has begun in its transaction
	start historyMark // of the outer statement

	call       *callState
	triggered  bool // the CALL stands in a trigger: nothing may be committed before the statement that fired it ends
	autocommit bool // of the outer statement
}

func (i *innerStatement) enter() {
	i.outer, i.begun = i.conn.stmt, i.conn.stmt.begun != nil
	if i.begun {
		i.start = i.conn.statementStart()
	}
	i.conn.stmt = i.inner
	i.call.enter(i.conn)
	if i.triggered {
		i.autocommit = !i.conn.GetIgnoreAutoCommit()
		i.conn.SetIgnoreAutoCommit(true)
	}
}

func (i *innerStatement) leave() {
	i.inner, i.conn.stmt = i.conn.stmt, i.outer
	if i.begun {
		i.conn.setStatementStart(i.start)
	}
	if i.triggered {
		i.conn.SetIgnoreAutoCommit(!i.autocommit)
	}
	i.call.leave(i.conn)
}

// Next implements sql.RowIter.
func (i *innerStatement) Next(ctx *sql.Context) (sql.Row, error) {
	i.enter()
	defer i.leave()
	row, err := i.RowIter.Next(ctx)
	if i.result == nil {
		return row, err
	}
	if err == io.EOF {
		i.conn.results = append(i.conn.results, *i.result)
		i.result = nil
		return row, err
	}
	if err == nil {
		if i.call.held += sizeOf(row); i.call.held > heldBytesMax {
			return nil, fmt.Errorf("results of more than %d MiB in one CALL: %w", heldBytesMax>>20, errs.ErrLimit)
		}
		i.result.Rows = append(i.result.Rows, row)
	}
	return row, err
}

// Close implements sql.RowIter.
func (i *innerStatement) Close(ctx *sql.Context) error {
	i.enter()
	defer i.leave()
	return i.RowIter.Close(ctx)
}

// callState is the transaction of a CALL while none of its statements runs. The frontend takes the transaction away from
// a procedure, whose statements belong to it all the same.
type callState struct {
	txn     sql.Transaction
	results map[sqlparser.Statement]bool // statements of the procedure whose rows are results
	held    int                          // bytes of those, estimated
}

// wants reports whether the rows of a statement are a result of the CALL.
func (s *callState) wants(stmt sqlparser.Statement) bool {
	switch stmt.(type) {
	case *sqlparser.Select, *sqlparser.SetOp, *sqlparser.ParenSelect, *sqlparser.Show: // others cannot be looked up
		return s != nil && s.results[stmt]
	}
	return false
}

// resultsOf lists the statements of a procedure whose rows are results. Conditions and assignments are queries as well.
func resultsOf(ops []*procedures.InterpreterOperation) map[sqlparser.Statement]bool {
	list := make(map[sqlparser.Statement]bool)
	var add func(stmt sqlparser.Statement)
	add = func(stmt sqlparser.Statement) {
		switch s := stmt.(type) {
		case *sqlparser.Select:
			list[s] = s.Into == nil
		case *sqlparser.BeginEndBlock:
			for _, inner := range s.Statements {
				add(inner)
			}
		case *sqlparser.Declare:
			if s.Handler != nil {
				add(s.Handler.Statement)
			}
		case *sqlparser.SetOp, *sqlparser.ParenSelect, *sqlparser.Show:
			list[s] = true
		}
	}
	for _, op := range ops {
		switch op.OpCode {
		case procedures.OpCode_Select, procedures.OpCode_Execute, procedures.OpCode_Declare:
			add(op.PrimaryData)
		}
	}
	return list
}

// TakeResults hands over the results of a CALL.
func (c *Conn) TakeResults() []wire.Result {
	results := c.results
	c.results = nil
	return results
}

// inCall is the key of the context value that holds the callState.
type inCall struct{}

func (s *callState) enter(c *Conn) {
	if s != nil {
		c.BaseSession.SetTransaction(s.txn)
	}
}

func (s *callState) leave(c *Conn) {
	if s != nil {
		s.txn = c.GetTransaction()
		c.BaseSession.SetTransaction(nil) // not the session's own, which rolls it back
	}
}

// call runs a procedure.
func (o *operators) call(ctx *sql.Context, n *plan.Call, row sql.Row) (sql.RowIter, error) {
	c := connOf(ctx)
	if c == nil || n.Procedure == nil || n.Procedure.ExternalProc != nil {
		return nil, nil
	}
	if err := checkHandlers(n.Procedure.Ops); err != nil {
		return nil, err
	}
	s := &callState{}
	if ctx.Value(inTrigger{}) == nil {
		s.results = resultsOf(n.Procedure.Ops)
	}
	if ctx.Value(inCall{}) == nil {
		c.results = nil
	}
	s.leave(c)
	defer s.enter(c)
	return o.stock.Build(ctx.WithContext(context.WithValue(ctx.Context, inCall{}, s)), n, row)
}

// checkHandlers refuses handlers that the frontend cannot run: it begins the procedure anew, and again, if the statement of a
// handler has a result, and runs nothing of one that has parts.
func checkHandlers(ops []*procedures.InterpreterOperation) error {
	for _, op := range ops {
		d, ok := op.PrimaryData.(*sqlparser.Declare)
		if !ok || d.Handler == nil {
			continue
		}
		switch s := d.Handler.Statement.(type) {
		case *sqlparser.Set:
			if len(s.Exprs) == 1 && s.Exprs[0].Scope == "" { // of a local variable
				continue
			}
		case *sqlparser.BeginEndBlock:
			if len(s.Statements) == 0 {
				continue
			}
		}
		return newError(1235, "This version of lancesql doesn't yet support 'DECLARE ... HANDLER with another statement than SET of one local variable'")
	}
	return nil
}

// inTrigger is the key of a context value: the statement is one of a trigger.
type inTrigger struct{}

// triggered reports whether n, built with the row that fired a trigger, is a statement of the trigger.
func triggered(n sql.Node) bool {
	switch n.(type) {
	case *plan.TriggerBeginEndBlock, *plan.Set, *plan.InsertInto, *plan.Update, *plan.DeleteFrom, *plan.IfElseBlock,
		*plan.TriggerExecutor, *plan.Call:
		return true
	}
	return false
}

// trigger runs what a trigger does for one row. The frontend looks at the node it built, so nothing may stand around it.
func (o *operators) trigger(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if txnOf(ctx) == nil {
		return nil, nil
	}
	c := connOf(ctx)
	start := c.statementStart()
	c.setStatementStart(c.mark())
	it, err := o.insideTrigger.Build(ctx, n, row)
	if err != nil {
		c.setStatementStart(start)
		return nil, err
	}
	return &triggerRows{RowIter: it, conn: c, start: start}, nil
}

// triggerRows goes back to the statement that fired the trigger when the trigger is done.
type triggerRows struct {
	sql.RowIter
	conn  *Conn
	start historyMark
}

// Next implements sql.RowIter.
func (t *triggerRows) Next(ctx *sql.Context) (sql.Row, error) {
	return t.RowIter.Next(ctx.WithContext(context.WithValue(ctx.Context, inTrigger{}, true)))
}

// Close implements sql.RowIter.
func (t *triggerRows) Close(ctx *sql.Context) error {
	err := t.RowIter.Close(ctx)
	t.conn.setStatementStart(t.start)
	return err
}

// triggerOperators builds what is inside a trigger: each statement begins where the one before it ended.
type triggerOperators struct {
	operators *operators
}

// Build implements sql.NodeExecBuilder; nil, nil declines the node.
func (t *triggerOperators) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if triggered(n) {
		if txnOf(ctx) != nil {
			c := connOf(ctx)
			c.setStatementStart(c.mark())
		}
		if _, call := n.(*plan.Call); !call {
			return nil, nil
		}
	}
	return t.operators.build1(ctx, n, row)
}

// wireNested makes the builders of nested statements.
func (o *operators) wireNested(overrides sql.EngineOverrides, runner sql.StatementRunner) {
	o.insideTrigger = rowexec.NewBuilder(&triggerOperators{operators: o}, overrides)
	o.stock = rowexec.NewBuilder(nil, overrides)
	o.insideTrigger.Runner, o.stock.Runner = runner, runner
}
