package program

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Env is what a program runs in: the session of its caller.
type Env struct {
	// Run runs one statement and calls row with each row it returns. An OK result is no row, but returned.
	Run func(ctx *sql.Context, stmt sqlparser.Statement, row func(sql.Schema, sql.Row) error) (types.OkResult, error)
	// Eval is Run of a SELECT of one value, which leaves the diagnostics alone unless it adds to them; known says that it has run before
	// and has no subquery.
	Eval func(ctx *sql.Context, stmt *sqlparser.Select, known bool) (any, sql.Type, error)
	// Plan plans such a statement and puts fields in the places of slots; nil if it has to be planned each time. Value evaluates what Plan
	// has made.
	Plan  func(ctx *sql.Context, stmt *sqlparser.Select) sql.Expression
	Value func(ctx *sql.Context, e sql.Expression, row sql.Row) (any, error)
	// Kept keeps what Plan has planned, as long as Settings, which can be compared, are the same; nil: nothing is kept.
	Kept     *Kept
	Settings func() any
	// Send runs one statement whose rows, if it returns any, are a result of the program.
	Send func(ctx *sql.Context, stmt sqlparser.Statement) (types.OkResult, error)
	// PlanRepeated plans a statement without a result that is to run more than once; nil if it cannot. Repeat runs stmt as that was planned.
	PlanRepeated func(ctx *sql.Context, stmt sqlparser.Statement) any
	Repeat       func(ctx *sql.Context, stmt sqlparser.Statement, plan any) (types.OkResult, error)
	// Convert makes a value one of a variable's type, or says why it is none.
	Convert func(ctx *sql.Context, name string, to sql.Type, value any, from sql.Type) (any, error)
	// SetUser assigns a user variable.
	SetUser func(ctx *sql.Context, name string, value any, typ sql.Type) error
	// Condition returns the number, state and text of an error.
	Condition func(error) *mysql.SQLError
	// Warnings are what the statement before has left, the last first.
	Warnings func() []*sql.Warning
	// Note makes an error that is handled the only warning there is; what it returns takes it away.
	Note func(number int, text string) (forget func())
	// State returns the state that belongs to an error number.
	State func(number int) string
	// Hold counts bytes that stay in memory, and fails if they are too many; a negative number gives them back. Size estimates a row,
	// or with none what an open cursor takes beside its rows.
	Hold func(bytes int) error
	Size func(sql.Schema, sql.Row) int
}

// fault makes an error of a program. Its state is left to who reports it.
func fault(number int, format string, args ...any) error {
	return mysql.NewSQLError(number, mysql.SSUnknownSQLState, format, args...)
}

// variable is a variable or parameter of a running program. Its value is one of its type.
type variable struct {
	name  string
	typ   sql.Type
	value any
	fixed bool // a column of a row that a trigger must not change
}

func (v *variable) set(ctx *sql.Context, env *Env, value any, from sql.Type) error {
	c, err := env.Convert(ctx, v.name, v.typ, value, from)
	if err != nil {
		return err
	}
	v.value = c
	return nil
}

// WithResolvedChildren implements sqlparser.Injectable: a variable as an argument of CALL becomes a Local.
func (i injected) WithResolvedChildren(context.Context, []any) (any, error) {
	return Local{expression.NewLiteral(i.value, i.typ), i.variable}, nil
}

// scope is a block that runs.
type scope struct {
	parent    *scope
	variables map[string]*variable
	block     *block             // nil: the parameters, or the value of a CASE
	cursors   map[string]*cursor // open ones
	handling  bool               // a handler's body: the handlers of the block around it are out of reach
}

// cursor is an open cursor.
type cursor struct {
	rows   []sql.Row
	held   int // bytes
	schema sql.Schema
}

func (s *scope) variable(name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.variables[name]; v != nil {
			return v
		}
	}
	return nil
}

// cursorOf returns the block that declares a cursor.
func (s *scope) cursorOf(name string) *scope {
	for ; s != nil; s = s.parent {
		if s.block != nil && s.block.cursors[name] != nil {
			return s
		}
	}
	return nil
}

// condition is something that happened: an error, or a warning.
type condition struct {
	number  int
	state   string
	text    string
	warning bool // the program goes on unless a handler says otherwise
	note    bool // a warning that is no SQLWARNING
	items   map[string]string
	err     error // of an error
}

func (c *condition) class() class {
	switch {
	case strings.HasPrefix(c.state, "01"):
		return sqlWarning
	case strings.HasPrefix(c.state, "02"):
		return notFound
	case c.warning && !c.note:
		return sqlWarning
	case c.warning:
		return noClass
	}
	return sqlException
}

// matches returns how well a handler's value fits: 0 not at all, greater is better.
func (v conditionValue) matches(c *condition) int {
	switch {
	case v.number != 0 && v.number == c.number:
		return 3
	case v.state != "" && v.state == c.state:
		return 2
	case v.class != noClass && v.class == c.class():
		return 1
	}
	return 0
}

// find returns the handler for a condition, and the block that declares it: the best one of the innermost block that has any.
func (s *scope) find(c *condition) (*handler, *scope) {
	for skip := false; s != nil; s = s.parent {
		if s.block != nil && !skip {
			best, found := 0, (*handler)(nil)
			for _, h := range s.block.handlers {
				for _, v := range h.conditions {
					if m := v.matches(c); m > best {
						best, found = m, h
					}
				}
			}
			if found != nil {
				return found, s
			}
		}
		skip = s.handling
	}
	return nil, nil
}

// handlesWarnings reports whether a handler may want to know about warnings.
func (s *scope) handlesWarnings() bool {
	for ; s != nil; s = s.parent {
		if s.block == nil {
			continue
		}
		for _, h := range s.block.handlers {
			for _, v := range h.conditions {
				if v.class != sqlException {
					return true
				}
			}
		}
	}
	return false
}

// unhandled is an error for which there is no handler, on its way out.
type unhandled struct{ error }

// Unwrap returns the error itself.
func (u unhandled) Unwrap() error { return u.error }
