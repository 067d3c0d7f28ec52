package fulltext

import "math"

// Counts is how rare the words of a query are: Add takes in every document of the table.
type Counts struct {
	query     *Query
	documents int
	with      map[string]int // documents that have a term
}

// NewCounts counts the terms of a query.
func NewCounts(q *Query) *Counts { return &Counts{query: q, with: make(map[string]int)} }

// Add counts a document.
func (c *Counts) Add(d *Document) {
	c.documents++
	for name, t := range c.query.terms {
		if d.occurs(t.key, t.prefix) > 0 {
			c.with[name]++
		}
	}
}

// weight is what one occurrence of a term adds to a rank: the square of its inverse document frequency. MySQL manual: "InnoDB
// Full-Text Relevancy Ranking".
func (c *Counts) weight(name string) float64 {
	with := c.with[name]
	if with == 0 {
		return 0
	}
	idf := math.Log10(float64(c.documents) / float64(with))
	if with >= c.documents {
		idf = math.Log10(1.0001) // a word of all documents still finds them
	}
	return idf * idf
}

// Finds reports whether a query finds a document.
func (q *Query) Finds(d *Document) bool { return q.root.finds(d) }

// Rank is the relevance of a document: 0 if the query does not find it.
func (q *Query) Rank(d *Document, c *Counts) float64 {
	if !q.Finds(d) {
		return 0
	}
	return q.root.rank(d, c)
}

// finds: all that must be there is, nothing that must not, and, if nothing must, something that may.
func (g *group) finds(d *Document) bool {
	some, musts := false, false
	for _, p := range g.parts {
		there := p.there(d)
		switch {
		case p.need == must && !there, p.need == mustNot && there:
			return false
		case p.need == must:
			musts = true
		case p.need == may && there:
			some = true
		}
	}
	return some || musts
}

func (p *part) there(d *Document) bool {
	switch {
	case p.term != nil:
		return d.occurs(p.term.key, p.term.prefix) > 0
	case p.group != nil:
		return p.group.finds(d)
	case p.near > 0:
		return d.near(p.phrase, p.near)
	}
	return d.phrase(p.phrase) > 0
}

func (g *group) rank(d *Document, c *Counts) float64 {
	rank := 0.
	for _, p := range g.parts {
		if p.need == mustNot || !p.there(d) {
			continue
		}
		rank += p.change
		switch {
		case p.term != nil:
			rank += float64(d.occurs(p.term.key, p.term.prefix)) * c.weight(p.term.name())
		case p.group != nil:
			rank += p.group.rank(d, c)
		default:
			for _, key := range p.phrase {
				rank += float64(d.occurs(key, false)) * c.weight(key)
			}
		}
	}
	return rank
}
