package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Token is one token of a text: its kind in the frontend's grammar, and the offsets of what stands between the token before
// and its end. The last one of a text has kind 0.
type Token struct {
	Kind     int
	Text     string // of a string or a quoted name, what is quoted
	From, To int
	Quoted   bool
}

// Is reports whether a token is one of these words, not quoted.
func (t Token) Is(words ...string) bool {
	if t.Quoted || t.Kind == sqlparser.STRING {
		return false
	}
	for _, w := range words {
		if strings.EqualFold(t.Text, w) {
			return true
		}
	}
	return false
}

// isName reports whether a token can be a name.
func (t Token) isName() bool {
	return t.Text != "" && (t.Kind == sqlparser.ID || sqlparser.KeywordString(t.Kind) != "")
}

// reader reads the tokens of a body.
type reader struct {
	text   string
	tokens []Token
	at     int
	err    error // why reading has ended; what is read afterwards means nothing
}

func (r *reader) now() Token { return r.peek(0) }

func (r *reader) peek(n int) Token {
	if i := r.at + n; i < len(r.tokens) {
		return r.tokens[i]
	}
	return r.tokens[len(r.tokens)-1] // the end
}

// ended reports whether nothing of the statement is left.
func (r *reader) ended() bool { return r.now().Kind == 0 || r.now().Kind == ';' }

// take consumes words that follow each other; false, and nothing consumed, if they do not.
func (r *reader) take(words ...string) bool {
	for i, w := range words {
		if !r.peek(i).Is(w) {
			return false
		}
	}
	r.at += len(words)
	return true
}

func (r *reader) takeKind(kind int) bool {
	if r.now().Kind != kind {
		return false
	}
	r.at++
	return true
}

// name consumes a name.
func (r *reader) name() string {
	t := r.now()
	if !t.isName() || strings.HasPrefix(t.Text, "@") {
		r.fail()
		return ""
	}
	r.at++
	return t.Text
}

// want consumes words that must be there.
func (r *reader) want(words ...string) {
	if !r.take(words...) {
		r.fail()
	}
}

func (r *reader) wantKind(kind int) {
	if !r.takeKind(kind) {
		r.fail()
	}
}

// slice is the text of the tokens from a place to before another.
func (r *reader) slice(from, to int) string {
	if from >= to || r.err != nil {
		return ""
	}
	return strings.TrimSpace(r.text[r.tokens[from].From:r.tokens[to-1].To])
}

// until consumes tokens up to one outside parentheses and CASE expressions for which stop is true, or to the end of the statement,
// and returns their text, which must not be empty.
func (r *reader) until(stop func(Token) bool) string {
	from, depth, cases := r.at, 0, 0
	for ; !r.ended(); r.at++ {
		t := r.now()
		if depth == 0 && cases == 0 && stop(t) {
			break
		}
		switch {
		case t.Kind == '(':
			depth++
		case t.Kind == ')':
			depth--
		case t.Is("case"):
			cases++
		case t.Is("end") && cases > 0:
			cases--
		}
	}
	if r.at == from {
		r.fail()
		return ""
	}
	return r.slice(from, r.at)
}

// before returns a stop at one of these words.
func before(words ...string) func(Token) bool {
	return func(t Token) bool { return t.Is(words...) }
}

func toTheEnd(Token) bool { return false }

func atComma(t Token) bool { return t.Kind == ',' }

// errStopped ends reading because of a fault that was noted.
var errStopped = errors.New("the body is read no further")

// fail ends reading: the token that comes does not belong here.
func (r *reader) fail() {
	t := r.now()
	near := t.Text
	if t.Kind > 0 && t.Kind < 128 {
		near = string(rune(t.Kind))
	}
	r.failWith(fmt.Errorf("syntax error at position %d near '%s'", t.To+1, near))
}

// failWith ends reading: all that comes is the end.
func (r *reader) failWith(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.tokens) - 1
}
