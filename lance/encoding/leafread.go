package encoding

// Decoding pages of nested columns into leaves.
// Spec: file format, "Levels per chunk", "Full-zip layout" and "ConstantLayout".

// nestedState is what is known about the loaded chunk of a nested page.
type nestedState struct {
	have     bool
	rep, def []uint16 // of all entries; nil if the page has none
	repBuf   []byte   // scratch
	defBuf   []byte
	canon    []uint16
	starts   int // row starts in the chunk
	// Where the last read stopped: row starts, entries and slots before it.
	rows, entry, slot int
}

// loadNested decodes the levels of the loaded chunk, once.
func (m *MiniBlock) loadNested(l *Leaf, c *ChunkState) (err error) {
	s := &c.nested
	if s.have {
		return nil
	}
	s.rep, s.def, s.rows, s.entry, s.slot = nil, nil, 0, 0, 0
	if s.canon, err = m.levels.canon(l.shape); err != nil {
		return err
	}
	if m.levels.MaxRep > 0 {
		if m.rep == nil {
			return corrupt("list page without repetition levels")
		}
		if s.rep, s.repBuf, err = m.rep.decodeLevels(c.rep, c.nLevels, s.repBuf, &c.d); err != nil {
			return err
		}
	}
	if m.levels.MaxDef > 0 {
		if m.def == nil {
			return corrupt("page with definition levels in its layers only")
		}
		if s.def, s.defBuf, err = m.def.decodeLevels(c.def, c.nLevels, s.defBuf, &c.d); err != nil {
			return err
		}
	}
	if m.levels.MaxRep == 0 && s.def != nil && c.nLevels != c.vals.rows {
		return corrupt("%d levels for %d values", c.nLevels, c.vals.rows)
	}
	s.starts, _ = rowStarts(s.rep, uint16(m.levels.MaxRep))
	s.have = true
	return nil
}

// appendSlots appends value slots [from, to) of the loaded chunk.
func (m *MiniBlock) appendSlots(dst *Vector, c *ChunkState, from, to int) error {
	if from > to || to > c.vals.rows {
		return corrupt("values %d..%d of a chunk of %d", from, to, c.vals.rows)
	}
	if from == to {
		return nil
	}
	if m.dict != nil {
		if err := m.dict.append(dst, m.values, c, from, to); err != nil {
			return err
		}
	} else if err := m.values.appendValues(dst, &c.vals, from, to, &c.d); err != nil {
		return err
	}
	dst.addValid(to - from)
	return nil
}

// AppendLeaf appends rows [from, to) of the loaded chunk of a page without lists.
func (m *MiniBlock) AppendLeaf(l *Leaf, c *ChunkState, from, to int) error {
	if from < 0 || from > to || to > c.vals.rows {
		return corrupt("rows %d..%d of a chunk of %d", from, to, c.vals.rows)
	}
	if err := m.loadNested(l, c); err != nil {
		return err
	}
	s := &c.nested
	if err := m.appendSlots(l.Values, c, from, to); err != nil {
		return err
	}
	if s.def == nil {
		return l.addLevels(nil, nil, s.canon, to-from)
	}
	return l.addLevels(nil, s.def[from:to], s.canon, to-from)
}

// AppendLists appends rows of the loaded chunk of a page with lists. Entries before the first row start belong to a row
// that began in an earlier chunk: they are appended if goOn is set. Then skip rows are left out and the entries of the
// following rows rows are appended, as far as they lie in this chunk.
func (m *MiniBlock) AppendLists(l *Leaf, c *ChunkState, skip, rows int, goOn bool) error {
	if err := m.loadNested(l, c); err != nil {
		return err
	}
	s := &c.nested
	if goOn {
		s.rows, s.entry, s.slot = 0, 0, 0
		to, slots := m.advance(s, 0, 1)
		if err := m.appendEntries(l, c, 0, to, slots); err != nil {
			return err
		}
		s.entry, s.slot = to, slots
		if rows == 0 {
			return nil
		}
	} else if s.rows > skip || s.entry == 0 {
		s.rows = 0
		s.entry, s.slot = m.advance(s, 0, 1)
	}
	// Invariant: s.entry is a row start (or the end), with s.rows row starts before it.
	if skip > s.rows {
		to, slots := m.advance(s, s.entry, skip-s.rows+1)
		s.entry, s.slot, s.rows = to, s.slot+slots, skip
	}
	to, slots := len(s.rep), c.vals.rows-s.slot
	if s.starts-s.rows > rows {
		to, slots = m.advance(s, s.entry, rows+1)
	}
	if err := m.appendEntries(l, c, s.entry, to, slots); err != nil {
		return err
	}
	s.entry, s.slot, s.rows = to, s.slot+slots, skip+rows
	return nil
}

// advance returns the entry of the n-th row start at or after entry from (the end if there are fewer), and the value
// slots passed on the way.
func (m *MiniBlock) advance(s *nestedState, from, n int) (to, slots int) {
	top, visible := uint16(m.levels.MaxRep), uint16(m.levels.MaxVisible)
	for to = from; to < len(s.rep); to++ {
		if s.rep[to] == top {
			if n--; n == 0 {
				return to, slots
			}
		}
		if s.def == nil || s.def[to] <= visible {
			slots++
		}
	}
	return to, slots
}

// appendEntries appends entries [from, to), which own slots value slots from the present one on.
func (m *MiniBlock) appendEntries(l *Leaf, c *ChunkState, from, to, slots int) error {
	s := &c.nested
	if err := m.appendSlots(l.Values, c, s.slot, s.slot+slots); err != nil {
		return err
	}
	var def []uint16
	if s.def != nil {
		def = s.def[from:to]
	}
	return l.addLevels(s.rep[from:to], def, s.canon, to-from)
}

