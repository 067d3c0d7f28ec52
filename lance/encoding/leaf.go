package encoding

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// Shape says which layers lie above a leaf column, innermost first; true is a list. The first is the leaf itself.
type Shape []bool

// Lists returns the number of list layers.
func (s Shape) Lists() int {
	n := 0
	for _, list := range s {
		if list {
			n++
		}
	}
	return n
}

// Leaf is a growing leaf column of a nested type: one entry per value or missing thing, with the levels that say where
// it belongs, and the value slots. Pages number definition levels each in its own way; here layer k that is null is
// always 2k+1 and one that is empty 2k+2, whatever the page.
// Spec: file format, "Repetition and definition levels".
type Leaf struct {
	Values *Vector // value slots; all valid until NewArray looks at the levels

	shape   Shape
	maxRep  uint16
	rows    int
	entries int
	rep     []uint16              // nil without lists
	def     []uint16              // empty while all entries are 0
	seen    [2*maxLayers + 1]bool // levels that the pages could have

	shredders [2]shredder // memory of Shred
}

// NewLeaf returns an empty leaf. mem nil means the Go allocator.
func NewLeaf(shape Shape, t Type, mem memory.Allocator) *Leaf {
	return &Leaf{Values: NewVector(t, mem), shape: shape, maxRep: uint16(shape.Lists())}
}

// Rows returns the number of rows.
func (l *Leaf) Rows() int { return l.rows }

// Layers returns the number of layers, the leaf itself included.
func (l *Leaf) Layers() int { return len(l.shape) }

// Reset empties the leaf and frees the values.
func (l *Leaf) Reset() {
	l.Values.Release()
	l.rows, l.entries, l.rep, l.def = 0, 0, l.rep[:0], l.def[:0]
	clear(l.seen[:])
}

// canon maps the definition levels of a page to those of leaves of this shape.
func (p *LevelPlan) canon(shape Shape) ([]uint16, error) {
	if len(p.Layers) != len(shape) {
		return nil, corrupt("page with %d nesting levels where %d are expected", len(p.Layers), len(shape))
	}
	out := make([]uint16, p.MaxDef+1)
	for k, layer := range p.Layers {
		if layer.List != shape[k] {
			return nil, corrupt("nesting level %d of the page is of the wrong kind", k)
		}
		if layer.NullLevel > 0 {
			out[layer.NullLevel] = uint16(2*k + 1)
		}
		if layer.EmptyLevel > 0 {
			out[layer.EmptyLevel] = uint16(2*k + 2)
		}
	}
	return out, nil
}

// addLevels appends entries. rep must be nil exactly if the shape has no lists; def nil means 0 for each.
func (l *Leaf) addLevels(rep, def, canon []uint16, n int) error {
	if l.maxRep > 0 {
		if len(rep) != n {
			return corrupt("%d repetition levels for %d entries", len(rep), n)
		}
		rows, ok := rowStarts(rep, l.maxRep)
		if !ok {
			return corrupt("repetition level above %d", l.maxRep)
		}
		l.rows += rows
		l.rep = append(l.rep, rep...)
	} else {
		l.rows += n
	}
	switch {
	case def != nil:
		if len(l.def) < l.entries {
			l.def = append(l.def, make([]uint16, l.entries-len(l.def))...)
		}
		at := len(l.def)
		l.def = slices.Grow(l.def, n)[:at+n]
		for i, d := range def {
			if int(d) >= len(canon) {
				return corrupt("definition level %d of %d", d, len(canon)-1)
			}
			l.def[at+i] = canon[d]
		}
		for _, level := range canon {
			l.seen[level] = true
		}
	case len(l.def) > 0:
		l.def = append(l.def, make([]uint16, n)...)
	}
	l.entries += n
	return nil
}

// bounds returns what makes an entry a slot of layer k: the least repetition level and the greatest definition level.
func (l *Leaf) bounds(k int) (minRep, maxDef uint16) {
	for _, list := range l.shape[:k+1] {
		if list {
			minRep++
		}
	}
	for outer := k + 1; outer < len(l.shape); outer++ {
		if l.shape[outer] {
			return minRep, uint16(2 * outer)
		}
	}
	return minRep, math.MaxUint16
}

func (l *Leaf) slots(k int) slotRule {
	minRep, maxDef := l.bounds(k)
	return slotRule{minRep, maxDef}
}

// missing reports whether one of the pages had a level from null to last other than empty.
func (l *Leaf) missing(null, empty, last uint16) bool {
	for level := null; level <= last && int(level) < len(l.seen); level++ {
		if l.seen[level] && level != empty {
			return true
		}
	}
	return false
}

// validity returns the validity of the slots of layer k, nil if all are valid.
func (l *Leaf) validity(k int) (valid *memory.Buffer, slots, nulls int) {
	rule := l.slots(k)
	null, empty := uint16(2*k+1), uint16(0)
	if l.shape[k] {
		empty = uint16(2*k + 2)
	}
	if len(l.def) == 0 || !l.missing(null, empty, rule.maxDef) {
		if rule == (slotRule{l.maxRep, math.MaxUint16}) {
			return nil, l.rows, 0 // the outermost list: every row is a slot
		}
		return nil, countSlots(l.rep, l.def, l.entries, rule), 0
	}
	var bits store
	slots, nulls = slotBits(bits.grow(l.Values.mem, bitmapBytes(l.entries)), l.rep, l.def, rule, null, empty)
	if nulls == 0 {
		bits.release()
		return nil, slots, 0
	}
	bits.buf.ResizeNoShrink(bitmapBytes(slots))
	return bits.take(), slots, nulls
}

