package program

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Call is one run of a body.
type Call struct {
	env      *Env
	body     *Body
	params   *scope
	returned *variable      // of a function; nil: a procedure
	done     bool           // RETURN was reached
	counts   types.OkResult // of the statement before
	last     []*condition
	handled  []*condition // by the handlers that run, the innermost last
	plans    map[*query]*repeated
}

// NewCall prepares a run. Arguments are converted to the types of their parameters; there are as many.
func (b *Body) NewCall(ctx *sql.Context, env *Env, arguments []any, from []sql.Type) (*Call, error) {
	c := &Call{env: env, body: b, params: &scope{variables: map[string]*variable{}}}
	for i, p := range b.Params {
		v := &variable{name: p.Name, typ: p.Type}
		if err := v.set(ctx, env, arguments[i], from[i]); err != nil {
			return nil, err
		}
		c.params.variables[lower(p.Name)] = v
	}
	return c, nil
}

// Run runs the body of a procedure and returns what its last statement says of itself.
func (c *Call) Run(ctx *sql.Context) (types.OkResult, error) {
	if _, err := c.list(ctx, []statement{c.body.root}, c.params); err != nil {
		return types.OkResult{}, plain(err)
	}
	return c.counts, nil
}

// Value runs the body of a function and returns its value, one of typ.
func (c *Call) Value(ctx *sql.Context, typ sql.Type) (any, error) {
	c.returned = &variable{name: c.body.Name + "()", typ: typ}
	if _, err := c.list(ctx, []statement{c.body.root}, c.params); err != nil {
		return nil, plain(err)
	}
	if !c.done {
		return nil, fault(1321, "FUNCTION %s ended without RETURN", c.body.Name)
	}
	return c.returned.value, nil
}

// Param returns the value that a parameter has after a run.
func (c *Call) Param(name string) any { return c.params.variables[lower(name)].value }

// plain takes off what marks an error as unhandled.
func plain(err error) error {
	var u unhandled
	if errors.As(err, &u) {
		return u.error
	}
	return err
}

// flow says where a program goes on after a statement.
type flow struct {
	kind  flowKind
	label string // of leaves and iterates
	block *scope // of exits
}

type flowKind int

const (
	next flowKind = iota
	leaves
	iterates
	exits   // a block, whose handler has run
	returns // from the function
)

// list runs statements. What goes wrong in one of them is handled here, or comes back as unhandled.
func (c *Call) list(ctx *sql.Context, list []statement, sc *scope) (flow, error) {
	for _, s := range list {
		if err := ctx.Err(); err != nil {
			return flow{}, unhandled{err}
		}
		var before []*sql.Warning // which an expression leaves as they are
		watched := simple(s) && sc.handlesWarnings()
		if watched {
			before = c.env.Warnings()
		}
		f, err := c.statement(ctx, s, sc)
		var u unhandled
		switch {
		case errors.As(err, &u):
			return flow{}, err
		case err != nil:
			f, err = c.failed(ctx, err, sc)
		case f.kind == next && watched:
			f, err = c.warned(ctx, before, sc)
		}
		if err != nil || f.kind != next {
			return f, err
		}
	}
	return flow{}, nil
}

// simple reports whether a statement has no statements inside, so that the warnings there are now are its own.
func simple(s statement) bool {
	switch s.(type) {
	case *query, *assignments, *fetchCursor, *signal:
		return true
	}
	return false
}

func (c *Call) statement(ctx *sql.Context, s statement, sc *scope) (flow, error) {
	switch s := s.(type) {
	case nil:
		return flow{}, nil
	case *block:
		return c.block(ctx, s, sc)
	case *branches:
		return c.branch(ctx, s, sc)
	case *choice:
		v, typ, err := c.eval(ctx, s.value, sc)
		if err != nil {
			return flow{}, err
		}
		value := &variable{name: caseVariable, typ: collated(ctx, typ), value: v}
		return c.branch(ctx, &s.cases, &scope{parent: sc, variables: map[string]*variable{caseVariable: value}})
	case *loop:
		return c.loop(ctx, s, sc)
	case *leave:
		if s.iterate {
			return flow{kind: iterates, label: s.label}, nil
		}
		return flow{kind: leaves, label: s.label}, nil
	case *giveBack:
		v, typ, err := c.eval(ctx, s.value, sc)
		if err == nil {
			err = c.returned.set(ctx, c.env, v, typ)
		}
		c.done = err == nil
		return flow{kind: returns}, err
	case *query:
		return flow{}, c.query(ctx, s, sc)
	case *assignments:
		return flow{}, c.assign(ctx, s, sc)
	case *openCursor:
		return flow{}, c.open(ctx, s.name, sc)
	case *closeCursor:
		return flow{}, c.close(s.name, sc)
	case *fetchCursor:
		return flow{}, c.fetch(ctx, s, sc)
	case *signal:
		return flow{}, c.signal(ctx, s, sc)
	case *diagnostics:
		return flow{}, c.diagnose(ctx, s, sc)
	}
	return flow{}, fault(1105, "unknown statement of a stored program: %T", s)
}