// ListChunk is the part of a repetition index that belongs to one chunk.
type ListChunk struct {
	First   uint64 // rows that start before this chunk
	Starts  int    // rows that start in it
	Partial bool   // its last row goes on in the next chunk
}

// ParseRepetitionIndex reads the repetition index of a page of rows rows.
// Spec: file format, "Repetition index".
func (m *MiniBlock) ParseRepetitionIndex(b []byte, depth uint32, chunks int, rows uint64) ([]ListChunk, error) {
	if depth != 1 {
		return nil, unsupported("repetition index of depth %d", depth)
	}
	if len(b) != chunks*16 {
		return nil, corrupt("repetition index of %d bytes for %d chunks", len(b), chunks)
	}
	out := make([]ListChunk, chunks)
	var first, ended uint64
	preamble := false
	for i := range out {
		ends, partial := u64(b[16*i:]), u64(b[16*i+8:])
		if ends > 1<<32 {
			return nil, corrupt("%d rows end in one chunk", ends)
		}
		starts := int(ends)
		if partial > 0 {
			starts++
		}
		if preamble {
			starts--
		}
		if starts < 0 || starts > 1<<16 {
			return nil, corrupt("%d rows start in chunk %d", starts, i)
		}
		out[i] = ListChunk{First: first, Starts: starts, Partial: partial > 0}
		first, ended, preamble = first+uint64(starts), ended+ends, partial > 0
	}
	if ended != rows || preamble || first != rows {
		return nil, corrupt("repetition index of %d rows for %d", ended, rows)
	}
	return out, nil
}

// AppendLeaf appends rows whole rows; data holds exactly their entries.
func (f *FullZip) AppendLeaf(l *Leaf, data []byte, rows int, d *Decompressor) error {
	canon, err := f.levels.canon(l.shape)
	if err != nil {
		return err
	}
	var rep, def [1]uint16
	reps := rep[:0]
	if f.levels.MaxRep > 0 {
		reps = rep[:1]
	}
	var defs []uint16
	if f.levels.MaxDef > 0 {
		defs = def[:1]
	}
	want := l.rows + rows
	for len(data) > 0 {
		if len(data) < f.control {
			return corrupt("page ends inside a control word")
		}
		if f.control > 0 {
			word := uint32(uintN(data, f.control))
			rep[0], def[0] = uint16(word>>f.repShift), uint16(word&f.defMask)
			data = data[f.control:]
		}
		if err := l.addLevels(reps, defs, canon, 1); err != nil {
			return err
		}
		if l.rows > want {
			return corrupt("more than %d rows in their bytes", rows)
		}
		if len(l.def) > 0 && int(def[0]) > f.levels.MaxVisible {
			continue
		}
		if data, err = f.appendSlot(l.Values, data, def[0] > 0 && defs != nil, d); err != nil {
			return err
		}
		l.Values.addValid(1)
	}
	if l.rows != want {
		return corrupt("%d of %d rows", l.rows-want+rows, rows)
	}
	return nil
}

// appendSlot appends the value slot of an entry and returns the bytes behind it.
func (f *FullZip) appendSlot(dst *Vector, data []byte, null bool, d *Decompressor) ([]byte, error) {
	if f.length == 0 {
		if len(data) < f.value {
			return nil, corrupt("page ends inside a value")
		}
		f.appendValue(dst, data[:f.value])
		return data[f.value:], nil
	}
	if null {
		if f.members != nil {
			return nil, unsupported("null packed structs in lists")
		}
		dst.closeRow()
		return data, nil
	}
	if len(data) < f.length {
		return nil, corrupt("page ends inside a length")
	}
	n := uintN(data, f.length)
	data = data[f.length:]
	if n > uint64(len(data)) {
		return nil, corrupt("value of %d bytes with %d left", n, len(data))
	}
	return data[n:], f.appendBytes(dst, data[:n], d)
}

// AppendLeaf appends rows [from, to) of a constant page.
func (c *Constant) AppendLeaf(l *Leaf, from, to uint64) error {
	if from > to || to > c.rows {
		return corrupt("rows %d..%d of a page of %d", from, to, c.rows)
	}
	canon, err := c.levels.canon(l.shape)
	if err != nil {
		return err
	}
	lo, hi := int(from), int(to)
	var rep, def []uint16
	if c.levels.MaxRep > 0 {
		if uint64(len(c.starts)) != c.rows+1 {
			return corrupt("constant page with %d list rows of %d", max(0, len(c.starts)-1), c.rows)
		}
		lo, hi = int(c.starts[from]), int(c.starts[to])
		rep = c.rep[lo:hi]
	}
	n := hi - lo
	switch {
	case c.def != nil:
		def = c.def[lo:hi]
	case c.null:
		if c.levels.MaxRep > 0 || c.levels.Layers[0].NullLevel == 0 {
			return corrupt("constant page without a value or levels")
		}
		def = make([]uint16, n)
		fill(def, uint16(c.levels.Layers[0].NullLevel))
	}
	slots := n
	for _, d := range def {
		if int(d) > c.levels.MaxVisible {
			slots--
		}
	}
	if c.null {
		if err := l.Values.appendPlaceholders(slots); err != nil {
			return err
		}
	} else {
		if err := l.Values.repeat(c.value, slots); err != nil {
			return err
		}
		l.Values.addValid(slots)
	}
	return l.addLevels(rep, def, canon, n)
}

// appendPlaceholders appends rows rows of zero or empty values, counted as valid.
func (v *Vector) appendPlaceholders(rows int) error {
	nulls := v.nulls
	if err := v.AppendNulls(rows); err != nil {
		return err
	}
	v.nulls = nulls
	v.valid.release()
	return nil
}
