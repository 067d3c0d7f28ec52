package btree

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// SortBytesDefault bounds what a Sorter holds: about 25 million integers. An index over more rows is built in several
// segments, which Merge joins without sorting.
const SortBytesDefault = 1 << 30

// sortRowBytes is what a row costs while it is sorted, its bytes in byte strings apart: value, id, two places.
const sortRowBytes = 40

// Sorter collects rows in any order and yields them in the order of an index. It is not safe for concurrent use.
type Sorter struct {
	typ    arrow.DataType
	mem    memory.Allocator
	budget int64
	values column
	ids    []uint64 // of values
	nulls  []uint64 // ids of NULLs
}

// NewSorter returns an empty Sorter for values of type t that holds about budget bytes at most, 0: SortBytesDefault.
// mem is the allocator of what it yields, nil: the Go allocator. errs.ErrUnsupported for types without an order.
func NewSorter(t arrow.DataType, budget int64, mem memory.Allocator) (*Sorter, error) {
	c, err := newColumn(t)
	if err != nil {
		return nil, err
	}
	if budget <= 0 {
		budget = SortBytesDefault
	}
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return &Sorter{typ: t, mem: mem, budget: budget, values: c}, nil
}

// Rows returns the number of rows collected.
func (s *Sorter) Rows() int { return len(s.ids) + len(s.nulls) }

// Bytes returns about how much memory the rows need until they are yielded.
func (s *Sorter) Bytes() int64 {
	return int64(sortRowBytes*len(s.ids)+8*len(s.nulls)) + int64(len(s.values.data))
}

// Add collects the rows of a batch, which is borrowed. errs.ErrLimit if they do not fit the budget: nothing of the batch
// was taken then, so that what came before can be written as one segment.
func (s *Sorter) Add(b Batch) error {
	n := b.Values.Len()
	if len(b.IDs) != n || !arrow.TypeEqual(b.Values.DataType(), s.typ) {
		return fmt.Errorf("%d ids for %d values of type %s, the index is over %s: %w", len(b.IDs), n, b.Values.DataType(), s.typ, errs.ErrInvalid)
	}
	if n == 0 {
		return nil
	}
	rows, count := len(s.ids), s.values
	rowNulls := len(s.nulls)
	for from := 0; from < n; {
		to := from
		for to < n && b.Values.IsValid(to) {
			to++
		}
		if err := s.values.encode(b.Values, from, to); err != nil {
			s.undo(count, rows, rowNulls)
			return err
		}
		s.ids = append(s.ids, b.IDs[from:to]...)
		for from = to; from < n && b.Values.IsNull(from); from++ {
			s.nulls = append(s.nulls, b.IDs[from])
		}
	}
	if have := s.Bytes(); have > s.budget {
		s.undo(count, rows, rowNulls)
		return fmt.Errorf("sort %d bytes of index rows, at most %d: %w", have, s.budget, errs.ErrLimit)
	}
	return nil
}

// undo goes back to a state before.
func (s *Sorter) undo(values column, rows, nulls int) {
	s.values.fixed, s.values.ends, s.values.data = values.fixed, values.ends, values.data
	s.ids, s.nulls = s.ids[:rows], s.nulls[:nulls]
}

// Stream sorts what was collected and yields it; rows of equal value come in the order in which they were added. The
// Sorter is empty afterwards.
func (s *Sorter) Stream() Stream {
	values, ids, nulls := s.values, s.ids, s.nulls
	s.values, s.ids, s.nulls = column{wide: values.wide}, nil, nil
	var order []sortItem
	at := 0
	return func(ctx context.Context) (Batch, error) {
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
		if len(nulls) > 0 {
			n := min(len(nulls), chunkRows)
			out := nulls[:n]
			nulls = nulls[n:]
			empty := column{wide: values.wide}
			a, err := empty.arrow(s.mem, s.typ, n)
			return Batch{Values: a, IDs: out}, err
		}
		if order == nil {
			order = sortColumn(&values)
		}
		if at == len(order) {
			return Batch{}, io.EOF
		}
		c := column{wide: values.wide}
		part := order[at:min(len(order), at+chunkRows)]
		out := make([]uint64, len(part))
		for i, item := range part {
			out[i] = ids[item.row]
			if err := c.add(values.key(int(item.row))); err != nil {
				return Batch{}, err
			}
		}
		at += len(part)
		a, err := c.arrow(s.mem, s.typ, 0)
		return Batch{Values: a, IDs: out}, err
	}
}

// sortItem is a row and the number its value sorts by: the value itself, or the first 8 bytes of a byte string.
type sortItem struct {
	head uint64
	row  uint32
}

// sortColumn returns the rows of a column in ascending order of their values, equal ones in their order.
func sortColumn(c *column) []sortItem {
	items := make([]sortItem, c.len())
	for i := range items {
		items[i].row = uint32(i)
		if c.wide {
			items[i].head = head(c.key(i).wide)
		} else {
			items[i].head = c.fixed[i]
		}
	}
	items = radix(items)
	if !c.wide {
		return items
	}
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].head == items[from].head {
			to++
		}
		if to-from > 1 {
			slices.SortStableFunc(items[from:to], func(a, b sortItem) int {
				return bytes.Compare(c.key(int(a.row)).wide, c.key(int(b.row)).wide)
			})
		}
		from = to
	}
	return items
}

// head is the first 8 bytes of b as a number, with zeros behind a shorter one.
func head(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var p [8]byte
	copy(p[:], b)
	return binary.BigEndian.Uint64(p[:])
}

// radix sorts by head, stably, byte by byte from the lowest; bytes that are the same everywhere cost nothing.
func radix(items []sortItem) []sortItem {
	if slices.IsSortedFunc(items, func(a, b sortItem) int {
		switch {
		case a.head < b.head:
			return -1
		case a.head > b.head:
			return 1
		}
		return 0
	}) {
		return items
	}
	any1, all1 := uint64(0), ^uint64(0)
	for _, it := range items {
		any1, all1 = any1|it.head, all1&it.head
	}
	other := make([]sortItem, len(items))
	for shift := 0; shift < 64; shift += 8 {
		if (any1^all1)>>shift&0xff == 0 {
			continue
		}
		var counts [256]int
		for _, it := range items {
			counts[byte(it.head>>shift)]++
		}
		sum := 0
		for i, n := range counts {
			counts[i] = sum
			sum += n
		}
		for _, it := range items {
			d := byte(it.head >> shift)
			other[counts[d]] = it
			counts[d]++
		}
		items, other = other, items
	}
	return items
}
