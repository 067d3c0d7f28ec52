package program

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// The statements of a body that are SQL, or have parts of it.

// expression reads a text that is one expression.
func (p *parser) expression(text string) *scalar {
	if p.err != nil {
		return nil
	}
	stmt, err := p.source.Parse("SELECT " + text)
	if err != nil {
		p.failWith(err)
		return nil
	}
	s, ok := stmt.(*sqlparser.Select)
	if ok = ok && len(s.SelectExprs) == 1 && s.Into == nil && s.Where == nil && s.Limit == nil && s.Having == nil &&
		len(s.OrderBy)+len(s.GroupBy) == 0 && onlyDual(s.From); ok {
		a, one := s.SelectExprs[0].(*sqlparser.AliasedExpr)
		ok = one && a.As.IsEmpty()
	}
	if !ok {
		p.failWith(fmt.Errorf("syntax error near '%s'", text))
		return nil
	}
	return p.scalar(s)
}

// scalar takes a SELECT of one value that was read.
func (p *parser) scalar(s *sqlparser.Select) *scalar {
	a, ok := s.SelectExprs[0].(*sqlparser.AliasedExpr)
	return &scalar{query: s, names: p.hasNames(s), computes: ok && p.computes(a.Expr), bare: !hasSubquery(s)}
}

func hasSubquery(n sqlparser.SQLNode) bool {
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		_, sub := n.(*sqlparser.Subquery)
		found = found || sub
		return !found, nil
	}, n)
	return found
}

// onlyDual reports whether a query has no table.
func onlyDual(from sqlparser.TableExprs) bool {
	for _, t := range from {
		a, ok := t.(*sqlparser.AliasedTableExpr)
		if !ok {
			return false
		}
		if n, ok := a.Expr.(sqlparser.TableName); !ok || !strings.EqualFold(n.Name.String(), "dual") {
			return false
		}
	}
	return true
}

// hasNames reports whether a statement has a name that is one of a variable.
func (p *parser) hasNames(n any) bool {
	found := false
	visitNames(n, func(name string) {
		_, ok := p.variable(name)
		found = found || ok
	})
	return found
}

// query reads an SQL statement up to its semicolon.
func (p *parser) query(cursor bool) *query {
	text := p.until(toTheEnd)
	if p.err != nil {
		return &query{}
	}
	stmt, err := p.source.Parse(text)
	if err != nil {
		p.failWith(err)
		return &query{}
	}
	return p.sqlStatement(stmt, cursor)
}

// sqlStatement takes a statement that was read; cursor says that a cursor reads its rows.
func (p *parser) sqlStatement(stmt sqlparser.Statement, cursor bool) *query {
	p.allowed(stmt, cursor)
	q := &query{stmt: stmt}
	if s, ok := stmt.(sqlparser.SelectStatement); ok {
		if into := s.GetInto(); into != nil && len(into.Variables) > 0 {
			for _, v := range into.Variables {
				q.into = append(q.into, p.target(v.String()))
			}
			if q.stmt, ok = withoutInto(s); !ok {
				p.failWith(fmt.Errorf("syntax error near 'INTO'"))
			}
		}
	}
	_, q.call = q.stmt.(*sqlparser.Call)
	if substitutes(q.stmt) {
		p.checkLimits(q.stmt)
		q.names = p.hasNames(q.stmt)
	}
	q.repeats = p.kind == Trigger && p.repeats(q.stmt)
	return q
}

// withoutInto returns a query without its INTO.
func withoutInto(s sqlparser.SelectStatement) (sqlparser.Statement, bool) {
	switch s := s.(type) {
	case *sqlparser.Select:
		c := *s
		c.Into = nil
		return &c, true
	case *sqlparser.SetOp:
		c := *s
		c.Into = nil
		if c.GetInto() != nil {
			right, ok := c.Right.(*sqlparser.Select)
			if !ok {
				return nil, false
			}
			without := *right
			without.Into = nil
			c.Right = &without
		}
		return &c, c.GetInto() == nil
	}
	return nil, false
}

// target checks a variable that receives a value.
func (p *parser) target(name string) target {
	if user, ok := strings.CutPrefix(name, "@"); ok {
		return target{name: strings.ToLower(user), user: true}
	}
	if _, ok := p.variable(name); !ok {
		p.wrong(fault(1327, "Undeclared variable: %s", name))
	}
	return target{name: strings.ToLower(name)}
}

