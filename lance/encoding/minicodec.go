package encoding

import (
	"lancesql/lance/pb"
)

// miniCodec is the compiled value encoding of a mini-block page: how the value buffers of one chunk become rows.
// Spec: file format, "Compressive encodings", context "mini".
type miniCodec struct {
	kind    miniKind
	bits    int  // per value as the codec sees it: item bits (flat), row bits (the others), offset bits (strings)
	general bool // value buffer 0 of each chunk is compressed
	scheme  pb.CompressionScheme
	levels  []bool // per fixed-size list level, outermost first: has a validity buffer
	fsst    *symbolTable
	buffers int // value buffers per chunk
}

type miniKind uint8

const (
	miniFlat miniKind = iota
	miniInline
	miniRLE
	miniSplit // byte stream split
	miniStrings
	miniNull // all items null (fixed-size lists only)
)

// compileMini checks a value encoding against the physical type it must produce.
func compileMini(ce *pb.CompressiveEncoding, t Type) (*miniCodec, error) {
	m := &miniCodec{}
	if g := ce.GetGeneral(); g != nil {
		m.general, m.scheme = true, g.GetCompression().GetScheme()
		ce = g.GetValues()
	}
	if t.Variable() {
		return m, m.compileStrings(ce, t)
	}
	for ce.GetFixedSizeList() != nil {
		l := ce.GetFixedSizeList()
		if len(m.levels) >= len(t.Dims) {
			return nil, corrupt("fixed-size list encoding deeper than the %d levels of the type", len(t.Dims))
		}
		if want := t.Dims[len(m.levels)]; l.GetItemsPerValue() != uint64(want) {
			return nil, corrupt("fixed-size list of %d items where %d are expected", l.GetItemsPerValue(), want)
		}
		m.levels = append(m.levels, l.GetHasValidity())
		if l.GetHasValidity() {
			m.buffers++
		}
		ce = l.GetValues()
	}
	m.bits = t.RowBits()
	if len(m.levels) > 0 {
		if len(m.levels) != len(t.Dims) {
			return nil, corrupt("fixed-size list encoding with %d of %d levels", len(m.levels), len(t.Dims))
		}
		m.bits = t.Bits
	}
	return m, m.compileFixed(ce)
}

func (m *miniCodec) compileStrings(ce *pb.CompressiveEncoding, t Type) error {
	m.kind, m.bits, m.buffers = miniStrings, t.OffsetBits(), 1
	if f := ce.GetFsst(); f != nil {
		table, err := parseSymbolTable(f.GetSymbolTable())
		if err != nil {
			return err
		}
		if !table.off {
			m.fsst = table
		}
		ce = f.GetValues()
	}
	if g := ce.GetGeneral(); g != nil && !m.general {
		m.general, m.scheme = true, g.GetCompression().GetScheme()
		ce = g.GetValues()
	}
	v := ce.GetVariable()
	if v == nil {
		return unsupported("mini-block string encoding %s", nameOf(ce))
	}
	return checkVariable(v, m.bits)
}

func (m *miniCodec) compileFixed(ce *pb.CompressiveEncoding) error {
	m.buffers++
	if len(m.levels) > 0 && ce.GetFlat() == nil && ce.GetConstant() == nil {
		return unsupported("fixed-size list of %s", nameOf(ce))
	}
	switch c := ce.GetCompression().(type) {
	case *pb.CompressiveEncoding_Flat:
		m.kind = miniFlat
		return checkFlat(c.Flat, m.bits)
	case *pb.CompressiveEncoding_InlineBitpacking:
		m.kind = miniInline
		return checkPackable(c.InlineBitpacking.GetUncompressedBitsPerValue(), m.bits)
	case *pb.CompressiveEncoding_Rle:
		m.kind = miniRLE
		m.buffers++
		return checkRLE(c.Rle, m.bits)
	case *pb.CompressiveEncoding_ByteStreamSplit:
		m.kind = miniSplit
		flat := c.ByteStreamSplit.GetValues().GetFlat()
		if flat == nil || m.bits%8 != 0 {
			return unsupported("byte stream split over %s", nameOf(c.ByteStreamSplit.GetValues()))
		}
		return checkFlat(flat, m.bits)
	case *pb.CompressiveEncoding_Constant:
		if len(m.levels) == 0 || c.Constant.Value != nil {
			return unsupported("mini-block constant")
		}
		m.kind = miniNull
		m.buffers--
		return nil
	}
	return unsupported("mini-block encoding %s", nameOf(ce))
}

