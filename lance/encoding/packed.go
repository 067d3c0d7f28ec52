package encoding

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// Packed structs: all members of a row side by side in one column. In memory they stay that way until NewArray takes
// them apart.
// Spec: file format, "FixedSizeList and packed structs".

// packedType is the physical type of a packed struct. Members must have whole bytes.
func packedType(dt *arrow.StructType) (Type, error) {
	t := Type{Kind: KindFixed}
	if dt.NumFields() == 0 {
		return Type{}, unsupported("arrow type %s", dt)
	}
	for _, f := range dt.Fields() {
		m, err := TypeOf(f.Type)
		if err != nil {
			return Type{}, err
		}
		if m.Key > 0 || len(m.Fields) > 0 || m.Kind == KindNull || m.Kind == KindFixed && m.Bits%8 != 0 {
			return Type{}, unsupported("packed struct with a member of type %s", f.Type)
		}
		if m.Variable() {
			t.Kind = KindPacked
		}
		t.Bits += m.RowBits()
		t.Fields = append(t.Fields, m)
	}
	if t.Bits > maxRowBytes*8 {
		return Type{}, fmt.Errorf("packed struct of %d bits: %w", t.Bits, errs.ErrLimit)
	}
	return t, nil
}

func (t Type) packedCE() *pb.CompressiveEncoding {
	p := &pb.PackedStruct{Values: flatCE(t.Bits)}
	for _, m := range t.Fields {
		p.BitsPerValue = append(p.BitsPerValue, uint64(m.RowBits()))
	}
	return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_PackedStruct{PackedStruct: p}}
}

// unpackedCE checks a packed struct's value encoding and returns that of its rows.
func (t Type) unpackedCE(ce *pb.CompressiveEncoding) (*pb.CompressiveEncoding, error) {
	if g := ce.GetGeneral(); g != nil && g.GetValues().GetPackedStruct() != nil {
		inner, err := t.unpackedCE(g.GetValues())
		if err != nil {
			return nil, err
		}
		return &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_General{
			General: &pb.General{Compression: g.GetCompression(), Values: inner}}}, nil
	}
	p := ce.GetPackedStruct()
	if p == nil {
		return nil, unsupported("packed struct as %s", nameOf(ce))
	}
	if len(p.GetBitsPerValue()) != len(t.Fields) {
		return nil, corrupt("packed struct of %d members where %d are expected", len(p.GetBitsPerValue()), len(t.Fields))
	}
	for i, bits := range p.GetBitsPerValue() {
		if bits != uint64(t.Fields[i].RowBits()) {
			return nil, corrupt("packed member of %d bits where %d are expected", bits, t.Fields[i].RowBits())
		}
	}
	return p.GetValues(), nil
}

// appendPackedArray appends rows of a struct array.
func (v *Vector) appendPackedArray(data arrow.ArrayData, from, to int) error {
	if len(data.Children()) != len(v.typ.Fields) {
		return fmt.Errorf("packed struct of %d members: %w", len(data.Children()), errs.ErrInvalid)
	}
	parts := make([]*Vector, len(v.typ.Fields))
	for i, m := range v.typ.Fields {
		part := NewVector(m, v.mem)
		defer part.Release()
		child := array.MakeFromData(data.Children()[i])
		lo := data.Offset() + from
		err := part.AppendArray(child, lo, data.Offset()+to)
		if err == nil && part.nulls > 0 && rowsUnmasked(data, child, from, to) {
			err = unsupported("packed struct with null members")
		}
		for _, lv := range part.items {
			if lv.nulls > 0 && err == nil {
				err = unsupported("packed struct with null list items")
			}
		}
		child.Release()
		if err != nil {
			return err
		}
		parts[i] = part
	}
	rows := to - from
	if v.typ.Kind == KindPacked {
		for i, part := range parts {
			v.members[i].appendVector(part, 0, rows)
		}
	} else {
		out := v.growFixed(rows)
		width, at := v.typ.Bits/8, 0
		for _, part := range parts {
			w := part.typ.RowBits() / 8
			for i := range rows {
				copy(out[i*width+at:], part.data.bytes()[i*w:(i+1)*w])
			}
			at += w
		}
	}
	off := data.Offset() + from
	valid, nulls := validityOfArray(data, off, rows)
	v.addBitmap(valid, off, rows, nulls)
	return nil
}

// rowsUnmasked reports whether a member is null in a row that is not.
func rowsUnmasked(data arrow.ArrayData, child arrow.Array, from, to int) bool {
	valid, _ := validityOfArray(data, data.Offset()+from, to-from)
	for i := from; i < to; i++ {
		if child.IsNull(data.Offset()+i) && (valid == nil || getBit(valid, data.Offset()+i)) {
			return true
		}
	}
	return false
}

