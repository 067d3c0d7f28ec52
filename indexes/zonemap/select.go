package zonemap

import (
	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/predicate"
)

// Range is the run of physical rows [From, To) of a fragment.
type Range struct {
	Fragment uint32
	From, To uint64
}

// Selection is what is left to read of some fragments.
type Selection struct {
	// Ranges are ascending by fragment and row; they neither overlap nor meet. Rows of Fragments outside them cannot
	// satisfy the filter, those of deleted rows apart.
	Ranges []Range
	// Fragments are those the selection speaks about; others are read whole.
	Fragments *roaring.Bitmap
	// ZonesKept and Zones count the zones looked at, over all columns.
	ZonesKept, Zones int
}

// Rows is the number of physical rows in the ranges.
func (s *Selection) Rows() uint64 {
	var n uint64
	for _, r := range s.Ranges {
		n += r.To - r.From
	}
	return n
}

// Of returns the ranges of one fragment; known is false if all of it must be read.
func (s *Selection) Of(fragment uint32) (ranges []Range, known bool) {
	from := searchRanges(s.Ranges, fragment)
	to := from
	for to < len(s.Ranges) && s.Ranges[to].Fragment == fragment {
		to++
	}
	return s.Ranges[from:to], s.Fragments.Contains(fragment)
}

