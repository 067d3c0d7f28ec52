package fulltext

import (
	"math"
	"strconv"
	"strings"
)

// nestingMax bounds the parentheses of a search string; deeper ones separate words.
const nestingMax = 64

// Query is a search string.
type Query struct {
	root  *group
	terms map[string]term // that are counted, by their names
}

// term is a word, or with prefix all words that begin with it.
type term struct {
	key    string
	prefix bool
}

func (t term) name() string {
	if t.prefix {
		return t.key + "\xff"
	}
	return t.key
}

// group is parts of a search string, of a pair of parentheses or the whole.
type group struct{ parts []part }

// need says what a part's being there means.
type need uint8

const (
	may need = iota
	must
	mustNot
)

// part is a term, a phrase, or a group in parentheses.
type part struct {
	need   need
	change float64 // what it adds to the rank: > and <, and ~

	term   *term
	phrase []string // keys
	near   int      // the phrase's words lie within so many words; 0: they follow each other
	group  *group
}

// Natural reads a search string IN NATURAL LANGUAGE MODE: its words, any of which may be there.
func Natural(text string, fold Fold) (*Query, error) {
	q := newQuery()
	words, err := Words(text, fold)
	if err != nil {
		return nil, err
	}
	for _, w := range words {
		if t := (term{key: w.Key}); w.Indexed && !q.has(t) {
			q.root.parts = append(q.root.parts, part{term: q.count(t)})
		}
	}
	return q, nil
}

// Widened is a natural query together with the words of the documents it found: WITH QUERY EXPANSION.
func (q *Query) Widened(found []*Document) *Query {
	out := newQuery()
	add := func(t term) {
		if !out.has(t) {
			out.root.parts = append(out.root.parts, part{term: out.count(t)})
		}
	}
	for _, p := range q.root.parts {
		add(*p.term)
	}
	for _, d := range found {
		for _, words := range d.texts { // in their order, so that ranks add up the same way every time
			for _, w := range words {
				if w.Indexed {
					add(term{key: w.Key})
				}
			}
		}
	}
	return out
}

// Boolean reads a search string IN BOOLEAN MODE. MySQL manual: "Boolean Full-Text Searches".
func Boolean(text string, fold Fold) (*Query, error) {
	q := newQuery()
	p := &booleanParser{rest: text, fold: fold, q: q}
	var err error
	q.root, err = p.group(0)
	return q, err
}

func newQuery() *Query { return &Query{root: &group{}, terms: make(map[string]term)} }

func (q *Query) has(t term) bool {
	_, ok := q.terms[t.name()]
	return ok
}

func (q *Query) count(t term) *term {
	q.terms[t.name()] = t
	return &t
}

// booleanParser reads what is left of a search string.
type booleanParser struct {
	rest string
	fold Fold
	q    *Query
}

// group reads up to the parenthesis that closes, or to the end.
func (p *booleanParser) group(depth int) (*group, error) {
	g := &group{}
	next := part{}
	for p.rest != "" {
		c := p.rest[0]
		switch {
		case c == ')':
			p.rest = p.rest[1:]
			if depth > 0 {
				return g, nil
			}
		case c == '(' && depth < nestingMax:
			p.rest = p.rest[1:]
			inner, err := p.group(depth + 1)
			if err != nil {
				return nil, err
			}
			if next.group = inner; len(inner.parts) > 0 {
				g.parts = append(g.parts, next)
			}
			next = part{}
		case c == '"':
			if err := p.quoted(&next); err != nil {
				return nil, err
			}
			if len(next.phrase) > 0 || next.term != nil {
				g.parts = append(g.parts, next)
			}
			next = part{}
		case strings.IndexByte("+-~<>", c) >= 0:
			p.rest = p.rest[1:]
			next.operator(c)
		default:
			end := wordEnd(p.rest)
			if end == 0 {
				p.rest = skipRune(p.rest)
				next = part{} // an operator stands before what it is about
				continue
			}
			if err := p.word(&next, end); err != nil {
				return nil, err
			}
			if next.term != nil {
				g.parts = append(g.parts, next)
			}
			next = part{}
		}
	}
	return g, nil
}

func skipRune(s string) string {
	for i := range s {
		if i > 0 {
			return s[i:]
		}
	}
	return ""
}

func (n *part) operator(c byte) {
	switch c {
	case '+':
		n.need = must
	case '-':
		n.need = mustNot
	case '>':
		n.change++
	case '<', '~':
		n.change--
	}
}

// word reads a word; those that no index has are passed over.
func (p *booleanParser) word(next *part, end int) error {
	text := p.rest[:end]
	p.rest = p.rest[end:]
	w, err := newWord(text, p.fold)
	if err != nil {
		return err
	}
	t := term{key: w.Key}
	if rest, ok := strings.CutPrefix(p.rest, "*"); ok {
		p.rest, t.prefix = rest, true
	}
	if w.Indexed || t.prefix {
		next.term = p.q.count(t)
	}
	return nil
}

// quoted reads a phrase, and @n behind it.
func (p *booleanParser) quoted(next *part) error {
	text, rest, closed := strings.Cut(p.rest[1:], `"`)
	if p.rest = rest; !closed {
		p.rest = ""
	}
	words, err := Words(text, p.fold)
	if err != nil {
		return err
	}
	for _, w := range words {
		next.phrase = append(next.phrase, w.Key)
		if w.Indexed {
			p.q.count(term{key: w.Key})
		}
	}
	digits := 0
	if strings.HasPrefix(p.rest, "@") {
		for digits+1 < len(p.rest) && p.rest[digits+1] >= '0' && p.rest[digits+1] <= '9' {
			digits++
		}
	}
	if digits > 0 {
		n, err := strconv.Atoi(p.rest[1 : digits+1])
		if err != nil { // more than any text has words
			n = math.MaxInt
		}
		next.near = n
		p.rest = p.rest[digits+1:]
	}
	return nil
}
