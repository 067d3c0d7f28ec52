package sqlbackend

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// statementMarker is told each statement before it is planned; *Conn is one.
type statementMarker interface {
	MarkStatement(stmt sqlparser.Statement)
}

// textMarker is a statementMarker that looks at the text as well: the frontend's syntax tree leaves some of it out.
type textMarker interface {
	MarkText(ctx *sql.Context, stmt sqlparser.Statement, text string)
}

// parser is the frontend's parser with two additions: the statements the frontend lacks (admin.go) become injected
// nodes, and the session learns each statement's AST before tables are resolved. Recognition works on tokens.
type parser struct {
	inner sql.Parser
	admin func(adminStatement) sqlparser.Statement // builds the AST of an admin statement

	routines routineTexts
}

var _ sql.Parser = (*parser)(nil)

// ParseSimple implements sql.Parser.
func (p *parser) ParseSimple(query string) (sqlparser.Statement, error) {
	if stmt, _, ok := p.parseAdmin(query, sqlparser.ParserOptions{}); ok {
		return stmt, nil
	}
	if r, err := p.parseRoutine(context.Background(), query, sqlparser.ParserOptions{}); r != nil || err != nil {
		return r.statement(), err
	}
	rewritten := rewriteClauses(query, sqlparser.ParserOptions{})
	stmt, err := p.inner.ParseSimple(rewritten)
	if err == nil {
		err = refuseReturning(stmt)
	}
	if s, ok := stmt.(*sqlparser.Select); ok && err == nil { // an expression of a definition
		rewriteExpressions(s, definedOperator)
	}
	placeBody(stmt, query, rewritten)
	return stmt, err
}

// placeBody makes the position of the statement inside a definition one in the text that the caller has; false if it is
// not to be found there.
func placeBody(stmt sqlparser.Statement, query, rewritten string) bool {
	d, ok := stmt.(*sqlparser.DDL)
	if !ok || query == rewritten || d.SubStatementPositionEnd == 0 {
		return true
	}
	if d.SubStatementPositionEnd > len(rewritten) {
		return false
	}
	start, rest := d.SubStatementPositionStart, rewritten[d.SubStatementPositionEnd:]
	if !strings.HasPrefix(query, rewritten[:start]) || !strings.HasSuffix(query, rest) || start > len(query)-len(rest) {
		return false
	}
	d.SubStatementPositionEnd = len(query) - len(rest)
	return true
}

// Parse implements sql.Parser.
func (p *parser) Parse(ctx *sql.Context, query string, multi bool) (sqlparser.Statement, string, string, error) {
	return p.ParseWithOptions(ctx, query, ';', multi, sql.LoadSqlMode(ctx).ParserOptions())
}

// ParseWithOptions implements sql.Parser.
func (p *parser) ParseWithOptions(ctx context.Context, query string, delimiter rune, multi bool, options sqlparser.ParserOptions) (sqlparser.Statement, string, string, error) {
	original := sql.RemoveSpaceAndDelimiter(query, delimiter)
	if r, err := p.parseRoutine(ctx, original, options); err != nil {
		return nil, "", "", err
	} else if r != nil {
		rest := original[r.rest:]
		if !multi && strings.TrimSpace(rest) != "" {
			return nil, "", "", fmt.Errorf("syntax error near '%s'", strings.TrimSpace(rest))
		}
		p.mark(ctx, r.statement(), original[:r.end])
		if strings.TrimSpace(rest) == "" {
			rest = ""
		}
		return r.statement(), original[:r.end], rest, nil
	}
	query = rewriteClauses(query, options)
	text := sql.RemoveSpaceAndDelimiter(query, delimiter)
	stmt, end, ok := p.parseAdmin(text, options)
	if ok && end < len(text) && !multi {
		ok = false // a second statement: the frontend's parser says what is wrong
	}
	if !ok {
		stmt, parsed, rest, err := p.inner.ParseWithOptions(ctx, query, delimiter, multi, options)
		if err == nil {
			err = refuseReturning(stmt)
		}
		if err == nil {
			stmt = finishTree(ctx, stmt, query)
			p.mark(ctx, stmt, parsed)
			if rest == "" && placeBody(stmt, original, parsed) {
				parsed = original
			}
		}
		return stmt, parsed, rest, err
	}
	p.mark(ctx, stmt, text)
	return stmt, sql.RemoveSpaceAndDelimiter(text[:end], delimiter), text[end:], nil
}

