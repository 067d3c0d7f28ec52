package encoding

import (
	"encoding/binary"

	"lancesql/lance/pb"
)

// dictionaryPlan is the dictionary of a mini-block page: where its items come from and, once decoded, the items.
// Spec: file format, "Dictionary".
type dictionaryPlan struct {
	typ     Type
	ce      *pb.CompressiveEncoding
	n       uint64
	strings *strings // variable columns
	fixed   []byte   // fixed-width columns: n items of RowBits
}

// chunkIdx is the scratch of one chunk's dictionary indices.
type chunkIdx struct {
	have bool
	vec  *Vector
	idx  []uint32
	wide []uint32 // memory of idx unless that is the vector's
}

// compileDictionary returns the plan and the type of the indices in the chunks.
func compileDictionary(l *pb.MiniBlockLayout, t Type) (*dictionaryPlan, Type, error) {
	if len(t.Dims) > 0 || t.Kind == KindFixed && t.Bits%8 != 0 || t.Kind == KindNull {
		return nil, Type{}, unsupported("dictionary of this type")
	}
	width, err := valueWidth(l.GetValueCompression())
	if err != nil {
		return nil, Type{}, err
	}
	if width != 8 && width != 16 && width != 32 && width != 64 {
		return nil, Type{}, corrupt("dictionary indices of %d bits", width)
	}
	d := &dictionaryPlan{typ: t, ce: l.GetDictionary(), n: l.GetNumDictionaryItems()}
	return d, Type{Kind: KindFixed, Bits: int(width)}, nil
}

// valueWidth finds the width of the plain integers below an encoding.
func valueWidth(ce *pb.CompressiveEncoding) (uint64, error) {
	for range 4 {
		switch c := ce.GetCompression().(type) {
		case *pb.CompressiveEncoding_Flat:
			return c.Flat.GetBitsPerValue(), nil
		case *pb.CompressiveEncoding_InlineBitpacking:
			return c.InlineBitpacking.GetUncompressedBitsPerValue(), nil
		case *pb.CompressiveEncoding_General:
			ce = c.General.GetValues()
		case *pb.CompressiveEncoding_Rle:
			ce = c.Rle.GetValues()
		case *pb.CompressiveEncoding_ByteStreamSplit:
			ce = c.ByteStreamSplit.GetValues()
		default:
			return 0, unsupported("dictionary indices as %s", nameOf(ce))
		}
	}
	return 0, unsupported("dictionary indices nested too deep")
}

// SetDictionary decodes the dictionary buffer of the page. Call it once, before AppendRows. It returns the bytes the
// dictionary keeps in memory. buf may be kept.
func (m *MiniBlock) SetDictionary(buf []byte) (int, error) {
	d := m.dict
	if d == nil {
		return 0, corrupt("dictionary for a page without one")
	}
	var dec Decompressor
	defer dec.Close()
	if d.typ.Variable() {
		s, err := decodeStringBlock(d.ce, d.typ.OffsetBits(), buf, d.n, &dec)
		if err != nil {
			return 0, err
		}
		d.strings = s
		s.data = append(s.data[:len(s.data):len(s.data)], make([]byte, shortString)...)
		return len(s.data) + 8*len(s.offs), nil
	}
	block, err := compileFixedBlock(d.ce, d.typ.RowBits())
	if err != nil {
		return 0, err
	}
	if d.n > maxExpanded || d.n > 1<<20+uint64(len(buf))*maxExpansion {
		return 0, corrupt("dictionary of %d items in %d bytes", d.n, len(buf))
	}
	d.fixed, err = block.decode(buf, int(d.n), nil, &dec)
	return len(d.fixed), err
}

