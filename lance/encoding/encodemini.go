package encoding

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"lancesql/lance/pb"
)

const (
	chunkTarget  = 8 << 10 // value bytes of a flat or string chunk
	chunkRows    = 4096    // values of a chunk at most (bit-packed: always 1024)
	levelsPacked = 1       // packed width of the levels of a flat page
)

// miniWriter builds the two buffers of a mini-block page.
type miniWriter struct {
	v     *Vector
	large bool
	meta  []byte
	data  []byte
	sizes []int        // value buffer sizes of the current chunk
	head  int          // start of the current chunk
	lv    *levelWriter // of nested pages
	hints Hints
	plain []byte      // scratch of pack
	pack  *compressor // of value buffer 0 of each chunk, nil if it is stored as it is
}

// encodeMini encodes a page whose rows are narrower than fullZipBytes.
func encodeMini(v *Vector, o PageOptions) (Page, error) {
	l := &pb.MiniBlockLayout{Layers: v.layers(), NumBuffers: 1, NumItems: uint64(v.n), HasLargeChunk: o.Large}
	if v.nulls > 0 {
		l.DefCompression = outOfLineCE(16, levelsPacked)
	}
	w := &miniWriter{v: v, large: o.Large, hints: o.Hints}
	return w.page(l, o)
}

// page writes the values in the encoding that suits them and describes it in l.
func (w *miniWriter) page(l *pb.MiniBlockLayout, o PageOptions) (Page, error) {
	v := w.v
	page := Page{Layout: &pb.PageLayout{Layout: &pb.PageLayout_MiniBlock{MiniBlock: l}}}
	if v.typ.Key > 0 {
		items, err := w.keyedPage(l, o)
		page.Buffers = [][]byte{w.meta, w.data, items}
		return page, err
	}
	var err error
	plain := v.data.len() + v.offs.len()
	if !v.typ.Variable() {
		plain = fixedBytes(v)
	}
	if d := buildDictionary(v, plain, w.hints); d != nil {
		defer d.release()
		var items []byte
		var err error
		if l.Dictionary, items, err = d.encodeItems(o.Large, w.hints); err != nil {
			return Page{}, err
		}
		l.NumDictionaryItems = uint64(d.items.n)
		w.v = d.indices
		if err := w.writeValues(l, w.writeFixed); err != nil {
			return Page{}, err
		}
		page.Buffers = [][]byte{w.meta, w.data, items}
		return page, nil
	}
	if v.typ.Variable() {
		l.ValueCompression = variableCE(v.typ.OffsetBits())
		if packed, table := compressStrings(v, o); packed != nil {
			defer packed.releaseShared()
			w.v = packed
			l.ValueCompression = fsstCE(table, l.ValueCompression)
		}
		err = w.writeValues(l, func(*pb.MiniBlockLayout) { w.writeStrings() })
	} else {
		err = w.writeValues(l, w.writeFixed)
	}
	page.Buffers = [][]byte{w.meta, w.data}
	return page, err
}

// writeValues writes the chunks by write, which describes them in l, and writes them again compressed if that is asked
// for, which stays if it is smaller.
func (w *miniWriter) writeValues(l *pb.MiniBlockLayout, write func(l *pb.MiniBlockLayout)) error {
	write(l)
	c, err := newCompressor(w.hints.Compression, w.hints.Level)
	if err != nil || !c.on || len(w.v.typ.Dims) > 0 || len(w.v.typ.Fields) > 0 {
		return err
	}
	defer c.close()
	plain, ce, buffers := *w, l.ValueCompression, l.NumBuffers
	var levels levelWriter
	if w.lv != nil {
		levels = *w.lv
		w.lv.at, w.lv.chunks, w.lv.tooWide = 0, nil, false
	}
	w.meta, w.data, w.sizes, w.pack, l.NumBuffers = nil, nil, nil, c, 1
	write(l)
	if len(w.data) < len(plain.data) {
		l.ValueCompression = c.wrap(l.ValueCompression)
		return nil
	}
	if w.lv != nil {
		*w.lv = levels
	}
	*w, l.ValueCompression, l.NumBuffers = plain, ce, buffers
	return nil
}

// releaseShared frees a vector whose validity belongs to another.
func (v *Vector) releaseShared() {
	v.valid = store{}
	v.Release()
}

