package encoding

import (
	"bytes"
	"encoding/binary"

	"lancesql/lance/pb"
)

// fullZipBytes is the width from which values are stored in full-zip rather than mini-block pages.
// Spec: file format, "What the reference writer picks".
const fullZipBytes = 256

// PageOptions selects what the target version of the file allows.
type PageOptions struct {
	Large  bool // version 2.2 and later: 32-bit chunk words, constant pages with a value
	Binary bool // the values are no text: FSST, which the reference never uses for them, must gain more to be worth its time
	Hints  Hints
}

// Page is one encoded page: its description and its buffers in page order.
type Page struct {
	Layout  *pb.PageLayout
	Buffers [][]byte
}

// EncodePage encodes all rows of a vector (at least one) as one page. The vector is not changed; the buffers do not
// refer to it.
// Spec: file format, "A sound default writer".
func EncodePage(v *Vector, o PageOptions) (Page, error) {
	if v.n == 0 {
		return Page{}, errNoRows()
	}
	if v.nulls == v.n {
		return Page{Layout: constantLayout(&pb.ConstantLayout{Layers: []pb.RepDefLayer{pb.RepDefLayer_REPDEF_NULLABLE_ITEM}})}, nil
	}
	if v.typ.Kind == KindPacked {
		return encodePackedRows(v)
	}
	if o.Large && v.nulls == 0 && v.typ.Key == 0 && len(v.typ.Fields) == 0 {
		if p, ok := encodeConstant(v); ok {
			return p, nil
		}
	}
	if v.typ.Key == 0 && len(v.typ.Fields) == 0 && o.zips(v) {
		return encodeFullZip(v, o)
	}
	return encodeMini(v, o)
}

func constantLayout(l *pb.ConstantLayout) *pb.PageLayout {
	return &pb.PageLayout{Layout: &pb.PageLayout_Constant{Constant: l}}
}

// layers is the level description of a flat page.
func (v *Vector) layers() []pb.RepDefLayer {
	if v.nulls > 0 {
		return []pb.RepDefLayer{pb.RepDefLayer_REPDEF_NULLABLE_ITEM}
	}
	return []pb.RepDefLayer{pb.RepDefLayer_REPDEF_ALL_VALID_ITEM}
}

// widest returns the bytes of the widest row.
func (v *Vector) widest() int {
	switch v.typ.Kind {
	case KindVar32:
		return widestOf(wordsOf[uint32](v.offs.bytes()))
	case KindVar64:
		return widestOf(wordsOf[uint64](v.offs.bytes()))
	}
	return bitmapBytes(v.typ.RowBits())
}

func widestOf[T word](offs []T) int {
	var widest T
	for i := 1; i < len(offs); i++ {
		widest = max(widest, offs[i]-offs[i-1])
	}
	return int(widest)
}

// span returns the byte range of row i of a variable-width vector.
func (v *Vector) span(i int) (lo, hi int) {
	if v.typ.Kind == KindVar32 {
		b := v.offs.bytes()[4*i:]
		return int(u32(b)), int(u32(b[4:]))
	}
	b := v.offs.bytes()[8*i:]
	return int(u64(b)), int(u64(b[8:]))
}

// maxInlineValue is the widest value stored in the page description itself.
const maxInlineValue = 32

// encodeConstant recognises pages in which every row holds the same value; v has no nulls.
func encodeConstant(v *Vector) (Page, bool) {
	if len(v.typ.Dims) > 0 || v.typ.Kind == KindNull {
		return Page{}, false
	}
	l := &pb.ConstantLayout{Layers: v.layers()}
	switch {
	case v.typ.Variable():
		value, ok := v.constantString()
		if !ok {
			return Page{}, false
		}
		return Page{Layout: constantLayout(l), Buffers: [][]byte{stringScalar(value, v.typ.OffsetBits()/8)}}, true
	case v.typ.Bits == 1:
		set := countBits(v.data.bytes(), 0, v.n)
		if set != 0 && set != v.n {
			return Page{}, false
		}
		l.InlineValue = []byte{byte(set / v.n)}
		return Page{Layout: constantLayout(l)}, true
	}
	w := v.typ.Bits / 8
	b := v.data.bytes()
	if !bytes.Equal(b[w:], b[:len(b)-w]) {
		return Page{}, false
	}
	if w <= maxInlineValue {
		l.InlineValue = bytes.Clone(b[:w])
		return Page{Layout: constantLayout(l)}, true
	}
	scalar := binary.LittleEndian.AppendUint32(nil, 1)
	scalar = binary.LittleEndian.AppendUint32(scalar, uint32(w))
	return Page{Layout: constantLayout(l), Buffers: [][]byte{append(scalar, b[:w]...)}}, true
}

// constantString reports whether all rows hold the same bytes.
func (v *Vector) constantString() ([]byte, bool) {
	_, w := v.span(0)
	b := v.data.bytes()
	if len(b) != w*v.n || !bytes.Equal(b[w:], b[:len(b)-w]) {
		return nil, false
	}
	for i := range v.n {
		if lo, hi := v.span(i); hi-lo != w {
			return nil, false
		}
	}
	return b[:w], true
}

// stringScalar is the scalar buffer of one byte string: two Arrow buffers, offsets and data.
func stringScalar(value []byte, w int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	b = binary.LittleEndian.AppendUint32(b, uint32(2*w))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = appendUintN(b, 0, w)
	b = appendUintN(b, uint64(len(value)), w)
	return append(b, value...)
}

// Descriptions of encodings.

func flatCE(bits int) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_Flat{Flat: &pb.Flat{BitsPerValue: uint64(bits)}}}
}

func variableCE(offsetBits int) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_Variable{Variable: &pb.Variable{Offsets: flatCE(offsetBits)}}}
}

func inlineCE(bits int) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_InlineBitpacking{
		InlineBitpacking: &pb.InlineBitpacking{UncompressedBitsPerValue: uint64(bits)}}}
}

func outOfLineCE(bits, width int) *pb.CompressiveEncoding {
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_OutOfLineBitpacking{
		OutOfLineBitpacking: &pb.OutOfLineBitpacking{UncompressedBitsPerValue: uint64(bits), Values: flatCE(width)}}}
}

// listCE wraps an item encoding in the fixed-size list levels of the vector.
func (v *Vector) listCE(item *pb.CompressiveEncoding) *pb.CompressiveEncoding {
	for l := len(v.typ.Dims) - 1; l >= 0; l-- {
		item = &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_FixedSizeList{FixedSizeList: &pb.FixedSizeList{
			ItemsPerValue: uint64(v.typ.Dims[l]), Values: item, HasValidity: v.items[l].nulls > 0}}}
	}
	return item
}