// searchRanges finds the first range of a fragment or a later one.
func searchRanges(ranges []Range, fragment uint32) int {
	from, to := 0, len(ranges)
	for from < to {
		if mid := (from + to) / 2; ranges[mid].Fragment < fragment {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// Prune keeps the zones that may hold a cell of r. errs.ErrInvalid if the bounds of r are not of the column's Go type.
func (s *Segment) Prune(r predicate.Ranges) (Selection, error) {
	p, err := probeOf(s.typ, r)
	if err != nil {
		return Selection{}, err
	}
	return s.selection(s.hits(&p)), nil
}

// selection joins zones that touch.
func (s *Segment) selection(hits []uint64) Selection {
	out := Selection{Fragments: s.coverage, Zones: s.zones.len()}
	each(hits, func(i int) {
		out.ZonesKept++
		f, from, to := s.zones.fragment[i], s.zones.start[i], s.zones.start[i]+s.zones.length[i]
		if last := len(out.Ranges) - 1; last >= 0 && out.Ranges[last].Fragment == f && out.Ranges[last].To == from {
			out.Ranges[last].To = to
		} else if from < to {
			out.Ranges = append(out.Ranges, Range{f, from, to})
		}
	})
	return out
}

// Prune keeps what filter e leaves of all fragments, by the zone maps of its columns: maps returns the segments of a
// column, which cover different fragments, or none. Columns without zone maps, and fragments that none covers, are not
// narrowed. Zones of different columns may be cut differently. errs.ErrInvalid for values that are not of their
// column's Go type.
func Prune(e predicate.Expr, maps func(column int) []*Segment) (Selection, error) {
	s := &selector{maps: maps}
	out, err := s.prune(e)
	if err != nil {
		return Selection{}, err
	}
	out.ZonesKept, out.Zones = s.kept, s.total
	return out, nil
}

type selector struct {
	maps        func(column int) []*Segment
	kept, total int
}

func nothingKnown() Selection { return Selection{Fragments: roaring.New()} }

func (s *selector) prune(e predicate.Expr) (Selection, error) {
	out := nothingKnown()
	columns := predicate.Columns(e)
	for _, c := range columns {
		r, _ := predicate.Bounds(e, c)
		if r.IsEverything() {
			continue
		}
		for _, m := range s.maps(c) {
			one, err := m.Prune(r)
			if err != nil {
				return Selection{}, err
			}
			s.kept, s.total = s.kept+one.ZonesKept, s.total+one.Zones
			out = Both(out, one)
		}
	}
	if len(columns) < 2 { // the bounds of the only column said everything
		return out, nil
	}
	terms, conjunction := split(e)
	if conjunction {
		for _, t := range terms {
			if len(predicate.Columns(t)) < 2 {
				continue // in the bounds already
			}
			one, err := s.prune(t)
			if err != nil {
				return Selection{}, err
			}
			out = Both(out, one)
		}
		return out, nil
	}
	any, err := s.pruneAny(terms)
	if err != nil {
		return Selection{}, err
	}
	return Both(out, any), nil
}

// pruneAny is what a disjunction leaves.
func (s *selector) pruneAny(terms []predicate.Expr) (Selection, error) {
	out := nothingKnown()
	for i, t := range terms {
		one, err := s.prune(t)
		if err != nil {
			return Selection{}, err
		}
		if i == 0 {
			out = one
			continue
		}
		out = either(out, one)
	}
	return out, nil
}

// split takes a filter apart: terms that must all be true, or one of which must be. A filter that is neither is not
// narrowed: nil and false.
func split(e predicate.Expr) (terms []predicate.Expr, conjunction bool) {
	switch e := e.(type) {
	case predicate.And:
		return e.Terms, true
	case predicate.Or:
		return e.Terms, false
	case predicate.Not:
		var inner []predicate.Expr
		switch t := e.Term.(type) {
		case predicate.Not: // true exactly where the term is
			return []predicate.Expr{t.Term}, true
		case predicate.And:
			inner, conjunction = t.Terms, false
		case predicate.Or:
			inner, conjunction = t.Terms, true
		}
		for _, t := range inner {
			terms = append(terms, predicate.Not{Term: t})
		}
		return terms, conjunction
	}
	return nil, false
}

// Both keeps the rows that are in a and in b; a fragment that one says nothing about is as the other says.
func Both(a, b Selection) Selection {
	out := Selection{Fragments: roaring.Or(a.Fragments, b.Fragments)}
	merge(a.Ranges, b.Ranges, func(f uint32, x, y []Range) {
		switch inA, inB := a.Fragments.Contains(f), b.Fragments.Contains(f); {
		case inA && inB:
			out.Ranges = appendIntersection(out.Ranges, x, y)
		case inA:
			out.Ranges = append(out.Ranges, x...)
		default:
			out.Ranges = append(out.Ranges, y...)
		}
	})
	return out
}

// either keeps the rows that are in a or in b; a fragment that one says nothing about is read whole.
func either(a, b Selection) Selection {
	out := Selection{Fragments: roaring.And(a.Fragments, b.Fragments)}
	merge(a.Ranges, b.Ranges, func(f uint32, x, y []Range) {
		if out.Fragments.Contains(f) {
			out.Ranges = appendUnion(out.Ranges, x, y)
		}
	})
	return out
}

// merge calls visit for each fragment with ranges in a or b.
func merge(a, b []Range, visit func(fragment uint32, a, b []Range)) {
	cut := func(r []Range, f uint32) (head, rest []Range) {
		n := 0
		for n < len(r) && r[n].Fragment == f {
			n++
		}
		return r[:n], r[n:]
	}
	for len(a) > 0 || len(b) > 0 {
		var f uint32
		if len(b) == 0 || len(a) > 0 && a[0].Fragment <= b[0].Fragment {
			f = a[0].Fragment
		} else {
			f = b[0].Fragment
		}
		var x, y []Range
		x, a = cut(a, f)
		y, b = cut(b, f)
		visit(f, x, y)
	}
}

func appendIntersection(dst, a, b []Range) []Range {
	for len(a) > 0 && len(b) > 0 {
		r := Range{a[0].Fragment, max(a[0].From, b[0].From), min(a[0].To, b[0].To)}
		if r.From < r.To {
			dst = append(dst, r)
		}
		if a[0].To < b[0].To {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return dst
}

func appendUnion(dst, a, b []Range) []Range {
	first := len(dst)
	for len(a) > 0 || len(b) > 0 {
		var r Range
		if len(b) == 0 || len(a) > 0 && a[0].From <= b[0].From {
			r, a = a[0], a[1:]
		} else {
			r, b = b[0], b[1:]
		}
		if last := len(dst) - 1; last >= first && r.From <= dst[last].To {
			dst[last].To = max(dst[last].To, r.To)
		} else {
			dst = append(dst, r)
		}
	}
	return dst
}
