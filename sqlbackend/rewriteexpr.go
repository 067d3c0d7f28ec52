package sqlbackend

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Operators and clauses that the frontend's grammar lacks, put into calls of functions by names nobody else has, and taken
// out of the syntax tree again by replacedExpression. Each edit leaves its original in a comment behind it, so that names of
// result columns and texts of definitions are those the client wrote.

// Names of functions that stand for operators, see operatorFunction.
const (
	bitNotName   = "lancesql bit not"
	memberName   = "lancesql member"
	soundsName   = "lancesql sounds"
	intervalName = "lancesql interval"
	anyName      = "lancesql any"
	allName      = "lancesql all"
	assignName   = "lancesql assign"
	variableName = "lancesql variable"
	rollupName   = "lancesql rollup"
)

// edit replaces a part of a text. A silent one leaves no comment.
type edit struct {
	from, to int
	by       string
	silent   bool
}

const (
	noteStart = "/*lancesql "
	noteEnd   = "*/"
)

// applyEdits makes edits. If they are not in order, as those of executable comments may be, whose tokens say they are elsewhere,
// the text stays as it is.
func applyEdits(query string, edits []edit) string {
	if len(edits) == 0 {
		return query
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		if a.from == b.from { // what is put before a token comes before what replaces it
			return min(a.to-a.from, 1) - min(b.to-b.from, 1)
		}
		return a.from - b.from
	})
	var out strings.Builder
	done := 0
	for _, e := range edits {
		if e.from < done || e.to < e.from || e.to > len(query) {
			return query
		}
		out.WriteString(query[done:e.from])
		out.WriteString(e.by)
		if !e.silent {
			out.WriteString(noteStart + strconv.Itoa(len(e.by)) + " " + hex.EncodeToString([]byte(query[e.from:e.to])) + noteEnd)
		}
		done = e.to
	}
	out.WriteString(query[done:])
	return out.String()
}

// part is query[from:to], empty if there is no such part: tokens of executable comments say they are elsewhere.
func part(query string, from, to int) string {
	if from < 0 || to < from || to > len(query) {
		return ""
	}
	return query[from:to]
}

// originalText undoes edits.
func originalText(text string) string {
	for {
		at := strings.Index(text, noteStart)
		if at < 0 {
			return text
		}
		note, rest, ok := strings.Cut(text[at+len(noteStart):], noteEnd)
		length, original, two := strings.Cut(note, " ")
		n, err := strconv.Atoi(length)
		was, bad := hex.DecodeString(original)
		if !ok || !two || err != nil || bad != nil || n < 0 || n > at {
			return text // a client's own comment
		}
		text = text[:at-n] + string(was) + rest
	}
}

// rewriteOperators rewrites what needs it: see the functions it calls.
func rewriteOperators(query string, options sqlparser.ParserOptions) string {
	query = quoteNames(rewriteCharacters(query, options))
	if !mayNeedRewrite(query) {
		return query
	}
	list, ok := statementTokens(query, options)
	if strings.EqualFold(firstWord(query), "create") {
		list, ok = allTokens(query, options)
	}
	if !ok {
		return query
	}
	r := &textRewriter{query: query, list: list, match: matches(list)}
	r.run()
	return applyEdits(query, r.edits)
}

// mayNeedRewrite looks for the words that textRewriter knows. Why not one search for each: some statements are megabytes of
// values.
func mayNeedRewrite(query string) bool {
	for i := 0; i < len(query); i++ {
		c := query[i] | 0x20
		if c < 'a' || c > 'z' {
			if query[i] == ':' && i+1 < len(query) && query[i+1] == '=' {
				return true
			}
			continue
		}
		end := i + 1
		for end < len(query) && isWordByte(query[end]) {
			end++
		}
		if word := query[i:end]; len(word) > 2 && rewrittenWord(word) {
			return true
		}
		i = end - 1
	}
	return false
}

func isWordByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