// chunkValues are the value buffers of one chunk, together with what decoding them left behind for the next call on
// the same chunk. The zero value is ready; reset makes it ready for another chunk and keeps its memory.
type chunkValues struct {
	rows     int      // value slots in the chunk
	bufs     [][]byte // as stored, buffer 0 expanded once if the codec says so
	expanded bool
	plain    []byte // backing memory of an expanded buffer 0
	wide     []byte // decoded strings with room to spare
	unpacked []byte // decoded fixed-width values of the whole chunk, empty if not yet decoded
	have     bool
	singles  int // values looked up in packed form
}

func (c *chunkValues) reset(rows int, bufs [][]byte) {
	c.rows, c.bufs, c.expanded, c.have, c.singles = rows, bufs, false, false, 0
}

// prepare undoes general compression of buffer 0, once per chunk.
func (m *miniCodec) prepare(c *chunkValues, d *Decompressor) error {
	if !m.general || c.expanded || len(c.bufs) == 0 {
		return nil
	}
	want := -1
	if len(m.levels) == 0 && (m.kind == miniFlat || m.kind == miniSplit) {
		want = bitmapBytes(c.rows * m.bits)
	}
	plain, err := d.expand(c.plain[:0], m.scheme, c.bufs[0], want)
	if err != nil {
		return err
	}
	c.plain, c.bufs[0], c.expanded = plain, plain, true
	return nil
}

// appendValues appends rows [from, to) of the chunk to dst, without counting them (see Vector.addValid). from and to
// are within the chunk.
func (m *miniCodec) appendValues(dst *Vector, c *chunkValues, from, to int, d *Decompressor) error {
	if err := m.prepare(c, d); err != nil {
		return err
	}
	if m.kind == miniStrings {
		return m.appendStrings(dst, c, from, to)
	}
	if len(m.levels) > 0 {
		return m.appendLists(dst, c, from, to)
	}
	return m.appendFixed(dst, c, from, to)
}

func (m *miniCodec) appendFixed(dst *Vector, c *chunkValues, from, to int) error {
	if m.kind == miniFlat {
		return appendFlat(dst, c.bufs[0], c.rows, from, to)
	}
	size := m.bits / 8
	if from == 0 && to == c.rows && (m.kind != miniInline || c.rows == blockValues) {
		return m.decodeAll(dst.growFixed(c.rows), c)
	}
	if n := to - from; !c.have && c.singles+n <= fewValues {
		c.singles += n
		switch m.kind {
		case miniInline:
			return m.appendFew(dst, c, from, to)
		case miniSplit:
			return m.appendSplit(dst, c, from, to)
		case miniRLE:
			return expandRuns(dst.growFixed(n), c.bufs[0], c.bufs[1], m.bits, from, to)
		}
	}
	if err := m.decodeOnce(c); err != nil {
		return err
	}
	dst.appendFixed(c.unpacked[from*size : to*size])
	return nil
}

// fewValues is how many values of a packed, split or run-length chunk are looked up singly before all of it is expanded.
const fewValues = 16

// appendFew appends rows of a bit-packed chunk without expanding it.
func (m *miniCodec) appendFew(dst *Vector, c *chunkValues, from, to int) error {
	if c.rows > blockValues {
		return corrupt("bit-packed chunk of %d values", c.rows)
	}
	w, payload, err := inlinePayload(c.bufs[0], m.bits)
	if err != nil {
		return err
	}
	out := dst.growFixed(to - from)
	for i := range to - from {
		v := unpackOne(payload, m.bits, w, from+i)
		for k := range m.bits / 8 {
			out[i*m.bits/8+k] = byte(v >> (8 * k))
		}
	}
	return nil
}

// appendSplit appends rows of a byte stream chunk without joining the others.
func (m *miniCodec) appendSplit(dst *Vector, c *chunkValues, from, to int) error {
	size := m.bits / 8
	if len(c.bufs[0]) < c.rows*size {
		return corrupt("byte stream chunk of %d bytes for %d values of %d bytes", len(c.bufs[0]), c.rows, size)
	}
	out := dst.growFixed(to - from)
	for i := range to - from {
		for j := range size {
			out[i*size+j] = c.bufs[0][j*c.rows+from+i]
		}
	}
	return nil
}

