package encoding

import (
	"lancesql/lance/pb"
)

// Spec: file format, "Full-zip layout".
//
//	fixed     entry = control word | value bytes, also under nulls
//	variable  entry = control word | length (4 or 8 bytes) | bytes; null entries are the control word alone
//	control   (rep << bits_def) | def in 0, 1, 2 or 4 bytes

// FullZip is the compiled description of one full-zip page. Immutable.
type FullZip struct {
	typ      Type
	levels   LevelPlan
	control  int // bytes of the control word
	repShift uint32
	defMask  uint32 // of the control word
	items    uint64

	// fixed width
	value    int    // bytes of one value with its item validity
	validity []int  // bytes of item validity per list level, 0 = none
	lists    []bool // which levels have it
	widened  bool   // booleans as one byte per item

	members []*FullZip // packed rows: how each member is stored

	// variable width
	length  int // bytes of the length prefix, 0 for fixed width
	fsst    *symbolTable
	general bool
	scheme  pb.CompressionScheme
}

// CompileFullZip checks a page description against the physical type of its column.
func CompileFullZip(l *pb.FullZipLayout, t Type) (*FullZip, error) {
	f := &FullZip{typ: t, items: uint64(l.GetNumItems())}
	var err error
	if f.levels, err = CompileLevels(l.GetLayers()); err != nil {
		return nil, err
	}
	bitsRep, bitsDef := l.GetBitsRep(), l.GetBitsDef()
	if bitsRep > 16 || bitsDef > 16 {
		return nil, corrupt("levels of %d and %d bits", bitsRep, bitsDef)
	}
	switch bits := bitsRep + bitsDef; {
	case bits == 0:
	case bits <= 8:
		f.control = 1
	case bits <= 16:
		f.control = 2
	default:
		f.control = 4
	}
	f.defMask, f.repShift = 1<<bitsDef-1, bitsDef
	switch d := l.GetDetails().(type) {
	case *pb.FullZipLayout_BitsPerValue:
		return f, f.compileFixed(l.GetValueCompression(), d.BitsPerValue)
	case *pb.FullZipLayout_BitsPerOffset:
		return f, f.compileVariable(l.GetValueCompression(), d.BitsPerOffset)
	}
	return nil, corrupt("full-zip page without a value width")
}

func (f *FullZip) compileFixed(ce *pb.CompressiveEncoding, bitsPerValue uint32) error {
	if f.typ.Kind != KindFixed {
		return corrupt("fixed-width page in a variable-width column")
	}
	items := 1
	for ce.GetFixedSizeList() != nil {
		l := ce.GetFixedSizeList()
		if len(f.lists) >= len(f.typ.Dims) || l.GetItemsPerValue() != uint64(f.typ.Dims[len(f.lists)]) {
			return corrupt("fixed-size list encoding does not match the type")
		}
		items *= f.typ.Dims[len(f.lists)]
		bytes := 0
		if l.GetHasValidity() {
			bytes = bitmapBytes(items)
		}
		f.lists = append(f.lists, l.GetHasValidity())
		f.validity = append(f.validity, bytes)
		f.value += bytes
		ce = l.GetValues()
	}
	flat := ce.GetFlat()
	if flat == nil {
		return unsupported("full-zip encoding %s", nameOf(ce))
	}
	bits := f.typ.Bits
	if len(f.lists) != len(f.typ.Dims) {
		return corrupt("fixed-size list encoding with %d of %d levels", len(f.lists), len(f.typ.Dims))
	}
	if bits == 1 {
		bits, f.widened = 8, true
	}
	if bits%8 != 0 {
		return unsupported("full-zip values of %d bits", bits)
	}
	if err := checkFlat(flat, bits); err != nil {
		return err
	}
	f.value += items * bits / 8
	if uint64(bitsPerValue) != uint64(f.value)*8 {
		return corrupt("full-zip values of %d bits where %d are expected", bitsPerValue, f.value*8)
	}
	return nil
}

func (f *FullZip) compileVariable(ce *pb.CompressiveEncoding, bitsPerOffset uint32) error {
	if f.typ.Kind == KindPacked {
		return f.compilePacked(ce, bitsPerOffset)
	}
	if !f.typ.Variable() {
		return corrupt("variable-width page in a fixed-width column")
	}
	if int(bitsPerOffset) != f.typ.OffsetBits() {
		return corrupt("length prefixes of %d bits where %d are expected", bitsPerOffset, f.typ.OffsetBits())
	}
	f.length = int(bitsPerOffset) / 8
	if g := ce.GetGeneral(); g != nil {
		f.general, f.scheme = true, g.GetCompression().GetScheme()
		ce = g.GetValues()
	}
	if s := ce.GetFsst(); s != nil {
		table, err := parseSymbolTable(s.GetSymbolTable())
		if err != nil {
			return err
		}
		if !table.off {
			f.fsst = table
		}
		ce = s.GetValues()
	}
	if ce.GetVariable() == nil {
		return unsupported("full-zip encoding %s", nameOf(ce))
	}
	return checkVariable(ce.GetVariable(), f.typ.OffsetBits())
}

