package sqlbackend

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/engine/lock"
	"lancesql/sqlbackend/program"
)

// storedFunction is a stored function, ready to run. It is immutable.
type storedFunction struct {
	database string
	name     string
	mode     string
	body     *routineBody
}

// storedFunction returns a function of a database; nil if it has none of that name.
func (d *Database) storedFunction(ctx *sql.Context, name string) (*storedFunction, error) {
	t, err := d.texts(ctx)
	if err != nil {
		return nil, err
	}
	s := t.find(functionText, name)
	if s == nil {
		return nil, nil
	}
	if f, ok := t.functions.Load(foldName(name)); ok {
		return f.(*storedFunction), nil
	}
	r, err := d.provider.parser.parseRoutine(ctx, s.Text, sql.NewSqlModeFromString(s.SQLMode).ParserOptions())
	if err != nil || r == nil {
		return nil, newError(1457, "Failed to load routine %s.%s. The definition of it cannot be read.", d.name, s.Name)
	}
	f := &storedFunction{database: d.name, name: s.Name, mode: s.SQLMode, body: r.body}
	if !looksAround(s.Text) {
		t.functions.Store(foldName(name), f)
	}
	return f, nil
}

// stored returns the stored function of a name as one that a query may call. One of the server's own has precedence over it, unless
// the query names the database.
func (p *Provider) stored(ctx *sql.Context, database, name string) (sql.Function, bool) {
	if p.builtin == nil || ctx == nil || ctx.Session == nil {
		return nil, false
	}
	if database == "" {
		if p.builtin[foldName(name)] {
			return nil, false
		}
		database = ctx.GetCurrentDatabase()
	}
	db, err := p.Database(ctx, database)
	if err != nil {
		return nil, false
	}
	d, ok := db.(*Database)
	if !ok {
		return nil, false
	}
	f, err := d.storedFunction(ctx, name)
	if f == nil && err == nil {
		return nil, false
	}
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if err != nil {
			return nil, err
		}
		if err := p.mayExecute(ctx, f); err != nil {
			return nil, err
		}
		if len(args) != len(f.body.Params) {
			return nil, newError(1318, "Incorrect number of arguments for FUNCTION %s.%s; expected %d, got %d", f.database, f.name, len(f.body.Params), len(args))
		}
		return &storedCall{function: f, args: args, operators: p.operators}, nil
	}}, true
}

// mayExecute refuses a function to those without the privilege EXECUTE (1370). Inside routines it has been asked for the outermost.
func (p *Provider) mayExecute(ctx *sql.Context, f *storedFunction) error {
	c := connOf(ctx)
	if p.grants == nil || !p.grants.Enabled() || c == nil || c.running != nil {
		return nil
	}
	database := sql.NewPrivilegedOperation(sql.PrivilegeCheckSubject{Database: f.database}, sql.PrivilegeType_Execute)
	routine := sql.NewPrivilegedOperation(sql.PrivilegeCheckSubject{Database: f.database, Routine: f.name}, sql.PrivilegeType_Execute)
	if p.grants.UserHasPrivileges(ctx, database) || p.grants.RoutineAdminCheck(ctx, routine) {
		return nil
	}
	return newError(1370, "execute command denied to user '%s'@'%s' for routine '%s.%s'", c.Client().User, c.Client().Address, f.database, f.name)
}

// storedCall is a call of a stored function.
type storedCall struct {
	function  *storedFunction
	args      []sql.Expression
	operators *operators
	settled   bool // all that is asked is of what it depends on
}

var (
	_ sql.FunctionExpression         = (*storedCall)(nil)
	_ sql.NonDeterministicExpression = (*storedCall)(nil)
	_ sql.CollationCoercible         = (*storedCall)(nil)
)

// Eval implements sql.Expression. What the function writes belongs to the statement that calls it.
func (s *storedCall) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	c := connOf(ctx)
	values, from := make([]any, len(s.args)), make([]sql.Type, len(s.args))
	for i, a := range s.args {
		v, err := a.Eval(ctx, row)
		if err == nil {
			values[i], err = sql.UnwrapAny(ctx, v)
		}
		if err != nil {
			return nil, err
		}
		from[i] = a.Type(ctx)
	}
	if _, err := c.activeTxn(ctx); err != nil {
		return nil, err
	}
	if c.stmt.undo == nil && !c.stmt.current { // statements that change rows undo themselves
		m := c.mark()
		c.stmt.undo = &m
	}
	busy := c.busyTables(ctx)
	a, leave, err := c.enterRoutine(ctx, program.Function, s.function.database, s.function.name, s.function.mode)
	if err != nil {
		return nil, err
	}
	defer leave()
	a.busy = busy
	ctx = insideContext(ctx)
	v, err := s.run(ctx, c, a, values, from)
	if err != nil {
		c.undoFunctions()
	}
	return v, err
}

