package sqlbackend

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// rewriteWords puts two things the frontend's grammar lacks into words it has: IS [NOT] UNKNOWN is IS [NOT] NULL, and
// N'text' is 'text'. It works on tokens, so that texts, names and comments are safe.
func rewriteWords(query string, options sqlparser.ParserOptions) string {
	national := strings.Contains(query, "N'") || strings.Contains(query, "n'")
	if !national && !containsFold(query, "unknown") {
		return query
	}
	var out strings.Builder
	done := 0
	replace := func(from, to int, by string) {
		out.WriteString(query[done:from])
		out.WriteString(by)
		done = to
	}
	s := newTokens(query, options)
	before, is := 0, false // the token before; the tokens before are IS [NOT]
	for s.kind != 0 && s.kind != sqlparser.LEX_ERROR {
		end := tokenEnd(query, s)
		switch {
		case is && s.kind != sqlparser.STRING && strings.EqualFold(s.text, "unknown") && endsWith(query, end, "unknown"):
			replace(end-len("unknown"), end, "NULL")
		case national && strings.EqualFold(s.text, "n") && s.kind != sqlparser.STRING && before != '.' && before != '@' &&
			endsWith(query, end, "n") && end < len(query) && query[end] == '\'':
			replace(end-1, end, "")
		}
		is = s.kind == sqlparser.IS || is && s.kind == sqlparser.NOT
		before = s.kind
		s.next()
	}
	if done == 0 {
		return query
	}
	out.WriteString(query[done:])
	return out.String()
}

// endsWith reports whether the word, in any case and not quoted, stands before end.
func endsWith(query string, end int, word string) bool {
	return end >= len(word) && end <= len(query) && strings.EqualFold(query[end-len(word):end], word)
}