// Items returns the number of entries in the page.
func (f *FullZip) Items() uint64 { return f.items }

// Levels returns the meaning of the page's levels.
func (f *FullZip) Levels() LevelPlan { return f.levels }

// Stride returns the bytes of one row if all rows have the same size (no repetition index then), else 0.
func (f *FullZip) Stride() int {
	if f.length > 0 || f.levels.MaxRep > 0 {
		return 0
	}
	return f.control + f.value
}

// Plain reports whether the entries are the items of the rows and nothing else, as Vector.AppendPlain takes them.
func (f *FullZip) Plain() bool {
	return f.length == 0 && f.levels.MaxRep == 0 && f.control == 0 && !f.widened && f.value*8 == f.typ.RowBits()
}

// IndexWidth returns the bytes of one entry of the repetition index of a page of rows rows, whose buffer has size
// bytes and rows+1 entries.
func IndexWidth(size, rows uint64) (int, error) {
	for _, w := range [...]uint64{1, 2, 4, 8} {
		if rows < size && (rows+1)*w == size && size/w == rows+1 {
			return int(w), nil
		}
	}
	return 0, corrupt("repetition index of %d bytes for %d rows", size, rows)
}

// IndexEntry reads entry i of part of a repetition index.
func IndexEntry(b []byte, width, i int) uint64 { return uintN(b[i*width:], width) }

// AppendRows appends rows whole rows of a page without lists; data holds exactly their entries.
func (f *FullZip) AppendRows(dst *Vector, data []byte, rows int, d *Decompressor) error {
	if f.levels.MaxRep > 0 || f.levels.MaxDef > 1 {
		return unsupported("flat read of a nested page")
	}
	if f.length > 0 {
		return f.appendVariable(dst, data, rows, d)
	}
	stride := f.Stride()
	if len(data) != rows*stride {
		return corrupt("%d bytes for %d rows of %d", len(data), rows, stride)
	}
	if f.Plain() {
		copy(dst.AppendPlain(rows), data)
		return nil
	}
	for len(data) > 0 {
		null, err := f.isNull(data)
		if err != nil {
			return err
		}
		f.appendValue(dst, data[f.control:stride])
		if null {
			dst.addNull(1)
		} else {
			dst.addValid(1)
		}
		data = data[stride:]
	}
	return nil
}

// isNull reads the control word of an entry that holds at least that.
func (f *FullZip) isNull(entry []byte) (bool, error) {
	if f.control == 0 {
		return false, nil
	}
	def := uint32(uintN(entry, f.control)) & f.defMask
	if def > uint32(f.levels.MaxDef) {
		return false, corrupt("definition level %d of %d", def, f.levels.MaxDef)
	}
	return def > 0, nil
}

// appendValue appends the value of one row without counting it.
func (f *FullZip) appendValue(dst *Vector, b []byte) {
	for l, has := range f.lists {
		if !has {
			dst.addItems(l, nil, 0, 1)
			continue
		}
		dst.addItems(l, b[:f.validity[l]], 0, 1)
		b = b[f.validity[l]:]
	}
	if !f.widened {
		dst.appendFixed(b)
		return
	}
	bitmap := dst.growBits(1)
	at := dst.n * len(b)
	for i, v := range b {
		if v != 0 {
			bitmap[(at+i)>>3] |= 1 << ((at + i) & 7)
		}
	}
}

func (f *FullZip) appendVariable(dst *Vector, data []byte, rows int, d *Decompressor) error {
	for range rows {
		if len(data) < f.control {
			return corrupt("page ends inside a control word")
		}
		null, err := f.isNull(data)
		if err != nil {
			return err
		}
		data = data[f.control:]
		if null {
			if err := dst.AppendNulls(1); err != nil {
				return err
			}
			continue
		}
		if len(data) < f.length {
			return corrupt("page ends inside a length")
		}
		n := uintN(data, f.length)
		data = data[f.length:]
		if n > uint64(len(data)) {
			return corrupt("value of %d bytes with %d left", n, len(data))
		}
		if err := f.appendBytes(dst, data[:n], d); err != nil {
			return err
		}
		dst.addValid(1)
		data = data[n:]
	}
	if len(data) > 0 {
		return corrupt("%d bytes behind the last row", len(data))
	}
	return nil
}

// appendBytes appends one variable-width value as it is stored, without counting it.
func (f *FullZip) appendBytes(dst *Vector, b []byte, d *Decompressor) error {
	if f.members != nil {
		return f.appendMembers(dst, b, d)
	}
	if f.general && len(b) > 0 {
		plain, err := d.expand(nil, f.scheme, b, -1)
		if err != nil {
			return err
		}
		b = plain
	}
	if f.fsst != nil {
		return dst.appendExpanded(f.fsst, b)
	}
	return dst.appendString(b)
}
