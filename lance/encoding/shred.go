package encoding

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/errs"
)

// Step is one layer on the way from a top-level field to a leaf, the outermost first.
type Step struct {
	Name     string
	List     bool // lists and maps; their items come next
	Child    int  // structs: which member comes next
	Nullable bool
}

// shredder is the entries of some rows while the layers are taken off one after the other.
type shredder struct {
	rep, def []uint16
	at       []int32 // position in the present array, relative to its offset; -1: the entry ends further out
}

// Shred appends rows [from, to) of an array, cut down to the leaf that path leads to: one entry per value or missing
// thing. The last step is the leaf itself. errs.ErrInvalid for nulls where a step does not allow them.
// Spec: file format, "A sound default writer", building levels.
func (l *Leaf) Shred(path []Step, a arrow.Array, from, to int) error {
	if len(path) != len(l.shape) {
		return fmt.Errorf("path of %d steps to a leaf of %d layers: %w", len(path), len(l.shape), errs.ErrInvalid)
	}
	s, next := &l.shredders[0], &l.shredders[1]
	s.resize(to - from)
	for i := range s.at {
		s.rep[i], s.def[i], s.at[i] = l.maxRep, 0, int32(from+i)
	}
	data := a.Data()
	number := l.maxRep // of the next list layer
	for i, step := range path {
		k := len(path) - 1 - i
		if err := s.nulls(step, data, uint16(2*k+1)); err != nil {
			return err
		}
		if k == 0 {
			break
		}
		if !step.List {
			if step.Child >= len(data.Children()) {
				return fmt.Errorf("struct %q of %d members: %w", step.Name, len(data.Children()), errs.ErrInvalid)
			}
			for e, at := range s.at {
				if at >= 0 {
					s.at[e] = at + int32(data.Offset())
				}
			}
			data = data.Children()[step.Child]
			continue
		}
		number--
		if err := s.expand(next, data, number, uint16(2*k+2)); err != nil {
			return fmt.Errorf("list %q: %w", step.Name, err)
		}
		s, next = next, s
		data = data.Children()[0]
	}
	return l.take(s, data)
}

// nulls ends the entries that are null in data.
func (s *shredder) nulls(step Step, data arrow.ArrayData, level uint16) error {
	all := data.DataType().ID() == arrow.NULL
	valid := bufferOf(data, 0)
	if !all && (len(valid) == 0 || data.NullN() == 0) {
		return nil
	}
	for e, at := range s.at {
		if at < 0 || !all && getBit(valid, int(at)+data.Offset()) {
			continue
		}
		if !step.Nullable && !all {
			return fmt.Errorf("field %q is not nullable and has nulls: %w", step.Name, errs.ErrInvalid)
		}
		s.def[e], s.at[e] = level, -1
	}
	return nil
}

// shredderEntries is how many entries a shredder keeps memory for.
const shredderEntries = 1 << 18

// resize makes room for n entries of arbitrary content.
func (s *shredder) resize(n int) {
	if cap(s.at) > shredderEntries && n <= shredderEntries {
		*s = shredder{}
	}
	s.rep, s.def, s.at = slices.Grow(s.rep[:0], n)[:n], slices.Grow(s.def[:0], n)[:n], slices.Grow(s.at[:0], n)[:n]
}

// expand puts into next, for each entry that is a list, its items; the first keeps the repetition level, the others get
// more.
func (s *shredder) expand(next *shredder, data arrow.ArrayData, more, empty uint16) error {
	span, err := listSpans(data)
	if err != nil {
		return err
	}
	if data.Children()[0].Len() > math.MaxInt32 {
		return fmt.Errorf("array of %d items: %w", data.Children()[0].Len(), errs.ErrLimit)
	}
	total := 0
	for _, at := range s.at {
		n := 1
		if at >= 0 {
			lo, hi := span(int(at))
			if lo > hi || hi > data.Children()[0].Len() {
				return fmt.Errorf("items %d..%d of %d: %w", lo, hi, data.Children()[0].Len(), errs.ErrInvalid)
			}
			n = max(1, hi-lo)
		}
		total += n
	}
	next.resize(total)
	n := 0
	for e, at := range s.at {
		next.rep[n] = s.rep[e]
		lo, hi := 0, 0
		if at >= 0 {
			lo, hi = span(int(at))
		}
		if lo == hi {
			next.def[n], next.at[n] = empty, -1
			if at < 0 {
				next.def[n] = s.def[e]
			}
			n++
			continue
		}
		for i := range next.at[n : n+hi-lo] {
			next.at[n+i] = int32(lo + i)
		}
		fill(next.rep[n+1:n+hi-lo], more)
		fill(next.def[n:n+hi-lo], 0)
		n += hi - lo
	}
	return nil
}

