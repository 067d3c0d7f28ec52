package encoding

import (
	"math"

	"lancesql/lance/pb"
)

// Encoding pages of nested columns.
// Spec: file format, "Repetition and definition levels" and "What the reference writer picks".

const (
	// pageEntriesMax bounds the entries of a page with lists, so that no chunk can have more than its header can say.
	pageEntriesMax = 65535
	// pageLevelBits bounds the bits of all levels of a page with lists.
	pageLevelBits = 131072
)

// Entries returns the number of entries.
func (l *Leaf) Entries() int { return l.entries }

// Bytes returns the unencoded size of what the leaf holds.
func (l *Leaf) Bytes() int { return l.Values.Bytes() + 2*len(l.rep) + 2*len(l.def) }

// EncodePages encodes all rows of a leaf (at least one) as pages of at most about maxBytes, and calls emit for each with
// the number of its rows. The leaf is not changed. only says that the column has no other pages.
func (l *Leaf) EncodePages(path []Step, only bool, maxBytes int, o PageOptions, emit func(p Page, rows int) error) error {
	all, err := newLevelWriter(l, nil)
	if err != nil {
		return err
	}
	budget := math.MaxInt
	if l.maxRep > 0 {
		budget = min(pageEntriesMax, pageLevelBits/max(1, all.repBits()+all.defBits()))
	}
	if l.Bytes() > maxBytes {
		budget = min(budget, max(1, int(int64(l.entries)*int64(maxBytes)/int64(l.Bytes()))))
	}
	structs := nullableAboveLists(path)
	if l.entries <= budget {
		if !only {
			if all, err = newLevelWriter(l, structs); err != nil {
				return err
			}
		}
		p, err := encodeLeaf(l, all, o)
		if err != nil {
			return err
		}
		return emit(p, l.rows)
	}
	entry, slot := 0, 0
	for entry < l.entries {
		part, slots := l.slice(entry, slot, budget, all)
		lv, err := newLevelWriter(part, structs)
		if err != nil {
			return err
		}
		p, err := encodeLeaf(part, lv, o)
		part.Values.Release()
		if err != nil {
			return err
		}
		if err := emit(p, part.rows); err != nil {
			return err
		}
		entry, slot = entry+part.entries, slot+slots
	}
	return nil
}

// nullableAboveLists says which layers, innermost first, are nullable structs with a list somewhere below. Why: a column
// whose pages differ in whether such a struct can be null is read wrongly by pylance 14.
func nullableAboveLists(path []Step) []bool {
	out := make([]bool, len(path))
	list := false
	for i := len(path) - 1; i >= 0; i-- {
		out[len(path)-1-i] = list && !path[i].List && path[i].Nullable
		list = list || path[i].List
	}
	return out
}

// slice copies whole rows from an entry on, as many as fit the budget of entries, one at least.
func (l *Leaf) slice(entry, slot, budget int, all *levelWriter) (part *Leaf, slots int) {
	part = NewLeaf(l.shape, l.Values.typ, l.Values.mem)
	end := min(l.entries, entry+budget)
	if l.maxRep > 0 && end < l.entries {
		at := end
		for at > entry && l.rep[at] != l.maxRep {
			at--
		}
		if at == entry { // a single row
			for at = end; at < l.entries && l.rep[at] != l.maxRep; at++ {
			}
		}
		end = at
	}
	part.entries, part.rows = end-entry, end-entry
	slots = part.entries
	if l.maxRep > 0 {
		part.rep, part.rows = l.rep[entry:end], 0
		for _, r := range part.rep {
			if r == l.maxRep {
				part.rows++
			}
		}
	}
	if all.def != nil {
		part.def = l.def[entry:end]
		for _, d := range all.def[entry:end] {
			if int(d) > all.plan.MaxVisible {
				slots--
			}
		}
	}
	part.Values.appendVector(l.Values, slot, slot+slots)
	return part, slots
}