// checkLimits refuses LIMIT by a variable that is no whole number.
func (p *parser) checkLimits(stmt sqlparser.SQLNode) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		l, ok := n.(*sqlparser.Limit)
		if !ok || l == nil {
			return true, nil
		}
		for _, e := range []sqlparser.Expr{l.Offset, l.Rowcount} {
			c, ok := e.(*sqlparser.ColName)
			if !ok {
				continue
			}
			if t, ok := p.variable(nameOf(c)); ok && t != nil && !types.IsInteger(t) {
				p.wrong(fault(1691, "A variable of a non-integer based type in LIMIT clause"))
			}
		}
		return true, nil
	}, stmt)
}

// allowed refuses statements that must not be in a body.
func (p *parser) allowed(stmt sqlparser.Statement, cursor bool) {
	switch s := stmt.(type) {
	case *sqlparser.Use:
		p.wrong(fault(1314, "USE is not allowed in stored procedures"))
	case *sqlparser.LockTables:
		p.wrong(fault(1314, "LOCK is not allowed in stored procedures"))
	case *sqlparser.UnlockTables:
		p.wrong(fault(1314, "UNLOCK is not allowed in stored procedures"))
	case *sqlparser.Load:
		p.wrong(fault(1314, "LOAD DATA is not allowed in stored procedures"))
	case *sqlparser.DDL:
		p.allowedDDL(s)
	}
	if p.kind == Procedure {
		return
	}
	if err := Commits(stmt); err != nil {
		p.wrong(err)
	}
	switch s := stmt.(type) {
	case *sqlparser.Prepare, *sqlparser.Execute, *sqlparser.Deallocate:
		p.wrong(fault(1336, "Dynamic SQL is not allowed in stored function or trigger"))
	case *sqlparser.Show, *sqlparser.Explain:
		p.wrong(resultFault(p.kind))
	case sqlparser.SelectStatement:
		if s.GetInto() == nil && !cursor {
			p.wrong(resultFault(p.kind))
		}
	}
}

// Commits returns the error of a statement that would commit the transaction of the statement a function or trigger belongs to; nil if
// it does not. Procedures that functions call are asked when they run.
func Commits(stmt sqlparser.Statement) error {
	switch s := stmt.(type) {
	case *sqlparser.Begin, *sqlparser.Commit, *sqlparser.Rollback, *sqlparser.AlterTable, *sqlparser.DBDDL:
		return CommitFault()
	case *sqlparser.DDL:
		if !s.Temporary {
			return CommitFault()
		}
	case *sqlparser.Set:
		for _, e := range s.Exprs {
			if name := strings.ToLower(e.Name.Name.String()); e.Scope != sqlparser.SetScope_User && name == "autocommit" {
				return fault(1445, "Not allowed to set autocommit from a stored function or trigger")
			}
		}
	}
	return nil
}

// CommitFault is the error of a commit inside a function or trigger.
func CommitFault() error {
	return fault(1422, "Explicit or implicit commit is not allowed in stored function or trigger.")
}

func resultFault(kind Kind) error {
	return fault(1415, "Not allowed to return a result set from a %s", strings.ToLower(string(kind)))
}

func (p *parser) allowedDDL(s *sqlparser.DDL) {
	if s.ProcedureSpec != nil && strings.EqualFold(s.Action, sqlparser.DropStr) {
		p.wrong(fault(1357, "Can't drop or alter a PROCEDURE from within another stored routine"))
	}
}

// refuseDefinition ends reading at CREATE of a stored program, whose body would be read as part of this one.
func (p *parser) refuseDefinition() {
	for n := 1; n < 16; n++ {
		switch t := p.peek(n); {
		case t.Is("procedure", "function", "trigger", "event"):
			p.wrong(fault(1303, "Can't create a %s from within another stored routine", strings.ToUpper(t.Text)))
			p.failWith(errStopped)
			return
		case n == 1 && !t.Is("definer", "aggregate") || t.Kind == 0 || t.Kind == ';':
			return
		}
	}
}