// writeFixed writes fixed-width values in the smallest encoding and describes it in l.
func (w *miniWriter) writeFixed(l *pb.MiniBlockLayout) {
	v := w.v
	raw := v.data.len()
	w.data = make([]byte, 0, raw+raw/16+1024)
	if len(v.typ.Fields) > 0 {
		l.ValueCompression = v.typ.packedCE()
		w.writeFlat(1)
		return
	}
	if len(v.typ.Dims) > 0 {
		l.ValueCompression = v.listCE(flatCE(v.typ.Bits))
		for i := range v.items {
			if v.items[i].nulls > 0 {
				l.NumBuffers++
			}
		}
		w.writeFlat(int(l.NumBuffers))
		return
	}
	if w.pack != nil && !w.hints.NoSplit && (v.typ.Bits == 32 || v.typ.Bits == 64) {
		l.ValueCompression = splitCE(v.typ.Bits)
		w.writeSplit()
		return
	}
	if packable(v.typ.Bits) && w.hints.Compression != CompressionNone {
		packed := packedBytes(v)
		best := min(raw, packed)
		if w.hints.RunThreshold > 0 {
			best = raw
		}
		runs := runBytes(v, best)
		if runs < best && (w.hints.RunThreshold == 0 || float64(runs/(v.typ.Bits/8+1)) < w.hints.RunThreshold*float64(v.n)) {
			l.ValueCompression = rleCE(v.typ.Bits)
			l.NumBuffers = 2
			w.writeRuns()
			return
		}
		if packed < raw {
			l.ValueCompression = inlineCE(v.typ.Bits)
			w.writeInline()
			return
		}
	}
	l.ValueCompression = flatCE(v.typ.Bits)
	w.writeFlat(1)
}

// packedBytes is the size of the values when bit-packed.
func packedBytes(v *Vector) int {
	b := v.data.bytes()
	size := v.typ.Bits / 8
	total := 0
	for at := 0; at < len(b); at += blockValues * size {
		block := b[at:min(at+blockValues*size, len(b))]
		total += size + blockValues/8*widthBytes(block, v.typ.Bits)
	}
	return total
}

// begin writes the header and the levels of a chunk of rows [from, to) with buffers value buffers, whose sizes are
// filled in by end.
func (w *miniWriter) begin(from, to, buffers int) {
	w.head = len(w.data)
	w.sizes = w.sizes[:0]
	if w.lv != nil {
		w.beginNested(from, to, buffers)
		return
	}
	levels := 0
	if w.v.nulls > 0 {
		levels = to - from
	}
	w.data = binary.LittleEndian.AppendUint16(w.data, uint16(levels))
	at := len(w.data)
	if levels > 0 {
		w.data = append(w.data, 0, 0)
	}
	for range buffers * w.sizeBytes() {
		w.data = append(w.data, 0)
	}
	w.pad(headerPad)
	if levels == 0 {
		return
	}
	start := len(w.data)
	w.data = packValidity(w.data, w.v.valid.bytes(), from, to)
	binary.LittleEndian.PutUint16(w.data[at:], uint16(len(w.data)-start))
	w.pad(headerPad)
}

func (w *miniWriter) sizeBytes() int {
	if w.large {
		return 4
	}
	return 2
}

// pad fills up to a multiple of 8 from the start of the chunk.
func (w *miniWriter) pad(b byte) {
	for (len(w.data)-w.head)%8 != 0 {
		w.data = append(w.data, b)
	}
}

// closeBuffer ends the value buffer that began at start.
func (w *miniWriter) closeBuffer(start int) {
	if w.pack != nil && len(w.sizes) == 0 {
		w.plain = append(w.plain[:0], w.data[start:]...)
		w.data = w.pack.append(w.data[:start], w.plain)
	}
	w.sizes = append(w.sizes, len(w.data)-start)
	w.pad(headerPad)
}

// end completes the chunk of rows values; last says that it is the page's last.
func (w *miniWriter) end(rows int, last bool) {
	at := w.head + 2
	if w.v.nulls > 0 {
		at += 2
	}
	if w.lv != nil {
		at += w.lv.headerBytes()
	}
	for _, size := range w.sizes {
		if w.large {
			binary.LittleEndian.PutUint32(w.data[at:], uint32(size))
		} else {
			binary.LittleEndian.PutUint16(w.data[at:], uint16(size))
		}
		at += w.sizeBytes()
	}
	word := uint32((len(w.data)-w.head)/8-1) << 4
	if !last {
		word |= uint32(bits.TrailingZeros(uint(rows)))
	}
	if w.large {
		w.meta = binary.LittleEndian.AppendUint32(w.meta, word)
	} else {
		w.meta = binary.LittleEndian.AppendUint16(w.meta, uint16(word))
	}
}

// writeFlat writes plain values, for fixed-size lists after their item validity.
func (w *miniWriter) writeFlat(buffers int) {
	v := w.v
	width := v.typ.RowBits()
	per := chunkRows
	for per > 2 && bitmapBytes(per*width) > chunkTarget {
		per /= 2
	}
	for from := 0; from < v.n; from += per {
		to := min(from+per, v.n)
		w.begin(from, to, buffers)
		for l := range v.items {
			if lv := &v.items[l]; lv.nulls > 0 {
				w.writeBits(lv.valid.bytes(), from*lv.perRow, to*lv.perRow)
			}
		}
		if v.typ.Bits == 1 {
			w.writeBits(v.data.bytes(), from*width, to*width)
		} else {
			start := len(w.data)
			w.data = append(w.data, v.data.bytes()[from*width/8:to*width/8]...)
			w.closeBuffer(start)
		}
		w.end(to-from, to == v.n)
	}
}

