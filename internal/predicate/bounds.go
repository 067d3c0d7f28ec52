package predicate

import (
	"slices"
	"sort"
)

// Interval is a run of values of one column in the order of CompareCells. NULL lies in no interval; NaN is the last
// value of a float column, so that an interval without an upper bound has it.
type Interval struct {
	Low, High         any  // cells as described at arrowx.Row; nil: no bound
	LowOpen, HighOpen bool // the bound itself is outside
}

// Ranges is a set of cells of one column: ascending intervals that do not meet, and NULL or not. The zero value is
// the empty set.
type Ranges struct {
	Intervals []Interval
	Null      bool
}

// Everything is the set of all cells, NULL among them.
func Everything() Ranges { return Ranges{Intervals: []Interval{{}}, Null: true} }

// NotNull is the set of all values.
func NotNull() Ranges { return Ranges{Intervals: []Interval{{}}} }

// IsEmpty reports whether no cell is in r.
func (r Ranges) IsEmpty() bool { return len(r.Intervals) == 0 && !r.Null }

// IsEverything reports whether every cell is in r.
func (r Ranges) IsEverything() bool { return r.Null && r.hasAllValues() }

func (r Ranges) hasAllValues() bool {
	return len(r.Intervals) == 1 && r.Intervals[0].Low == nil && r.Intervals[0].High == nil
}

// Points returns the values of r, ascending, if it consists of single values only; NULL is not among them.
func (r Ranges) Points() (values []any, ok bool) {
	for _, iv := range r.Intervals {
		if !iv.IsPoint() {
			return nil, false
		}
	}
	values = make([]any, len(r.Intervals))
	for i, iv := range r.Intervals {
		values[i] = iv.Low
	}
	return values, true
}

// IsPoint reports whether the interval is a single value, Low.
func (iv Interval) IsPoint() bool {
	return iv.Low != nil && iv.High != nil && !iv.LowOpen && !iv.HighOpen && order(iv.Low, iv.High) == 0
}

// Contains reports whether cell v, nil for NULL, is in r. A value of another Go type than the bounds' is in it.
func (r Ranges) Contains(v any) bool {
	if v == nil {
		return r.Null
	}
	// The first interval that does not end before v is the only one that can hold it.
	i := sort.Search(len(r.Intervals), func(i int) bool {
		iv := r.Intervals[i]
		if iv.High == nil {
			return true
		}
		c := order(iv.High, v)
		return c > 0 || c == 0 && !iv.HighOpen
	})
	if i == len(r.Intervals) {
		return false
	}
	iv := r.Intervals[i]
	if iv.Low == nil {
		return true
	}
	c := order(iv.Low, v)
	return c < 0 || c == 0 && !iv.LowOpen
}

// order compares values whose Go types were found equal before.
func order(a, b any) int {
	c, _ := CompareCells(a, b)
	return c
}

// HasPrefix is the predicate "column begins with prefix", a string or a []byte: what LIKE 'p%' means on bytes. ok is
// false for other types.
func HasPrefix(column int, prefix any) (e Expr, ok bool) {
	var low []byte
	text := false
	switch p := prefix.(type) {
	case string:
		low, text = []byte(p), true
	case []byte:
		low = p
	default:
		return nil, false
	}
	if len(low) == 0 {
		return Not{IsNull{column}}, true
	}
	terms := []Expr{Compare{column, Ge, prefix}}
	if high := afterPrefix(low); high != nil && text {
		terms = append(terms, Compare{column, Lt, string(high)})
	} else if high != nil {
		terms = append(terms, Compare{column, Lt, high})
	}
	return And{terms}, true
}

// afterPrefix is the least byte string above all that begin with p, nil if there is none.
func afterPrefix(p []byte) []byte {
	for n := len(p); n > 0; n-- {
		if p[n-1] != 0xff {
			high := slices.Clone(p[:n])
			high[n-1]++
			return high
		}
	}
	return nil
}

// Bounds returns the cells that column has in rows for which e is true, or more of them. With exact, e is true for
// a row if and only if its cell is in the set, whatever the other columns hold. An expression this package does not
// know, and one whose values are not all of one Go type per column, bounds nothing.
//
// Place: zone maps test the set against what a zone can hold, ordered indexes look the intervals up, bitmaps their
// values; what is not exact is evaluated again.
func Bounds(e Expr, column int) (r Ranges, exact bool) {
	if !uniform(e, column) {
		return Everything(), false
	}
	b := boundsOf(e, column)
	return b.t, b.exactT
}

// bounds is what a column's cell says about an expression: t holds every cell with which it can be true, f every cell
// with which it can be false. If exact, it is true (false) with each of them.
type bounds struct {
	t, f           Ranges
	exactT, exactF bool
}

func (b bounds) negated() bounds {
	return bounds{t: b.f, f: b.t, exactT: b.exactF, exactF: b.exactT}
}

