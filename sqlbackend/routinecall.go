package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/internal/errs"
	"lancesql/sqlbackend/program"
	"lancesql/sqlbackend/wire"
)

// activation is a routine that runs in a session.
type activation struct {
	outer    *activation
	root     *activation // the outermost
	kind     program.Kind
	database string
	name     string
	busy     []tableUse // of the statement that called a function
	held     int        // bytes of results and open cursors, estimated, of the outermost: of all inside it
}

// What results and cursors take beside their rows. Why counted: a loop may make very many that are empty.
const (
	resultBytes       = 512
	resultColumnBytes = 256
)

// hold counts bytes that stay in memory while the outermost routine runs; a negative number gives them back.
func (a *activation) hold(bytes int) error {
	r := a.root
	if bytes > 0 && r.held+bytes > heldBytesMax {
		return fmt.Errorf("results and open cursors of more than %d MiB in one CALL: %w", heldBytesMax>>20, errs.ErrLimit)
	}
	r.held += bytes
	return nil
}

// heldBy is the size of a result, or of a cursor, without its rows.
func heldBy(s sql.Schema) int { return resultBytes + resultColumnBytes*len(s) }

// within is what a statement must not return a result from.
func (a *activation) within() string {
	for ; a != nil; a = a.outer {
		if a.kind == program.Function {
			return "function"
		}
	}
	return "trigger"
}

// depthMax bounds how many routines may run inside each other.
const depthMax = 256

// enterRoutine makes a routine the running one; leave ends that. While it runs, its database is the current one, and sql_mode is
// what it was when the routine was made.
func (c *Conn) enterRoutine(ctx *sql.Context, kind program.Kind, database, name, mode string) (a *activation, leave func(), err error) {
	again, depth := 0, 0
	for o := c.running; o != nil; o = o.outer {
		depth++
		if o.kind == kind && strings.EqualFold(o.name, name) && strings.EqualFold(o.database, database) {
			again++
		}
	}
	switch most := c.number("max_sp_recursion_depth"); {
	case again > 0 && kind != program.Procedure:
		return nil, nil, newError(1424, "Recursive stored functions and triggers are not allowed.")
	case int64(again) > most:
		return nil, nil, newError(1456, "Recursive limit %d (as set by the max_sp_recursion_depth variable) was exceeded for routine %s", max(most, 0), name)
	case depth >= depthMax:
		return nil, nil, newError(1436, "Thread stack overrun: %d routines inside each other", depth)
	}
	a = &activation{outer: c.running, kind: kind, database: database, name: name}
	if a.root = a; a.outer != nil {
		a.root = a.outer.root
	}
	leave, err = c.enterAgain(ctx, a, mode)
	return a, leave, err
}

// enterAgain is enterRoutine for one that the same statement has entered before.
func (c *Conn) enterAgain(ctx *sql.Context, a *activation, mode string) (leave func(), err error) {
	before, current := sqlMode(ctx).String(), ctx.GetCurrentDatabase()
	if mode != before {
		if err := c.BaseSession.SetSessionVariable(ctx, sql.SqlModeSessionVar, mode); err != nil {
			return nil, err
		}
	}
	ctx.SetCurrentDatabase(a.database)
	c.running = a
	return func() {
		c.running = a.outer
		ctx.SetCurrentDatabase(current)
		if now := sqlMode(ctx).String(); now != before {
			_ = c.BaseSession.SetSessionVariable(ctx, sql.SqlModeSessionVar, before) // which it was
		}
	}, nil
}

// number is the value of a session variable that is a number; 0 if there is none.
func (c *Conn) number(name string) int64 {
	v, err := c.GetSessionVariable(nil, name)
	if err != nil {
		return 0
	}
	n, _ := toInt64(v)
	return n
}