func (s *storedCall) run(ctx *sql.Context, c *Conn, a *activation, values []any, from []sql.Type) (any, error) {
	run, err := s.function.body.NewCall(ctx, s.operators.environment(c, a, s.function.body.Body), values, from)
	if err != nil {
		return nil, err
	}
	return run.Value(ctx, s.function.body.returns)
}

// undoFunctions takes back what functions wrote for the running statement, which has failed and does not undo itself.
func (c *Conn) undoFunctions() {
	if c.stmt.undo != nil {
		c.rollbackTo(*c.stmt.undo)
		c.stmt.undo = nil
	}
}

// busyTables are the tables that the running statement uses.
func (c *Conn) busyTables(ctx *sql.Context) []tableUse {
	var with []string // what names without a database stand for instead
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if e, ok := n.(*sqlparser.CommonTableExpr); ok && e.AliasedTableExpr != nil {
			with = append(with, e.As.String())
		}
		return true, nil
	}, c.stmt.marked)
	busy := make([]tableUse, 0, len(c.stmt.uses))
	for _, u := range c.stmt.uses {
		here := u.db == "" || strings.EqualFold(u.db, ctx.GetCurrentDatabase())
		if here && u.mode != lock.IX && slices.ContainsFunc(with, func(name string) bool { return strings.EqualFold(name, u.table) }) {
			continue
		}
		u.db = cmp.Or(u.db, ctx.GetCurrentDatabase())
		busy = append(busy, u)
	}
	return busy
}

// checkBusy refuses a change of a table, inside a function, that a statement around it uses (1442): what the statement sees of the table
// would depend on the order of rows.
func (a *activation) checkBusy(ctx *sql.Context, stmt sqlparser.Statement) error {
	switch stmt.(type) {
	case *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete:
	default:
		return nil
	}
	uses, _ := usesOf(stmt)
	for _, u := range uses {
		if u.mode != lock.IX {
			continue
		}
		db := cmp.Or(u.db, ctx.GetCurrentDatabase())
		for o := a; o != nil; o = o.outer {
			for _, b := range o.busy {
				if strings.EqualFold(b.table, u.table) && strings.EqualFold(b.db, db) {
					return sql.ErrTriggerTableInUse.New(u.table)
				}
			}
		}
	}
	return nil
}

// Children implements sql.Expression. The last one is no argument: the frontend evaluates what it thinks constant while it plans, but not
// what has a parameter in it.
func (s *storedCall) Children() []sql.Expression {
	if s.settled {
		return append(append([]sql.Expression{}, s.args...), expression.NewLiteral(nil, types.Null))
	}
	return append(append([]sql.Expression{}, s.args...), expression.NewProcedureParam("lancesql stored function", types.Null))
}

// groupsFunctions keeps a rule of the frontend about GROUP BY from taking that child for a column that is not grouped by.
func groupsFunctions(theirs analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector, flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		settled, same, err := transform.NodeExprsWithOpaque(ctx, n, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
			s, ok := e.(*storedCall)
			if !ok || s.settled {
				return e, transform.SameTree, nil
			}
			c := *s
			c.settled = true
			return &c, transform.NewTree, nil
		})
		if err != nil || same {
			return theirs(ctx, a, n, scope, sel, flags)
		}
		_, _, err = theirs(ctx, a, settled, scope, sel, flags)
		return n, transform.SameTree, err
	}
}

// WithChildren implements sql.Expression.
func (s *storedCall) WithChildren(_ *sql.Context, c ...sql.Expression) (sql.Expression, error) {
	if len(c) != len(s.args)+1 {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(c), len(s.args)+1)
	}
	return &storedCall{function: s.function, args: c[:len(s.args)], operators: s.operators, settled: s.settled}, nil
}

// Resolved implements sql.Expression.
func (s *storedCall) Resolved() bool {
	for _, a := range s.args {
		if !a.Resolved() {
			return false
		}
	}
	return true
}

// String implements sql.Expression.
func (s *storedCall) String() string {
	texts := make([]string, len(s.args))
	for i, a := range s.args {
		texts[i] = a.String()
	}
	// Why the database: the frontend takes aggregates of the same text for one.
	return s.function.database + "." + s.function.name + "(" + strings.Join(texts, ",") + ")"
}

