package predicate

import "slices"

// The algebra of Ranges. All operands are sets of one column, whose values have one Go type.

// pointsOf is the set of single values, given in any order and with repetitions.
func pointsOf(values []any) Ranges {
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, order)
	sorted = slices.CompactFunc(sorted, func(a, b any) bool { return order(a, b) == 0 })
	ivs := make([]Interval, len(sorted))
	for i, v := range sorted {
		ivs[i] = Interval{Low: v, High: v}
	}
	return Ranges{Intervals: ivs}
}

// otherValues is the set of the values that are not in r, without NULL.
func (r Ranges) otherValues() Ranges {
	var out Ranges
	next := Interval{} // begins where the last interval of r ended
	for _, iv := range r.Intervals {
		if iv.Low != nil {
			next.High, next.HighOpen = iv.Low, !iv.LowOpen
			out.Intervals = append(out.Intervals, next)
		}
		if iv.High == nil {
			return out
		}
		next = Interval{Low: iv.High, LowOpen: !iv.HighOpen}
	}
	out.Intervals = append(out.Intervals, nonEmpty(next)...)
	return out
}

// Intersect is the set of the cells in both.
func (r Ranges) Intersect(o Ranges) Ranges { return r.intersect(o) }

func (r Ranges) intersect(o Ranges) Ranges {
	out := Ranges{Null: r.Null && o.Null}
	a, b := r.Intervals, o.Intervals
	for len(a) > 0 && len(b) > 0 {
		iv := a[0]
		if compareLow(b[0], iv) > 0 {
			iv.Low, iv.LowOpen = b[0].Low, b[0].LowOpen
		}
		c := compareHigh(a[0], b[0])
		if c > 0 {
			iv.High, iv.HighOpen = b[0].High, b[0].HighOpen
		}
		if !iv.empty() {
			out.Intervals = append(out.Intervals, iv)
		}
		if c <= 0 { // a's ends first and meets nothing more of b
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// Union is the set of the cells in either.
func (r Ranges) Union(o Ranges) Ranges { return r.union(o) }

func (r Ranges) union(o Ranges) Ranges {
	out := Ranges{Null: r.Null || o.Null}
	a, b := r.Intervals, o.Intervals
	for len(a) > 0 || len(b) > 0 {
		var iv Interval
		if len(b) == 0 || len(a) > 0 && compareLow(a[0], b[0]) <= 0 {
			iv, a = a[0], a[1:]
		} else {
			iv, b = b[0], b[1:]
		}
		last := len(out.Intervals) - 1
		if last < 0 || !touches(out.Intervals[last], iv) {
			out.Intervals = append(out.Intervals, iv)
			continue
		}
		if compareHigh(iv, out.Intervals[last]) > 0 {
			out.Intervals[last].High, out.Intervals[last].HighOpen = iv.High, iv.HighOpen
		}
	}
	return out
}

// compareLow orders where intervals begin.
func compareLow(a, b Interval) int {
	switch {
	case a.Low == nil && b.Low == nil:
		return 0
	case a.Low == nil:
		return -1
	case b.Low == nil:
		return 1
	}
	if c := order(a.Low, b.Low); c != 0 {
		return c
	}
	return int(bit(a.LowOpen)) - int(bit(b.LowOpen))
}

// compareHigh orders where intervals end.
func compareHigh(a, b Interval) int {
	switch {
	case a.High == nil && b.High == nil:
		return 0
	case a.High == nil:
		return 1
	case b.High == nil:
		return -1
	}
	if c := order(a.High, b.High); c != 0 {
		return c
	}
	return int(bit(b.HighOpen)) - int(bit(a.HighOpen))
}

// touches reports whether b, which does not begin before a, begins in a or right at its end.
func touches(a, b Interval) bool {
	if a.High == nil || b.Low == nil {
		return true
	}
	c := order(b.Low, a.High)
	return c < 0 || c == 0 && !(a.HighOpen && b.LowOpen)
}

func (iv Interval) empty() bool {
	if iv.Low == nil || iv.High == nil {
		return false
	}
	c := order(iv.Low, iv.High)
	return c > 0 || c == 0 && (iv.LowOpen || iv.HighOpen)
}
