package program

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Source is a text with a body in it, and how the caller reads what is not of the language of stored programs.
type Source struct {
	Text   string
	Tokens []Token // all of the text
	// Parse reads one SQL statement, Type a type as it stands in DECLARE.
	Parse func(text string) (sqlparser.Statement, error)
	Type  func(text string) (sql.Type, error)
	// Event is what fires the trigger that the body belongs to; nil: it belongs to none.
	Event *Event
}

// Parse reads the body that begins at a token and returns it with the place of the token behind it. The error is one of syntax; what
// else is wrong with the body, its Check says.
func Parse(s Source, at int, kind Kind, name string, params []Param) (body *Body, next int, err error) {
	tokens, moved := splitLabels(s.Text, s.Tokens, at)
	p := &parser{reader: reader{text: s.Text, tokens: tokens, at: moved}, source: s, kind: kind}
	b := &Body{Name: name, Params: params, kind: kind}
	p.push("", false)
	for _, param := range params {
		p.declare(strings.ToLower(param.Name), param.Type)
	}
	b.root = p.statement()
	if p.err == nil && !p.ended() {
		p.fail()
	}
	switch {
	case errors.Is(p.err, errStopped):
		b.fault, b.fields = p.fault, p.fields
		return b, len(s.Tokens) - 1, nil
	case p.err != nil:
		return nil, 0, p.err
	case kind == Function && !p.returns:
		p.wrong(fault(1320, "No RETURN found in FUNCTION %s", name))
	}
	b.fault, b.fields = p.fault, p.fields
	end := p.now()
	next = slices.IndexFunc(s.Tokens, func(t Token) bool { return t.To == end.To && t.Kind == end.Kind })
	return b, next, nil
}

// splitLabels takes the colon off a word, which the tokenizer loses in label:BEGIN. It returns the new place of a token.
func splitLabels(text string, tokens []Token, at int) (out []Token, moved int) {
	moved = at
	for i, t := range tokens {
		word := t.To - len(t.Text)
		if i > 0 && t.Is("begin", "loop", "while", "repeat") && tokens[i-1].isName() && word > t.From && text[word-1] == ':' {
			out = append(out, Token{Kind: ':', From: t.From, To: word})
			t.From = word
			if i <= at {
				moved++
			}
		}
		out = append(out, t)
	}
	return out, moved
}

// parser reads the statements of a body and notes what is wrong with them.
type parser struct {
	reader
	source  Source
	kind    Kind
	scope   *names
	fault   error // the first
	returns bool
	fields  []Field
	depth   int
}

// names are what is declared in a block.
type names struct {
	parent     *names
	label      string
	loop       bool
	handler    bool // the body of a handler: labels around it are out of reach
	variables  map[string]sql.Type
	conditions map[string]conditionValue
	cursors    map[string]bool
}

func (p *parser) push(label string, loop bool) {
	p.scope = &names{
		parent: p.scope, label: strings.ToLower(label), loop: loop,
		variables: map[string]sql.Type{}, conditions: map[string]conditionValue{}, cursors: map[string]bool{},
	}
}

func (p *parser) pop() { p.scope = p.scope.parent }

// wrong notes a fault of the body that is none of syntax.
func (p *parser) wrong(err error) {
	if p.fault == nil {
		p.fault = err
	}
}

func (p *parser) declare(name string, typ sql.Type) {
	if _, ok := p.scope.variables[name]; ok {
		p.wrong(sql.ErrDeclareVariableDuplicate.New(name))
	}
	p.scope.variables[name] = typ
}

// variable returns the type of a local variable; false if there is none of that name.
func (p *parser) variable(name string) (sql.Type, bool) {
	if isField(name) {
		return nil, p.field(name)
	}
	for s := p.scope; s != nil; s = s.parent {
		if t, ok := s.variables[strings.ToLower(name)]; ok {
			return t, true
		}
	}
	return nil, false
}

func (p *parser) condition(name string) (conditionValue, bool) {
	for s := p.scope; s != nil; s = s.parent {
		if c, ok := s.conditions[strings.ToLower(name)]; ok {
			return c, true
		}
	}
	return conditionValue{}, false
}

