package sqlbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"lancesql/sqlbackend/program"
)

// CREATE PROCEDURE, CREATE FUNCTION and CREATE TRIGGER are read here: the frontend's grammar lacks functions and much of what a body may
// hold.

// routineBody is the body of a routine, as a statement in the syntax tree of its definition. It is never planned.
type routineBody struct {
	*program.Body
	returns sql.Type // of a function
	trigger bool
}

// WithResolvedChildren implements sqlparser.Injectable. The frontend plans bodies of triggers, and only these.
func (b *routineBody) WithResolvedChildren(context.Context, []any) (any, error) {
	if b.trigger {
		return plannedBody{}, nil
	}
	return nil, errors.New("the body of a routine is no statement of its own")
}

// routine is a definition that was read.
type routine struct {
	kind       program.Kind
	ddl        *sqlparser.DDL // its head, as the frontend knows it; the parameters have their types
	body       *routineBody
	missing    bool // IF NOT EXISTS
	text       string
	returnType string // as written
	end        int    // offset behind the definition
	rest       int    // offset behind its semicolon
}

// definesRoutine reports whether a text defines a procedure, a function or a trigger, at a glance.
func definesRoutine(query string) bool {
	word := firstWord(query)
	if word == "" && !strings.HasPrefix(strings.TrimSpace(query), "/*!") || word != "" && !strings.EqualFold(word, "create") {
		return false
	}
	return containsFold(query, "procedure") || containsFold(query, "function") || containsFold(query, "trigger")
}

// withoutMarks puts blanks in place of what makes comments executable, so that offsets stay.
func withoutMarks(query string, options sqlparser.ParserOptions) string {
	if !strings.Contains(query, "/*!") {
		return query
	}
	b := []byte(query)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			b[i] = ' '
		}
	}
	open := false
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '\'' || c == '"' || c == '`':
			for i++; i < len(b) && b[i] != c; i++ {
				if b[i] == '\\' && c != '`' && (c != '"' || !options.AnsiQuotes) {
					i++
				}
			}
			i++
		case c == '#' || strings.HasPrefix(query[i:], "-- "):
			for i < len(b) && b[i] != '\n' {
				i++
			}
		case strings.HasPrefix(query[i:], "/*!"):
			end := i + 3
			for end < len(b) && '0' <= b[end] && b[end] <= '9' {
				end++
			}
			blank(i, end)
			i, open = end, true
		case strings.HasPrefix(query[i:], "/*"):
			end := strings.Index(query[i+2:], "*/")
			if end < 0 {
				return query
			}
			i += end + 4
		case open && strings.HasPrefix(query[i:], "*/"):
			blank(i, i+2)
			i, open = i+2, false
		default:
			i++
		}
	}
	return string(b)
}

// routineReader reads a definition.
type routineReader struct {
	parser  *parser
	ctx     context.Context
	options sqlparser.ParserOptions
	text    string
	list    []program.Token
	at      int
}

// parseRoutine reads a definition of a routine at the start of a text; nil if there is none.
func (p *parser) parseRoutine(ctx context.Context, query string, options sqlparser.ParserOptions) (*routine, error) {
	if !definesRoutine(query) {
		return nil, nil
	}
	key := readerKey(ctx, query, options)
	if r := p.routines.find(key); r != nil {
		return r, nil
	}
	r, err := p.readRoutine(ctx, query, options)
	if r != nil && err == nil {
		p.routines.keep(key, r)
	}
	return r, err
}

func (p *parser) readRoutine(ctx context.Context, query string, options sqlparser.ParserOptions) (*routine, error) {
	text := withoutMarks(query, options)
	tokens, ok := allTokens(text, options)
	if !ok {
		return nil, nil
	}
	r := &routineReader{parser: p, ctx: ctx, options: options, text: text, list: programTokens(text, tokens)}
	kind := r.kind()
	switch kind {
	case "":
		return nil, nil
	case program.Trigger:
		return r.trigger(query)
	}
	return r.definition(kind, query)
}

