package btree

import (
	"bytes"
	"fmt"
	"math"
	"sort"

	"lancesql/internal/errs"
)

// column holds values in comparable form, none of them NULL. Fixed-width types of up to 64 bits become unsigned numbers
// whose order is the index's; everything else becomes byte strings that are compared bytewise. order.go maps the types.
type column struct {
	wide  bool // byte strings
	fixed []uint64
	ends  []uint32 // wide: end of each value in data
	data  []byte   // wide

	// Of a column that is searched often (index): what all values begin with, and the 8 bytes behind it as a number each.
	shared int
	heads  []uint64
}

// key is one value of a column.
type key struct {
	fixed uint64
	wide  []byte
}

// columnBytesMax bounds the bytes of the values of one column.
const columnBytesMax = math.MaxUint32

func (c *column) len() int {
	if c.wide {
		return len(c.ends)
	}
	return len(c.fixed)
}

// bytes returns the memory held.
func (c *column) bytes() int64 {
	return int64(8*(cap(c.fixed)+cap(c.heads)) + 4*cap(c.ends) + cap(c.data))
}

func (c *column) span(i int) (lo, hi uint32) {
	if i > 0 {
		lo = c.ends[i-1]
	}
	return lo, c.ends[i]
}

// key returns value i, which shares the column's memory.
func (c *column) key(i int) key {
	if c.wide {
		lo, hi := c.span(i)
		return key{wide: c.data[lo:hi:hi]}
	}
	return key{fixed: c.fixed[i]}
}

// add appends a value. errs.ErrLimit when the column gets too large.
func (c *column) add(k key) error {
	if !c.wide {
		c.fixed = append(c.fixed, k.fixed)
		return nil
	}
	if uint64(len(c.data))+uint64(len(k.wide)) > columnBytesMax {
		return errTooWide()
	}
	c.data = append(c.data, k.wide...)
	c.ends = append(c.ends, uint32(len(c.data)))
	return nil
}

// addRange appends values [from, to) of o, a column of the same form.
func (c *column) addRange(o *column, from, to int) error {
	if from == to {
		return nil
	}
	if !c.wide {
		c.fixed = append(c.fixed, o.fixed[from:to]...)
		return nil
	}
	lo, _ := o.span(from)
	hi := o.ends[to-1]
	if uint64(len(c.data))+uint64(hi-lo) > columnBytesMax {
		return errTooWide()
	}
	base := uint32(len(c.data))
	c.data = append(c.data, o.data[lo:hi]...)
	for _, end := range o.ends[from:to] {
		c.ends = append(c.ends, end-lo+base)
	}
	return nil
}

func errTooWide() error {
	return fmt.Errorf("values of more than %d bytes together: %w", uint64(columnBytesMax), errs.ErrLimit)
}

func (c *column) reset() {
	c.fixed, c.ends, c.data, c.heads, c.shared = c.fixed[:0], c.ends[:0], c.data[:0], nil, 0
}

// compare orders value i of the column and k.
func (c *column) compare(i int, k key) int {
	if c.wide {
		lo, hi := c.span(i)
		return bytes.Compare(c.data[lo:hi], k.wide)
	}
	switch v := c.fixed[i]; {
	case v < k.fixed:
		return -1
	case v > k.fixed:
		return 1
	}
	return 0
}

func (c *column) compareKeys(a, b key) int {
	if c.wide {
		return bytes.Compare(a.wide, b.wide)
	}
	switch {
	case a.fixed < b.fixed:
		return -1
	case a.fixed > b.fixed:
		return 1
	}
	return 0
}

// lower returns the first position from from on whose value is not below k; the values are ascending. It looks near
// from first, since look-ups come in order.
func (c *column) lower(from int, k key) int {
	if c.wide {
		lo, hi := c.narrow(from, k)
		return gallop(lo, hi, func(i int) bool { return c.compare(i, k) >= 0 })
	}
	return lowerFixed(c.fixed, from, k.fixed)
}

// upper returns the first position from from on whose value is above k.
func (c *column) upper(from int, k key) int {
	if !c.wide && k.fixed < math.MaxUint64 {
		return lowerFixed(c.fixed, from, k.fixed+1)
	}
	if !c.wide {
		return max(from, len(c.fixed))
	}
	lo, hi := c.narrow(from, k)
	return gallop(lo, hi, func(i int) bool { return c.compare(i, k) > 0 })
}

// index prepares a column of ascending byte strings, which does not change any more, for searches.
// Why: a binary search over numbers that lie side by side waits for memory a third as often as one over strings.
func (c *column) index() {
	n := len(c.ends)
	if !c.wide || n < smallRun {
		return
	}
	first, last := c.key(0).wide, c.key(n-1).wide
	for c.shared < min(len(first), len(last)) && first[c.shared] == last[c.shared] {
		c.shared++
	}
	c.heads = make([]uint64, n)
	for i := range c.heads {
		c.heads[i] = head(c.key(i).wide[c.shared:])
	}
}

// narrow returns positions [lo, hi) outside of which no value equals k: those before are below it, those behind above.
func (c *column) narrow(from int, k key) (lo, hi int) {
	if c.heads == nil {
		return from, len(c.ends)
	}
	prefix := c.key(0).wide[:c.shared]
	if !bytes.HasPrefix(k.wide, prefix) {
		if bytes.Compare(k.wide, prefix) < 0 {
			return from, from
		}
		return max(from, len(c.ends)), max(from, len(c.ends))
	}
	h := head(k.wide[c.shared:])
	lo, hi = lowerFixed(c.heads, from, h), len(c.heads)
	if h < math.MaxUint64 {
		hi = lowerFixed(c.heads, lo, h+1)
	}
	return lo, hi
}

// lowerFixed is lower for numbers.
// Why: a loop of its own; the look-up of a key spends most of its time here.
func lowerFixed(v []uint64, from int, k uint64) int {
	lo, hi := from, len(v)
	for step := 16; lo+step < hi; step *= 2 {
		if v[lo+step] >= k {
			hi = lo + step
			break
		}
		lo += step + 1
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if v[mid] < k {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// gallop returns the first position in [from, n) for which at is true, n if there is none; at is monotonous.
func gallop(from, n int, at func(i int) bool) int {
	lo, hi := from, n
	for step := 16; lo+step < hi; step *= 2 {
		if at(lo + step) {
			hi = lo + step
			break
		}
		lo += step + 1
	}
	if lo >= hi {
		return lo
	}
	return lo + sort.Search(hi-lo, func(i int) bool { return at(lo + i) })
}
