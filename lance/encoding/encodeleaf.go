package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"

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

// levelWriter is the levels of one page in the numbering of that page.
type levelWriter struct {
	codes   []pb.RepDefLayer
	plan    LevelPlan
	rep     []uint16 // nil without lists
	def     []uint16 // nil if all entries are 0
	n       int      // entries
	slots   int      // value slots
	at      int      // entries already in chunks
	chunks  []int    // entries before each chunk
	tooWide bool     // a chunk outgrew its header
}

// newLevelWriter numbers the levels of a leaf by what occurs in it, and those of some structs by what may occur.
func newLevelWriter(l *Leaf, structs []bool) (*levelWriter, error) {
	w := &levelWriter{rep: l.rep, n: l.entries}
	seen := make([]bool, 2*len(l.shape)+1)
	for _, d := range l.def {
		seen[d] = true
	}
	for k, may := range structs {
		seen[2*k+1] = seen[2*k+1] || may
	}
	// Why: a struct that is null makes everything in it null down to the next list, and readers of the reference want
	// those layers to say so, although an entry names only the outermost.
	inherited := false
	for k := len(l.shape) - 1; k >= 0; k-- {
		seen[2*k+1] = seen[2*k+1] || inherited
		inherited = seen[2*k+1] && !l.shape[k]
	}
	for k, list := range l.shape {
		null, empty := seen[2*k+1], seen[2*k+2]
		code := pb.RepDefLayer_REPDEF_ALL_VALID_ITEM
		switch {
		case !list && null:
			code = pb.RepDefLayer_REPDEF_NULLABLE_ITEM
		case list && null && empty:
			code = pb.RepDefLayer_REPDEF_NULL_AND_EMPTY_LIST
		case list && null:
			code = pb.RepDefLayer_REPDEF_NULLABLE_LIST
		case list && empty:
			code = pb.RepDefLayer_REPDEF_EMPTYABLE_LIST
		case list:
			code = pb.RepDefLayer_REPDEF_ALL_VALID_LIST
		}
		w.codes = append(w.codes, code)
	}
	var err error
	if w.plan, err = CompileLevels(w.codes); err != nil {
		return nil, err
	}
	if l.maxRep == 0 {
		w.rep = nil
	}
	w.slots = w.n
	if w.plan.MaxDef == 0 {
		return w, nil
	}
	numbers := make([]uint16, 2*len(l.shape)+1)
	for k, layer := range w.plan.Layers {
		numbers[2*k+1], numbers[2*k+2] = uint16(layer.NullLevel), uint16(layer.EmptyLevel)
	}
	w.def = make([]uint16, w.n)
	for i, d := range l.def {
		w.def[i] = numbers[d]
		if int(w.def[i]) > w.plan.MaxVisible {
			w.slots--
		}
	}
	return w, nil
}

func (w *levelWriter) repBits() int { return bits.Len(uint(w.plan.MaxRep)) }
func (w *levelWriter) defBits() int { return bits.Len(uint(w.plan.MaxDef)) }