func (p *parser) cursor(name string) string {
	name = strings.ToLower(name)
	for s := p.scope; s != nil; s = s.parent {
		if s.cursors[name] {
			return name
		}
	}
	p.wrong(sql.ErrCursorNotFound.New(name))
	return name
}

// nestMax bounds how deep statements may stand in each other.
const nestMax = 512

// statement reads one statement, without the semicolon behind it.
func (p *parser) statement() statement {
	if p.depth++; p.depth > nestMax {
		p.wrong(fault(1436, "Thread stack overrun: statements of more than %d levels", nestMax))
		p.failWith(errStopped)
	}
	defer func() { p.depth-- }()
	if p.err != nil {
		return nil
	}
	label := ""
	if p.peek(1).Kind == ':' && p.now().isName() {
		label = p.name()
		p.wantKind(':')
		if !p.now().Is("begin", "loop", "while", "repeat") {
			p.fail()
			return nil
		}
		for s := p.scope; s != nil && !s.handler; s = s.parent {
			if strings.EqualFold(s.label, label) {
				p.wrong(sql.ErrLoopRedefinition.New(label))
			}
		}
	}
	switch {
	case p.take("begin"):
		return p.block(label)
	case p.now().Is("loop") && p.peek(1).Kind != '(', p.now().Is("while"), p.now().Is("repeat") && p.peek(1).Kind != '(':
		return p.loop(label)
	case p.take("if"):
		return p.ifStatement()
	case p.take("case"):
		return p.caseStatement()
	case p.take("leave"):
		return p.leave("LEAVE", false)
	case p.take("iterate"):
		return p.leave("ITERATE", true)
	case p.take("return"):
		return p.giveBack()
	case p.take("open"):
		return &openCursor{p.cursor(p.name())}
	case p.take("close"):
		return &closeCursor{p.cursor(p.name())}
	case p.take("fetch"):
		return p.fetch()
	case p.take("signal"):
		return p.signal(false)
	case p.take("resignal"):
		return p.signal(true)
	case p.now().Is("get") && (p.peek(1).Is("diagnostics") || p.peek(2).Is("diagnostics")):
		return p.diagnostics()
	case p.now().Is("declare"):
		return p.misplaced()
	case p.now().Is("set"):
		return p.set()
	case p.now().Is("create"):
		p.refuseDefinition()
	}
	if p.err != nil {
		return nil
	}
	return p.query(false)
}

// list reads statements with semicolons behind them up to one of these words; least is how many there must be.
func (p *parser) list(least int, end ...string) []statement {
	var out []statement
	for p.err == nil && (!p.now().Is(end...) || p.peek(1).Kind == ':') {
		out = append(out, p.statement())
		p.wantKind(';')
	}
	if len(out) < least && p.err == nil {
		p.fail()
	}
	return out
}

func (p *parser) block(label string) statement {
	p.push(label, false)
	defer p.pop()
	b := &block{label: p.scope.label, conditions: p.scope.conditions, cursors: map[string]*query{}}
	for p.take("declare") {
		p.declaration(b)
		p.wantKind(';')
	}
	b.list = p.list(0, "end")
	p.want("end")
	p.endLabel(label)
	return b
}

// endLabel reads the label behind END, which must be the one before BEGIN.
func (p *parser) endLabel(label string) {
	if p.ended() || !p.now().isName() || p.now().Is("until", "end") {
		return
	}
	if end := p.name(); !strings.EqualFold(end, label) {
		p.wrong(fault(1310, "End-label %s without match", end))
	}
}