// listSpans returns a function that gives the items of a list.
func listSpans(data arrow.ArrayData) (func(i int) (lo, hi int), error) {
	if len(data.Children()) != 1 {
		return nil, fmt.Errorf("list with %d children: %w", len(data.Children()), errs.ErrInvalid)
	}
	off, n := data.Offset(), data.Len()
	b := bufferOf(data, 1)
	if n == 0 {
		return func(int) (int, int) { return 0, 0 }, nil
	}
	if data.DataType().ID() == arrow.LARGE_LIST {
		offs := wordsOf[uint64](b)
		if len(offs) < off+n+1 {
			return nil, fmt.Errorf("%d list offsets: %w", len(offs), errs.ErrInvalid)
		}
		return func(i int) (int, int) { return int(offs[off+i]), int(offs[off+i+1]) }, nil
	}
	offs := wordsOf[uint32](b)
	if len(offs) < off+n+1 {
		return nil, fmt.Errorf("%d list offsets: %w", len(offs), errs.ErrInvalid)
	}
	return func(i int) (int, int) { return int(offs[off+i]), int(offs[off+i+1]) }, nil
}

// take appends the entries and the values they own.
func (l *Leaf) take(s *shredder, data arrow.ArrayData) error {
	if dict := dictionaryOf(data); dict != nil && dict.NullN() > 0 {
		return unsupported("nested dictionary column with a null item")
	}
	leaf := array.MakeFromData(data)
	defer leaf.Release()
	maxDef := uint16(math.MaxUint16) // of entries that own a value: nothing further out than the innermost list is missing
	for k := len(l.shape) - 1; k > 0; k-- {
		if l.shape[k] {
			maxDef = uint16(2 * k)
		}
	}
	v := l.Values
	for e := 0; e < len(s.at); {
		if s.def[e] > maxDef {
			e++
			continue
		}
		run := e + 1
		if s.at[e] < 0 {
			for run < len(s.at) && s.at[run] < 0 && s.def[run] <= maxDef {
				run++
			}
			if err := v.appendPlaceholders(run - e); err != nil {
				return err
			}
		} else {
			for run < len(s.at) && s.at[run] == s.at[run-1]+1 && s.def[run] <= maxDef {
				run++
			}
			if err := v.AppendArray(leaf, int(s.at[e]), int(s.at[e])+run-e); err != nil {
				return err
			}
		}
		e = run
	}
	v.nulls = 0
	v.valid.release()
	canon := make([]uint16, 2*len(l.shape)+1)
	for i := range canon {
		canon[i] = uint16(i)
	}
	rep, def := s.rep, s.def
	if l.maxRep == 0 {
		rep = nil
	}
	if !slices.ContainsFunc(def, func(d uint16) bool { return d > 0 }) {
		def = nil
	}
	return l.addLevels(rep, def, canon, len(s.at))
}

// NestedBytes is about the unencoded size of rows [from, to) of an array of any type.
func NestedBytes(data arrow.ArrayData, from, to int) int {
	n := (to - from) * 2
	switch dt := data.DataType().(type) {
	case *arrow.StructType:
		for _, c := range data.Children() {
			n += NestedBytes(c, from+data.Offset(), to+data.Offset())
		}
		return n
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		span, err := listSpans(data)
		if err != nil || from >= to || to > data.Len() {
			return n
		}
		lo, _ := span(from)
		_, hi := span(to - 1)
		if lo > hi || hi > data.Children()[0].Len() {
			return n
		}
		return n + NestedBytes(data.Children()[0], lo, hi)
	default:
		t, err := TypeOf(dt)
		if err != nil {
			return n
		}
		a := array.MakeFromData(data)
		defer a.Release()
		return n + t.ArrayBytes(a, from, to)
	}
}