func rewrittenWord(word string) bool {
	var known []string
	switch word[0] | 0x20 {
	case 'a':
		known = []string{"any", "all"}
	case 's':
		known = []string{"some", "sounds", "sql_small_result", "sql_big_result", "sql_buffer_result", "sql_no_cache", "substr", "substring"}
	case 'e':
		known = []string{"exists"}
	case 'j':
		known = []string{"json_value"}
	case 'm':
		known = []string{"member", "mid"}
	case 'l':
		known = []string{"low_priority"}
	case 'd':
		known = []string{"delayed"}
	case 'h':
		known = []string{"high_priority"}
	case 'q':
		known = []string{"quick"}
	case 'r':
		known = []string{"rollup"}
	}
	return slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, word) }) || compoundUnit(word) != ""
}

// compoundUnit is the smallest unit of an INTERVAL of several, in which it can be counted; empty if unit is no such.
func compoundUnit(unit string) string {
	if !strings.Contains(unit, "_") {
		return ""
	}
	switch strings.ToLower(unit) {
	case "year_month":
		return "MONTH"
	case "day_hour":
		return "HOUR"
	case "day_minute", "hour_minute":
		return "MINUTE"
	case "day_second", "hour_second", "minute_second":
		return "SECOND"
	case "day_microsecond", "hour_microsecond", "minute_microsecond", "second_microsecond":
		return "MICROSECOND"
	}
	return ""
}