// Type implements sql.Expression.
func (s *storedCall) Type(*sql.Context) sql.Type { return s.function.body.returns }

// IsNullable implements sql.Expression.
func (s *storedCall) IsNullable(*sql.Context) bool { return true }

// FunctionName implements sql.FunctionExpression.
func (s *storedCall) FunctionName() string { return s.function.name }

// Description implements sql.FunctionExpression.
func (s *storedCall) Description() string { return "a stored function" }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (s *storedCall) IsNonDeterministic() bool { return true }

// CollationCoercibility implements sql.CollationCoercible.
func (s *storedCall) CollationCoercibility(*sql.Context) (sql.CollationID, byte) {
	if t, ok := s.function.body.returns.(sql.StringType); ok {
		return t.Collation(), 4
	}
	return sql.Collation_binary, 5
}

// functionMissing is the error that there is no function of that name.
func functionMissing(db, name string) error {
	return mysql.NewSQLError(1305, "42000", "FUNCTION %s.%s does not exist", db, name)
}

// defineFunction saves a function.
func (r *routine) defineFunction(ctx *sql.Context, db *Database) error {
	if err := r.body.Check(); err != nil {
		return err
	}
	name := r.ddl.ProcedureSpec.ProcName.Name.String()
	now := ctx.QueryTime()
	s := storedText{Name: name, Text: r.text, SQLMode: sql.LoadSqlMode(ctx).String(), Created: now.UTC(), Modified: now.UTC()}
	taken := mysql.NewSQLError(1304, "42000", "FUNCTION %s already exists", name)
	err := db.saveText(ctx, functionText, s, "", taken, nil)
	if err == error(taken) && r.missing {
		ctx.Session.Warn(&sql.Warning{Level: "Note", Code: taken.Num, Message: taken.Message})
		return nil
	}
	return err
}

// dropFunction reads FUNCTION [IF EXISTS] name behind DROP.
func (s *tokens) dropFunction() sqlparser.Statement {
	if !s.takeWord("function") {
		return nil
	}
	exists := s.takeWord("if")
	if exists && !s.takeWord("exists") {
		return nil
	}
	name, ok := s.table()
	if !ok {
		return nil
	}
	n := &serverStatement{name: "drop function", ddl: true}
	n.run = func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		db, err := c.routineDatabase(ctx, name.DbQualifier.String())
		if err != nil {
			return nil, err
		}
		missing := functionMissing(db.name, name.Name.String())
		if err = db.dropText(ctx, functionText, name.Name.String(), missing); err == missing && exists {
			ctx.Session.Warn(&sql.Warning{Level: "Note", Code: 1305, Message: mapToSQLError(missing).Message})
			err = nil
		}
		return nil, err
	}
	return n.inject(sqlparser.AuthInformation{AuthType: sqlparser.AuthType_ALTER_ROUTINE, TargetType: sqlparser.AuthTargetType_DatabaseIdentifiers,
		TargetNames: []string{name.DbQualifier.String()}})
}

// showCreateFunction reads FUNCTION name behind SHOW CREATE.
func (s *tokens) showCreateFunction() sqlparser.Statement {
	name, ok := s.table()
	if !ok {
		return nil
	}
	n := &serverStatement{name: "show create function", schema: sql.Schema{textColumn("Function", 64), textColumn("sql_mode", 1024),
		{Name: "Create Function", Type: types.LongText, Nullable: true}, textColumn("character_set_client", 64), textColumn("collation_connection", 64),
		textColumn("Database Collation", 64)}}
	n.run = func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		db, err := c.routineDatabase(ctx, name.DbQualifier.String())
		if err != nil {
			return nil, err
		}
		t, err := db.texts(ctx)
		if err != nil {
			return nil, err
		}
		f := t.find(functionText, name.Name.String())
		if f == nil {
			return nil, newError(1305, "FUNCTION %s does not exist", name.Name.String())
		}
		return []sql.Row{sql.NewRow(f.Name, f.SQLMode, f.Text, charsetName, sessionText(c, "collation_connection"), db.GetCollation(ctx).Name())}, nil
	}
	return n.inject(sqlparser.AuthInformation{AuthType: sqlparser.AuthType_SHOW_CREATE_PROCEDURE, TargetType: sqlparser.AuthTargetType_Ignore,
		TargetNames: []string{name.DbQualifier.String()}})
}

func sessionText(c *Conn, name string) string {
	v, err := c.GetSessionVariable(nil, name)
	if text, ok := v.(string); ok && err == nil {
		return text
	}
	return ""
}