// headerBytes is what the level sizes take in a chunk header.
func (w *levelWriter) headerBytes() int {
	n := 0
	if w.rep != nil {
		n += 2
	}
	if w.def != nil {
		n += 2
	}
	return n
}

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
	if v.widest() >= fullZipBytes && !special || lv.n > pageEntriesMax && lv.rep != nil {
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
	w := &miniWriter{v: v, large: o.Large, lv: lv}
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

// allNull reports whether no slot has a value.
func (w *levelWriter) allNull() bool {
	if w.def == nil {
		return false
	}
	for _, d := range w.def {
		if d == 0 {
			return false
		}
	}
	return true
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

// packLevels appends levels in OutOfLineBitpacking(16, Flat(width)).
func packLevels(dst []byte, levels []uint16, width int) []byte {
	for ; len(levels) > 0; levels = levels[min(len(levels), blockValues):] {
		block := levels[:min(len(levels), blockValues)]
		if len(block) < blockValues && blockValues*width >= 16*len(block) {
			for _, l := range block { // a short tail is smaller raw
				dst = binary.LittleEndian.AppendUint16(dst, l)
			}
			return dst
		}
		dst = packPadded(dst, block, width)
	}
	return dst
}

// beginNested writes the header and the levels of a chunk of value slots [from, to): its entries end right after the
// last slot, or with the page.
func (w *miniWriter) beginNested(from, to, buffers int) {
	lv := w.lv
	start, end := lv.at, lv.at
	for slots := to - from; slots > 0 && end < lv.n; end++ {
		if lv.def == nil || int(lv.def[end]) <= lv.plan.MaxVisible {
			slots--
		}
	}
	if to == w.v.n {
		end = lv.n
	}
	lv.at = end
	lv.chunks = append(lv.chunks, start)
	levels := end - start
	if lv.rep == nil && lv.def == nil {
		levels = 0
	}
	if levels > pageEntriesMax {
		lv.tooWide, levels = true, 0
	}
	w.data = binary.LittleEndian.AppendUint16(w.data, uint16(levels))
	at := len(w.data)
	w.data = append(w.data, make([]byte, lv.headerBytes()+buffers*w.sizeBytes())...)
	w.pad(headerPad)
	if lv.rep != nil {
		w.levelSection(at, lv.rep[start:end], lv.repBits())
		at += 2
	}
	if lv.def != nil {
		w.levelSection(at, lv.def[start:end], lv.defBits())
	}
}

// levelSection appends one level stream and writes its size at position at.
func (w *miniWriter) levelSection(at int, levels []uint16, width int) {
	start := len(w.data)
	w.data = packLevels(w.data, levels, width)
	size := len(w.data) - start
	if size > math.MaxUint16 || !w.large && size > maxSmallChunk/4 {
		w.lv.tooWide = true
	}
	binary.LittleEndian.PutUint16(w.data[at:], uint16(size))
	w.pad(headerPad)
}

// maxSmallChunk is the most bytes of a chunk before version 2.2.
const maxSmallChunk = 32768

// repetitionIndex says for each chunk how many rows end in it and how many entries its unfinished last row has.
func (w *levelWriter) repetitionIndex() []byte {
	var out []byte
	top := uint16(w.plan.MaxRep)
	preamble := 0
	for i, start := range w.chunks {
		end := w.n
		if i+1 < len(w.chunks) {
			end = w.chunks[i+1]
		}
		starts, last := 0, start
		for e := start; e < end; e++ {
			if w.rep[e] == top {
				starts, last = starts+1, e
			}
		}
		ends, partial := starts+preamble, 0
		preamble = 0
		if end < w.n && w.rep[end] != top {
			ends, partial, preamble = ends-1, end-last, 1
		}
		out = binary.LittleEndian.AppendUint64(out, uint64(ends))
		out = binary.LittleEndian.AppendUint64(out, uint64(partial))
	}
	return out
}

// encodeZippedLeaf encodes a page of wide values, or of levels too many for chunks.
func encodeZippedLeaf(v *Vector, lv *levelWriter, o PageOptions) (Page, error) {
	if v.typ.Key > 0 || len(v.typ.Fields) > 0 {
		return Page{}, unsupported("a list row of %d dictionary or packed values", lv.n)
	}
	l := &pb.FullZipLayout{BitsRep: uint32(lv.repBits()), BitsDef: uint32(lv.defBits()), Layers: lv.codes,
		NumItems: uint32(lv.n), NumVisibleItems: uint32(lv.slots)}
	layout := &pb.PageLayout{Layout: &pb.PageLayout_FullZip{FullZip: l}}
	z := &zipper{lv: lv, v: v}
	z.control = controlBytes(lv.repBits() + lv.defBits())
	if v.typ.Variable() {
		l.Details = &pb.FullZipLayout_BitsPerOffset{BitsPerOffset: uint32(v.typ.OffsetBits())}
		l.ValueCompression = variableCE(v.typ.OffsetBits())
		if packed, table := compressStrings(v, o); packed != nil {
			defer packed.releaseShared()
			z.v = packed
			l.ValueCompression = fsstCE(table, l.ValueCompression)
		}
	} else {
		var width int
		l.ValueCompression, width = zippedFixed(v)
		l.Details = &pb.FullZipLayout_BitsPerValue{BitsPerValue: uint32(width)}
	}
	z.run()
	p := Page{Layout: layout, Buffers: [][]byte{z.data}}
	if v.typ.Variable() || lv.rep != nil {
		w := indexWidth(uint64(len(z.data)))
		index := make([]byte, 0, len(z.starts)*w)
		for _, s := range append(z.starts, uint64(len(z.data))) {
			index = appendUintN(index, s, w)
		}
		p.Buffers = append(p.Buffers, index)
	}
	return p, nil
}

func controlBytes(bits int) int {
	switch {
	case bits == 0:
		return 0
	case bits <= 8:
		return 1
	case bits <= 16:
		return 2
	}
	return 4
}

// zipper writes the entries of a full-zip page.
type zipper struct {
	lv      *levelWriter
	v       *Vector
	control int
	data    []byte
	starts  []uint64 // of each row
}

func (z *zipper) run() {
	lv, slot := z.lv, 0
	for e := range lv.n {
		var rep, def uint16
		if lv.rep != nil {
			rep = lv.rep[e]
		}
		if lv.def != nil {
			def = lv.def[e]
		}
		if int(rep) == lv.plan.MaxRep {
			z.starts = append(z.starts, uint64(len(z.data)))
		}
		z.data = appendUintN(z.data, uint64(rep)<<lv.defBits()|uint64(def), z.control)
		if int(def) > lv.plan.MaxVisible {
			continue
		}
		if !z.v.typ.Variable() {
			z.data = z.v.appendZipped(z.data, slot)
		} else if def == 0 {
			lo, hi := z.v.span(slot)
			z.data = appendUintN(z.data, uint64(hi-lo), z.v.typ.OffsetBits()/8)
			z.data = append(z.data, z.v.data.bytes()[lo:hi]...)
		}
		slot++
	}
}
