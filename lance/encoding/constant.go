package encoding

import (
	"math"

	"lancesql/lance/pb"
)

// Spec: file format, "ConstantLayout".
//
//	no value, 0 buffers   every row is null            no value, 2 buffers   rep levels, def levels
//	inline,   0 buffers   every row is the value       inline,   2 buffers   rep levels, def levels
//	no value, 1 buffer    scalar                       no value, 3 buffers   scalar, rep levels, def levels
//	scalar                u32 n | u32 len × n | Arrow buffers of a one-row array

// Constant is a decoded constant page. Immutable.
type Constant struct {
	typ    Type
	levels LevelPlan
	rows   uint64
	value  []byte // bytes of the value; nil with null set
	null   bool   // no row has a value
	rep    []uint16
	def    []uint16
	starts []uint32 // pages with lists: entry of each row, and the end
	valid  []byte   // flat pages with definition levels: one bit per row
}

// CompileConstant decodes a constant page of rows rows from its buffers.
func CompileConstant(l *pb.ConstantLayout, t Type, buffers [][]byte, rows uint64) (*Constant, error) {
	c := &Constant{typ: t, rows: rows}
	var err error
	if c.levels, err = CompileLevels(l.GetLayers()); err != nil {
		return nil, err
	}
	levelBuffers := buffers
	switch {
	case l.InlineValue != nil:
		c.value = l.InlineValue
	case len(buffers) == 1 || len(buffers) == 3:
		if c.value, err = scalarValue(buffers[0], t); err != nil {
			return nil, err
		}
		levelBuffers = buffers[1:]
	default:
		c.null = true
	}
	if !c.null {
		if err := c.checkValue(); err != nil {
			return nil, err
		}
	}
	switch len(levelBuffers) {
	case 0:
		return c, nil
	case 2:
		return c, c.loadLevels(l, levelBuffers)
	}
	return nil, corrupt("constant page with %d buffers", len(buffers))
}

func (c *Constant) checkValue() error {
	switch {
	case c.typ.Kind == KindPacked:
		return unsupported("constant packed struct")
	case c.typ.Kind == KindNull:
		return corrupt("constant value in a null column")
	case c.typ.Kind == KindFixed && len(c.value) != bitmapBytes(c.typ.RowBits()):
		return corrupt("constant of %d bytes where %d bits are expected", len(c.value), c.typ.RowBits())
	}
	return nil
}

func (c *Constant) loadLevels(l *pb.ConstantLayout, buffers [][]byte) (err error) {
	var d Decompressor
	defer d.Close()
	if c.rep, err = c.level(l.GetRepCompression(), buffers[0], l.GetNumRepValues(), &d); err != nil {
		return err
	}
	if c.def, err = c.level(l.GetDefCompression(), buffers[1], l.GetNumDefValues(), &d); err != nil {
		return err
	}
	for _, def := range c.def {
		if int(def) > c.levels.MaxDef {
			return corrupt("definition level %d of %d", def, c.levels.MaxDef)
		}
	}
	if !c.levels.Flat() {
		return c.loadNested()
	}
	if len(c.rep) > 0 || len(c.def) > 0 && uint64(len(c.def)) != c.rows {
		return corrupt("%d levels for %d rows", len(c.def), c.rows)
	}
	if len(c.def) > 0 {
		c.valid = make([]byte, bitmapBytes(len(c.def)))
		_, err = validityOf(c.valid, c.def)
	}
	return err
}

// loadNested checks the levels of a nested page against each other and finds the rows.
func (c *Constant) loadNested() error {
	if c.levels.MaxDef > 0 && len(c.def) == 0 || len(c.def) > math.MaxUint32 {
		return corrupt("constant page of %d definition levels", len(c.def))
	}
	if len(c.def) == 0 {
		c.def = nil
	}
	if c.levels.MaxRep == 0 {
		if c.def != nil && uint64(len(c.def)) != c.rows {
			return corrupt("%d levels for %d rows", len(c.def), c.rows)
		}
		return nil
	}
	if c.def != nil && len(c.def) != len(c.rep) {
		return corrupt("%d repetition and %d definition levels", len(c.rep), len(c.def))
	}
	for i, r := range c.rep {
		if int(r) == c.levels.MaxRep {
			c.starts = append(c.starts, uint32(i))
		}
	}
	if uint64(len(c.starts)) != c.rows || c.rows > 0 && c.starts[0] != 0 {
		return corrupt("levels of %d rows for %d", len(c.starts), c.rows)
	}
	c.starts = append(c.starts, uint32(len(c.rep)))
	return nil
}

