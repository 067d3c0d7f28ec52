package encoding

import (
	"math"

	"lancesql/lance/pb"
)

// encodeFullZip encodes a page of wide rows.
func encodeFullZip(v *Vector, o PageOptions) (Page, error) {
	l := &pb.FullZipLayout{NumItems: uint32(v.n), NumVisibleItems: uint32(v.n), Layers: v.layers()}
	if v.n > math.MaxUint32 {
		return Page{}, corrupt("page of %d rows", v.n)
	}
	if v.nulls > 0 {
		l.BitsDef = 1
	}
	layout := &pb.PageLayout{Layout: &pb.PageLayout_FullZip{FullZip: l}}
	if v.typ.Variable() {
		l.Details = &pb.FullZipLayout_BitsPerOffset{BitsPerOffset: uint32(v.typ.OffsetBits())}
		l.ValueCompression = variableCE(v.typ.OffsetBits())
		packed, ce, err := compressValues(v, o)
		if err != nil {
			return Page{}, err
		}
		if packed != nil {
			defer packed.releaseShared()
			v = packed
			l.ValueCompression = ce
		} else if packed, table := compressStrings(v, o); packed != nil {
			defer packed.releaseShared()
			v = packed
			l.ValueCompression = fsstCE(table, l.ValueCompression)
		}
		data, index := zipStrings(v)
		return Page{Layout: layout, Buffers: [][]byte{data, index}}, nil
	}
	var bits int
	l.ValueCompression, bits = zippedFixed(v)
	l.Details = &pb.FullZipLayout_BitsPerValue{BitsPerValue: uint32(bits)}
	return Page{Layout: layout, Buffers: [][]byte{zipFixed(v, bits/8)}}, nil
}

// zippedFixed describes fixed-width values in a full-zip page and returns the bits of one with its item validity.
func zippedFixed(v *Vector) (ce *pb.CompressiveEncoding, bits int) {
	bits = v.typ.RowBits()
	switch {
	case len(v.typ.Dims) == 0 && bits == 1:
		ce, bits = flatCE(8), 8
	case len(v.typ.Dims) == 0:
		ce = flatCE(bits)
	case v.typ.Bits == 1:
		bits *= 8
		ce = v.listCE(flatCE(8))
	default:
		ce = v.listCE(flatCE(v.typ.Bits))
	}
	for i := range v.items {
		if lv := &v.items[i]; lv.nulls > 0 {
			bits += 8 * bitmapBytes(lv.perRow)
		}
	}
	return ce, bits
}

// zipFixed writes per row: control byte (if the page has nulls), item validity, items.
func zipFixed(v *Vector, valueBytes int) []byte {
	control := min(v.nulls, 1)
	out := make([]byte, 0, v.n*(control+valueBytes))
	for i := range v.n {
		if control > 0 {
			out = append(out, v.controlByte(i))
		}
		out = v.appendZipped(out, i)
	}
	return out
}

// appendZipped appends a fixed-width value as full-zip pages have it: item validity, then items.
func (v *Vector) appendZipped(out []byte, i int) []byte {
	width := v.typ.RowBits()
	for l := range v.items {
		if lv := &v.items[l]; lv.nulls > 0 {
			at := len(out)
			out = append(out, make([]byte, bitmapBytes(lv.perRow))...)
			copyBits(out[at:], 0, lv.valid.bytes(), i*lv.perRow, lv.perRow)
		}
	}
	if v.typ.Bits != 1 {
		return append(out, v.data.bytes()[i*width/8:(i+1)*width/8]...)
	}
	for j := range width {
		b := byte(0)
		if getBit(v.data.bytes(), i*width+j) {
			b = 1
		}
		out = append(out, b)
	}
	return out
}

// controlByte is the control word of a flat row: its definition level.
func (v *Vector) controlByte(i int) byte {
	if getBit(v.valid.bytes(), i) {
		return 0
	}
	return 1
}

// zipStrings writes per row: control byte (if the page has nulls), then length and bytes unless null. The index holds
// the start of each row and the total, in the narrowest width that holds the total.
func zipStrings(v *Vector) (data, index []byte) {
	w := v.typ.OffsetBits() / 8
	total := v.n*(w+1) + v.data.len()
	data = make([]byte, 0, total)
	starts := make([]uint64, 0, v.n+1)
	for i := range v.n {
		starts = append(starts, uint64(len(data)))
		if v.nulls > 0 {
			c := v.controlByte(i)
			data = append(data, c)
			if c != 0 {
				continue
			}
		}
		lo, hi := v.span(i)
		data = appendUintN(data, uint64(hi-lo), w)
		data = append(data, v.data.bytes()[lo:hi]...)
	}
	starts = append(starts, uint64(len(data)))
	width := indexWidth(uint64(len(data)))
	index = make([]byte, 0, len(starts)*width)
	for _, s := range starts {
		index = appendUintN(index, s, width)
	}
	return data, index
}

func indexWidth(last uint64) int {
	switch {
	case last <= math.MaxUint8:
		return 1
	case last <= math.MaxUint16:
		return 2
	case last <= math.MaxUint32:
		return 4
	}
	return 8
}