// append appends rows [from, to) of the chunk: each index is replaced by its item. Null rows carry
// some valid index.
func (d *dictionaryPlan) append(dst *Vector, codec *miniCodec, c *ChunkState, from, to int) error {
	idx, err := d.indices(codec, c, from, to)
	if err != nil {
		return err
	}
	if d.typ.Variable() {
		return d.appendStrings(dst, idx)
	}
	n := uint32(d.n)
	for _, x := range idx {
		if x >= n {
			return corrupt("dictionary index %d of %d", x, n)
		}
	}
	out := dst.growFixed(len(idx))
	switch d.typ.RowBits() {
	case 8:
		gather(out, d.fixed, idx)
	case 16:
		gather(wordsOf[uint16](out), wordsOf[uint16](d.fixed), idx)
	case 32:
		gather(wordsOf[uint32](out), wordsOf[uint32](d.fixed), idx)
	case 64:
		gather(wordsOf[uint64](out), wordsOf[uint64](d.fixed), idx)
	default:
		w := d.typ.RowBits() / 8
		for i, x := range idx {
			copy(out[i*w:(i+1)*w], d.fixed[int(x)*w:])
		}
	}
	return nil
}

func gather[T word](dst, items []T, idx []uint32) {
	dst = dst[:len(idx)]
	for i, x := range idx {
		dst[i] = items[x]
	}
}

func (d *dictionaryPlan) appendStrings(dst *Vector, idx []uint32) error {
	items := d.strings
	n := uint32(d.n)
	total := uint64(0) // at most 2^15 rows of 2^31 bytes
	for _, x := range idx {
		if x >= n {
			return corrupt("dictionary index %d of %d", x, n)
		}
		total += items.offs[x+1] - items.offs[x]
	}
	if err := dst.room(int(min(total, 1<<40))); err != nil {
		return err
	}
	at := dst.data.len()
	data := dst.data.grow(dst.mem, int(total)+shortString)
	if dst.typ.Kind == KindVar32 {
		gatherStrings(data, dst.growOffsets32(len(idx)), uint32(at), items, idx)
	} else {
		gatherStrings(data, dst.growOffsets64(len(idx)), uint64(at), items, idx)
	}
	dst.data.buf.ResizeNoShrink(at + int(total))
	return nil
}

// shortString is the length up to which strings are copied in one piece of fixed size: source and destination have that
// much room to spare.
const shortString = 16

// gatherStrings writes the items named by idx one after the other to data, whose start is position at of the column,
// and their ends to offs. All of idx are below the number of items, and data has shortString bytes more than they take.
func gatherStrings[T uint32 | uint64](data []byte, offs []T, at T, items *strings, idx []uint32) {
	pos := 0
	offs = offs[:len(idx)]
	for i, x := range idx {
		span := items.offs[x : x+2 : x+2]
		lo, hi := span[0], span[1]
		if n := hi - lo; n <= shortString {
			from, to := items.data[lo:lo+shortString], data[pos:pos+shortString]
			binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
			binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:]))
			pos += int(n)
		} else {
			pos += copy(data[pos:], items.data[lo:hi])
		}
		offs[i] = at + T(pos)
	}
}

// indices returns the indices of rows [from, to), valid until the next call. It decodes those of the whole chunk, once,
// unless few are wanted.
func (d *dictionaryPlan) indices(codec *miniCodec, c *ChunkState, from, to int) ([]uint32, error) {
	x := &c.indices
	if x.have {
		return x.idx[from:to], nil
	}
	first, rows := from, to-from
	whole := c.vals.singles+rows > fewValues
	if whole {
		first, rows = 0, c.vals.rows
	}
	if x.vec == nil || x.vec.typ.Bits != codec.bits {
		x.vec = NewVector(Type{Kind: KindFixed, Bits: codec.bits}, nil)
	}
	x.vec.Reset()
	if err := codec.appendValues(x.vec, &c.vals, first, first+rows, &c.d); err != nil {
		return nil, err
	}
	raw := x.vec.data.bytes()
	if codec.bits == 32 {
		x.idx = wordsOf[uint32](raw)[:rows]
	} else {
		x.wide = resize(x.wide, rows)
		x.idx = x.wide
	}
	switch codec.bits {
	case 8:
		widen(x.idx, raw)
	case 16:
		widen(x.idx, wordsOf[uint16](raw))
	case 64:
		for i, v := range wordsOf[uint64](raw) {
			x.idx[i] = uint32(min(v, 1<<32-1))
		}
	}
	x.have = whole
	return x.idx[from-first : to-first], nil
}

func widen[T word](dst []uint32, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = uint32(x)
	}
}
