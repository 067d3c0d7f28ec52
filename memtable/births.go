package memtable

import (
	"sort"
	"sync/atomic"
)

// birth says that rows rows in total were born at or before seq.
type birth struct {
	seq  uint64
	rows uint32
}

// Births maps sequence numbers to row counts. One goroutine adds; any number read, without blocking. The zero
// Births is empty.
//
// Invariant: entries ascend in seq and rows (not strictly). Readers hold a prefix of the array; the adder only
// writes beyond every published length, or to a fresh array.
type Births struct {
	list atomic.Pointer[[]birth]
}

func (b *Births) entries() []birth {
	if p := b.list.Load(); p != nil {
		return *p
	}
	return nil
}

// At returns the number of rows born at or before seq.
func (b *Births) At(seq uint64) uint32 {
	e := b.entries()
	i := sort.Search(len(e), func(i int) bool { return e[i].seq > seq })
	if i == 0 {
		return 0
	}
	return e[i-1].rows
}

// Last returns the greatest sequence number recorded, 0 if none.
func (b *Births) Last() uint64 {
	e := b.entries()
	if len(e) == 0 {
		return 0
	}
	return e[len(e)-1].seq
}

// Of returns the sequence number at which the row at position row was born; false if no birth covers it.
func (b *Births) Of(row uint32) (uint64, bool) {
	e := b.entries()
	i := sort.Search(len(e), func(i int) bool { return e[i].rows > row })
	if i == len(e) {
		return 0, false
	}
	return e[i].seq, true
}

// Add records that rows rows in total are born at or before seq. Neither ever falls: a smaller value counts
// as the greatest so far.
func (b *Births) Add(seq uint64, rows uint32) {
	e := b.entries()
	if n := len(e); n > 0 {
		seq, rows = max(seq, e[n-1].seq), max(rows, e[n-1].rows)
		if e[n-1] == (birth{seq, rows}) {
			return
		}
	}
	e = append(e, birth{seq, rows})
	b.list.Store(&e)
}

// bytes returns the memory the entries use.
func (b *Births) bytes() int64 { return int64(cap(b.entries())) * 16 }

// Settle forgets what only views older than seq could ask for: At of a number below seq may then answer with the rows
// born at seq or before. It is called by the one that adds, or with Add excluded.
func (b *Births) Settle(seq uint64) {
	e := b.entries()
	i := sort.Search(len(e), func(i int) bool { return e[i].seq > seq })
	if i < 2 {
		return
	}
	kept := append([]birth{{e[i-1].seq, e[i-1].rows}}, e[i:]...)
	b.list.Store(&kept)
}
