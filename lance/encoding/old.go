package encoding

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// Old is the compiled description of a page of version 2.0: a tree of array encodings over whole-page buffers.
// Immutable after LoadItems.
// Spec: file format, "Version 2.0".
type Old struct {
	typ  Type
	root *oldNode
	rows uint64
}

type oldKind uint8

const (
	oldFlat oldKind = iota
	oldNullable
	oldAllNull
	oldList
	oldBinary
	oldDictionary
)

// oldNode is one array encoding. Which members are used depends on the kind.
type oldNode struct {
	kind     oldKind
	bits     int // oldFlat
	buffer   int // oldFlat: page buffer
	scheme   pb.CompressionScheme
	validity *oldNode // oldNullable: Flat(1)
	values   *oldNode // oldNullable, oldList (items), oldBinary (bytes), oldDictionary (indices)
	offsets  *oldNode // oldBinary
	adjust   uint64   // oldBinary: what is added to the end offset of null rows; 0 = no nulls
	table    *symbolTable
	items    *oldNode // oldDictionary
	nItems   uint64
	strings  *Vector // oldDictionary, loaded
}

// OldSource reads parts of the buffers of a page; Size returns the bytes of a buffer, false if there is none.
type OldSource interface {
	Size(buffer int) (uint64, bool)
	Read(buffer int, off, n uint64) ([]byte, error)
}

// OldState caches expanded buffers of one page. The zero value is ready.
type OldState struct {
	plain map[int][]byte
	d     Decompressor
}

// Close frees decoder state.
func (s *OldState) Close() { s.d.Close() }

// CompileOld checks the description of a page of rows rows against the physical type of its column.
func CompileOld(a *pb.ArrayEncoding20, t Type, rows uint64) (*Old, error) {
	o := &Old{typ: t, rows: rows}
	var err error
	o.root, err = compileOld(a, t, 0)
	return o, err
}

func compileOld(a *pb.ArrayEncoding20, t Type, depth int) (*oldNode, error) {
	if depth > maxLayers {
		return nil, corrupt("array encoding nests too deep")
	}
	switch e := a.GetArrayEncoding().(type) {
	case *pb.ArrayEncoding20_Nullable:
		return compileOldNullable(e.Nullable, t, depth)
	case *pb.ArrayEncoding20_Flat:
		if t.Kind != KindFixed || len(t.Dims) > 0 {
			return nil, corrupt("flat array in a column of another kind")
		}
		return oldFlatNode(e.Flat, t.Bits)
	case *pb.ArrayEncoding20_FixedSizeList:
		if len(t.Dims) == 0 || uint64(e.FixedSizeList.GetDimension()) != uint64(t.Dims[0]) {
			return nil, corrupt("fixed-size list of %d does not match the type", e.FixedSizeList.GetDimension())
		}
		inner := Type{Kind: t.Kind, Bits: t.Bits, Dims: t.Dims[1:]}
		items, err := compileOld(e.FixedSizeList.GetItems(), inner, depth+1)
		return &oldNode{kind: oldList, values: items}, err
	case *pb.ArrayEncoding20_Binary:
		return compileOldBinary(e.Binary, t, depth)
	case *pb.ArrayEncoding20_Fsst:
		n, err := compileOldBinary(e.Fsst.GetBinary().GetBinary(), t, depth)
		if err != nil {
			return nil, err
		}
		table, err := parseSymbolTable(e.Fsst.GetSymbolTable())
		if err == nil && !table.off {
			n.table = table
		}
		return n, err
	case *pb.ArrayEncoding20_Dictionary:
		bits := t.Key
		if bits == 0 {
			bits = 8
			if !t.Variable() {
				return nil, unsupported("2.0 dictionary of this type")
			}
		}
		indices, err := compileOld(e.Dictionary.GetIndices(), Type{Kind: KindFixed, Bits: bits}, depth+1)
		if err != nil {
			return nil, err
		}
		items, err := compileOld(e.Dictionary.GetItems(), t.plain(), depth+1)
		return &oldNode{kind: oldDictionary, values: indices, items: items, nItems: uint64(e.Dictionary.GetNumDictionaryItems())}, err
	case *pb.ArrayEncoding20_PackedStruct:
		return compileOldPacked(e.PackedStruct, t)
	case *pb.ArrayEncoding20_Constant, nil:
		return nil, corrupt("page without a usable array encoding")
	}
	return nil, unsupported("2.0 array encoding %T", a.GetArrayEncoding())
}

