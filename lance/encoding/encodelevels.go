package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"

	"lancesql/lance/pb"
)

// Repetition and definition levels of nested pages, as they are written.
// Spec: file format, "Repetition and definition levels" and "Repetition index".

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
	hidden := uint16(w.plan.MaxVisible + 1)
	for i, d := range l.def {
		level := numbers[d]
		w.def[i] = level
		w.slots -= atLeast(level, hidden)
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
