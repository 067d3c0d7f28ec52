package program

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Body is a parsed stored program.
type Body struct {
	Name   string
	Params []Param
	root   statement
	kind   Kind
	fields []Field // of a trigger
	fault  error   // what a check of the whole body found
}

// Kind is what a body belongs to.
type Kind string

// Kinds of stored programs.
const (
	Procedure Kind = "PROCEDURE"
	Function  Kind = "FUNCTION"
	Trigger   Kind = "TRIGGER"
)

// Param is a parameter of a routine.
type Param struct {
	Name string
	Type sql.Type
}

// Check returns what is wrong with a body that can be read: labels, conditions, cursors and variables that are not there, and
// statements that must not be in one of its kind. It is nil if the body may be stored.
func (b *Body) Check() error { return b.fault }

// statement is one statement of a body; a nil one does nothing.
type statement any

// scalar is a SELECT of one value.
type scalar struct {
	query    *sqlparser.Select
	names    bool // it has names that may be variables
	computes bool // it may be planned once
	bare     bool // it has no subqueries
}

// block is BEGIN … END.
type block struct {
	label      string
	variables  []declaration
	conditions map[string]conditionValue
	cursors    map[string]*query
	handlers   []*handler
	list       []statement
}

// declaration is DECLARE a, b type DEFAULT value.
type declaration struct {
	names []string // lower case
	typ   sql.Type
	value *scalar // nil: NULL
}

// conditionValue is a condition by error number, by state, or by class.
type conditionValue struct {
	number int
	state  string
	class  class
}

// class is a class of conditions.
type class int

const (
	noClass class = iota
	sqlWarning
	notFound
	sqlException
)

// handler is DECLARE … HANDLER.
type handler struct {
	exit       bool
	conditions []conditionValue
	body       statement
}

// branches is IF, and CASE with a condition in each WHEN.
type branches struct {
	conditions []*scalar
	lists      [][]statement
	otherwise  []statement
	must       bool // CASE without ELSE: 1339 if no condition holds
}

// choice is CASE value: the WHEN expressions are compared with the value, which is the variable of an invisible block.
type choice struct {
	value *scalar
	cases branches
}

// loop is LOOP, WHILE or REPEAT.
type loop struct {
	label string
	while *scalar // before each turn; nil: none
	until *scalar // after each turn; nil: none
	list  []statement
}

// leave is LEAVE, or ITERATE.
type leave struct {
	label   string
	iterate bool
}

// giveBack is RETURN.
type giveBack struct{ value *scalar }

// query is any SQL statement.
type query struct {
	stmt  sqlparser.Statement
	names bool
	call  bool // CALL: variables stand for themselves
	into  []target

	repeats bool // a trigger may plan it once
}

// target is a variable that receives a value: of the program or, with @, of the session.
type target struct {
	name string // lower case, of a user variable without @
	user bool
}

// assignments is SET of local variables and others, in order.
type assignments struct{ list []assignment }

// assignment is one of them: a variable and its value, or a SET statement of its own.
type assignment struct {
	name  string // lower case, of a user variable without @; empty: neither
	user  bool
	value *scalar
	other *query
}

type openCursor struct{ name string }

type closeCursor struct{ name string }

type fetchCursor struct {
	name string
	into []target
}

// signal is SIGNAL or RESIGNAL.
type signal struct {
	again bool
	state string // empty: none given
	items []signalItem
}

type signalItem struct {
	name  string // upper case
	value *scalar
}

// diagnostics is GET DIAGNOSTICS.
type diagnostics struct {
	stacked bool
	number  *scalar // of the condition; nil: about the statement
	items   []diagnosticItem
}

type diagnosticItem struct {
	to   target
	name string // upper case
}