// offsets returns the list offsets of layer k, of w bytes each. errs.ErrLimit if they do not fit.
func (l *Leaf) offsets(k, slots, w int) (*memory.Buffer, int, error) {
	outer, inner := l.slots(k), l.slots(k-1)
	var out store
	b := out.grow(l.Values.mem, (slots+1)*w)
	var n int
	if w == 8 {
		n = slotEnds(wordsOf[uint64](b), l.rep, l.def, outer, inner)
	} else {
		n = slotEnds(wordsOf[uint32](b), l.rep, l.def, outer, inner)
	}
	var err error
	switch {
	case uintN(b, w) != 0:
		err = corrupt("a list begins inside another")
	case w == 4 && n > math.MaxInt32:
		err = fmt.Errorf("lists of %d items in one batch: %w", n, errs.ErrLimit)
	}
	if err != nil {
		out.release()
		return nil, 0, err
	}
	return out.take(), n, nil
}

// validityEvery is validity for a layer above fixed-size lists: the entries of one value are every slots long and agree.
func (l *Leaf) validityEvery(k, every int) (valid *memory.Buffer, slots, nulls int, err error) {
	if valid, slots, nulls = l.validity(k); every == 1 {
		return valid, slots, nulls, nil
	}
	if slots%every != 0 {
		if valid != nil {
			valid.Release()
		}
		return nil, 0, 0, corrupt("%d values in fixed-size lists of %d", slots, every)
	}
	slots /= every
	if valid == nil {
		return nil, slots, 0, nil
	}
	var bits store
	out := bits.grow(l.Values.mem, bitmapBytes(slots))
	clear(out)
	nulls = 0
	for i := range slots {
		if getBit(valid.Bytes(), i*every) {
			setBits(out, i, 1, true)
		} else {
			nulls++
		}
	}
	valid.Release()
	return bits.take(), slots, nulls, nil
}

// FixedListData builds the data of a fixed-size list of structs that is layer k of the leaf, which has every entries
// for each of its values; the child is borrowed.
func (l *Leaf) FixedListData(dt *arrow.FixedSizeListType, k, every int, child arrow.ArrayData) (arrow.ArrayData, error) {
	valid, slots, nulls, err := l.validityEvery(k, every)
	if err != nil {
		return nil, err
	}
	if valid != nil {
		defer valid.Release()
	}
	if child.Len() != slots*int(dt.Len()) {
		return nil, corrupt("%d items in %d fixed-size lists of %d", child.Len(), slots, dt.Len())
	}
	return array.NewData(dt, slots, []*memory.Buffer{valid}, []arrow.ArrayData{child}, nulls, 0), nil
}

// StructData builds the data of a struct that is layer k of the leaf, which has every entries for each of its values;
// children are borrowed.
func (l *Leaf) StructData(dt arrow.DataType, k, every int, children []arrow.ArrayData) (arrow.ArrayData, error) {
	valid, slots, nulls, err := l.validityEvery(k, every)
	if err != nil {
		return nil, err
	}
	if valid != nil {
		defer valid.Release()
	}
	for i, c := range children {
		if c.Len() != slots {
			return nil, corrupt("member %d of a struct has %d of %d values", i, c.Len(), slots)
		}
	}
	return array.NewData(dt, slots, []*memory.Buffer{valid}, children, nulls, 0), nil
}

// ListData builds the data of a list, large list or map that is layer k of the leaf; the child is borrowed.
func (l *Leaf) ListData(dt arrow.DataType, k int, child arrow.ArrayData) (arrow.ArrayData, error) {
	w := 4
	if dt.ID() == arrow.LARGE_LIST {
		w = 8
	}
	valid, slots, nulls := l.validity(k)
	if valid != nil {
		defer valid.Release()
	}
	offs, items, err := l.offsets(k, slots, w)
	if err != nil {
		return nil, err
	}
	defer offs.Release()
	if child.Len() != items {
		return nil, corrupt("list items: %d of %d", child.Len(), items)
	}
	return array.NewData(dt, slots, []*memory.Buffer{valid, offs}, []arrow.ArrayData{child}, nulls, 0), nil
}

// ValueData builds the data of the leaf itself, giving up the values.
func (l *Leaf) ValueData(dt arrow.DataType) (arrow.ArrayData, error) {
	valid, slots, nulls := l.validity(0)
	if l.Values.n != slots {
		if valid != nil {
			valid.Release()
		}
		return nil, corrupt("%d values for %d slots", l.Values.n, slots)
	}
	l.Values.valid.release()
	l.Values.valid.buf, l.Values.nulls = valid, nulls
	if l.Values.typ.Kind == KindNull {
		l.Values.valid.release()
	}
	a, err := l.Values.NewArray(dt)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	a.Data().Retain()
	return a.Data(), nil
}