// ParseOneWithOptions implements sql.Parser.
func (p *parser) ParseOneWithOptions(ctx context.Context, query string, options sqlparser.ParserOptions) (sqlparser.Statement, int, error) {
	if r, err := p.parseRoutine(ctx, query, options); err != nil {
		return nil, 0, err
	} else if r != nil {
		p.mark(ctx, r.statement(), query[:r.end])
		return r.statement(), r.rest, nil
	}
	stmt, end, ok := p.parseAdmin(query, options)
	if !ok {
		var err error
		rewritten := rewriteClauses(query, options)
		stmt, end, err = p.inner.ParseOneWithOptions(ctx, rewritten, options)
		if err == nil {
			err = refuseReturning(stmt)
		}
		if err != nil {
			return stmt, end, err
		}
		if end > 0 { // an offset in what the caller has
			end = max(end+len(query)-len(rewritten), 0)
		}
		placeBody(stmt, query, rewritten)
		stmt = finishTree(ctx, stmt, rewritten)
	}
	p.mark(ctx, stmt, query)
	return stmt, end, nil
}

// refuseReturning is the error of a statement with a RETURNING clause.
func refuseReturning(stmt sqlparser.Statement) error {
	if clause := returningIn(stmt); clause != "" {
		return fmt.Errorf("syntax error near '%s'", clause)
	}
	return nil
}

// mark tells the session. The frontend parses texts of views, defaults and checks while it plans a statement: those are
// no part of the client's text and must not change what the session knows about the statement.
func (p *parser) mark(ctx context.Context, stmt sqlparser.Statement, text string) {
	sctx, ok := ctx.(*sql.Context)
	if !ok || sctx.Session == nil || stmt == nil {
		return
	}
	if q := sctx.Query(); q != "" && !strings.Contains(q, text) && !strings.Contains(rewriteClauses(q, sqlparser.ParserOptions{}), text) {
		return
	}
	if m, ok := sctx.Session.(textMarker); ok {
		m.MarkText(sctx, stmt, text)
		return
	}
	if m, ok := sctx.Session.(statementMarker); ok {
		m.MarkStatement(stmt)
	}
}

// parseAdmin recognises an admin statement at the start of text and returns the offset of the statement behind it.
func (p *parser) parseAdmin(text string, options sqlparser.ParserOptions) (sqlparser.Statement, int, bool) {
	switch strings.ToLower(firstWord(text)) {
	case "flush", "optimize", "check", "analyze", "repair":
	case "help", "show", "set", "rename", "alter", "reset", "checksum", "lock", "unlock", "drop", "get":
		s := newTokens(text, options)
		if stmt := s.serverStatement(); stmt != nil {
			return stmt, s.end, true
		}
		return nil, 0, false
	default:
		return nil, 0, false
	}
	s := newTokens(text, options)
	stmt, ok := s.adminStatement()
	if !ok {
		return nil, 0, false
	}
	if stmt.op == adminAnalyze {
		return &sqlparser.Analyze{Tables: stmt.tables}, s.end, true // the frontend has it, but not all its modifiers
	}
	return p.admin(stmt), s.end, true
}

// firstWord returns the first word of a statement behind blanks and comments; empty if something else comes first, an
// executable comment included.
func firstWord(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(text, "/*!"):
			return ""
		case strings.HasPrefix(text, "/*"):
			_, rest, ok := strings.Cut(text[2:], "*/")
			if !ok {
				return ""
			}
			text = rest
			continue
		case strings.HasPrefix(text, "#"), strings.HasPrefix(text, "-- "), strings.HasPrefix(text, "--\n"), strings.HasPrefix(text, "--\t"):
			_, rest, ok := strings.Cut(text, "\n")
			if !ok {
				return ""
			}
			text = rest
			continue
		}
		end := strings.IndexFunc(text, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
		})
		if end < 0 {
			end = len(text)
		}
		return text[:end]
	}
}

// tokens reads a statement token by token, one token ahead.
type tokens struct {
	t    *sqlparser.Tokenizer
	kind int
	text string
	size int // bytes of the whole text
	end  int // offset behind the statement, once it ended
}

func newTokens(text string, options sqlparser.ParserOptions) *tokens {
	t := sqlparser.NewStringTokenizer(text)
	if options.AnsiQuotes {
		t = sqlparser.NewStringTokenizerForAnsiQuotes(text)
	}
	s := &tokens{t: t, size: len(text)}
	s.next()
	return s
}

func (s *tokens) next() {
	for {
		kind, text := s.t.Scan()
		if kind == sqlparser.COMMENT {
			continue
		}
		s.kind, s.text = kind, string(text)
		return
	}
}

// take consumes the token if it is of that kind.
func (s *tokens) take(kind int) bool {
	if s.kind != kind {
		return false
	}
	s.next()
	return true
}

// takeWord consumes an unquoted or quoted word of that text, which need not be a keyword of the grammar.
func (s *tokens) takeWord(words ...string) bool {
	if s.kind == sqlparser.STRING {
		return false
	}
	for _, w := range words {
		if strings.EqualFold(s.text, w) {
			s.next()
			return true
		}
	}
	return false
}