func compileOldNullable(n *pb.Nullable20, t Type, depth int) (*oldNode, error) {
	switch k := n.GetNullability().(type) {
	case *pb.Nullable20_NoNulls:
		return compileOld(k.NoNulls.GetValues(), t, depth+1)
	case *pb.Nullable20_AllNulls:
		return &oldNode{kind: oldAllNull}, nil
	case *pb.Nullable20_SomeNulls:
		flat := k.SomeNulls.GetValidity().GetFlat()
		if flat == nil {
			return nil, unsupported("2.0 validity that is not flat")
		}
		validity, err := oldFlatNode(flat, 1)
		if err != nil {
			return nil, err
		}
		values, err := compileOld(k.SomeNulls.GetValues(), t, depth+1)
		return &oldNode{kind: oldNullable, validity: validity, values: values}, err
	}
	return nil, corrupt("nullable array without a variant")
}

func compileOldBinary(b *pb.Binary20, t Type, depth int) (*oldNode, error) {
	if b == nil || !t.Variable() {
		return nil, corrupt("binary array in a column of another kind")
	}
	offsets, err := compileOld(b.GetIndices(), Type{Kind: KindFixed, Bits: 64}, depth+1)
	if err != nil {
		return nil, err
	}
	bytes, err := compileOld(b.GetBytes(), Type{Kind: KindFixed, Bits: 8}, depth+1)
	if err != nil {
		return nil, err
	}
	if offsets.kind != oldFlat || bytes.kind != oldFlat {
		return nil, unsupported("2.0 binary array over nested encodings")
	}
	return &oldNode{kind: oldBinary, offsets: offsets, values: bytes, adjust: b.GetNullAdjustment()}, nil
}

func oldFlatNode(f *pb.Flat20, bits int) (*oldNode, error) {
	if f.GetBitsPerValue() != uint64(bits) {
		return nil, corrupt("flat array of %d bits where %d are expected", f.GetBitsPerValue(), bits)
	}
	if f.GetBuffer().GetBufferType() != pb.Buffer20_TYPE_PAGE {
		return nil, unsupported("2.0 buffer outside the page")
	}
	n := &oldNode{kind: oldFlat, bits: bits, buffer: int(f.GetBuffer().GetBufferIndex())}
	switch s := f.GetCompression().GetScheme(); s {
	case "", "none":
	case "zstd":
		n.scheme = pb.CompressionScheme_COMPRESSION_ZSTD
	case "lz4":
		n.scheme = pb.CompressionScheme_COMPRESSION_LZ4
	default:
		return nil, unsupported("compression %q", s)
	}
	return n, nil
}

// bytes returns the values [from, to) of a flat array; the first begins at bit 0 except for single-bit values, which
// begin at bit from%8.
func (n *oldNode) bytes(from, to uint64, src OldSource, st *OldState) ([]byte, error) {
	lo, hi := from*uint64(n.bits)/8, (to*uint64(n.bits)+7)/8
	size, ok := src.Size(n.buffer)
	if !ok || to > 1<<56 {
		return nil, corrupt("page has no buffer %d", n.buffer)
	}
	if n.scheme == pb.CompressionScheme_COMPRESSION_UNSPECIFIED {
		if hi > size {
			return nil, corrupt("values %d..%d of %d bits in a buffer of %d bytes", from, to, n.bits, size)
		}
		return src.Read(n.buffer, lo, hi-lo)
	}
	plain, ok := st.plain[n.buffer]
	if !ok {
		raw, err := src.Read(n.buffer, 0, size)
		if err != nil {
			return nil, err
		}
		if plain, err = st.d.expand(nil, n.scheme, raw, -1); err != nil {
			return nil, err
		}
		if st.plain == nil {
			st.plain = make(map[int][]byte)
		}
		st.plain[n.buffer] = plain
	}
	if hi > uint64(len(plain)) {
		return nil, corrupt("values %d..%d of %d bits in %d bytes", from, to, n.bits, len(plain))
	}
	return plain[lo:hi], nil
}

