package sqlbackend

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Spellings of clauses and expressions that the frontend's grammar lacks, put into ones it has. All work on tokens and leave alone
// what they do not know.

// rewriteForms rewrites one token at a time: see the functions it calls.
func rewriteForms(query string, options sqlparser.ParserOptions) string {
	wanted := false
	for _, word := range []string{"row", "trim", "index", "key", "add", "year", "parser", "like", "view", "definer", "after", "modify", "change", "rename", "drop", "alter"} {
		wanted = wanted || containsFold(query, word)
	}
	if !wanted {
		return query
	}
	list, ok := statementTokens(query, options)
	if strings.EqualFold(firstWord(query), "create") {
		list, ok = allTokens(query, options)
	}
	if !ok {
		return query
	}
	f := &formRewriter{textRewriter{query: query, list: list, match: matches(list)}}
	f.statement()
	alters := f.word(0, "alter") && f.word(1, "table")
	for i := 0; i < len(list); i++ {
		switch {
		case f.word(i, "row") && f.kind(i+1) == '(' && !f.rowOfValues(i) && f.kind(i-1) != '.' && i > 0:
			f.drop(i, i)
		case f.word(i, "trim") && f.kind(i+1) == '(' && f.word(i+2, "both", "leading", "trailing") && f.word(i+3, "from"):
			f.edit(f.start(i+3), f.start(i+3), "' ' ")
		case f.word(i, "use", "force", "ignore") && f.word(i+1, "index", "key"):
			f.hint(i)
		case f.word(i, "year") && f.kind(i+1) == '(' && f.kind(i+2) == sqlparser.INTEGRAL && f.list[i+2].text == "4" && f.kind(i+3) == ')' && definesText(query):
			f.drop(i+1, i+3)
		case alters && f.word(i, "after"):
			f.quote(i + 1)
		case alters && f.word(i, "modify", "change", "rename", "drop", "alter") && i > 0:
			at := i + 1
			if f.word(at, "column") {
				at++
			} else if !f.word(i, "modify", "change") {
				continue // something else is dropped
			}
			f.quote(at)
			if f.word(i, "change") {
				f.quote(at + 1)
			} else if f.word(i, "rename") && f.word(at+1, "to") {
				f.quote(at + 2)
			}
		case f.word(i, "with") && f.word(i+1, "parser") && definesText(query):
			f.drop(i, i+2)
		case f.word(i, "definer") && f.kind(i+1) == '=' && f.word(i+2, "current_user") && definesText(query):
			last := i + 2 // who it is without the clause as well
			if f.kind(last+1) == '(' {
				last += 2
			}
			f.drop(i, last)
		}
	}
	return applyEdits(query, f.edits)
}

// formRewriter makes the edits of one text.
type formRewriter struct{ textRewriter }

// drop takes the tokens from first to last out.
func (f *formRewriter) drop(first, last int) {
	if last >= len(f.list) {
		return
	}
	from := f.start(first)
	if f.list[first].text == "" { // punctuation
		from--
	}
	f.edit(max(from, 0), f.list[last].to, " ")
}

// quote puts a name that is a word of the grammar into quotes.
func (f *formRewriter) quote(i int) {
	if i >= len(f.list) || f.kind(i) == sqlparser.ID {
		return
	}
	from, to := f.start(i), f.list[i].to
	if word := f.query[from:to]; word != "" && strings.EqualFold(word, f.list[i].text) {
		f.edit(from, to, "`"+word+"`")
	}
}

// rowOfValues reports whether ROW at i begins a row of VALUES ROW (…), ROW (…).
func (f *formRewriter) rowOfValues(i int) bool {
	for f.kind(i-1) == ',' && f.kind(i-2) == ')' {
		open := i - 2
		for open > 0 && f.match[open] != i-2 {
			open--
		}
		i = open - 1
		if !f.word(i, "row") {
			return false
		}
	}
	return f.word(i-1, "values")
}