// programTokens are tokens with exact ends: the tokenizer looks ahead behind some words.
func programTokens(text string, tokens []token) []program.Token {
	list := make([]program.Token, 0, len(tokens))
	end := 0
	for _, t := range tokens {
		from, to := min(end, t.to), t.to
		start := from + blankLength(text[from:])
		if word := len(t.text); t.kind != sqlparser.STRING && word > 0 && start+word <= len(text) && strings.EqualFold(text[start:start+word], t.text) {
			to = start + word
		}
		quoted := t.kind == sqlparser.ID && to > 0 && (text[to-1] == '`' || text[to-1] == '"')
		list = append(list, program.Token{Kind: t.kind, Text: t.text, From: from, To: to, Quoted: quoted})
		end = to
	}
	return list
}

// blankLength is the length of the blanks and comments at the start of a text.
func blankLength(text string) int {
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.ContainsRune(" \t\r\n\f\v", rune(rest[0])):
			i++
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return len(text)
			}
			i += end + 4
		case rest[0] == '#', strings.HasPrefix(rest, "-- "), strings.HasPrefix(rest, "--\n"), strings.HasPrefix(rest, "--\t"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return len(text)
			}
			i += end
		default:
			return i
		}
	}
	return len(text)
}

func (r *routineReader) peek(n int) program.Token { return r.list[min(r.at+n, len(r.list)-1)] }

func (r *routineReader) take(words ...string) bool {
	for i, w := range words {
		if !r.peek(i).Is(w) {
			return false
		}
	}
	r.at += len(words)
	return true
}

func (r *routineReader) takeKind(kind int) bool {
	if r.peek(0).Kind != kind {
		return false
	}
	r.at++
	return true
}

func (r *routineReader) fail() error {
	t := r.peek(0)
	near := t.Text
	if t.Kind > 0 && t.Kind < 128 {
		near = string(rune(t.Kind))
	}
	return fmt.Errorf("syntax error at position %d near '%s'", t.To+1, near)
}

func (r *routineReader) slice(from, to int) string {
	if from >= to {
		return ""
	}
	return strings.TrimSpace(r.text[r.list[from].From:r.list[to-1].To])
}

// kind reads CREATE [DEFINER = account] up to the word PROCEDURE, FUNCTION or TRIGGER, and returns that; empty if it defines something
// else.
func (r *routineReader) kind() program.Kind {
	if !r.take("create") {
		return ""
	}
	if r.peek(0).Is("definer") {
		for n := 0; !r.peek(0).Is("procedure", "function", "aggregate", "trigger"); n++ {
			if n > 8 || r.peek(0).Kind == 0 || r.peek(0).Is("view", "event") {
				return ""
			}
			r.at++
		}
	}
	switch {
	case r.take("procedure"):
		return program.Procedure
	case r.take("function"):
		return program.Function
	case r.take("trigger"):
		return program.Trigger
	}
	return ""
}

func (r *routineReader) definition(kind program.Kind, original string) (*routine, error) {
	out := &routine{kind: kind}
	prefix := r.slice(0, r.at-1)
	if out.missing = r.take("if", "not", "exists"); !out.missing && r.peek(0).Is("if") {
		return nil, r.fail()
	}
	nameAt := r.at
	for r.peek(0).Kind != '(' {
		if r.peek(0).Kind == 0 || r.peek(0).Kind == ';' {
			return nil, r.fail()
		}
		r.at++
	}
	name := r.slice(nameAt, r.at)
	r.at++
	params, specs, err := r.params(kind)
	if err != nil {
		return nil, err
	}
	body := &routineBody{}
	if kind == program.Function {
		if !r.take("returns") {
			return nil, r.fail()
		}
		from := r.at
		r.typeEnd()
		out.returnType = r.slice(from, r.at)
		if _, body.returns, err = r.typ(out.returnType); err != nil {
			return nil, err
		}
	}
	from := r.at
	r.characteristics()
	head := prefix + " PROCEDURE " + name + "() " + r.slice(from, r.at) + " BEGIN END"
	stmt, err := r.parser.inner.ParseSimple(head)
	if err != nil {
		return nil, err
	}
	ddl, ok := stmt.(*sqlparser.DDL)
	if !ok || ddl.ProcedureSpec == nil {
		return nil, r.fail()
	}
	bodyAt := r.at
	parsed, next, err := program.Parse(r.source(), bodyAt, kind, ddl.ProcedureSpec.ProcName.Name.String(), params)
	if err != nil {
		return nil, err
	}
	body.Body = parsed
	ddl.ProcedureSpec.Params = specs
	ddl.ProcedureSpec.Body = sqlparser.InjectedStatement{Statement: body}
	out.end, out.rest = r.list[next-1].To, r.list[next].To
	ddl.SubStatementPositionStart, ddl.SubStatementPositionEnd = r.list[bodyAt-1].To, out.end
	out.ddl, out.body, out.text = ddl, body, original[:out.end]
	if out.missing { // shown without
		out.text = original[:r.list[nameAt-4].To] + original[r.list[nameAt-1].To:out.end]
	}
	return out, nil
}

