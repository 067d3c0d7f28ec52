package encoding

import (
	"lancesql/lance/pb"
)

// Spec: file format, "Mini-block layout".
//
//	chunk metadata  one word per chunk: (chunk_bytes/8 − 1) << 4 | log2(values), u16 in 2.1, u32 from 2.2
//	chunk           u16 levels | u16 rep_size? | u16 def_size? | (u16|u32) size × buffers | 0xFE pad to 8 |
//	                rep pad8 | def pad8 | value buffers pad8

const (
	maxChunkValues = 32768
	headerPad      = 0xFE
	valuePad       = 0x48
)

// Chunk is one entry of a page's chunk index.
type Chunk struct {
	Offset int64  // bytes from the start of the chunk data buffer
	Size   int    // bytes, a multiple of 8
	First  uint64 // value slots before this chunk
	Values int    // value slots in this chunk
}

// MiniBlock is the compiled description of one mini-block page. It is immutable after SetDictionary.
type MiniBlock struct {
	typ    Type
	large  bool
	levels LevelPlan
	rep    *fixedBlock
	def    *fixedBlock
	values *miniCodec
	items  uint64
	dict   *dictionaryPlan
}

// CompileMiniBlock checks a page description against the physical type of its column.
func CompileMiniBlock(l *pb.MiniBlockLayout, t Type) (*MiniBlock, error) {
	m := &MiniBlock{typ: t, large: l.GetHasLargeChunk(), items: l.GetNumItems()}
	var err error
	if m.levels, err = CompileLevels(l.GetLayers()); err != nil {
		return nil, err
	}
	if l.GetRepCompression() != nil {
		if m.rep, err = compileFixedBlock(l.GetRepCompression(), 16); err != nil {
			return nil, err
		}
	}
	if l.GetDefCompression() != nil {
		if m.def, err = compileFixedBlock(l.GetDefCompression(), 16); err != nil {
			return nil, err
		}
	}
	valueType := t
	if l.GetDictionary() != nil {
		if m.dict, valueType, err = compileDictionary(l, t); err != nil {
			return nil, err
		}
	}
	values := l.GetValueCompression()
	if len(t.Fields) > 0 {
		if t.Kind == KindPacked {
			return nil, unsupported("packed struct with variable members in a mini-block page")
		}
		if values, err = t.unpackedCE(values); err != nil {
			return nil, err
		}
	}
	if m.values, err = compileMini(values, valueType); err != nil {
		return nil, err
	}
	if l.GetNumBuffers() != uint64(m.values.buffers) {
		return nil, corrupt("%d value buffers for an encoding of %d", l.GetNumBuffers(), m.values.buffers)
	}
	return m, nil
}

// Items returns the number of value slots in the page.
func (m *MiniBlock) Items() uint64 { return m.items }

// Levels returns the meaning of the page's levels.
func (m *MiniBlock) Levels() LevelPlan { return m.levels }

// HasDictionary reports whether buffer 2 of the page holds dictionary items; SetDictionary must come before decoding.
func (m *MiniBlock) HasDictionary() bool { return m.dict != nil }

// ParseIndex reads the chunk metadata buffer of a page whose chunk data buffer has dataSize bytes.
func (m *MiniBlock) ParseIndex(meta []byte, dataSize uint64) ([]Chunk, error) {
	w := 2
	if m.large {
		w = 4
	}
	if len(meta)%w != 0 {
		return nil, corrupt("chunk metadata of %d bytes", len(meta))
	}
	chunks := make([]Chunk, len(meta)/w)
	var offset, first uint64
	for i := range chunks {
		v := uintN(meta[i*w:], w)
		size := (v>>4 + 1) * 8
		values := uint64(1) << (v & 15)
		if last := i == len(chunks)-1; last {
			if first > m.items {
				return nil, corrupt("chunks hold more than the %d values of the page", m.items)
			}
			if rest := m.items - first; v&15 == 0 {
				values = rest
			} else if rest != values {
				return nil, corrupt("last chunk of %d values where %d are left", values, rest)
			}
		} else if v&15 == 0 {
			return nil, corrupt("chunk %d of %d with a single value", i, len(chunks))
		}
		if values > maxChunkValues {
			return nil, corrupt("chunk of %d values", values)
		}
		if size > dataSize-offset {
			return nil, corrupt("chunk %d ends behind the %d bytes of chunk data", i, dataSize)
		}
		chunks[i] = Chunk{Offset: int64(offset), Size: int(size), First: first, Values: int(values)}
		offset += size
		first += values
	}
	if first != m.items || offset != dataSize {
		return nil, corrupt("chunks hold %d values in %d bytes, page has %d in %d", first, offset, m.items, dataSize)
	}
	return chunks, nil
}

// ChunkState is one parsed chunk and the scratch memory of its decoding. The zero value is ready for Load; memory is
// reused from chunk to chunk. It refers to the bytes given to Load.
type ChunkState struct {
	vals    chunkValues
	rep     []byte
	def     []byte
	nLevels int
	d       Decompressor
	levels  []byte   // scratch of decoded levels
	indices chunkIdx // scratch of dictionary indices
	valid   []byte   // validity of all rows of the chunk as bits; empty until decoded
	nulls   int
	haveDef bool
	bufs    [][]byte
	nested  nestedState
}

