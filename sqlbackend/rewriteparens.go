package sqlbackend

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Queries in parentheses that the frontend's grammar lacks: whole statements, with ORDER BY, LIMIT and locks behind them, sources of
// INSERT, CREATE TABLE and CREATE VIEW, and operands of UNION in more than one pair. The parentheses go where they mean nothing, and
// become a derived table where the query inside has an order or a limit of its own.

// nestedName is the alias of such a derived table.
const nestedName = "`lancesql query`"

// queryParts says what a query has at its outermost level.
type queryParts struct {
	with, set, values, order, limit, lock bool
}

// parenRewriter makes the edits of one statement.
type parenRewriter struct {
	textRewriter
	seen map[int]queryParts // by the first token
	bad  bool               // parentheses are not where they are thought to be
}

// rewriteParens rewrites what needs it.
func rewriteParens(query string, options sqlparser.ParserOptions) string {
	if !mayNestQueries(query) {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok {
		return query
	}
	p := &parenRewriter{textRewriter: textRewriter{query: query, list: list, match: matches(list)}, seen: map[int]queryParts{}}
	if !p.statement() {
		return query
	}
	for i := range list {
		if p.kind(i) == '(' && p.match[i] > 0 && p.subquery(i) {
			p.whole(i+1, p.match[i])
		}
	}
	if p.bad {
		return query
	}
	return applyEdits(query, p.edits)
}

// mayNestQueries looks for a parenthesis before SELECT, WITH or another one, where a statement may have a query in
// parentheses. Why not tokens: some statements are megabytes of values.
func mayNestQueries(query string) bool {
	for at := 0; ; {
		i := strings.IndexByte(query[at:], '(')
		if i < 0 {
			return false
		}
		at += i + 1
		rest := strings.TrimLeft(query[at:], " \t\r\n")
		if rest == "" {
			return false
		}
		switch rest[0] | 0x20 {
		case 's', 'w', 't', '(' | 0x20, '/' | 0x20, '-' | 0x20, '#' | 0x20:
			return true
		}
	}
}

// statement rewrites the query that the statement is or has; false if nothing in it is to be touched.
func (p *parenRewriter) statement() bool {
	end := len(p.list) - 1
	switch {
	case p.word(0, "explain", "describe", "desc"):
		i := 1
		for p.word(i, "analyze", "extended") || p.word(i, "format") {
			if p.word(i, "format") {
				i += 2
			}
			i++
		}
		p.whole(i, end)
	case p.word(0, "insert", "replace"):
		p.source(end)
	case p.word(0, "create"):
		return p.definition(end)
	case p.word(0, "alter"):
		return false
	default:
		p.whole(0, end)
	}
	return true
}

// source rewrites the query of an INSERT or a CREATE TABLE.
func (p *parenRewriter) source(end int) {
	depth := depths(p.list)
	for i := 1; i < end; i++ {
		if depth[i] != 0 {
			continue
		}
		if p.word(i, "values", "value", "set") {
			return
		}
		if p.kind(i) != sqlparser.SELECT && p.kind(i) != sqlparser.WITH && !p.opens(i) {
			continue
		}
		stop := end
		for j := i; j+1 < end; j++ {
			if depth[j] == 0 && p.kind(j) == sqlparser.ON && p.word(j+1, "duplicate") {
				stop = j
			}
		}
		p.whole(i, stop)
		return
	}
}

// definition rewrites the query of a table or view; false for other definitions.
func (p *parenRewriter) definition(end int) bool {
	for i := 1; i < end; i++ {
		switch {
		case p.word(i, "procedure", "function", "trigger", "event"):
			return false
		case p.word(i, "table"):
			p.source(end)
			return true
		case p.word(i, "view"):
			for j := i; j < end; j++ {
				if p.kind(j) != sqlparser.AS {
					continue
				}
				for k := j; k+2 <= end; k++ {
					if p.kind(k) == sqlparser.WITH && (p.word(k+1, "check") || p.word(k+2, "check")) {
						end = k
					}
				}
				p.whole(j+1, end)
				break
			}
			return true
		}
	}
	return true
}

// opens reports whether a parenthesis at i begins a query, behind more of them or not.
func (p *parenRewriter) opens(i int) bool {
	if p.kind(i) != '(' || p.match[i] < 0 {
		return false
	}
	for p.kind(i) == '(' {
		i++
	}
	return p.kind(i) == sqlparser.SELECT || p.kind(i) == sqlparser.WITH || p.kind(i) == sqlparser.TABLE
}

// subquery reports whether the parentheses at i hold a query and no expression that begins with one.
func (p *parenRewriter) subquery(i int) bool {
	switch p.kind(i + 1) {
	case sqlparser.SELECT, sqlparser.WITH:
		return true
	case '(':
	default:
		return false
	}
	if !p.opens(i + 1) {
		return false
	}
	behind := p.match[i+1] + 1
	if behind == p.match[i] {
		return p.word(i-1, "from", "join", "lateral", "as")
	}
	return p.setOperator(behind) || p.tail(behind) && !p.word(i-1, "group_concat")
}

// tail reports whether token i begins what may follow a query in parentheses.
func (p *parenRewriter) tail(i int) bool {
	return p.kind(i) == sqlparser.FOR || p.word(i, "order", "limit", "lock", "into")
}

func (p *parenRewriter) setOperator(i int) bool { return p.word(i, "union", "except", "intersect") }

// whole rewrites the query of the tokens from i up to end, and says what it then has.
func (p *parenRewriter) whole(i, end int) queryParts {
	if parts, ok := p.seen[i]; ok {
		return parts
	}
	start := i
	var parts queryParts
	if p.kind(i) == sqlparser.WITH {
		parts.with = true
		i = p.behindWith(i, end)
	}
	parts.values = p.word(i, "values")
	switch tail := p.match[min(i, len(p.list)-1)] + 1; {
	case p.opens(i) && (tail >= end || p.tail(tail)):
		parts = p.unwrap(i, end, parts)
	default:
		if p.opens(i) {
			p.operand(i, true)
		}
		p.scan(i, end, &parts)
	}
	p.seen[start] = parts
	return parts
}

// behindWith returns the token behind the common table expressions that begin at i.
func (p *parenRewriter) behindWith(i, end int) int {
	for i++; i < end; i++ {
		if p.kind(i) != '(' || p.match[i] < 0 {
			continue
		}
		query := p.kind(i-1) == sqlparser.AS
		i = p.match[i]
		if query && p.kind(i+1) != ',' {
			return i + 1
		}
	}
	return end
}

// scan adds what the outermost level of a query has from token i on, and rewrites operands in parentheses.
func (p *parenRewriter) scan(i, end int, parts *queryParts) {
	for ; i < end; i++ {
		switch {
		case p.kind(i) == '(' && p.match[i] > 0:
			i = p.match[i]
		case p.setOperator(i):
			parts.set = true
			next := i + 1
			if p.word(next, "all", "distinct") {
				next++
			}
			if p.opens(next) {
				p.operand(next, false)
			}
		case p.word(i, "order") && p.word(i+1, "by"):
			parts.order = true
		case p.word(i, "limit"):
			parts.limit = true
		case p.kind(i) == sqlparser.FOR && p.word(i+1, "update", "share"), p.word(i, "lock") && p.word(i+1, "in"):
			parts.lock = true
		}
	}
}

// unwrap rewrites a query in parentheses at i and what follows it up to end.
func (p *parenRewriter) unwrap(i, end int, outer queryParts) queryParts {
	inner := p.whole(i+1, p.match[i])
	var tail queryParts
	p.scan(p.match[i]+1, end, &tail)
	limits := tail.order || tail.limit
	switch {
	case inner.with && outer.with, inner.values && limits, inner.limit && limits, inner.order && tail.order, inner.lock && (limits || tail.lock):
		p.around(i, "SELECT * FROM ", " AS "+nestedName)
		tail.with = outer.with
		return tail
	}
	p.replace(i, '(', " ")
	p.replace(p.match[i], ')', " ")
	inner.with = inner.with || outer.with
	inner.order, inner.limit, inner.lock = inner.order || tail.order, inner.limit || tail.limit, inner.lock || tail.lock
	return inner
}

// operand rewrites a query in parentheses at i that is an operand of a set operation. Of a first one that is a set operation, the
// frontend would take the order and the limit for those of the whole.
func (p *parenRewriter) operand(i int, first bool) {
	inner := p.whole(i+1, p.match[i])
	if first && inner.set && (inner.order || inner.limit) {
		p.around(i, "(SELECT * FROM ", " AS "+nestedName+")")
	}
}

// around puts text before the parenthesis at i and behind the one that closes it.
func (p *parenRewriter) around(i int, before, behind string) {
	from, to := p.list[i].to-1, p.list[p.match[i]].to
	p.edit(from, from, before)
	p.edit(to, to, behind)
}

func (p *parenRewriter) replace(i int, paren byte, by string) {
	at := p.list[i].to - 1
	if at < 0 || at >= len(p.query) || p.query[at] != paren {
		p.bad = true
		return
	}
	p.edit(at, at+1, by)
}