// declaration reads what follows DECLARE. Variables and conditions come first, then cursors, then handlers.
func (p *parser) declaration(b *block) {
	switch {
	case p.now().Is("continue", "exit", "undo") && p.peek(1).Is("handler"):
		p.handler(b)
	case p.peek(1).Is("condition") && p.peek(2).Is("for"):
		name := strings.ToLower(p.name())
		p.want("condition", "for")
		c := p.conditionValue(false)
		if len(b.cursors) > 0 || len(b.handlers) > 0 {
			p.wrong(sql.ErrDeclareConditionOrderInvalid.New())
		}
		if _, ok := b.conditions[name]; ok {
			p.wrong(sql.ErrDeclareConditionDuplicate.New(name))
		}
		b.conditions[name] = c
	case p.peek(1).Is("cursor") && p.peek(2).Is("for"):
		name := strings.ToLower(p.name())
		p.want("cursor", "for")
		q := p.query(true)
		s, ok := q.stmt.(sqlparser.SelectStatement)
		if !ok || len(q.into) > 0 || s.GetInto() != nil {
			p.wrong(fault(1323, "Cursor SELECT must not have INTO"))
		}
		if len(b.handlers) > 0 {
			p.wrong(sql.ErrDeclareCursorOrderInvalid.New())
		}
		if p.scope.cursors[name] {
			p.wrong(sql.ErrDeclareCursorDuplicate.New(name))
		}
		p.scope.cursors[name] = true
		b.cursors[name] = q
	default:
		d := p.variables()
		if len(b.cursors) > 0 || len(b.handlers) > 0 {
			p.wrong(sql.ErrDeclareVariableOrderInvalid.New())
		}
		b.variables = append(b.variables, d)
	}
}

// misplaced reads a DECLARE that does not stand at the beginning of a block.
func (p *parser) misplaced() statement {
	p.want("declare")
	switch {
	case p.now().Is("continue", "exit", "undo") && p.peek(1).Is("handler"):
		p.wrong(sql.ErrDeclareHandlerOrderInvalid.New())
	case p.peek(1).Is("condition") && p.peek(2).Is("for"):
		p.wrong(sql.ErrDeclareConditionOrderInvalid.New())
	case p.peek(1).Is("cursor") && p.peek(2).Is("for"):
		p.wrong(sql.ErrDeclareCursorOrderInvalid.New())
	default:
		p.wrong(sql.ErrDeclareVariableOrderInvalid.New())
	}
	aside := &block{conditions: map[string]conditionValue{}, cursors: map[string]*query{}}
	p.push("", false)
	defer p.pop()
	p.declaration(aside)
	return nil
}

func (p *parser) variables() declaration {
	var d declaration
	for {
		d.names = append(d.names, strings.ToLower(p.name()))
		if !p.takeKind(',') {
			break
		}
	}
	text := p.until(before("default"))
	if p.err != nil {
		return d
	}
	typ, err := p.source.Type(text)
	if err != nil {
		p.failWith(err)
		return d
	}
	d.typ = typ
	if p.take("default") {
		d.value = p.expression(p.until(toTheEnd))
	}
	for _, n := range d.names {
		p.declare(n, d.typ)
	}
	return d
}

func (p *parser) handler(b *block) {
	h := &handler{exit: p.now().Is("exit")}
	if p.now().Is("undo") {
		p.failWith(sql.ErrDeclareHandlerUndo.New())
		return
	}
	p.at++
	p.want("handler", "for")
	for {
		c := p.conditionValue(true)
		if slices.Contains(h.conditions, c) {
			p.wrong(sql.ErrDeclareHandlerDuplicate.New())
		}
		for _, other := range b.handlers {
			if slices.Contains(other.conditions, c) {
				p.wrong(sql.ErrDeclareHandlerDuplicate.New())
			}
		}
		h.conditions = append(h.conditions, c)
		if !p.takeKind(',') {
			break
		}
	}
	b.handlers = append(b.handlers, h)
	p.push("", false)
	p.scope.handler = true
	defer p.pop()
	h.body = p.statement()
}

