package sqlbackend

import (
	"strings"
	"unicode/utf8"

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

// quoteNames puts names with letters beyond ASCII and those with a $ into quotes, without which the frontend's tokenizer does not
// know them. It reads characters, since there are no tokens before.
func quoteNames(query string) string {
	if !beyondASCII(query) && !strings.Contains(query, "$") {
		return query
	}
	var edits []edit
	for i := 0; i < len(query); {
		c := query[i]
		end := i + 1
		switch {
		case c == '\'' || c == '"' || c == '`':
			for end < len(query) && query[end] != c {
				if query[end] == '\\' && c != '`' {
					end++
				}
				end++
			}
			end++
		case c == '#' || strings.HasPrefix(query[i:], "-- "):
			end = i + lengthTo(query[i:], "\n")
		case strings.HasPrefix(query[i:], "/*") && !strings.HasPrefix(query[i:], "/*!"):
			end = i + lengthTo(query[i:], "*/")
		case isWordByte(c):
			for end < len(query) && isWordByte(query[end]) {
				end++
			}
			word := query[i:end]
			switch variable := i > 0 && query[i-1] == '@'; {
			case variable && strings.Contains(word, "$") && !beyondASCII(word) && (i < 2 || !isWordByte(query[i-2]) && strings.IndexByte("@'`\"", query[i-2]) < 0):
				edits = append(edits, edit{from: i, to: end, by: plainVariable(word)})
			case !variable && (beyondASCII(word) || strings.Contains(word, "$")) && utf8.ValidString(word):
				edits = append(edits, edit{from: i, to: end, by: "`" + word + "`"})
			}
		}
		i = end
	}
	return applyEdits(query, edits)
}

func beyondASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0
}

// lengthTo is the length of text up to mark and with it.
func lengthTo(text, mark string) int {
	if n := strings.Index(text, mark); n >= 0 {
		return n + len(mark)
	}
	return len(text)
}