// matches returns for each opening parenthesis the index of the closing one, and -1 for all else.
func matches(list []token) []int {
	out := make([]int, len(list))
	var open []int
	for i, t := range list {
		out[i] = -1
		switch {
		case t.kind == '(':
			open = append(open, i)
		case t.kind == ')' && len(open) > 0:
			out[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
	return out
}

// textRewriter makes the edits of one text.
type textRewriter struct {
	query string
	list  []token
	match []int
	edits []edit

	intervals []openInterval
	depth     int
	setting   bool // in a SET statement
}

// openInterval is an INTERVAL whose unit has not come yet.
type openInterval struct{ at, depth int }

func (r *textRewriter) run() {
	for i, t := range r.list {
		switch t.kind {
		case '(':
			r.depth++
		case ')':
			r.depth--
			for len(r.intervals) > 0 && r.intervals[len(r.intervals)-1].depth > r.depth {
				r.intervals = r.intervals[:len(r.intervals)-1]
			}
		case ';':
			r.setting = false
		case sqlparser.SET:
			r.setting = true
		case sqlparser.SELECT:
			r.setting = r.setting && r.depth > 0
			r.dropOptions(i, true, "high_priority", "sql_small_result", "sql_big_result", "sql_buffer_result", "sql_no_cache")
		case sqlparser.INSERT, sqlparser.REPLACE, sqlparser.UPDATE, sqlparser.DELETE:
			r.setting = false
			r.dropOptions(i, t.kind == sqlparser.DELETE, "low_priority", "high_priority", "delayed", "quick")
		case '=', '<', '>', sqlparser.LE, sqlparser.GE, sqlparser.NE:
			r.quantifier(i + 1)
		case sqlparser.EXISTS:
			r.existence(i + 1)
		case sqlparser.ASSIGNMENT_OP:
			r.assignment(i)
		case sqlparser.WITH:
			if r.word(i+1, "rollup") {
				r.edit(r.start(i), r.list[i+1].to, ", `"+rollupName+"`()")
			}
		case sqlparser.INTERVAL:
			r.intervals = append(r.intervals, openInterval{i, r.depth})
		default:
			r.other(i)
		}
	}
}

// other rewrites operators that the tokenizer knows as words.
func (r *textRewriter) other(i int) {
	switch {
	case i == 0 || r.list[i-1].kind == '.':
	case r.word(i, "member") && r.word(i+1, "of") && r.kind(i+2) == '(':
		r.edit(r.start(i), r.list[i+1].to, "LIKE `"+memberName+"`")
	case r.word(i, "sounds") && r.word(i+1, "like"):
		r.edit(r.start(i), r.list[i+1].to, "LIKE `"+soundsName+"`() ^")
	case r.word(i, "substring", "substr", "mid") && r.kind(i+1) == '(':
		r.substring(i + 1)
	case r.word(i, "json_value") && r.kind(i+1) == '(':
		r.jsonValue(i)
	case len(r.intervals) > 0 && compoundUnit(r.list[i].text) != "" && r.word(i, r.list[i].text):
		last := r.intervals[len(r.intervals)-1]
		if last.depth != r.depth || last.at+1 >= i {
			return
		}
		r.intervals = r.intervals[:len(r.intervals)-1]
		unit := r.list[i].text
		r.edit(r.list[last.at].to, r.list[last.at].to, " `"+intervalName+"`(")
		r.edit(r.start(i), r.list[i].to, ", '"+strings.ToLower(unit)+"') "+compoundUnit(unit))
	}
}

// substring puts commas in place of FROM and FOR in a call whose arguments begin at i: the frontend's grammar knows these words
// only both, and behind a column or a text.
func (r *textRewriter) substring(i int) {
	word := "from"
	for j := i + 1; j < r.match[i] && word != ""; j++ {
		switch {
		case r.match[j] > j:
			j = r.match[j]
		case r.word(j, word):
			r.edit(r.start(j), r.list[j].to, ",")
			word = map[string]string{"from": "for"}[word]
		}
	}
}

// dropOptions drops options behind the first word of a statement that change no result. Of those that do, some may stand
// between them.
func (r *textRewriter) dropOptions(i int, more bool, options ...string) {
	for j := i + 1; j < len(r.list); j++ {
		switch {
		case r.word(j, options...):
			r.edits = append(r.edits, edit{from: r.start(j), to: r.list[j].to, silent: true})
		case more && r.word(j, "all", "distinct", "distinctrow", "straight_join", "sql_calc_found_rows", "ignore"):
		default:
			return
		}
	}
}

// quantifier puts ANY, SOME or ALL, which stands at i, and its subquery into a call.
func (r *textRewriter) quantifier(i int) {
	if !r.word(i, "any", "some", "all") || r.kind(i+1) != '(' || r.match[i+1] < 0 {
		return
	}
	first := i + 2
	for r.kind(first) == '(' {
		first++
	}
	if !r.word(first, "select", "with", "table", "values") {
		return
	}
	name := anyName
	if r.word(i, "all") {
		name = allName
	}
	end := r.list[r.match[i+1]].to
	r.edit(r.start(i), r.list[i].to, "`"+name+"`(")
	r.edit(end, end, ")")
}

// assignment puts @name := into a call before an OR, which binds as loosely.
func (r *textRewriter) assignment(i int) {
	name, ok := strings.CutPrefix(r.list[max(i-1, 0)].text, "@")
	if i == 0 || !ok || name == "" || strings.HasPrefix(name, "@") {
		return
	}
	if before := r.kind(i - 2); r.setting && r.depth == 0 && (before == sqlparser.SET || before == ',') {
		return
	}
	name = strings.Trim(name, "`")
	r.edit(r.start(i-1), r.list[i].to, "`"+assignName+"`('"+name+"') OR")
}

func (r *textRewriter) edit(from, to int, by string) {
	r.edits = append(r.edits, edit{from: from, to: to, by: by})
}

func (r *textRewriter) kind(i int) int {
	if i < 0 || i >= len(r.list) {
		return 0
	}
	return r.list[i].kind
}

// word reports whether token i is one of the words, and not quoted.
func (r *textRewriter) word(i int, words ...string) bool {
	if i < 0 || i >= len(r.list) {
		return false
	}
	t := r.list[i]
	return t.isWord(words...) && endsWith(r.query, t.to, t.text)
}

// start is where token i begins, behind blanks and comments.
func (r *textRewriter) start(i int) int { return max(r.list[i].to-len(r.list[i].text), 0) }

// rewriteCharacters rewrites what the frontend's tokenizer cannot read: {d '2024-01-02'}, {t '…'} and {ts '…'}, other
// expressions in braces, and names of user variables with other characters than those of words.
func rewriteCharacters(query string, options sqlparser.ParserOptions) string {
	if !strings.Contains(query, "{") && !strings.Contains(query, "@`") && !strings.Contains(query, "@'") && !strings.Contains(query, `@"`) {
		return query
	}
	var edits []edit
	account := namesAccounts(query)
	for i := 0; i < len(query); {
		end := skipText(query, i, options)
		if end > i {
			i = end
			continue
		}
		switch query[i] {
		case '{':
			word := i + 1
			for word < len(query) && query[word] <= ' ' {
				word++
			}
			end := word
			for end < len(query) && isWordByte(query[end]) {
				end++
			}
			if end > word {
				by := ""
				switch strings.ToLower(query[word:end]) {
				case "d":
					by = "DATE"
				case "t":
					by = "TIME"
				case "ts":
					by = "TIMESTAMP"
				}
				edits = append(edits, edit{from: i, to: end, by: by})
				i = end
				continue
			}
		case '}':
			edits = append(edits, edit{from: i, to: i + 1})
		case '@':
			if i > 0 && (isWordByte(query[i-1]) || strings.IndexByte("`'\"@", query[i-1]) >= 0) || account {
				break // an account
			}
			end := skipText(query, i+1, options)
			if end <= i+2 || strings.IndexByte("`'\"", query[i+1]) < 0 || query[end-1] != query[i+1] {
				break
			}
			quote := query[i+1 : i+2]
			name := strings.ReplaceAll(query[i+2:end-1], quote+quote, quote)
			edits = append(edits, edit{from: i, to: end, by: "@" + plainVariable(name)})
			i = end
			continue
		}
		i++
	}
	if !slices.ContainsFunc(edits, func(e edit) bool { return e.by != "" || query[e.from] == '{' }) {
		return query // a lone brace is not ours
	}
	return applyEdits(query, edits)
}

// namesAccounts reports whether a statement has accounts, in which @ means something else.
func namesAccounts(query string) bool {
	switch strings.ToLower(firstWord(query)) {
	case "create", "alter", "drop", "grant", "revoke", "rename", "show":
		return true
	}
	return false
}

// plainVariable is a name made of the characters of words only, for any name of a user variable.
func plainVariable(name string) string {
	plain := name != ""
	for i := 0; i < len(name); i++ {
		plain = plain && isWordByte(name[i]) && name[i] < 0x80 && name[i] != '$'
	}
	if plain {
		return name
	}
	return variablePrefix + hex.EncodeToString([]byte(strings.ToLower(name)))
}

// variablePrefix begins the names that plainVariable makes up.
const variablePrefix = "lancesql_"

// variableText is @name as the client wrote it, if plainVariable made the name up; else empty.
func variableText(name string) string {
	digits, ok := strings.CutPrefix(name, "@"+variablePrefix)
	if b, err := hex.DecodeString(digits); ok && err == nil {
		return "@`" + string(b) + "`"
	}
	return ""
}

// skipText returns where a text, quoted name or comment that begins at i ends; i if there is none.
func skipText(query string, i int, options sqlparser.ParserOptions) int {
	if i >= len(query) {
		return i
	}
	switch c := query[i]; {
	case c == '\'' || c == '"' || c == '`':
		escapes := c == '\'' || c == '"' && !options.AnsiQuotes
		for i++; i < len(query); i++ {
			switch {
			case query[i] == '\\' && escapes:
				i++
			case query[i] == c && i+1 < len(query) && query[i+1] == c:
				i++
			case query[i] == c:
				return i + 1
			}
		}
		return len(query)
	case c == '#' || strings.HasPrefix(query[i:], "-- ") || strings.HasPrefix(query[i:], "--\n"):
		end := strings.IndexByte(query[i:], '\n')
		if end < 0 {
			return len(query)
		}
		return i + end + 1
	case strings.HasPrefix(query[i:], "/*") && !strings.HasPrefix(query[i:], "/*!"):
		end := strings.Index(query[i+2:], "*/")
		if end < 0 {
			return len(query)
		}
		return i + 2 + end + 2
	}
	return i
}
