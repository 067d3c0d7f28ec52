package encoding

import "lancesql/lance/pb"

// Legacy blob columns hold where their values lie in the file.
// Spec: file format, "Blob layout".

// BlobType is the physical type of what the pages of a blob column hold: position and size.
func BlobType() Type {
	word := Type{Kind: KindFixed, Bits: 64}
	return Type{Kind: KindFixed, Bits: 128, Fields: []Type{word, word}}
}

// IsBlob reports whether t is BlobType.
func (t Type) IsBlob() bool {
	return t.Kind == KindFixed && len(t.Fields) == 2 && t.Fields[0].Bits == 64 && t.Fields[1].Bits == 64 && t.Bits == 128
}

// Blob returns row i of a vector of BlobType. Of size 0: position 0 is an empty value, any other a null.
func (v *Vector) Blob(i int) (position, size uint64) {
	b := v.data.bytes()[16*i:]
	return u64(b), u64(b[8:])
}

// AppendValue appends one value of a variable-width column.
func (v *Vector) AppendValue(b []byte) error {
	if err := v.appendString(b); err != nil {
		return err
	}
	v.addValid(1)
	return nil
}

// FlatBlob reports whether a blob page has no levels but those of its own values.
func FlatBlob(l *pb.BlobLayout) bool {
	return len(l.GetLayers()) == 1
}

// compileOldPacked compiles a packed struct of version 2.0: rows of fixed-width members.
func compileOldPacked(p *pb.PackedStruct20, t Type) (*oldNode, error) {
	if t.Kind != KindFixed || len(t.Fields) == 0 || len(p.GetInner()) != len(t.Fields) {
		return nil, unsupported("2.0 packed struct of %d members in a column of another kind", len(p.GetInner()))
	}
	for i, m := range p.GetInner() {
		if bits := oldBits(m, 0); bits != uint64(t.Fields[i].RowBits()) {
			return nil, corrupt("packed member of %d bits where %d are expected", bits, t.Fields[i].RowBits())
		}
	}
	if p.GetBuffer().GetBufferType() != pb.Buffer20_TYPE_PAGE {
		return nil, unsupported("2.0 buffer outside the page")
	}
	return &oldNode{kind: oldFlat, bits: t.Bits, buffer: int(p.GetBuffer().GetBufferIndex())}, nil
}

// oldBits is the width of a fixed-width array of version 2.0 without nulls, 0 if it is none.
func oldBits(a *pb.ArrayEncoding20, depth int) uint64 {
	switch e := a.GetArrayEncoding().(type) {
	case *pb.ArrayEncoding20_Flat:
		return e.Flat.GetBitsPerValue()
	case *pb.ArrayEncoding20_Nullable:
		if depth < maxLayers {
			return oldBits(e.Nullable.GetNoNulls().GetValues(), depth+1)
		}
	case *pb.ArrayEncoding20_FixedSizeList:
		if depth < maxLayers {
			bits := oldBits(e.FixedSizeList.GetItems(), depth+1)
			return min(bits, 1<<31) * uint64(e.FixedSizeList.GetDimension())
		}
	}
	return 0
}
