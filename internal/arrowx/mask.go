package arrowx

import "math/bits"

// Mask is a set of row numbers in [0, Len), one bit per row. The zero Mask is empty; it is not safe for
// concurrent writes.
type Mask struct {
	n     int
	words []uint64
}

// NewMask returns a mask over n rows with no bit set.
func NewMask(n int) *Mask { return &Mask{n: n, words: make([]uint64, (n+63)/64)} }

// NewFullMask returns a mask over n rows with every bit set.
func NewFullMask(n int) *Mask {
	m := NewMask(n)
	for i := range m.words {
		m.words[i] = ^uint64(0)
	}
	m.trim()
	return m
}

// MaskOf wraps words (bit i of word i/64 is row i) without copying; bits beyond n are cleared.
func MaskOf(words []uint64, n int) *Mask {
	m := &Mask{n: n, words: words[:(n+63)/64]}
	m.trim()
	return m
}

func (m *Mask) trim() {
	if r := m.n & 63; r != 0 {
		m.words[len(m.words)-1] &= 1<<uint(r) - 1
	}
}

// Len returns the number of rows the mask ranges over.
func (m *Mask) Len() int { return m.n }

// Get reports whether row i is in the set.
func (m *Mask) Get(i int) bool { return m.words[i>>6]>>(uint(i)&63)&1 != 0 }

// Set adds row i.
func (m *Mask) Set(i int) { m.words[i>>6] |= 1 << (uint(i) & 63) }

// Clear removes row i.
func (m *Mask) Clear(i int) { m.words[i>>6] &^= 1 << (uint(i) & 63) }

// And keeps the rows that are also in o, which has the same length.
func (m *Mask) And(o *Mask) {
	for i := range m.words {
		m.words[i] &= o.words[i]
	}
}

// AndNot removes the rows of o, which has the same length.
func (m *Mask) AndNot(o *Mask) {
	for i := range m.words {
		m.words[i] &^= o.words[i]
	}
}

// Count returns the number of rows in the set.
func (m *Mask) Count() int {
	c := 0
	for _, w := range m.words {
		c += bits.OnesCount64(w)
	}
	return c
}

// All reports whether every row is in the set.
func (m *Mask) All() bool { return m.Count() == m.n }

// Indices appends the rows of the set to dst in ascending order.
func (m *Mask) Indices(dst []int) []int {
	for i, w := range m.words {
		for w != 0 {
			dst = append(dst, i<<6+bits.TrailingZeros64(w))
			w &= w - 1
		}
	}
	return dst
}
