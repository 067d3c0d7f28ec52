package sqlbackend

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/sqlbackend/program"
)

// Expressions of routines that are planned once in a session.

// bodiesMax is of how many routines a session keeps the expressions.
const bodiesMax = 64

// kept returns what is kept for a body.
func (c *Conn) kept(b *program.Body) *program.Kept {
	k := c.bodies[b]
	if k != nil {
		return k
	}
	if c.bodies == nil || len(c.bodies) >= bodiesMax {
		c.bodies = map[*program.Body]*program.Kept{}
	}
	k = program.NewKept()
	c.bodies[b] = k
	return k
}

// settings are what a planned expression depends on besides the types of variables.
type settings struct {
	changes uint64
	mode    any  // which routines change without being counted
	hides   bool // there may be temporary tables
}

func (c *Conn) settings() any {
	mode, err := c.BaseSession.GetSessionVariable(nil, sql.SqlModeSessionVar)
	if _, text := mode.(string); err != nil || !text {
		mode = nil
	}
	return settings{c.changes, mode, c.temps != nil}
}

// sqlMode is sql.LoadSqlMode, which reads the text again each time.
func sqlMode(ctx *sql.Context) *sql.SqlMode {
	c := connOf(ctx)
	if c == nil {
		return sql.LoadSqlMode(ctx)
	}
	v, err := c.GetSessionVariable(ctx, sql.SqlModeSessionVar)
	text, ok := v.(string)
	if err != nil || !ok {
		return sql.LoadSqlMode(ctx)
	}
	if c.mode == nil || c.modeText != text {
		c.modeText, c.mode = text, sql.NewSqlModeFromString(text)
	}
	return c.mode
}

// SetSessionVariable overrides the base session's: what is planned depends on variables.
func (c *Conn) SetSessionVariable(ctx *sql.Context, name string, value any) error {
	c.changes++
	return c.BaseSession.SetSessionVariable(ctx, name, value)
}

// planInner plans an expression of a routine; nil if a statement has to do it.
func (o *operators) planInner(ctx *sql.Context, c *Conn, stmt *sqlparser.Select) sql.Expression {
	it := &innerStatement{conn: c, inside: isInside(ctx)}
	it.enter()
	defer it.leave()
	warnings := c.Warnings()
	e := o.planOnly(ctx, c, stmt)
	if len(c.Warnings()) != len(warnings) { // a statement gives them each time
		c.restoreWarnings(warnings)
		return nil
	}
	return e
}

func (o *operators) planOnly(ctx *sql.Context, c *Conn, stmt *sqlparser.Select) sql.Expression {
	ctx = sql.NewContext(ctx.Context, sql.WithSession(ctx.Session))
	c.MarkStatement(stmt)
	if err := checkTree(ctx, stmt); err != nil {
		return nil // the statement says so again
	}
	bound, flags, err := planbuilder.New(ctx, o.front.Analyzer.Catalog, nil).BindOnly(stmt, "", nil)
	if err != nil {
		return nil
	}
	n, err := o.front.Analyzer.Analyze(ctx, bound, nil, flags)
	if err != nil {
		return nil
	}
	n, _, err = transform.NodeExprs(ctx, n, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		if s, ok := e.(*program.Slot); ok {
			return s.Field(), transform.NewTree, nil
		}
		return e, transform.SameTree, nil
	})
	if err != nil {
		return nil
	}
	if n, _, err = pushOnce(ctx, n); err != nil {
		return nil
	}
	e, _ := bareValue(n)
	return e
}

// valueInner evaluates a planned expression. Warnings of the statement before stay unless it adds some.
func valueInner(ctx *sql.Context, c *Conn, e sql.Expression, row sql.Row) (any, error) {
	before := c.Warnings()
	if len(before) > 0 {
		c.BaseSession.ClearWarnings()
	}
	v, err := e.Eval(ctx, row)
	if err == nil {
		v, err = sql.UnwrapAny(ctx, v)
	}
	if len(before) > 0 && len(c.Warnings()) == 0 {
		c.restoreWarnings(before)
	}
	return v, err
}

// noteHandled makes an error that a handler handles what SHOW WARNINGS shows; forget takes it away.
func (c *Conn) noteHandled(number int, text string) (forget func()) {
	w := &sql.Warning{Level: errorLevel, Code: number, Message: text}
	c.restoreWarnings([]*sql.Warning{w})
	return func() {
		now := c.Warnings()
		if i := slices.Index(now, w); i >= 0 {
			c.restoreWarnings(slices.Delete(now, i, i+1))
		}
	}
}