// decodeOnce expands the fixed-width values of the whole chunk into c.unpacked.
func (m *miniCodec) decodeOnce(c *chunkValues) error {
	if c.have {
		return nil
	}
	n := c.rows
	if m.kind == miniInline {
		n = blockValues
	}
	c.unpacked = alignedScratch(c.unpacked, n*m.bits/8)
	if err := m.decodeAll(c.unpacked, c); err != nil {
		return err
	}
	c.have = true
	return nil
}

// decodeAll expands the whole chunk into out, which has room for rows values (miniInline: 1024) in aligned memory.
func (m *miniCodec) decodeAll(out []byte, c *chunkValues) error {
	size := m.bits / 8
	switch m.kind {
	case miniFlat:
		if len(c.bufs[0]) < c.rows*size {
			return corrupt("flat chunk of %d bytes for %d values of %d bits", len(c.bufs[0]), c.rows, m.bits)
		}
		copy(out, c.bufs[0])
		return nil
	case miniInline:
		if c.rows > blockValues {
			return corrupt("bit-packed chunk of %d values", c.rows)
		}
		w, payload, err := inlinePayload(c.bufs[0], m.bits)
		if err != nil {
			return err
		}
		unpackBlock(out, payload, m.bits, w)
		return nil
	case miniRLE:
		return expandRuns(out[:c.rows*size], c.bufs[0], c.bufs[1], m.bits, 0, c.rows)
	case miniSplit:
		if len(c.bufs[0]) < c.rows*size {
			return corrupt("byte stream chunk of %d bytes for %d values of %d bytes", len(c.bufs[0]), c.rows, size)
		}
		for j := range size {
			stream := c.bufs[0][j*c.rows:][:c.rows]
			for i, b := range stream {
				out[i*size+j] = b
			}
		}
		return nil
	}
	return unsupported("mini-block codec %d", m.kind)
}

// appendFlat appends rows of a plain array holding n rows.
func appendFlat(dst *Vector, buf []byte, n, from, to int) error {
	width := dst.typ.RowBits()
	if len(buf) < bitmapBytes(n*width) {
		return corrupt("flat chunk of %d bytes for %d rows of %d bits", len(buf), n, width)
	}
	if dst.typ.Bits == 1 {
		dst.appendBits(buf, from*width, to-from)
		return nil
	}
	dst.appendFixed(buf[from*width/8 : to*width/8])
	return nil
}

// appendLists appends rows of fixed-size lists: validity of each level that has it, then the items.
func (m *miniCodec) appendLists(dst *Vector, c *chunkValues, from, to int) error {
	next := 0
	for l, has := range m.levels {
		perRow := dst.items[l].perRow
		if !has {
			dst.addItems(l, nil, 0, to-from)
			continue
		}
		buf := c.bufs[next]
		next++
		if len(buf) < bitmapBytes(c.rows*perRow) {
			return corrupt("item validity of %d bytes for %d items", len(buf), c.rows*perRow)
		}
		dst.addItems(l, buf, from*perRow, to-from)
	}
	if m.kind == miniFlat {
		return appendFlat(dst, c.bufs[next], c.rows, from, to)
	}
	// All items null: the innermost level has no validity of its own.
	last := len(m.levels) - 1
	n := (to - from) * dst.items[last].perRow
	if err := dst.roomRows(to-from, bitmapBytes(dst.typ.RowBits())); err != nil {
		return err
	}
	dst.addItems(last, make([]byte, bitmapBytes(n)), 0, to-from)
	dst.growZero(to - from)
	return nil
}

// appendStrings appends rows of a string chunk: n+1 offsets relative to the buffer start, then bytes.
func (m *miniCodec) appendStrings(dst *Vector, c *chunkValues, from, to int) error {
	buf, w := c.bufs[0], m.bits/8
	if len(buf) < (c.rows+1)*w {
		return corrupt("string chunk of %d bytes for %d values", len(buf), c.rows)
	}
	if m.fsst != nil {
		return m.appendSymbols(dst, c, from, to)
	}
	lo, hi := uintN(buf[from*w:], w), uintN(buf[to*w:], w)
	if lo > hi || hi > uint64(len(buf)) {
		return corrupt("string offsets %d..%d in a chunk of %d bytes", lo, hi, len(buf))
	}
	if err := dst.room(int(hi - lo)); err != nil {
		return err
	}
	base := uint64(dst.data.len())
	if w == 4 {
		out := dst.growOffsets32(to - from)
		offs := buf[(from+1)*4:]
		delta, last := uint32(base)-uint32(lo), uint32(lo)
		for i := range out {
			o := u32(offs[i*4:])
			if o < last || o > uint32(hi) {
				return corrupt("string offset %d after %d", o, last)
			}
			out[i], last = o+delta, o
		}
	} else {
		out := dst.growOffsets64(to - from)
		offs := buf[(from+1)*8:]
		delta, last := base-lo, lo
		for i := range out {
			o := u64(offs[i*8:])
			if o < last || o > hi {
				return corrupt("string offset %d after %d", o, last)
			}
			out[i], last = o+delta, o
		}
	}
	copy(dst.data.grow(dst.mem, int(hi-lo)), buf[lo:hi])
	return nil
}