// appendVector appends rows [from, to) of a vector of the same type, all valid.
func (v *Vector) appendVector(src *Vector, from, to int) {
	rows := to - from
	for l := range v.items {
		lv := &src.items[l]
		if lv.nulls > 0 {
			v.addItems(l, lv.valid.bytes(), from*lv.perRow, rows)
		} else {
			v.addItems(l, nil, 0, rows)
		}
	}
	switch {
	case rows == 0 || v.typ.Kind == KindNull:
	case v.typ.Variable():
		lo, _ := src.span(from)
		_, hi := src.span(to - 1)
		at := v.data.len()
		copy(v.data.grow(v.mem, hi-lo), src.data.bytes()[lo:hi])
		if v.typ.Kind == KindVar32 {
			for i, o := range v.growOffsets32(rows) {
				_ = o
				_, end := src.span(from + i)
				wordsOf[uint32](v.offs.bytes())[v.n+1+i] = uint32(at + end - lo)
			}
		} else {
			out := v.growOffsets64(rows)
			for i := range out {
				_, end := src.span(from + i)
				out[i] = uint64(at + end - lo)
			}
		}
	case v.typ.Bits == 1:
		v.appendBits(src.data.bytes(), from*v.typ.RowBits(), rows)
	default:
		w := v.typ.RowBits() / 8
		v.appendFixed(src.data.bytes()[from*w : to*w])
	}
	v.addValid(rows)
}

func encodeLeaf(l *Leaf, lv *levelWriter, o PageOptions) (Page, error) {
	if l.rows == 0 {
		return Page{}, errNoRows()
	}
	v := l.Values
	if lv.slots == 0 || v.typ.Kind == KindNull || lv.allNull() {
		return lv.constantPage(o), nil
	}
	special := v.typ.Key > 0 || len(v.typ.Fields) > 0
	if o.Large && lv.rep == nil && lv.def == nil && !special {
		if p, ok := encodeConstant(v); ok {
			p.Layout.GetConstant().Layers = lv.codes
			return p, nil
		}
	}
	if !special && o.zips(v) || lv.n > pageEntriesMax && lv.rep != nil {
		return encodeZippedLeaf(v, lv, o)
	}
	m := &pb.MiniBlockLayout{Layers: lv.codes, NumBuffers: 1, NumItems: uint64(v.n), HasLargeChunk: o.Large}
	if lv.rep != nil {
		m.RepCompression = outOfLineCE(16, lv.repBits())
		m.RepetitionIndexDepth = 1
	}
	if lv.def != nil {
		m.DefCompression = outOfLineCE(16, lv.defBits())
	}
	w := &miniWriter{v: v, large: o.Large, lv: lv, hints: o.Hints}
	page, err := w.page(m, o)
	if err != nil {
		return Page{}, err
	}
	if lv.tooWide {
		return encodeZippedLeaf(v, lv, o)
	}
	if lv.rep != nil {
		page.Buffers = append(page.Buffers, lv.repetitionIndex())
	}
	return page, nil
}

// constantPage is a page without values: levels only.
func (w *levelWriter) constantPage(o PageOptions) Page {
	l := &pb.ConstantLayout{Layers: w.codes}
	p := Page{Layout: constantLayout(l)}
	if len(w.codes) == 1 {
		return p
	}
	level := func(levels []uint16, width int) (*pb.CompressiveEncoding, []byte) {
		if !o.Large || len(levels) == 0 || width == 0 {
			return nil, append([]byte(nil), bytesOf(levels)...)
		}
		return outOfLineCE(16, width), packLevels(nil, levels, width)
	}
	var rep, def []byte
	if l.RepCompression, rep = level(w.rep, w.repBits()); l.RepCompression != nil {
		l.NumRepValues = uint64(len(w.rep))
	}
	if l.DefCompression, def = level(w.def, w.defBits()); l.DefCompression != nil {
		l.NumDefValues = uint64(len(w.def))
	}
	p.Buffers = [][]byte{rep, def}
	return p
}