// restoreWarnings makes warnings, the last first, those of the session.
func (c *Conn) restoreWarnings(list []*sql.Warning) {
	c.BaseSession.ClearWarnings()
	for i := len(list) - 1; i >= 0; i-- {
		c.BaseSession.Warn(list[i])
	}
}

// runBare is runInner of a SELECT of one value that has run before and reads no tables. Why not the same: to find out that there are
// none, the frontend makes a session with all its variables, several times, which costs more than all the rest.
func (o *operators) runBare(ctx *sql.Context, stmt sqlparser.Statement, row func(sql.Schema, sql.Row) error) (types.OkResult, error) {
	ctx = sql.NewContext(ctx.Context, sql.WithSession(ctx.Session))
	c := connOf(ctx)
	schema, rows, _, err := c.nest(ctx, stmt, func() (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
		if err := c.ValidateSession(ctx); err != nil {
			return nil, nil, nil, err
		}
		bound, flags, err := planbuilder.New(ctx, o.front.Analyzer.Catalog, nil).BindOnly(stmt, "", nil)
		if err != nil {
			return nil, nil, nil, err
		}
		if _, bare := bareValue(bound); !bare {
			return o.front.QueryWithBindings(ctx, "", stmt, nil, nil)
		}
		return o.front.PrepQueryPlanForExecution(ctx, "", bound, flags)
	})
	if err != nil {
		return types.OkResult{}, err
	}
	return readInner(ctx, schema, rows, row)
}

// bareValue is the expression of a plan that is a query of one value and no table; false if it is another one.
func bareValue(n sql.Node) (sql.Expression, bool) {
	p, ok := n.(*plan.Project)
	if !ok || len(p.Projections) != 1 {
		return nil, false
	}
	if t, ok := p.Child.(*plan.ResolvedTable); !ok || t.Name() != plan.DualTableName {
		return nil, false
	}
	e := p.Projections[0]
	if a, ok := e.(*expression.Alias); ok {
		e = a.Child
	}
	return e, true
}

// repeatedPlan is the plan of a statement of a trigger, which runs for each row of the statement that fires it. That one keeps the
// definitions of all tables in it as they are.
type repeatedPlan struct {
	node  sql.Node
	flags *sql.QueryFlags
	as    statement // what the session knows about it once its locks are held
}

// planRepeated plans a statement that runs more than once; nil if it has to be planned each time, which also says what is wrong with it.
func (o *operators) planRepeated(ctx *sql.Context, c *Conn, stmt sqlparser.Statement) *repeatedPlan {
	if c.temps != nil {
		return nil // a temporary table may come and go
	}
	ctx = sql.NewContext(ctx.Context, sql.WithSession(ctx.Session))
	it := &innerStatement{conn: c, inside: isInside(ctx)}
	it.enter()
	defer it.leave()
	warnings := c.Warnings()
	c.MarkStatement(stmt)
	if err := c.ValidateSession(ctx); err != nil {
		return nil
	}
	n, flags, err := o.planUnchecked(ctx, stmt)
	if len(c.Warnings()) != len(warnings) {
		c.restoreWarnings(warnings)
		return nil
	}
	insert, ok := n.(*plan.InsertInto)
	if err != nil || !ok || referenced(insert) {
		return nil // Why not with foreign keys: their editors are made for one run
	}
	p := &repeatedPlan{n, flags, c.stmt}
	p.as.begun, p.as.begunOwn = nil, nil
	if list, _, err := triggersOn(ctx, insert.Destination); err != nil || len(list) > 0 {
		return p
	}
	if p.node, err = prepareChange(ctx, n); err != nil {
		return nil
	}
	p.as.prepared = true
	return p
}

// repeat runs a statement that is planned.
func (o *operators) repeat(ctx *sql.Context, c *Conn, p *repeatedPlan) (types.OkResult, error) {
	ctx = sql.NewContext(ctx.Context, sql.WithSession(ctx.Session))
	schema, rows, _, err := c.nest(ctx, nil, func() (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
		c.stmt = p.as
		return o.front.PrepQueryPlanForExecution(ctx, "", p.node, p.flags)
	})
	if err != nil {
		return types.OkResult{}, err
	}
	return readInner(ctx, schema, rows, func(sql.Schema, sql.Row) error { return nil })
}