// Close frees decoder state.
func (c *ChunkState) Close() { c.d.Close() }

// Load parses one chunk of values value slots.
func (m *MiniBlock) Load(c *ChunkState, b []byte, values int) error {
	c.haveDef, c.nested.have, c.rep, c.def = false, false, nil, nil
	at := 2
	var repSize, defSize int
	fields := 2
	if m.rep != nil {
		fields += 2
	}
	if m.def != nil {
		fields += 2
	}
	w := 2
	if m.large {
		w = 4
	}
	head := fields + w*m.values.buffers
	if len(b) < head {
		return corrupt("chunk of %d bytes with a header of %d", len(b), head)
	}
	c.nLevels = u16(b)
	if m.rep != nil {
		repSize = u16(b[at:])
		at += 2
	}
	if m.def != nil {
		defSize = u16(b[at:])
		at += 2
	}
	sizes := b[at:head]
	at = pad8(head)
	var err error
	if m.rep != nil {
		if c.rep, at, err = section(b, at, uint64(repSize)); err != nil {
			return err
		}
	}
	if m.def != nil {
		if c.def, at, err = section(b, at, uint64(defSize)); err != nil {
			return err
		}
	}
	c.bufs = resize(c.bufs, m.values.buffers)
	for i := range c.bufs {
		if c.bufs[i], at, err = section(b, at, uintN(sizes[i*w:], w)); err != nil {
			return err
		}
	}
	c.vals.reset(values, c.bufs)
	c.indices.have = false
	return nil
}

// section cuts size bytes at position at of a chunk; the next section starts at a multiple of 8.
func section(b []byte, at int, size uint64) ([]byte, int, error) {
	if at > len(b) || size > uint64(len(b)-at) {
		return nil, 0, corrupt("%d bytes at %d in a chunk of %d", size, at, len(b))
	}
	end := at + int(size)
	return b[at:end:end], pad8(end), nil
}

// AppendRows appends rows [from, to) of the loaded chunk of a page without lists to dst.
func (m *MiniBlock) AppendRows(dst *Vector, c *ChunkState, from, to int) error {
	if m.levels.MaxRep > 0 || m.levels.MaxDef > 1 {
		return unsupported("flat read of a nested page")
	}
	if from < 0 || from > to || to > c.vals.rows {
		return corrupt("rows %d..%d of a chunk of %d", from, to, c.vals.rows)
	}
	if err := m.loadValidity(c); err != nil {
		return err
	}
	nulls := 0
	if c.nulls > 0 {
		nulls = to - from - countBits(c.valid, from, to-from)
	}
	if m.dict != nil {
		if err := m.dict.append(dst, m.values, c, from, to); err != nil {
			return err
		}
	} else if err := m.values.appendValues(dst, &c.vals, from, to, &c.d); err != nil {
		return err
	}
	dst.addBitmap(c.valid, from, to-from, nulls)
	return nil
}

// loadValidity decodes the definition levels of a chunk of a page with at most one level, once.
func (m *MiniBlock) loadValidity(c *ChunkState) error {
	if c.haveDef {
		return nil
	}
	c.nulls = 0
	if m.def == nil || m.levels.MaxDef == 0 {
		c.haveDef = true
		return nil
	}
	if c.nLevels != c.vals.rows {
		return corrupt("%d levels for %d values", c.nLevels, c.vals.rows)
	}
	if valid, ok := m.def.decodeValidity(c.valid, c.def, c.nLevels); ok {
		c.valid, c.haveDef = valid, true
		c.nulls = c.nLevels - countBits(valid, 0, c.nLevels)
		return nil
	}
	levels, scratch, err := m.def.decodeLevels(c.def, c.nLevels, c.levels, &c.d)
	c.levels = scratch
	if err != nil {
		return err
	}
	c.valid = resize(c.valid, bitmapBytes(len(levels)))
	c.nulls, err = validityOf(c.valid, levels)
	c.haveDef = err == nil
	return err
}

// validityOf writes one bit per level, 1 for level 0, and counts the others, which must be 1.
func validityOf(valid []byte, levels []uint16) (nulls int, err error) {
	i := 0
	var seen uint16
	for ; i+8 <= len(levels); i += 8 {
		l := levels[i : i+8 : i+8]
		b := l[0]&1 | l[1]&1<<1 | l[2]&1<<2 | l[3]&1<<3 | l[4]&1<<4 | l[5]&1<<5 | l[6]&1<<6 | l[7]&1<<7
		seen |= l[0] | l[1] | l[2] | l[3] | l[4] | l[5] | l[6] | l[7]
		valid[i>>3] = ^byte(b)
	}
	if i < len(levels) {
		valid[i>>3] = 0
		for ; i < len(levels); i++ {
			seen |= levels[i]
			valid[i>>3] |= byte(^levels[i]&1) << (i & 7)
		}
	}
	if seen > 1 {
		return 0, corrupt("definition level above 1 in a flat page")
	}
	return len(levels) - countBits(valid, 0, len(levels)), nil
}
