package encoding

import (
	"bytes"
	"encoding/binary"

	"lancesql/lance/pb"
)

// OldPage is one encoded page of version 2.0.
type OldPage struct {
	Encoding *pb.ArrayEncoding20
	Buffers  [][]byte
}

// EncodeOldPage encodes all rows of a vector (at least one) as a page of version 2.0: plain arrays with a validity
// bitmap where there are nulls.
// Spec: file format, "Version 2.0".
func EncodeOldPage(v *Vector) (OldPage, error) {
	if v.n == 0 {
		return OldPage{}, errNoRows()
	}
	if v.nulls == v.n {
		return OldPage{Encoding: oldNullableOf(&pb.Nullable20{Nullability: &pb.Nullable20_AllNulls{AllNulls: &pb.Nullable20_AllNull{}}})}, nil
	}
	var p OldPage
	if v.typ.Variable() {
		p.Encoding = p.binary(v)
		return p, nil
	}
	validity := (*pb.ArrayEncoding20)(nil)
	if v.nulls > 0 {
		validity = p.flat(1, bitmapCopy(v.valid.bytes(), v.n))
	}
	p.Encoding = oldMaybeNull(p.items(v, 0), validity)
	return p, nil
}

// items encodes fixed-size list level l of a vector, or its items.
func (p *OldPage) items(v *Vector, l int) *pb.ArrayEncoding20 {
	if l == len(v.typ.Dims) {
		if v.typ.Bits == 1 {
			return p.flat(1, bitmapCopy(v.data.bytes(), v.n*v.typ.RowBits()))
		}
		return p.flat(v.typ.Bits, bytes.Clone(v.data.bytes()))
	}
	lv := &v.items[l]
	validity := (*pb.ArrayEncoding20)(nil)
	if lv.nulls > 0 {
		validity = p.flat(1, bitmapCopy(lv.valid.bytes(), v.n*lv.perRow))
	}
	inner := oldMaybeNull(p.items(v, l+1), validity)
	return &pb.ArrayEncoding20{ArrayEncoding: &pb.ArrayEncoding20_FixedSizeList{
		FixedSizeList: &pb.FixedSizeList20{Dimension: uint32(v.typ.Dims[l]), Items: inner}}}
}

// binary encodes end offsets, raised by bytes+1 in null rows, and all bytes.
func (p *OldPage) binary(v *Vector) *pb.ArrayEncoding20 {
	adjust := uint64(v.data.len()) + 1
	ends := make([]byte, 0, 8*v.n)
	for i := range v.n {
		_, hi := v.span(i)
		end := uint64(hi)
		if v.nulls > 0 && !getBit(v.valid.bytes(), i) {
			end += adjust
		}
		ends = binary.LittleEndian.AppendUint64(ends, end)
	}
	return &pb.ArrayEncoding20{ArrayEncoding: &pb.ArrayEncoding20_Binary{Binary: &pb.Binary20{
		Indices:        oldMaybeNull(p.flat(64, ends), nil),
		Bytes:          p.flat(8, bytes.Clone(v.data.bytes())),
		NullAdjustment: adjust,
	}}}
}

func (p *OldPage) flat(bits int, b []byte) *pb.ArrayEncoding20 {
	p.Buffers = append(p.Buffers, b)
	return &pb.ArrayEncoding20{ArrayEncoding: &pb.ArrayEncoding20_Flat{Flat: &pb.Flat20{
		BitsPerValue: uint64(bits), Buffer: &pb.Buffer20{BufferIndex: uint32(len(p.Buffers) - 1)}}}}
}

func bitmapCopy(b []byte, n int) []byte { return bytes.Clone(b[:bitmapBytes(n)]) }

func oldNullableOf(n *pb.Nullable20) *pb.ArrayEncoding20 {
	return &pb.ArrayEncoding20{ArrayEncoding: &pb.ArrayEncoding20_Nullable{Nullable: n}}
}

func oldMaybeNull(values, validity *pb.ArrayEncoding20) *pb.ArrayEncoding20 {
	if validity == nil {
		return oldNullableOf(&pb.Nullable20{Nullability: &pb.Nullable20_NoNulls{NoNulls: &pb.Nullable20_NoNull{Values: values}}})
	}
	return oldNullableOf(&pb.Nullable20{Nullability: &pb.Nullable20_SomeNulls{
		SomeNulls: &pb.Nullable20_SomeNull{Validity: validity, Values: values}}})
}
