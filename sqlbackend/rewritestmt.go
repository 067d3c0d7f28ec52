package sqlbackend

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Statements that the frontend's grammar lacks, put into ones it has. All work on tokens of the first statement of a text
// and leave alone what they do not know.

// token is one token of a text, comments left out, with the offsets of what stands between the token before and its end.
type token struct {
	kind     int
	text     string
	from, to int
}

// statementTokens reads the tokens of the first statement; false if it has one the grammar does not know. The last token
// is the end of the statement, of kind 0 or ';'.
func statementTokens(query string, options sqlparser.ParserOptions) ([]token, bool) {
	var list []token
	s := newTokens(query, options)
	from := 0
	for {
		if s.kind == sqlparser.LEX_ERROR {
			return nil, false
		}
		if s.kind == 0 || s.kind == ';' {
			s.finish()
			return append(list, token{kind: s.kind, from: from, to: s.end}), true
		}
		to := endOfToken(query, s, from, options)
		list = append(list, token{kind: s.kind, text: s.text, from: from, to: to})
		from = to
		s.next()
	}
}

// allTokens reads the tokens of a text of several statements; false if it has one the grammar does not know.
func allTokens(query string, options sqlparser.ParserOptions) ([]token, bool) {
	var list []token
	s := newTokens(query, options)
	for from := 0; s.kind != sqlparser.LEX_ERROR; s.next() {
		if s.kind == 0 {
			return append(list, token{from: from, to: s.size}), true
		}
		to := endOfToken(query, s, from, options)
		list = append(list, token{kind: s.kind, text: s.text, from: from, to: to})
		from = to
	}
	return nil, false
}

// endOfToken is where the token that s is at ends, which begins behind from. The tokenizer looks at the one behind FOR and NOT before
// it says what they are.
func endOfToken(query string, s *tokens, from int, options sqlparser.ParserOptions) int {
	to := tokenEnd(query, s)
	if s.kind != sqlparser.FOR && s.kind != sqlparser.NOT {
		return to
	}
	for from < to {
		if end := skipText(query, from, options); end > from {
			from = end
			continue
		}
		if query[from] > ' ' {
			break
		}
		from++
	}
	if end := from + len(s.text); end <= to && strings.EqualFold(query[from:end], s.text) {
		return end
	}
	return to
}

// isWord reports whether a token is that word, not a text.
func (t token) isWord(words ...string) bool {
	if t.kind == sqlparser.STRING {
		return false
	}
	for _, w := range words {
		if strings.EqualFold(t.text, w) {
			return true
		}
	}
	return false
}

// depths returns how deep in parentheses each token stands; a parenthesis itself stands outside.
func depths(list []token) []int {
	out := make([]int, len(list))
	depth := 0
	for i, t := range list {
		if t.kind == ')' {
			depth--
		}
		out[i] = depth
		if t.kind == '(' {
			depth++
		}
	}
	return out
}