// source is what a body is read from.
func (r *routineReader) source() program.Source {
	return program.Source{Text: r.text, Tokens: r.list, Parse: r.statement, Type: func(text string) (sql.Type, error) {
		_, t, err := r.typ(text)
		return t, err
	}}
}

// params reads the parameters up to the parenthesis that closes them.
func (r *routineReader) params(kind program.Kind) ([]program.Param, []sqlparser.ProcedureParam, error) {
	var params []program.Param
	var specs []sqlparser.ProcedureParam
	if r.takeKind(')') {
		return nil, nil, nil
	}
	for {
		direction := sqlparser.ProcedureParamDirection_In
		if kind == program.Procedure && r.peek(1).Kind != ',' && r.peek(1).Kind != ')' {
			switch {
			case r.take("in"):
			case r.take("out"):
				direction = sqlparser.ProcedureParamDirection_Out
			case r.take("inout"):
				direction = sqlparser.ProcedureParamDirection_Inout
			}
		}
		name := r.peek(0)
		if name.Text == "" || name.Kind == sqlparser.STRING || name.Kind == sqlparser.INTEGRAL {
			return nil, nil, r.fail()
		}
		r.at++
		from := r.at
		for depth := 0; depth > 0 || r.peek(0).Kind != ',' && r.peek(0).Kind != ')'; r.at++ {
			switch r.peek(0).Kind {
			case '(':
				depth++
			case ')':
				depth--
			case 0, ';':
				return nil, nil, r.fail()
			}
		}
		ct, t, err := r.typ(r.slice(from, r.at))
		if err != nil {
			return nil, nil, err
		}
		params = append(params, program.Param{Name: name.Text, Type: t})
		specs = append(specs, sqlparser.ProcedureParam{Direction: direction, Name: name.Text, Type: ct})
		if r.takeKind(')') {
			return params, specs, nil
		}
		r.at++ // the comma
	}
}

// typeEnd moves behind the type of RETURNS.
func (r *routineReader) typeEnd() {
	r.at++
	for {
		switch {
		case r.takeKind('('):
			for depth := 1; depth > 0 && r.peek(0).Kind != 0; r.at++ {
				switch r.peek(0).Kind {
				case '(':
					depth++
				case ')':
					depth--
				}
			}
		case r.take("unsigned"), r.take("signed"), r.take("zerofill"), r.take("precision"), r.take("varying"), r.take("binary"), r.take("ascii"), r.take("unicode"):
		case r.peek(0).Is("charset", "collate"):
			r.at += 2
		case r.peek(0).Is("character", "char") && r.peek(1).Is("set"):
			r.at += 3
		default:
			return
		}
	}
}

// characteristics moves behind the characteristics of a routine.
func (r *routineReader) characteristics() {
	for {
		switch {
		case r.take("comment"):
			r.at++
		case r.take("language", "sql"), r.take("deterministic"), r.take("not", "deterministic"), r.take("contains", "sql"), r.take("no", "sql"),
			r.take("reads", "sql", "data"), r.take("modifies", "sql", "data"), r.take("sql", "security", "definer"), r.take("sql", "security", "invoker"):
		default:
			return
		}
	}
}