func boundsOf(e Expr, column int) bounds {
	unknown := bounds{t: Everything(), f: Everything()}
	switch e := e.(type) {
	case Const:
		return constantBounds(e.Value)
	case Not:
		return boundsOf(e.Term, column).negated()
	case And:
		return junctionBounds(e.Terms, column)
	case Or: // not (not a and not b)
		terms := make([]Expr, len(e.Terms))
		for i, t := range e.Terms {
			terms[i] = Not{t}
		}
		return junctionBounds(terms, column).negated()
	case IsNull:
		if e.Column != column {
			return unknown
		}
		return bounds{t: Ranges{Null: true}, f: NotNull(), exactT: true, exactF: true}
	case In:
		if len(e.Values) == 0 { // false, also for NULL
			return constantBounds(false)
		}
		if e.Column != column {
			return unknown
		}
		t := pointsOf(e.Values)
		return bounds{t: t, f: t.otherValues(), exactT: true, exactF: true}
	case Compare:
		return compareBounds(e, column)
	default:
		return unknown
	}
}

func constantBounds(v bool) bounds {
	b := bounds{t: Everything(), exactT: true, exactF: true}
	if !v {
		return b.negated()
	}
	return b
}

func compareBounds(e Compare, column int) bounds {
	if e.Value == nil && e.Op != NullSafeEq { // NULL for every row
		return bounds{exactT: true, exactF: true}
	}
	if e.Column != column {
		return bounds{t: Everything(), f: Everything()}
	}
	if e.Value == nil {
		return bounds{t: Ranges{Null: true}, f: NotNull(), exactT: true, exactF: true}
	}
	t := Ranges{Intervals: intervalsOf(e.Op, e.Value)}
	f := t.otherValues()
	f.Null = e.Op == NullSafeEq
	return bounds{t: t, f: f, exactT: true, exactF: true}
}

// intervalsOf are the values x with "x op v".
func intervalsOf(op Op, v any) []Interval {
	switch op {
	case Ne:
		return nonEmpty(Interval{High: v, HighOpen: true}, Interval{Low: v, LowOpen: true})
	case Lt:
		return nonEmpty(Interval{High: v, HighOpen: true})
	case Le:
		return nonEmpty(Interval{High: v})
	case Gt:
		return nonEmpty(Interval{Low: v, LowOpen: true})
	case Ge:
		return nonEmpty(Interval{Low: v})
	default:
		return nonEmpty(Interval{Low: v, High: v})
	}
}

// nonEmpty drops the intervals that hold nothing because nothing is above NaN. Only this emptiness at an end of a
// type's values is known; others are harmless.
func nonEmpty(ivs ...Interval) []Interval {
	return slices.DeleteFunc(ivs, func(iv Interval) bool { return iv.High == nil && iv.LowOpen && isNaN(iv.Low) })
}

func isNaN(v any) bool {
	switch v := v.(type) {
	case float32:
		return v != v
	case float64:
		return v != v
	}
	return false
}

// junctionBounds is the conjunction: true where every term is, false where any is.
// Why halves: joining one term after the other takes quadratic time for long lists.
func junctionBounds(terms []Expr, column int) bounds {
	switch len(terms) {
	case 0:
		return constantBounds(true)
	case 1:
		return boundsOf(terms[0], column)
	}
	a := junctionBounds(terms[:len(terms)/2], column)
	b := junctionBounds(terms[len(terms)/2:], column)
	out := bounds{t: a.t.intersect(b.t), f: a.f.union(b.f), exactT: a.exactT && b.exactT, exactF: a.exactF && b.exactF}
	// Nothing left is exact, whatever was left out, and so is a term that alone decides every row.
	out.exactT = out.exactT || out.t.IsEmpty()
	out.exactF = out.exactF || a.exactF && a.f.IsEverything() || b.exactF && b.f.IsEverything()
	return out
}

// uniform reports whether all values that e compares column with have one Go type that CompareCells orders.
func uniform(e Expr, column int) bool {
	var first any
	var walk func(e Expr) bool
	same := func(v any) bool {
		if v == nil {
			return true
		}
		if first == nil {
			first = v
		}
		_, ok := CompareCells(first, v)
		return ok
	}
	walk = func(e Expr) bool {
		switch e := e.(type) {
		case Not:
			return walk(e.Term)
		case And:
			return !slices.ContainsFunc(e.Terms, func(t Expr) bool { return !walk(t) })
		case Or:
			return !slices.ContainsFunc(e.Terms, func(t Expr) bool { return !walk(t) })
		case Compare:
			return e.Column != column || e.Op >= Eq && e.Op <= NullSafeEq && same(e.Value)
		case In:
			return e.Column != column || !slices.ContainsFunc(e.Values, func(v any) bool { return v == nil || !same(v) })
		}
		return true
	}
	return walk(e)
}