// name consumes an identifier; words of the grammar that are not reserved count.
func (s *tokens) name() (string, bool) {
	if s.text == "" || s.kind != sqlparser.ID && sqlparser.KeywordString(s.kind) == "" {
		return "", false
	}
	name := s.text
	s.next()
	return name, true
}

// table consumes [database.]table.
func (s *tokens) table() (sqlparser.TableName, bool) {
	first, ok := s.name()
	if !ok {
		return sqlparser.TableName{}, false
	}
	if !s.take('.') {
		return sqlparser.TableName{Name: sqlparser.NewTableIdent(first)}, true
	}
	second, ok := s.name()
	return sqlparser.TableName{DbQualifier: sqlparser.NewTableIdent(first), Name: sqlparser.NewTableIdent(second)}, ok
}

// tables consumes a list of tables.
func (s *tokens) tables() ([]sqlparser.TableName, bool) {
	var list []sqlparser.TableName
	for {
		t, ok := s.table()
		if !ok {
			return nil, false
		}
		list = append(list, t)
		if !s.take(',') {
			return list, true
		}
	}
}

// finish reports whether the statement ends here.
func (s *tokens) finish() bool {
	switch s.kind {
	case 0:
		s.end = s.size
		return true
	case ';':
		s.end = min(s.t.Position-1, s.size)
		return true
	}
	return false
}

// modifier consumes [LOCAL | NO_WRITE_TO_BINLOG].
func (s *tokens) modifier() {
	_ = s.take(sqlparser.LOCAL) || s.take(sqlparser.NO_WRITE_TO_BINLOG)
}

// adminStatement reads one admin statement up to its end; false if it is none or has a form not known here.
func (s *tokens) adminStatement() (adminStatement, bool) {
	switch {
	case s.take(sqlparser.FLUSH):
		return s.flush()
	case s.take(sqlparser.OPTIMIZE):
		s.modifier()
		return s.tableStatement(adminOptimize)
	case s.take(sqlparser.REPAIR):
		s.modifier()
		return s.tableStatement(adminRepair, "quick", "extended", "use_frm")
	case s.take(sqlparser.CHECK):
		return s.tableStatement(adminCheck, "for", "upgrade", "quick", "fast", "medium", "extended", "changed")
	case s.take(sqlparser.ANALYZE):
		if s.kind != sqlparser.LOCAL && s.kind != sqlparser.NO_WRITE_TO_BINLOG {
			return adminStatement{}, false // the frontend's grammar knows it
		}
		s.modifier()
		return s.tableStatement(adminAnalyze)
	}
	return adminStatement{}, false
}

// tableStatement reads TABLE | TABLES list [options].
func (s *tokens) tableStatement(op adminOp, options ...string) (adminStatement, bool) {
	if !s.take(sqlparser.TABLE) && !s.take(sqlparser.TABLES) {
		return adminStatement{}, false
	}
	list, ok := s.tables()
	if !ok {
		return adminStatement{}, false
	}
	stmt := adminStatement{op: op, tables: list}
	for {
		if slices.Contains(options, "extended") && s.takeWord("extended") {
			stmt.extended = true
		} else if !s.takeWord(options...) {
			return stmt, s.finish()
		}
	}
}

// flush reads what follows FLUSH: TABLES in all its forms; and kinds of logs and counters lancesql has none of.
func (s *tokens) flush() (adminStatement, bool) {
	s.modifier()
	if s.takeWord("status") {
		return adminStatement{op: adminStatus}, s.finish()
	}
	if s.takeWord("hosts", "optimizer_costs", "user_resources", "logs") {
		return adminStatement{op: adminNothing}, s.finish()
	}
	if s.takeWord("binary", "engine", "error", "general", "slow") {
		return adminStatement{op: adminNothing}, s.takeWord("logs") && s.finish()
	}
	if !s.take(sqlparser.TABLE) && !s.take(sqlparser.TABLES) {
		return adminStatement{}, false
	}
	stmt := adminStatement{op: adminFlush}
	if s.kind != 0 && s.kind != ';' && s.kind != sqlparser.WITH {
		var ok bool
		if stmt.tables, ok = s.tables(); !ok {
			return adminStatement{}, false
		}
	}
	switch {
	case s.take(sqlparser.WITH):
		if !s.take(sqlparser.READ) || !s.take(sqlparser.LOCK) {
			return adminStatement{}, false
		}
		stmt.readLock = true
	case len(stmt.tables) > 0 && s.take(sqlparser.FOR):
		if !s.takeWord("export") {
			return adminStatement{}, false
		}
	}
	return stmt, s.finish()
}