// appendSymbols is appendStrings for FSST-compressed bytes.
func (m *miniCodec) appendSymbols(dst *Vector, c *chunkValues, from, to int) error {
	buf, w := c.bufs[0], m.bits/8
	lo, end := uintN(buf[from*w:], w), uintN(buf[to*w:], w)
	if lo > end || end > uint64(len(buf)) {
		return corrupt("string offsets %d..%d in a chunk of %d bytes", lo, end, len(buf))
	}
	room := expandedRoom(int(end - lo))
	if room > 1<<20 {
		return m.appendSymbolsSingly(dst, buf, from, to) // Why: the bound is far above what most values need
	}
	// Why: the bound is several times what is needed, too much to make every batch reserve it.
	at := dst.data.len()
	direct := dst.data.buf != nil && dst.data.buf.Cap()-at >= room
	var out []byte
	if direct {
		out = dst.data.grow(dst.mem, room)
	} else {
		c.wide = resize(c.wide, room)
		out = c.wide
	}
	var n int
	var err error
	if w == 4 {
		n, err = expandEach(m.fsst, out, buf, from, dst.growOffsets32(to-from), uint32(at))
	} else {
		n, err = expandEach(m.fsst, out, buf, from, dst.growOffsets64(to-from), uint64(at))
	}
	if direct {
		dst.data.buf.ResizeNoShrink(at)
	}
	if err == nil {
		err = dst.room(n)
	}
	if err != nil {
		return err
	}
	if direct {
		dst.data.buf.ResizeNoShrink(at + n)
	} else {
		copy(dst.data.grow(dst.mem, n), out)
	}
	return nil
}

// expandEach decodes the values from row from on, one per element of ends, into out and returns their total length. ends
// receives where they end in a column in which out begins at position base.
func expandEach[T uint32 | uint64](t *symbolTable, out, buf []byte, from int, ends []T, base T) (int, error) {
	w := bitsOf[T]() / 8
	offset := func(i int) uint64 {
		if w == 4 {
			return uint64(u32(buf[4*i:]))
		}
		return u64(buf[8*i:])
	}
	pos, lo, last := 0, offset(from), offset(from+len(ends))
	for i := range ends {
		hi := offset(from + i + 1)
		if hi < lo || hi > last {
			return 0, corrupt("string offset %d after %d", hi, lo)
		}
		n, err := t.expand(out[pos:], buf[lo:hi])
		if err != nil {
			return 0, err
		}
		pos, lo = pos+n, hi
		ends[i] = base + T(pos)
	}
	return pos, nil
}

// appendSymbolsSingly reserves memory value by value.
func (m *miniCodec) appendSymbolsSingly(dst *Vector, buf []byte, from, to int) error {
	w := m.bits / 8
	for i := from; i < to; i++ {
		lo, hi := uintN(buf[i*w:], w), uintN(buf[(i+1)*w:], w)
		if lo > hi || hi > uint64(len(buf)) {
			return corrupt("string offsets %d..%d in a chunk of %d bytes", lo, hi, len(buf))
		}
		if err := dst.appendExpanded(m.fsst, buf[lo:hi]); err != nil {
			return err
		}
	}
	return nil
}

// appendExpanded appends one FSST-compressed value.
func (v *Vector) appendExpanded(t *symbolTable, src []byte) error {
	if err := v.room(fsstMaxSymbol * len(src)); err != nil {
		return err
	}
	at := v.data.len()
	n, err := t.expand(v.data.grow(v.mem, expandedRoom(len(src))), src)
	if err != nil {
		return err
	}
	v.data.buf.ResizeNoShrink(at + n)
	v.closeRow()
	return nil
}

// appendString appends one value.
func (v *Vector) appendString(src []byte) error {
	if err := v.room(len(src)); err != nil {
		return err
	}
	copy(v.data.grow(v.mem, len(src)), src)
	v.closeRow()
	return nil
}