// call runs a procedure.
func (o *operators) call(ctx *sql.Context, n *plan.Call, row sql.Row) (sql.RowIter, error) {
	c := connOf(ctx)
	if c == nil || n.Procedure == nil || n.Procedure.ExternalProc != nil {
		return nil, nil
	}
	body := bodyOf(n)
	db, ok := n.Database().(sql.StoredProcedureDatabase)
	if body == nil || !ok {
		return nil, newError(1457, "Failed to load routine %s. The definition of it cannot be read.", n.Name)
	}
	details, _, err := db.GetStoredProcedure(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	values, from := make([]any, len(n.Params)), make([]sql.Type, len(n.Params))
	for i, e := range n.Params {
		from[i] = e.Type(ctx)
		if n.Procedure.Params[i].Direction == plan.ProcedureParamDirection_Out {
			if err := checkAssignable(e, i, db.Name()+"."+n.Name); err != nil {
				return nil, err
			}
			continue
		}
		if n.Procedure.Params[i].Direction != plan.ProcedureParamDirection_In {
			if err := checkAssignable(e, i, db.Name()+"."+n.Name); err != nil {
				return nil, err
			}
		}
		v, err := e.Eval(ctx, row)
		if err == nil {
			values[i], err = sql.UnwrapAny(ctx, v)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.running == nil {
		c.results = nil
	}
	results := len(c.results)
	a, leave, err := c.enterRoutine(ctx, program.Procedure, db.Name(), n.Name, details.SqlMode)
	if err != nil {
		return nil, err
	}
	defer leave()
	env := o.environment(c, a, body.Body)
	run, err := body.NewCall(ctx, env, values, from)
	if err != nil {
		return nil, err
	}
	counts, err := run.Run(ctx)
	if err != nil {
		return nil, err
	}
	for i, e := range n.Params {
		if n.Procedure.Params[i].Direction == plan.ProcedureParamDirection_In {
			continue
		}
		if err := assignArgument(ctx, env, e, run.Param(body.Params[i].Name), body.Params[i].Type); err != nil {
			return nil, err
		}
	}
	if a.outer == nil && len(c.results) > results { // those inside another keep theirs for the outermost
		last := c.results[len(c.results)-1]
		n.SetSchema(last.Schema)
		return sql.RowsToRowIter(last.Rows...), nil
	}
	n.SetSchema(types.OkResultSchema)
	return sql.RowsToRowIter(sql.NewRow(counts)), nil
}

// bodyOf is the body of the procedure that a plan calls; nil if it could not be read.
func bodyOf(n *plan.Call) *routineBody {
	if len(n.Procedure.Ops) != 1 {
		return nil
	}
	s, ok := n.Procedure.Ops[0].PrimaryData.(sqlparser.InjectedStatement)
	if !ok {
		return nil
	}
	body, _ := s.Statement.(*routineBody)
	return body
}

func checkAssignable(e sql.Expression, i int, name string) error {
	switch e := e.(type) {
	case program.Local, *expression.UserVar, *expression.ProcedureParam:
		return nil
	case *expression.SystemVar:
		return fmt.Errorf("unable to set `%s` as it is a system variable", e.Name)
	}
	return newError(1414, "OUT or INOUT argument %d for routine %s is not a variable or NEW pseudo-variable in BEFORE trigger", i+1, name)
}

// assignArgument gives a variable the value of an OUT or INOUT parameter.
func assignArgument(ctx *sql.Context, env *program.Env, e sql.Expression, v any, typ sql.Type) error {
	switch e := e.(type) {
	case program.Local:
		return e.Set(ctx, env, v, typ)
	case *expression.UserVar:
		return setUser(ctx, e.Name, v, typ)
	case *expression.ProcedureParam:
		return e.Set(ctx, v, typ)
	}
	return fmt.Errorf("argument %s cannot be assigned", e)
}

// environment is what a routine runs in.
func (o *operators) environment(c *Conn, a *activation, body *program.Body) *program.Env {
	return &program.Env{
		Run: func(ctx *sql.Context, stmt sqlparser.Statement, row func(sql.Schema, sql.Row) error) (types.OkResult, error) {
			if err := a.checkBusy(ctx, stmt); err != nil {
				return types.OkResult{}, err
			}
			c.BaseSession.ClearWarnings()
			return o.runInner(ctx, stmt, func(s sql.Schema, r sql.Row) error {
				if r == nil {
					return nil
				}
				return row(s, r)
			})
		},
		Eval: func(ctx *sql.Context, stmt *sqlparser.Select, known bool) (any, sql.Type, error) {
			return o.evalInner(ctx, c, stmt, known)
		},
		Plan:     func(ctx *sql.Context, stmt *sqlparser.Select) sql.Expression { return o.planInner(ctx, c, stmt) },
		Value:    func(ctx *sql.Context, e sql.Expression, row sql.Row) (any, error) { return valueInner(ctx, c, e, row) },
		Kept:     c.kept(body),
		Settings: c.settings,
		Send: func(ctx *sql.Context, stmt sqlparser.Statement) (types.OkResult, error) {
			if err := a.checkBusy(ctx, stmt); err != nil {
				return types.OkResult{}, err
			}
			if !showsWarnings(stmt) {
				c.BaseSession.ClearWarnings()
			}
			return o.sendInner(ctx, c, a, stmt)
		},
		PlanRepeated: func(ctx *sql.Context, stmt sqlparser.Statement) any {
			if n := o.planRepeated(ctx, c, stmt); n != nil {
				return n
			}
			return nil
		},
		Repeat: func(ctx *sql.Context, stmt sqlparser.Statement, plan any) (types.OkResult, error) {
			if err := a.checkBusy(ctx, stmt); err != nil {
				return types.OkResult{}, err
			}
			c.BaseSession.ClearWarnings()
			return o.repeat(ctx, c, plan.(*repeatedPlan))
		},
		Convert:   convertVariable,
		SetUser:   setUser,
		Condition: mapToSQLError,
		Warnings:  c.Warnings,
		Note:      c.noteHandled,
		State:     sqlState,
		Hold:      a.hold,
		Size: func(s sql.Schema, row sql.Row) int {
			if row == nil {
				return heldBy(s)
			}
			return sizeOf(row)
		},
	}
}

// runInner runs a statement of a routine. If it returns rows, row is called with nil first and then with each of them.
func (o *operators) runInner(ctx *sql.Context, stmt sqlparser.Statement, row func(sql.Schema, sql.Row) error) (types.OkResult, error) {
	ctx = sql.NewContext(ctx.Context, sql.WithSession(ctx.Session)) // Why: the process list is the outer statement's
	query := o.runner.QueryWithBindings
	if c := connOf(ctx); c != nil && c.running.fired() {
		query = o.queryUnchecked
	}
	schema, rows, _, err := query(ctx, "", stmt, nil, nil)
	if err != nil {
		return types.OkResult{}, err
	}
	return readInner(ctx, schema, rows, row)
}

// fired reports whether a routine runs because of a trigger.
func (a *activation) fired() bool {
	for ; a != nil; a = a.outer {
		if a.kind == program.Trigger {
			return true
		}
	}
	return false
}

// queryUnchecked runs a statement of a trigger. Why not as others: who fires a trigger needs no privileges for what it does.
func (o *operators) queryUnchecked(ctx *sql.Context, _ string, stmt sqlparser.Statement, _ map[string]sqlparser.Expr, _ *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	switch stmt.(type) {
	case *sqlparser.Prepare, *sqlparser.Execute, *sqlparser.Deallocate:
		return nil, nil, nil, newError(1336, "Dynamic SQL is not allowed in stored function or trigger")
	}
	c := connOf(ctx)
	return c.nest(ctx, stmt, func() (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
		if err := c.ValidateSession(ctx); err != nil {
			return nil, nil, nil, err
		}
		n, flags, err := o.planUnchecked(ctx, stmt)
		if err != nil {
			return nil, nil, nil, err
		}
		return o.front.PrepQueryPlanForExecution(ctx, "", n, flags)
	})
}

func (o *operators) planUnchecked(ctx *sql.Context, stmt sqlparser.Statement) (sql.Node, *sql.QueryFlags, error) {
	b := planbuilder.New(ctx, o.front.Analyzer.Catalog, nil)
	b.DisableAuth()
	bound, flags, err := b.BindOnly(stmt, "", nil)
	if err != nil {
		return nil, nil, err
	}
	n, err := o.front.Analyzer.Analyze(ctx, bound, nil, flags)
	return n, flags, err
}

// readInner reads the rows of such a statement.
func readInner(ctx *sql.Context, schema sql.Schema, rows sql.RowIter, row func(sql.Schema, sql.Row) error) (counts types.OkResult, err error) {
	abandon := func() {
		if it, ok := rows.(*innerStatement); ok {
			it.abandon(ctx)
		} else {
			wire.CloseFailed(ctx, rows)
		}
	}
	if len(schema) > 0 && !types.IsOkResultSchema(schema) { // START TRANSACTION and others have none
		if err := row(schema, nil); err != nil {
			abandon()
			return types.OkResult{}, err
		}
	}
	for n := 0; ; n++ {
		r, err := rows.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if n%128 == 127 && err == nil {
			err = ctx.Err()
		}
		if err == nil && types.IsOkResult(r) {
			counts = types.GetOkResult(r)
			continue
		}
		if err == nil {
			err = row(schema, r)
		}
		if err != nil {
			abandon()
			return types.OkResult{}, err
		}
	}
	return counts, rows.Close(ctx)
}

// evalInner evaluates an expression of a routine; known says that it has been evaluated before and reads no tables.
func (o *operators) evalInner(ctx *sql.Context, c *Conn, stmt *sqlparser.Select, known bool) (value any, typ sql.Type, err error) {
	before := c.Warnings()
	c.BaseSession.ClearWarnings()
	run := o.runInner
	if known {
		run = o.runBare
	}
	_, err = run(ctx, stmt, func(s sql.Schema, row sql.Row) error {
		if row == nil {
			return nil
		}
		if len(row) != 1 {
			return newError(1241, "Operand should contain 1 column(s)")
		}
		typ = s[0].Type
		value, err = sql.UnwrapAny(ctx, row[0])
		return err
	})
	if len(c.Warnings()) == 0 { // those of the statement before stay
		c.restoreWarnings(before)
	}
	return value, typ, err
}

// sendInner runs a statement of a routine whose rows are a result of the CALL.
func (o *operators) sendInner(ctx *sql.Context, c *Conn, a *activation, stmt sqlparser.Statement) (types.OkResult, error) {
	before, held := len(c.results), 0
	_, isCall := stmt.(*sqlparser.Call)
	var result *wire.Result
	hold := func(bytes int) error {
		if err := a.hold(bytes); err != nil {
			return err
		}
		held += bytes
		return nil
	}
	counts, err := o.runInner(ctx, stmt, func(s sql.Schema, row sql.Row) error {
		if row == nil {
			if isInside(ctx) {
				return newError(1415, "Not allowed to return a result set from a %s", a.within())
			}
			result = &wire.Result{Schema: s}
			return hold(heldBy(s))
		}
		if err := hold(sizeOf(row)); err != nil {
			return err
		}
		result.Rows = append(result.Rows, row)
		return nil
	})
	if err != nil {
		_ = a.hold(-held) // which never fails
		return types.OkResult{}, err
	}
	if result != nil && (!isCall || len(c.results) == before) {
		c.results = append(c.results, *result)
	}
	return counts, nil
}

// insideContext is a context whose statements belong to the statement around them.
func insideContext(ctx *sql.Context) *sql.Context {
	return ctx.WithContext(context.WithValue(ctx.Context, inTrigger{}, true))
}