// conditionValue reads an error number or SQLSTATE 'text' and, for a handler, also a class or the name of a condition.
func (p *parser) conditionValue(named bool) conditionValue {
	switch {
	case p.now().Kind == sqlparser.INTEGRAL:
		var n int
		if _, err := fmt.Sscan(p.now().Text, &n); err != nil || n == 0 {
			p.wrong(fault(1641, "Incorrect CONDITION value: '%s'", p.now().Text))
		}
		p.at++
		return conditionValue{number: n}
	case p.now().Is("sqlstate"):
		return conditionValue{state: p.state()}
	case !named:
		p.fail()
		return conditionValue{}
	case p.take("sqlwarning"):
		return conditionValue{class: sqlWarning}
	case p.take("not", "found"):
		return conditionValue{class: notFound}
	case p.take("sqlexception"):
		return conditionValue{class: sqlException}
	}
	name := p.name()
	c, ok := p.condition(name)
	if !ok {
		p.wrong(sql.ErrDeclareConditionNotFound.New(name))
	}
	return c
}

// state reads SQLSTATE [VALUE] 'text'.
func (p *parser) state() string {
	p.want("sqlstate")
	p.take("value")
	t := p.now()
	p.wantKind(sqlparser.STRING)
	good := len(t.Text) == 5 && !strings.HasPrefix(t.Text, "00")
	for _, c := range t.Text {
		good = good && ('0' <= c && c <= '9' || 'A' <= c && c <= 'Z')
	}
	if !good {
		p.wrong(fault(1407, "Bad SQLSTATE: '%s'", t.Text))
		return "HY000"
	}
	return t.Text
}

func (p *parser) loop(label string) statement {
	p.push(label, true)
	defer p.pop()
	l := &loop{label: p.scope.label}
	word := strings.ToLower(p.now().Text)
	p.at++
	if word == "while" {
		l.while = p.expression(p.until(before("do")))
		p.want("do")
	}
	if word == "repeat" {
		l.list = p.list(1, "until")
		p.want("until")
		l.until = p.expression(p.until(before("end")))
	} else {
		l.list = p.list(1, "end")
	}
	p.want("end", word)
	p.endLabel(label)
	return l
}

func (p *parser) ifStatement() statement {
	b := &branches{}
	for {
		b.conditions = append(b.conditions, p.expression(p.until(before("then"))))
		p.want("then")
		b.lists = append(b.lists, p.list(1, "elseif", "else", "end"))
		if !p.take("elseif") {
			break
		}
	}
	if p.take("else") {
		b.otherwise = p.list(1, "end")
	}
	p.want("end", "if")
	return b
}

// caseVariable is the name under which the value of a CASE is known to its conditions. No name of a client has that blank.
const caseVariable = "lancesql case"

func (p *parser) caseStatement() statement {
	c := &choice{}
	if !p.now().Is("when") {
		c.value = p.expression(p.until(before("when")))
	}
	b := &c.cases
	b.must = true
	for p.take("when") {
		text := p.until(before("then"))
		if c.value != nil {
			text = "`" + caseVariable + "` = (" + text + ")"
			p.push("", false)
			p.declare(caseVariable, types.Null) // which may be any
		}
		e := p.expression(text)
		if c.value != nil {
			p.pop()
		}
		b.conditions = append(b.conditions, e)
		p.want("then")
		b.lists = append(b.lists, p.list(1, "when", "else", "end"))
	}
	if p.take("else") {
		b.must, b.otherwise = false, p.list(1, "end")
	}
	p.want("end", "case")
	if len(b.conditions) == 0 && p.err == nil {
		p.fail()
	}
	if c.value == nil {
		return b
	}
	return c
}

func (p *parser) leave(word string, iterate bool) statement {
	label := p.name()
	found := false
	for s := p.scope; s != nil && !s.handler; s = s.parent {
		found = found || s.label != "" && strings.EqualFold(s.label, label) && (s.loop || !iterate)
	}
	if !found {
		p.wrong(sql.ErrLoopLabelNotFound.New(word, label))
	}
	return &leave{label: strings.ToLower(label), iterate: iterate}
}

func (p *parser) giveBack() statement {
	if p.kind != Function {
		p.wrong(fault(1313, "RETURN is only allowed in a FUNCTION"))
	}
	p.returns = true
	return &giveBack{p.expression(p.until(toTheEnd))}
}