// collated is the type of a value with the collation it is compared with: the frontend gives what functions return one of its own.
func collated(ctx *sql.Context, typ sql.Type) sql.Type {
	text, ok := typ.(sql.TypeWithCollation)
	if !ok || text.Collation() != sql.Collation_Default {
		return typ
	}
	t, err := text.WithNewCollation(ctx.GetCollation())
	if err != nil {
		return typ
	}
	return t
}

func (c *Call) block(ctx *sql.Context, b *block, outer *scope) (flow, error) {
	sc := &scope{parent: outer, block: b, variables: map[string]*variable{}}
	for _, d := range b.variables {
		for _, name := range d.names {
			v := &variable{name: name, typ: d.typ}
			if d.value != nil {
				value, typ, err := c.eval(ctx, d.value, sc)
				if err == nil {
					err = v.set(ctx, c.env, value, typ)
				}
				if err != nil {
					return flow{}, err
				}
			}
			sc.variables[name] = v
		}
	}
	f, err := c.list(ctx, b.list, sc)
	for _, cur := range sc.cursors {
		c.drop(cur)
	}
	if err != nil {
		return f, err
	}
	if f.kind == exits && f.block == sc || f.kind == leaves && b.label != "" && f.label == b.label {
		return flow{}, nil
	}
	return f, nil
}

func (c *Call) branch(ctx *sql.Context, b *branches, sc *scope) (flow, error) {
	for i, condition := range b.conditions {
		holds, err := c.holds(ctx, condition, sc)
		if err != nil {
			return flow{}, err
		}
		if holds {
			return c.list(ctx, b.lists[i], sc)
		}
	}
	if b.must {
		return flow{}, mysql.NewSQLError(1339, "20000", "Case not found for CASE statement")
	}
	return c.list(ctx, b.otherwise, sc)
}

func (c *Call) loop(ctx *sql.Context, l *loop, sc *scope) (flow, error) {
	for {
		if err := ctx.Err(); err != nil {
			return flow{}, unhandled{err}
		}
		if l.while != nil {
			holds, err := c.holds(ctx, l.while, sc)
			if err != nil || !holds {
				return flow{}, err
			}
		}
		f, err := c.list(ctx, l.list, sc)
		if err != nil {
			return f, err
		}
		mine := l.label != "" && f.label == l.label
		switch {
		case f.kind == leaves && mine:
			return flow{}, nil
		case f.kind == iterates && mine:
			if l.until != nil {
				continue // as in MySQL the condition is not looked at
			}
		case f.kind != next:
			return f, nil
		}
		if l.until != nil {
			holds, err := c.holds(ctx, l.until, sc)
			if err != nil || holds {
				return flow{}, err
			}
		}
	}
}

// eval evaluates an expression.
func (c *Call) eval(ctx *sql.Context, e *scalar, sc *scope) (any, sql.Type, error) {
	if k := c.planned(ctx, e, sc); k != nil {
		v, err := k.value(ctx, c.env, sc)
		return v, k.typ, err
	}
	q := e.query
	if e.names {
		q = bound(q, sc)
	}
	v, typ, err := c.env.Eval(ctx, q, e.bare && c.env.Kept.evaluated(e))
	if err == nil {
		c.env.Kept.note(e)
	}
	return v, typ, err
}

func (c *Call) holds(ctx *sql.Context, e *scalar, sc *scope) (bool, error) {
	v, _, err := c.eval(ctx, e, sc)
	if err != nil || v == nil {
		return false, err
	}
	return sql.ConvertToBool(ctx, v)
}