// keepWildcards doubles the backslash of \% and \_ in texts, which MySQL keeps and the frontend's tokenizer drops: the
// pattern 'a\_b' would find 'axb'. It reads characters, since tokens no longer have the backslash.
func keepWildcards(query string, options sqlparser.ParserOptions) string {
	if !strings.Contains(query, `\_`) && !strings.Contains(query, `\%`) {
		return query
	}
	var out strings.Builder
	done := 0
	for i := 0; i < len(query); {
		switch c := query[i]; {
		case c == '\'' || c == '"' && !options.AnsiQuotes:
			for i++; i < len(query) && query[i] != c; i++ {
				if query[i] != '\\' || i+1 == len(query) {
					continue
				}
				if next := query[i+1]; next == '_' || next == '%' {
					out.WriteString(query[done:i] + `\`)
					done = i
				}
				i++
			}
			i++
		case c == '`' || c == '"':
			end := strings.IndexByte(query[i+1:], c)
			if end < 0 {
				end = len(query) - i
			}
			i += end + 2
		case c == '#' || strings.HasPrefix(query[i:], "-- "):
			end := strings.IndexByte(query[i:], '\n')
			if end < 0 {
				end = len(query) - i
			}
			i += end
		case strings.HasPrefix(query[i:], "/*") && !strings.HasPrefix(query[i:], "/*!"):
			end := strings.Index(query[i+2:], "*/")
			if end < 0 {
				end = len(query) - i
			}
			i += end + 2
		default:
			i++
		}
	}
	return out.String() + query[done:]
}

// doVariable is the user variable that takes the values of DO.
const doVariable = "@`lancesql do`"

// rewriteDo makes of DO a, b an assignment, which answers with an OK packet as well. In definitions of procedures and triggers
// it looks for the statement in their bodies.
func rewriteDo(query string, options sqlparser.ParserOptions) string {
	body := definesText(query)
	if !body && !strings.EqualFold(firstWord(query), "do") || !containsFold(query, "do") {
		return query
	}
	list, ok := statementTokens(query, options)
	if body {
		list, ok = allTokens(query, options)
	}
	if !ok {
		return query
	}
	var out strings.Builder
	done := 0
	for i := 0; i+2 < len(list); i++ {
		if !list[i].isWord("do") || i == 0 && body || i > 0 && !beginsStatement(list[i-1]) {
			continue
		}
		end := i + 1
		for depth := 0; end < len(list)-1 && (depth > 0 || list[end].kind != ';'); end++ {
			switch list[end].kind {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		start := list[i].to - len("do")
		sets := assignments(query, list[i+1:end+1])
		between := ", "
		if body { // the frontend takes one assignment in each SET of a body
			if len(sets) > 1 && list[i-1].isWord("row", "do") {
				return query // nothing there would hold two statements together
			}
			between = "; SET "
		}
		out.WriteString(query[done:start] + "SET " + strings.Join(sets, between))
		done = list[end].from
		i = end
	}
	return out.String() + query[done:]
}

// beginsStatement reports whether a statement of a body may follow the token.
func beginsStatement(t token) bool {
	return t.kind == ';' || t.isWord("begin", "then", "else", "loop", "repeat", "do", "row")
}

// assignments turns the expressions of a DO, without the token behind the list's last, into the parts of a SET.
func assignments(query string, list []token) []string {
	var out []string
	depth := depths(list)
	from := list[0].from
	for i, t := range list {
		if end := i == len(list)-1; end || t.kind == ',' && depth[i] == 0 {
			out = append(out, doVariable+" = ("+strings.TrimSpace(query[from:t.from])+")")
			from = t.to
		}
	}
	return out
}

// rewriteInsertSet makes of INSERT … SET a = 1, b = 2 AS new … the form with VALUES: the frontend's grammar knows the
// alias only there.
func rewriteInsertSet(query string, options sqlparser.ParserOptions) string {
	if !strings.EqualFold(firstWord(query), "insert") || !containsFold(query, "set") || !containsFold(query, "as") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok {
		return query
	}
	depth := depths(list)
	set, as := -1, -1
	for i, t := range list {
		switch {
		case depth[i] > 0:
		case set < 0 && t.isWord("values", "value", "select", "on", "with", "table"):
			return query
		case set < 0 && t.kind == sqlparser.SET:
			set = i
		case set >= 0 && t.kind == sqlparser.ON:
			return query // no alias before it
		case set >= 0 && as < 0 && t.kind == sqlparser.AS:
			as = i
		}
		if as >= 0 {
			break
		}
	}
	if set < 0 || as < 0 {
		return query
	}
	var columns, values []string
	for i := set + 1; i < as; {
		eq := i
		for eq < as && list[eq].kind != '=' {
			eq++
		}
		end := eq + 1
		for end < as && (list[end].kind != ',' || depth[end] > 0) {
			end++
		}
		if eq == i || eq+1 >= as {
			return query
		}
		columns = append(columns, strings.TrimSpace(query[list[i].from:list[eq-1].to]))
		values = append(values, strings.TrimSpace(query[list[eq].to:list[end-1].to]))
		i = end + 1
	}
	return query[:list[set-1].to] + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")" + query[list[as-1].to:]
}

// rewriteLockTables puts AS before the aliases of LOCK TABLES t x READ.
func rewriteLockTables(query string, options sqlparser.ParserOptions) string {
	if !strings.EqualFold(firstWord(query), "lock") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok || len(list) < 3 || !list[1].isWord("tables", "table") {
		return query
	}
	var out strings.Builder
	done := 0
	name := 2 // where the name of a table begins
	for i := 2; i < len(list); i++ {
		if list[i].kind == ',' {
			name = i + 1
			continue
		}
		alias := name + 1
		if name+2 < len(list) && list[name+1].kind == '.' {
			alias = name + 3
		}
		kind := func(t token) bool { return t.isWord("read", "write", "low_priority") }
		if i == alias && i+1 < len(list) && !list[i].isWord("as") && kind(list[i+1]) && !(kind(list[i]) && endsWith(query, list[i].to, list[i].text)) {
			out.WriteString(query[done:list[i-1].to] + " AS")
			done = list[i-1].to
		}
	}
	return out.String() + query[done:]
}

// rewriteHints drops FOR JOIN, FOR ORDER BY and FOR GROUP BY from index hints, which the frontend's grammar lacks. A hint
// changes no result.
func rewriteHints(query string, options sqlparser.ParserOptions) string {
	if !containsFold(query, "for") || !containsFold(query, "index") && !containsFold(query, "key") {
		return query
	}
	list, ok := statementTokens(query, options)
	if !ok {
		return query
	}
	var out strings.Builder
	done := 0
	for i := 0; i+4 < len(list); i++ {
		if !list[i].isWord("use", "force", "ignore") || !list[i+1].isWord("index", "key") || list[i+2].kind != sqlparser.FOR {
			continue
		}
		last := i + 3
		switch {
		case list[last].isWord("join"):
		case list[last].isWord("order", "group") && list[last+1].isWord("by"):
			last++
		default:
			continue
		}
		if list[last+1].kind != '(' {
			continue
		}
		out.WriteString(query[done:list[i+1].to])
		done = list[last].to
	}
	return out.String() + query[done:]
}