// LoadItems decodes the dictionary of the page, if it has one, and returns the bytes it takes.
func (o *Old) LoadItems(src OldSource) (int, error) {
	n := o.root
	for n.kind == oldNullable {
		n = n.values
	}
	if n.kind != oldDictionary {
		return 0, nil
	}
	if n.nItems > 1<<16 && o.typ.Key == 0 || n.nItems > oldDictionaryMax {
		return 0, corrupt("dictionary of %d items", n.nItems)
	}
	var st OldState
	defer st.Close()
	v := NewVector(o.typ.plain(), memory.DefaultAllocator)
	if err := n.items.append(v, 0, n.nItems, src, &st); err != nil {
		return 0, err
	}
	n.strings = v
	return v.Bytes(), nil
}

// AppendRows appends rows [from, to) of the page to dst.
func (o *Old) AppendRows(dst *Vector, from, to uint64, src OldSource, st *OldState) error {
	if from > to || to > o.rows {
		return corrupt("rows %d..%d of a page of %d", from, to, o.rows)
	}
	return o.root.append(dst, from, to, src, st)
}

// append appends rows and counts them.
func (n *oldNode) append(dst *Vector, from, to uint64, src OldSource, st *OldState) error {
	rows := int(to - from)
	switch n.kind {
	case oldAllNull:
		return dst.AppendNulls(rows)
	case oldBinary:
		return n.appendBinary(dst, from, to, src, st)
	case oldDictionary:
		return n.appendDictionary(dst, from, to, src, st)
	case oldNullable:
		valid, err := n.validity.bytes(from, to, src, st)
		if err != nil {
			return err
		}
		off := int(from % 8)
		if n.values.kind != oldFlat && n.values.kind != oldList {
			return unsupported("2.0 validity beside a variable-width array")
		}
		if err := n.values.appendFixed(dst, 0, from, to, src, st); err != nil {
			return err
		}
		dst.addBitmap(valid, off, rows, rows-countBits(valid, off, rows))
		return nil
	}
	if err := n.appendFixed(dst, 0, from, to, src, st); err != nil {
		return err
	}
	dst.addValid(rows)
	return nil
}

// appendFixed appends the items of rows [from, to), counted in units of list level l, without counting rows.
func (n *oldNode) appendFixed(dst *Vector, l int, from, to uint64, src OldSource, st *OldState) error {
	switch n.kind {
	case oldFlat:
		b, err := n.bytes(from, to, src, st)
		if err != nil {
			return err
		}
		if n.bits == 1 {
			width := uint64(dst.typ.RowBits())
			dst.appendBits(b, int(from%8), int((to-from)/width))
			return nil
		}
		dst.appendFixed(b)
		return nil
	case oldList:
		d := uint64(dst.typ.Dims[l])
		if to > 1<<56/d {
			return corrupt("list row %d", to)
		}
		perRow := uint64(dst.items[l].perRow)
		rows := int((to - from) * d / perRow)
		items := n.values
		from, to = from*d, to*d
		switch items.kind {
		case oldNullable:
			valid, err := items.validity.bytes(from, to, src, st)
			if err != nil {
				return err
			}
			dst.addItems(l, valid, int(from%8), rows)
			items = items.values
		case oldAllNull:
			return n.appendNullItems(dst, l, rows)
		default:
			dst.addItems(l, nil, 0, rows)
		}
		return items.appendFixed(dst, l+1, from, to, src, st)
	}
	return unsupported("2.0 array kind %d inside a fixed-width array", n.kind)
}

// appendNullItems appends rows whose items of level l are all null.
func (n *oldNode) appendNullItems(dst *Vector, l, rows int) error {
	if err := dst.roomRows(rows, bitmapBytes(dst.typ.RowBits())); err != nil {
		return err
	}
	dst.addItems(l, make([]byte, bitmapBytes(rows*dst.items[l].perRow)), 0, rows)
	for k := l + 1; k < len(dst.items); k++ {
		dst.addItems(k, nil, 0, rows)
	}
	dst.growZero(rows)
	return nil
}