// hint finishes the index hint at i. The grammar lacks PRIMARY without quotes, hints without indexes, one hint behind another, and KEY.
func (f *formRewriter) hint(i int) {
	open := i + 2
	if f.kind(open) == sqlparser.FOR { // see rewriteHints
		if open += 2; f.word(open, "by") {
			open++
		}
	}
	if f.kind(open) != '(' || f.match[open] < 0 {
		return
	}
	if end := f.match[open]; end == open+1 || f.kind(i-1) == ')' && f.hinted(i-1) {
		f.drop(i, end)
		return
	}
	if f.word(i+1, "key") {
		f.edit(f.start(i+1), f.list[i+1].to, "INDEX")
	}
	for k := open + 1; k < f.match[open]; k++ {
		if f.word(k, "primary") {
			f.edit(f.start(k), f.list[k].to, "`PRIMARY`")
		}
	}
}

// hinted reports whether the parenthesis that closes at i is that of an index hint.
func (f *formRewriter) hinted(i int) bool {
	open := i
	for open > 0 && f.match[open] != i {
		open--
	}
	for back := 1; back <= 4; back++ {
		if f.word(open-back, "index", "key") {
			return f.word(open-back-1, "use", "force", "ignore")
		}
	}
	return false
}

// statement rewrites what depends on the kind of the statement.
func (f *formRewriter) statement() {
	end := len(f.list) - 1
	switch {
	case f.word(0, "show") && f.word(1, "schemas"):
		f.edit(f.start(1), f.list[1].to, "DATABASES")
	case f.word(0, "drop") && f.word(1, "view") && f.word(end-1, "restrict", "cascade"):
		f.drop(end-1, end-1)
	case f.word(0, "drop") && f.word(1, "index"), f.word(0, "create") && f.word(1, "index", "unique", "fulltext", "spatial"):
		f.dropHow(end)
	case f.word(0, "create") && (f.word(1, "table") || f.word(1, "temporary") && f.word(2, "table")):
		for i := 2; i+1 < end; i++ {
			if f.kind(i) == '(' {
				if f.word(i+1, "like") && f.match[i] > 0 {
					f.edit(f.list[i].to-1, f.list[i].to, " ")
					f.edit(f.list[f.match[i]].to-1, f.list[f.match[i]].to, " ")
				}
				break
			}
		}
	case f.word(0, "alter") && f.word(1, "table"):
		for i := 3; i < end; i++ {
			if f.kind(i) == '(' && f.match[i] > 0 {
				if f.word(i-1, "add") || f.word(i-1, "column") && f.word(i-2, "add") {
					f.addColumns(i)
				}
				i = f.match[i]
			}
		}
	}
}

// dropHow drops ALGORITHM [=] x and LOCK [=] x at the end of CREATE INDEX and DROP INDEX. They say how, not what.
func (f *formRewriter) dropHow(end int) {
	for i := 2; i < end; i++ {
		if f.kind(i) == '(' && f.match[i] > 0 {
			i = f.match[i]
			continue
		}
		if !f.word(i, "algorithm", "lock") || i < 4 {
			continue
		}
		last := i + 1
		if f.kind(last) == '=' {
			last++
		}
		if f.word(last, "default", "inplace", "copy", "instant", "none", "shared", "exclusive") {
			f.drop(i, last)
			i = last
		}
	}
}

// addColumns makes of ADD (a INT, b INT), whose parenthesis is at open, ADD a INT, ADD b INT.
func (f *formRewriter) addColumns(open int) {
	end := f.match[open]
	f.edit(f.list[open].to-1, f.list[open].to, " ")
	f.edit(f.list[end].to-1, f.list[end].to, " ")
	for i := open + 1; i < end; i++ {
		switch {
		case f.kind(i) == '(' && f.match[i] > 0:
			i = f.match[i]
		case f.kind(i) == ',':
			f.edit(f.list[i].to, f.list[i].to, " ADD")
		}
	}
}