// packedData builds the data of a struct array.
func (v *Vector) packedData(dt *arrow.StructType) (arrow.ArrayData, error) {
	rows, nulls := v.n, v.nulls
	var children []arrow.ArrayData
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	at := 0
	for i, m := range v.typ.Fields {
		var part *Vector
		if v.typ.Kind == KindPacked {
			part = v.members[i]
		} else {
			part = NewVector(m, v.mem)
			w, width := m.RowBits()/8, v.typ.Bits/8
			out := part.growFixed(rows)
			for r := range rows {
				copy(out[r*w:(r+1)*w], v.data.bytes()[r*width+at:])
			}
			part.addValid(rows)
			at += w
		}
		a, err := part.NewArray(dt.Field(i).Type)
		if err != nil {
			part.Release()
			return nil, err
		}
		a.Data().Retain()
		children = append(children, a.Data())
		a.Release()
	}
	valid := v.takeValid(&v.valid, nulls)
	if valid != nil {
		defer valid.Release()
	}
	v.Release()
	return array.NewData(dt, rows, []*memory.Buffer{valid}, children, nulls, 0), nil
}

// encodePackedRows encodes rows with variable members: each row is one value of a full-zip page.
func encodePackedRows(v *Vector) (Page, error) {
	p := &pb.VariablePackedStruct{}
	for _, m := range v.typ.Fields {
		e := &pb.VariablePackedStruct_FieldEncoding{}
		if m.Variable() {
			e.Value = variableCE(m.OffsetBits())
			e.Width = &pb.VariablePackedStruct_FieldEncoding_BitsPerLength{BitsPerLength: uint64(m.OffsetBits())}
		} else {
			e.Value = NewVector(m, v.mem).listCE(flatCE(m.Bits))
			e.Width = &pb.VariablePackedStruct_FieldEncoding_BitsPerValue{BitsPerValue: uint64(m.RowBits())}
		}
		p.Fields = append(p.Fields, e)
	}
	rows := NewVector(Type{Kind: KindVar32}, v.mem)
	defer rows.releaseShared()
	var row []byte
	for i := range v.n {
		row = row[:0]
		if v.nulls > 0 && !getBit(v.valid.bytes(), i) {
			rows.closeRow()
			continue
		}
		for _, m := range v.members {
			if !m.typ.Variable() {
				row = m.appendZipped(row, i)
				continue
			}
			b := m.stringValue(i)
			row = appendUintN(row, uint64(len(b)), m.typ.OffsetBits()/8)
			row = append(row, b...)
		}
		if err := rows.appendString(row); err != nil {
			return Page{}, err
		}
	}
	rows.n, rows.nulls, rows.valid = v.n, v.nulls, v.valid
	l := &pb.FullZipLayout{NumItems: uint32(v.n), NumVisibleItems: uint32(v.n), Layers: v.layers(),
		Details:          &pb.FullZipLayout_BitsPerOffset{BitsPerOffset: 32},
		ValueCompression: &pb.CompressiveEncoding{Compression: &pb.CompressiveEncoding_VariablePackedStruct{VariablePackedStruct: p}}}
	if v.nulls > 0 {
		l.BitsDef = 1
	}
	data, index := zipStrings(rows)
	return Page{Layout: &pb.PageLayout{Layout: &pb.PageLayout_FullZip{FullZip: l}}, Buffers: [][]byte{data, index}}, nil
}

// compilePacked checks the description of a full-zip page of packed rows.
func (f *FullZip) compilePacked(ce *pb.CompressiveEncoding, bitsPerOffset uint32) error {
	p := ce.GetVariablePackedStruct()
	if p == nil {
		return unsupported("packed struct as %s", nameOf(ce))
	}
	if bitsPerOffset != 32 && bitsPerOffset != 64 {
		return corrupt("length prefixes of %d bits", bitsPerOffset)
	}
	f.length = int(bitsPerOffset) / 8
	if len(p.GetFields()) != len(f.typ.Fields) {
		return corrupt("packed struct of %d members where %d are expected", len(p.GetFields()), len(f.typ.Fields))
	}
	for i, e := range p.GetFields() {
		m := f.typ.Fields[i]
		sub := &FullZip{typ: m}
		switch w := e.GetWidth().(type) {
		case *pb.VariablePackedStruct_FieldEncoding_BitsPerValue:
			if err := sub.compileFixed(e.GetValue(), uint32(min(w.BitsPerValue, 1<<31))); err != nil {
				return err
			}
		case *pb.VariablePackedStruct_FieldEncoding_BitsPerLength:
			if err := sub.compileVariable(e.GetValue(), uint32(min(w.BitsPerLength, 1<<31))); err != nil {
				return err
			}
		default:
			return corrupt("packed member without a width")
		}
		f.members = append(f.members, sub)
	}
	return nil
}

// appendMembers appends one packed row without counting it.
func (f *FullZip) appendMembers(dst *Vector, b []byte, d *Decompressor) (err error) {
	for i, m := range f.members {
		if b, err = m.appendSlot(dst.members[i], b, false, d); err != nil {
			return err
		}
		dst.members[i].addValid(1)
	}
	if len(b) > 0 {
		return corrupt("%d bytes behind the members of a packed row", len(b))
	}
	return nil
}