// set reads SET. Each assignment to a local variable is one of the program, the others are statements of their own.
func (p *parser) set() statement {
	text := p.until(toTheEnd)
	stmt, err := p.source.Parse(text)
	if err != nil {
		p.failWith(err)
		return nil
	}
	s, ok := stmt.(*sqlparser.Set)
	if !ok {
		return p.sqlStatement(stmt, false) // SET PASSWORD and others
	}
	var a assignments
	local := false
	for _, e := range s.Exprs {
		name := nameOf(e.Name)
		_, ok := p.variable(name)
		if ok && e.Scope == sqlparser.SetScope_None {
			local = true
			p.assigned(name)
			q := &sqlparser.Select{SelectExprs: sqlparser.SelectExprs{&sqlparser.AliasedExpr{Expr: e.Expr}}}
			a.list = append(a.list, assignment{name: name, value: p.scalar(q)})
			continue
		}
		if e.Scope == sqlparser.SetScope_User && len(s.Exprs) == 1 {
			q := &sqlparser.Select{SelectExprs: sqlparser.SelectExprs{&sqlparser.AliasedExpr{Expr: e.Expr}}}
			a.list = append(a.list, assignment{name: strings.TrimPrefix(name, "@"), user: true, value: p.scalar(q)})
			return &a
		}
		one := &sqlparser.Set{Comments: s.Comments, Exprs: sqlparser.SetVarExprs{e}}
		a.list = append(a.list, assignment{other: &query{stmt: one, names: p.hasNames(one)}})
	}
	if !local {
		return &query{stmt: s, names: p.hasNames(s)}
	}
	return &a
}

func (p *parser) fetch() statement {
	if p.take("next") {
		p.want("from")
	} else {
		p.take("from")
	}
	f := &fetchCursor{name: p.cursor(p.name())}
	p.want("into")
	f.into = p.targets()
	return f
}

// targets reads a list of variables.
func (p *parser) targets() []target {
	var out []target
	for {
		t := p.now()
		if !t.isName() {
			p.fail()
		}
		p.at++
		out = append(out, p.target(t.Text))
		if !p.takeKind(',') {
			return out
		}
	}
}

// signalItems are the items of SIGNAL.
var signalItems = []string{"CLASS_ORIGIN", "SUBCLASS_ORIGIN", "CONSTRAINT_CATALOG", "CONSTRAINT_SCHEMA", "CONSTRAINT_NAME", "CATALOG_NAME",
	"SCHEMA_NAME", "TABLE_NAME", "COLUMN_NAME", "CURSOR_NAME", "MESSAGE_TEXT", "MYSQL_ERRNO"}

func (p *parser) signal(again bool) statement {
	s := &signal{again: again}
	switch {
	case p.now().Is("sqlstate"):
		s.state = p.state()
	case again && (p.ended() || p.now().Is("set")):
	default:
		name := p.name()
		c, ok := p.condition(name)
		switch {
		case !ok:
			p.wrong(sql.ErrDeclareConditionNotFound.New(name))
		case c.state == "":
			p.wrong(sql.ErrSignalOnlySqlState.New())
		}
		s.state = c.state
	}
	if !p.take("set") {
		return s
	}
	for {
		item := signalItem{name: p.itemName(signalItems)}
		for _, other := range s.items {
			if other.name == item.name {
				p.wrong(fault(1641, "Duplicate condition information item '%s'", item.name))
			}
		}
		item.value = p.expression(p.until(atComma))
		s.items = append(s.items, item)
		if !p.takeKind(',') {
			return s
		}
	}
}

// itemName reads one of these names and the = behind it.
func (p *parser) itemName(known []string) string {
	for _, k := range known {
		if p.take(k) {
			p.wantKind('=')
			return k
		}
	}
	p.fail()
	return ""
}

func (p *parser) diagnostics() statement {
	p.want("get")
	d := &diagnostics{stacked: p.take("stacked")}
	if !d.stacked {
		p.take("current")
	}
	p.want("diagnostics")
	if p.take("condition") {
		d.number = p.expression(p.until(func(t Token) bool { return p.peek(1).Kind == '=' }))
	}
	for {
		t := p.now()
		if !t.isName() {
			p.fail()
		}
		p.at++
		item := diagnosticItem{to: p.target(t.Text)}
		p.wantKind('=')
		item.name = strings.ToUpper(p.name())
		known := append([]string{"RETURNED_SQLSTATE"}, signalItems...)
		if d.number == nil {
			known = []string{"NUMBER", "ROW_COUNT"}
		}
		ok := false
		for _, k := range known {
			ok = ok || k == item.name
		}
		if !ok {
			p.at--
			p.fail()
		}
		d.items = append(d.items, item)
		if !p.takeKind(',') {
			return d
		}
	}
}