// typ reads a type as it stands in DECLARE.
func (r *routineReader) typ(text string) (sqlparser.ColumnType, sql.Type, error) {
	var none sqlparser.ColumnType
	stmt, err := r.parser.inner.ParseSimple("CREATE PROCEDURE t() BEGIN DECLARE v " + text + "; END")
	if err != nil {
		return none, nil, fmt.Errorf("syntax error near '%s'", text)
	}
	ddl, ok := stmt.(*sqlparser.DDL)
	if !ok || ddl.ProcedureSpec == nil {
		return none, nil, fmt.Errorf("syntax error near '%s'", text)
	}
	b, ok := ddl.ProcedureSpec.Body.(*sqlparser.BeginEndBlock)
	if !ok || len(b.Statements) != 1 {
		return none, nil, fmt.Errorf("syntax error near '%s'", text)
	}
	d, ok := b.Statements[0].(*sqlparser.Declare)
	if !ok || d.Variables == nil || len(d.Variables.Names) != 1 || d.Variables.VarType.Default != nil {
		return none, nil, fmt.Errorf("syntax error near '%s'", text)
	}
	ct := d.Variables.VarType
	resolveType(&ct)
	t, err := types.ColumnTypeToType(&ct)
	if err != nil {
		return none, nil, err
	}
	if s, ok := t.(sql.StringType); ok && ct.Charset == "" && ct.Collate == "" && s.Collation() != sql.Collation_binary {
		if sctx, ok := r.ctx.(*sql.Context); ok && sctx.Session != nil {
			if t, err = types.CreateString(s.Type(), s.Length(), serverCollation(sctx)); err != nil {
				return none, nil, err
			}
		}
	}
	ct.ResolvedType = t
	return ct, t, nil
}

// statement reads an SQL statement of a body. The session is not told: it is none of the client's.
func (r *routineReader) statement(text string) (sqlparser.Statement, error) {
	if inner, err := r.parser.parseRoutine(r.ctx, text, r.options); inner != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return inner.ddl, nil
	}
	if stmt, end, ok := r.parser.parseAdmin(text, r.options); ok && end >= len(text) {
		return stmt, nil
	}
	rewritten := rewriteClauses(text, r.options)
	stmt, _, rest, err := r.parser.inner.ParseWithOptions(r.ctx, rewritten, ';', false, r.options)
	if err != nil {
		return nil, err
	}
	if rest != "" {
		return nil, fmt.Errorf("syntax error near '%s'", rest)
	}
	if err := refuseReturning(stmt); err != nil {
		return nil, err
	}
	return finishTree(r.ctx, stmt, rewritten), nil
}

// statement is the definition as a statement; nil of nil. The frontend defines procedures, but does not know IF NOT EXISTS.
func (r *routine) statement() sqlparser.Statement {
	switch {
	case r == nil:
		return nil
	case r.missing || r.kind == program.Function:
		n := &serverStatement{name: "create " + strings.ToLower(string(r.kind)), ddl: true, run: r.define}
		return n.inject(r.ddl.Auth)
	}
	ddl := *r.ddl // Why: others read the same definition
	if r.kind == program.Trigger {
		spec := *r.ddl.TriggerSpec
		ddl.TriggerSpec = &spec
		return &ddl
	}
	spec := *r.ddl.ProcedureSpec
	ddl.ProcedureSpec = &spec
	return &ddl
}

// define saves the definition.
func (r *routine) define(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
	name := r.ddl.ProcedureSpec.ProcName
	db, err := c.routineDatabase(ctx, name.Qualifier.String())
	if err != nil {
		return nil, err
	}
	if r.kind == program.Function {
		return nil, r.defineFunction(ctx, db)
	}
	now := ctx.QueryTime()
	err = db.SaveStoredProcedure(ctx, sql.StoredProcedureDetails{
		Name: strings.ToLower(name.Name.String()), CreateStatement: r.text, CreatedAt: now, ModifiedAt: now, SqlMode: sql.LoadSqlMode(ctx).String(),
	})
	if r.missing && sql.ErrStoredProcedureAlreadyExists.Is(err) {
		ctx.Session.Warn(&sql.Warning{Level: "Note", Code: 1304, Message: "PROCEDURE " + name.Name.String() + " already exists"})
		err = nil
	}
	return nil, err
}

// routineDatabase is the database of a routine: the one that is named, or the current one.
func (c *Conn) routineDatabase(ctx *sql.Context, name string) (*Database, error) {
	if name == "" {
		if name = ctx.GetCurrentDatabase(); name == "" {
			return nil, sql.ErrNoDatabaseSelected.New()
		}
	}
	db, err := c.provider.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	d, ok := db.(*Database)
	if !ok {
		return nil, newError(1044, "Access denied for user '%s'@'%s' to database '%s'", c.Client().User, c.Client().Address, name)
	}
	return d, nil
}
