package btree

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
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
	if uint64(len(s.ids)) > math.MaxUint32 {
		s.undo(count, rows, rowNulls)
		return fmt.Errorf("sort more than %d rows: %w", uint32(math.MaxUint32), errs.ErrLimit)
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
		if !c.wide {
			items[i].head = c.fixed[i]
		}
	}
	spare := make([]sortItem, len(items))
	if !c.wide {
		radix(items, spare)
	} else {
		sortWide(c, items, spare, 0)
	}
	return items
}

// smallRun is the number of rows up to which comparing is cheaper than counting bytes.
const smallRun = 64

// sortWide sorts rows whose values share their first depth bytes, 8 more bytes at a time.
func sortWide(c *column, items, spare []sortItem, depth int) {
	for len(items) > smallRun {
		longer := false
		for i := range items {
			rest := c.key(int(items[i].row)).wide[depth:]
			longer = longer || len(rest) > 0
			items[i].head = head(rest)
		}
		if !longer {
			return // all equal, and in their order
		}
		radix(items, spare)
		if items[0].head != items[len(items)-1].head {
			break
		}
		// What all share is passed over, without a call a step: values may be long. Those that end here are below the
		// longer ones, whatever zeros they seem to go on with.
		short := sortShort(c, items, spare, depth)
		items, spare, depth = items[short:], spare[short:], depth+8
	}
	if len(items) <= smallRun {
		slices.SortStableFunc(items, func(a, b sortItem) int {
			return bytes.Compare(c.key(int(a.row)).wide[depth:], c.key(int(b.row)).wide[depth:])
		})
		return
	}
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].head == items[from].head {
			to++
		}
		if to-from > 1 {
			short := from + sortShort(c, items[from:to], spare[from:to], depth)
			sortWide(c, items[short:to], spare[short:to], depth+8)
		}
		from = to
	}
}

// sortShort moves the rows with at most 8 bytes behind depth to the front, the shortest first, and returns their number;
// all rows have the same head.
func sortShort(c *column, items, spare []sortItem, depth int) int {
	const lengths = 9
	var counts [lengths + 1]int
	class := func(it sortItem) int { return min(len(c.key(int(it.row)).wide)-depth, lengths) }
	for _, it := range items {
		counts[class(it)]++
	}
	if counts[lengths] == len(items) {
		return 0
	}
	sum := 0
	for i, n := range counts {
		counts[i] = sum
		sum += n
	}
	short := counts[lengths]
	for _, it := range items {
		k := class(it)
		spare[counts[k]] = it
		counts[k]++
	}
	copy(items, spare)
	return short
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

// radix sorts by head, stably, byte by byte from the lowest; bytes that are the same everywhere cost nothing. spare is as
// long as items.
func radix(items, spare []sortItem) {
	some, all, inOrder := uint64(0), ^uint64(0), true
	for i, it := range items {
		some, all = some|it.head, all&it.head
		inOrder = inOrder && (i == 0 || items[i-1].head <= it.head)
	}
	if inOrder {
		return
	}
	from, to := items, spare
	for shift := 0; shift < 64; shift += 8 {
		if (some^all)>>shift&0xff == 0 {
			continue
		}
		var counts [256]int
		for _, it := range from {
			counts[byte(it.head>>shift)]++
		}
		sum := 0
		for i, n := range counts {
			counts[i] = sum
			sum += n
		}
		for _, it := range from {
			d := byte(it.head >> shift)
			to[counts[d]] = it
			counts[d]++
		}
		from, to = to, from
	}
	if &from[0] != &items[0] {
		copy(items, from)
	}
}