// appendBinary reads end offsets (the row before gives the start) and the bytes between them. Null rows have their end
// offset raised by adjust.
func (n *oldNode) appendBinary(dst *Vector, from, to uint64, src OldSource, st *OldState) error {
	if from == to {
		return nil
	}
	first := from
	if first > 0 {
		first--
	}
	offs, err := n.offsets.bytes(first, to, src, st)
	if err != nil {
		return err
	}
	end := func(i int) (at uint64, null bool) {
		at = u64(offs[8*i:])
		if n.adjust > 0 && at >= n.adjust {
			return at % n.adjust, true
		}
		return at, false
	}
	start, skip := uint64(0), int(from-first)
	if skip > 0 {
		start, _ = end(0)
	}
	last, _ := end(len(offs)/8 - 1)
	if last < start || last-start > maxExpanded {
		return corrupt("string offsets %d..%d", start, last)
	}
	data, err := n.values.bytes(start, last, src, st)
	if err != nil {
		return err
	}
	at := start
	for i := skip; i < len(offs)/8; {
		e, null := end(i)
		if e < at || e > last {
			return corrupt("string offset %d after %d", e, at)
		}
		if !null && n.table == nil {
			rows, upTo := plainRows(offs[8*i:], at, last, n.adjust)
			if err := dst.appendStrings(data[at-start:upTo-start], offs[8*i:], rows, at); err != nil {
				return err
			}
			i, at = i+rows, upTo
			continue
		}
		value := data[at-start : e-start]
		i, at = i+1, e
		if null {
			dst.closeRow()
			dst.addNull(1)
			continue
		}
		if err = dst.appendExpanded(n.table, value); err != nil {
			return err
		}
		dst.addValid(1)
	}
	return nil
}

// plainRows returns how many ends from the first on are those of values that are not null and in order, and the last one.
func plainRows(offs []byte, at, last, adjust uint64) (rows int, upTo uint64) {
	if adjust == 0 {
		adjust = 1<<64 - 1
	}
	for ; 8*rows < len(offs); rows++ {
		e := u64(offs[8*rows:])
		if e < at || e > last || e >= adjust {
			break
		}
		at = e
	}
	return rows, at
}

// appendStrings appends rows whose bytes lie one after the other, the first at position at; offs are their ends.
func (v *Vector) appendStrings(data, offs []byte, rows int, at uint64) error {
	width := len(data)/rows + 1 // Why: room alone lets a single row be of any size
	if err := v.roomRows(rows, width); err != nil {
		return err
	}
	base := uint64(v.data.len()) - at
	copy(v.data.grow(v.mem, len(data)), data)
	if v.typ.Kind == KindVar32 {
		for i, out := 0, v.growOffsets32(rows); i < rows; i++ {
			out[i] = uint32(base + u64(offs[8*i:]))
		}
	} else {
		for i, out := 0, v.growOffsets64(rows); i < rows; i++ {
			out[i] = base + u64(offs[8*i:])
		}
	}
	v.addValid(rows)
	return nil
}

// oldDictionaryMax bounds the items of a dictionary, which may be all null and take no bytes in the file.
const oldDictionaryMax = 1 << 20

// appendKeys replaces the indices of an Arrow dictionary column by items: k is item k, which may be null.
func (n *oldNode) appendKeys(dst *Vector, idx []byte, w int) error {
	items := n.strings
	for i := 0; i+w <= len(idx); i += w {
		k := uintN(idx[i:], w)
		if k >= uint64(items.n) {
			return corrupt("dictionary index %d of %d", k, items.n)
		}
		if items.nulls > 0 && !getBit(items.valid.bytes(), int(k)) {
			if err := dst.AppendNulls(1); err != nil {
				return err
			}
			continue
		}
		if b := items.value(int(k)); !dst.typ.Variable() {
			dst.appendFixed(b)
		} else if err := dst.appendString(b); err != nil {
			return err
		}
		dst.addValid(1)
	}
	return nil
}

// appendDictionary replaces indices by items: 0 is null, k is item k−1; those of Arrow dictionary columns are as they are.
func (n *oldNode) appendDictionary(dst *Vector, from, to uint64, src OldSource, st *OldState) error {
	if n.values.kind != oldFlat || n.strings == nil {
		return unsupported("2.0 dictionary with nested indices")
	}
	idx, err := n.values.bytes(from, to, src, st)
	if err != nil {
		return err
	}
	if dst.typ.Key > 0 {
		return n.appendKeys(dst, idx, dst.typ.Key/8)
	}
	items := n.strings
	for _, k := range idx {
		if k == 0 {
			dst.closeRow()
			dst.addNull(1)
			continue
		}
		if int(k) > items.n {
			return corrupt("dictionary index %d of %d", k, items.n)
		}
		lo, hi := items.span(int(k) - 1)
		if err := dst.appendString(items.data.bytes()[lo:hi]); err != nil {
			return err
		}
		dst.addValid(1)
	}
	return nil
}

// errNoRows is what encoders say to empty pages.
func errNoRows() error { return fmt.Errorf("page without rows: %w", errs.ErrInvalid) }