// writeSplit writes plain values as byte streams: all first bytes of a chunk, then all second ones, and so on.
func (w *miniWriter) writeSplit() {
	v := w.v
	size := v.typ.Bits / 8
	per := chunkTarget / size
	for from := 0; from < v.n; from += per {
		to := min(from+per, v.n)
		w.begin(from, to, 1)
		start, rows := len(w.data), to-from
		w.data = slices.Grow(w.data, rows*size)[:start+rows*size]
		for i, b := range v.data.bytes()[from*size : to*size] {
			w.data[start+i%size*rows+i/size] = b
		}
		w.closeBuffer(start)
		w.end(rows, to == v.n)
	}
}

func splitCE(bits int) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_ByteStreamSplit{ByteStreamSplit: &pb.ByteStreamSplit{Values: flatCE(bits)}}}
}

func (w *miniWriter) writeBits(b []byte, from, to int) {
	start := len(w.data)
	w.data = append(w.data, make([]byte, bitmapBytes(to-from))...)
	copyBits(w.data[start:], 0, b, from, to-from)
	w.closeBuffer(start)
}

func (w *miniWriter) writeInline() {
	v := w.v
	size := v.typ.Bits / 8
	for from := 0; from < v.n; from += blockValues {
		to := min(from+blockValues, v.n)
		w.begin(from, to, 1)
		start := len(w.data)
		w.data = appendInline(w.data, v.data.bytes()[from*size:to*size], v.typ.Bits)
		w.closeBuffer(start)
		w.end(to-from, to == v.n)
	}
}

// appendInline appends one InlineBitpacking buffer: the width as one word, then the packed block.
func appendInline(dst, values []byte, size int) []byte {
	width := widthBytes(values, size)
	dst = appendUintN(dst, uint64(width), size/8)
	return packBytes(dst, values, size, width)
}

func (w *miniWriter) writeStrings() {
	v := w.v
	wo := v.typ.OffsetBits() / 8
	plain := v.data.len() + v.offs.len() + v.valid.len()
	w.data = make([]byte, 0, plain+plain/64+1024)
	for from := 0; from < v.n; {
		to := w.stringChunk(from, wo)
		w.begin(from, to, 1)
		start := len(w.data)
		lo, _ := v.span(from)
		_, hi := v.span(to - 1)
		head := (to - from + 1) * wo
		w.data = slices.Grow(w.data, head+hi-lo)[:start+head]
		if wo == 4 {
			shift(w.data[start:], wordsOf[uint32](v.offs.bytes())[from:to+1], uint32(head-lo))
		} else {
			shift(w.data[start:], wordsOf[uint64](v.offs.bytes())[from:to+1], uint64(head-lo))
		}
		w.data = append(w.data, v.data.bytes()[lo:hi]...)
		for (len(w.data)-start)%wo != 0 {
			w.data = append(w.data, valuePad)
		}
		w.closeBuffer(start)
		w.end(to-from, to == v.n)
		from = to
	}
}

// shift writes offsets moved by delta (modulo the width) to dst.
func shift[T uint32 | uint64](dst []byte, offs []T, delta T) {
	if bitsOf[T]() == 32 {
		for i, o := range offs {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(o+delta))
		}
		return
	}
	for i, o := range offs {
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(o+delta))
	}
}

// stringChunk returns the end of the chunk that begins at row from: everything left if it fits the target, else the
// greatest power of two of rows that does, at least two.
func (w *miniWriter) stringChunk(from, wo int) int {
	v := w.v
	lo, _ := v.span(from)
	fits := func(to int) bool {
		_, hi := v.span(to - 1)
		return (to-from+1)*wo+hi-lo <= chunkTarget
	}
	if v.n-from <= chunkRows && fits(v.n) {
		return v.n
	}
	n := 2
	for 2*n <= min(chunkRows, v.n-from) && fits(from+2*n) {
		n *= 2
	}
	return min(from+n, v.n)
}

// packValidity appends the definition levels of rows [from, to) in OutOfLineBitpacking(16, Flat(1)): level 1 where the
// validity bit is 0.
func packValidity(dst, valid []byte, from, to int) []byte {
	var bits [blockValues / 8]byte
	for ; to-from > 0; from += blockValues {
		n := min(blockValues, to-from)
		fill(bits[:], 0xff)
		copyBits(bits[:], 0, valid, from, n)
		if n < blockValues && blockValues*levelsPacked >= 16*n {
			for i := range n { // a short tail is smaller raw
				dst = append(dst, ^bits[i>>3]>>(i&7)&1, 0)
			}
			return dst
		}
		dst = append(dst, make([]byte, blockValues/8)...)
		out := dst[len(dst)-blockValues/8:]
		for row := range 16 {
			// The 64 lanes of a row are consecutive levels; lane i is bit row of the i-th 16-bit word.
			lanes := ^u64(bits[rowBase(row)/8:])
			for lane := range 64 {
				out[2*lane+row>>3] |= byte(lanes>>lane&1) << (row & 7)
			}
		}
	}
	return dst
}