// level reads one level stream. With a value present the levels are raw whatever the description says.
func (c *Constant) level(ce *pb.CompressiveEncoding, buf []byte, n uint64, d *Decompressor) ([]uint16, error) {
	if ce == nil || !c.null {
		if len(buf)%2 != 0 {
			return nil, corrupt("levels of %d bytes", len(buf))
		}
		return rawLevels(buf), nil
	}
	if n > 1<<20+uint64(len(buf))*maxExpansion {
		return nil, corrupt("%d levels in %d bytes", n, len(buf))
	}
	block, err := compileFixedBlock(ce, 16)
	if err != nil {
		return nil, err
	}
	levels, _, err := block.decodeLevels(buf, int(n), nil, d)
	return levels, err
}

// scalarValue extracts the value bytes from a scalar buffer.
func scalarValue(b []byte, t Type) ([]byte, error) {
	if len(b) < 4 {
		return nil, corrupt("scalar of %d bytes", len(b))
	}
	n := uint64(u32(b))
	if n > 16 || uint64(len(b)) < 4+4*n {
		return nil, corrupt("scalar of %d buffers in %d bytes", n, len(b))
	}
	parts := make([][]byte, n)
	rest := b[4+4*n:]
	for i := range parts {
		size := uint64(u32(b[4+4*i:]))
		if size > uint64(len(rest)) {
			return nil, corrupt("scalar buffer of %d bytes with %d left", size, len(rest))
		}
		parts[i], rest = rest[:size:size], rest[size:]
	}
	if !t.Variable() {
		if n != 1 {
			return nil, unsupported("fixed-width scalar of %d buffers", n)
		}
		return parts[0], nil
	}
	w := t.OffsetBits() / 8
	if n != 2 || len(parts[0]) != 2*w {
		return nil, corrupt("string scalar of %d buffers", n)
	}
	lo, hi := uintN(parts[0], w), uintN(parts[0][w:], w)
	if lo > hi || hi > uint64(len(parts[1])) {
		return nil, corrupt("string scalar offsets %d..%d in %d bytes", lo, hi, len(parts[1]))
	}
	return parts[1][lo:hi:hi], nil
}

// AppendRows appends rows [from, to) of a page without lists.
func (c *Constant) AppendRows(dst *Vector, from, to uint64) error {
	if c.levels.MaxRep > 0 || c.levels.MaxDef > 1 {
		return unsupported("flat read of a nested page")
	}
	if from > to || to > c.rows {
		return corrupt("rows %d..%d of a page of %d", from, to, c.rows)
	}
	rows := int(to - from)
	if c.null {
		return dst.AppendNulls(rows)
	}
	if err := dst.repeat(c.value, rows); err != nil {
		return err
	}
	if c.valid == nil {
		dst.addValid(rows)
		return nil
	}
	dst.addBitmap(c.valid, int(from), rows, rows-countBits(c.valid, int(from), rows))
	return nil
}

// repeat appends rows copies of a value without counting them.
func (v *Vector) repeat(value []byte, rows int) error {
	if err := v.roomRows(rows, len(value)); err != nil {
		return err
	}
	for l := range v.items {
		v.addItems(l, nil, 0, rows)
	}
	switch {
	case v.typ.Variable():
		at := v.data.len()
		fillBytes(v.data.grow(v.mem, len(value)*rows), value)
		if v.typ.Kind == KindVar32 {
			offs := v.growOffsets32(rows)
			for i := range offs {
				offs[i] = uint32(at + (i+1)*len(value))
			}
			return nil
		}
		offs := v.growOffsets64(rows)
		for i := range offs {
			offs[i] = uint64(at + (i+1)*len(value))
		}
	case v.typ.RowBits() == 1:
		setBits(v.growBits(rows), v.n, rows, value[0]&1 != 0)
	case v.typ.Bits == 1:
		width := v.typ.RowBits()
		bitmap := v.growBits(rows)
		for i := range rows {
			copyBits(bitmap, (v.n+i)*width, value, 0, width)
		}
	default:
		fillBytes(v.growFixed(rows), value)
	}
	return nil
}

// fillBytes repeats value over dst, doubling the filled part each time.
func fillBytes(dst, value []byte) {
	if len(value) == 0 || len(dst) == 0 {
		return
	}
	for n := copy(dst, value); n < len(dst); {
		n += copy(dst[n:], dst[:n])
	}
}