// query runs an SQL statement.
func (c *Call) query(ctx *sql.Context, q *query, sc *scope) (err error) {
	if plan := c.repeated(ctx, q, sc); plan != nil {
		c.counts, err = c.env.Repeat(ctx, q.stmt, plan)
		return err
	}
	stmt := q.stmt
	switch {
	case q.call:
		stmt = boundCall(stmt.(*sqlparser.Call), sc)
	case q.names:
		stmt = boundQuery(stmt, sc)
	}
	if len(q.into) == 0 {
		c.counts, err = c.env.Send(ctx, stmt)
		return err
	}
	var found sql.Row
	var schema sql.Schema
	_, err = c.env.Run(ctx, stmt, func(s sql.Schema, row sql.Row) error {
		if len(row) != len(q.into) {
			return fault(1222, "The used SELECT statements have a different number of columns")
		}
		if found != nil {
			return fault(1172, "Result consisted of more than one row")
		}
		found, schema = row, s
		return nil
	})
	switch {
	case err != nil:
		return err
	case found == nil:
		c.counts = types.OkResult{}
		ctx.Warn(1329, "No data - zero rows fetched, selected, or processed")
		return nil
	}
	c.counts = types.OkResult{RowsAffected: 1}
	return c.store(ctx, q.into, found, schema, sc)
}

// store assigns the values of a row.
func (c *Call) store(ctx *sql.Context, to []target, row sql.Row, schema sql.Schema, sc *scope) error {
	for i, t := range to {
		v, err := sql.UnwrapAny(ctx, row[i])
		if err != nil {
			return err
		}
		if err := c.storeOne(ctx, t, v, schema[i].Type, sc); err != nil {
			return err
		}
	}
	return nil
}

func (c *Call) storeOne(ctx *sql.Context, t target, v any, typ sql.Type, sc *scope) error {
	if t.user {
		return c.env.SetUser(ctx, t.name, v, typ)
	}
	return sc.variable(t.name).set(ctx, c.env, v, typ)
}

func (c *Call) assign(ctx *sql.Context, a *assignments, sc *scope) error {
	for _, one := range a.list {
		if one.other != nil {
			if err := c.query(ctx, one.other, sc); err != nil {
				return err
			}
			continue
		}
		v, typ, err := c.eval(ctx, one.value, sc)
		if err == nil {
			err = c.storeOne(ctx, target{one.name, one.user}, v, typ, sc)
		}
		if one.user && err == nil {
			c.counts = types.OkResult{}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open runs the query of a cursor. Why all of it: what a cursor reads must not change while it is open.
func (c *Call) open(ctx *sql.Context, name string, sc *scope) error {
	owner := sc.cursorOf(name)
	if owner.cursors[name] != nil {
		return sql.ErrCursorAlreadyOpen.New(name)
	}
	q := owner.block.cursors[name]
	stmt := q.stmt
	if q.names {
		stmt = boundQuery(stmt, owner)
	}
	cur := &cursor{}
	hold := func(s sql.Schema, row sql.Row) error {
		size := c.env.Size(s, row)
		if err := c.env.Hold(size); err != nil {
			return err
		}
		cur.held += size
		return nil
	}
	err := hold(nil, nil)
	if err == nil {
		_, err = c.env.Run(ctx, stmt, func(s sql.Schema, row sql.Row) error {
			cur.schema, cur.rows = s, append(cur.rows, row)
			return hold(s, row)
		})
	}
	if err != nil {
		c.drop(cur)
		return err
	}
	if owner.cursors == nil {
		owner.cursors = map[string]*cursor{}
	}
	owner.cursors[name] = cur
	return nil
}

func (c *Call) close(name string, sc *scope) error {
	owner := sc.cursorOf(name)
	if owner.cursors[name] == nil {
		return sql.ErrCursorNotOpen.New(name)
	}
	c.drop(owner.cursors[name])
	delete(owner.cursors, name)
	return nil
}

// drop gives back what a cursor holds.
func (c *Call) drop(cur *cursor) { _ = c.env.Hold(-cur.held) } // which never fails

func (c *Call) fetch(ctx *sql.Context, f *fetchCursor, sc *scope) error {
	cur := sc.cursorOf(f.name).cursors[f.name]
	if cur == nil {
		return sql.ErrCursorNotOpen.New(f.name)
	}
	if len(cur.rows) == 0 {
		return mysql.NewSQLError(1329, "02000", "No data - zero rows fetched, selected, or processed")
	}
	row := cur.rows[0]
	if len(row) != len(f.into) {
		return sql.ErrFetchIncorrectCount.New()
	}
	cur.rows = cur.rows[1:]
	return c.store(ctx, f.into, row, cur.schema, sc)
}
