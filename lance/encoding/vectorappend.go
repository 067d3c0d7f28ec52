package encoding

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/errs"
)

// AppendArray appends rows [from, to) of an Arrow array whose physical type is the vector's. The array may be a slice
// of a larger one. Values under nulls are normalised: zero for fixed width, empty for variable width (invariant 3).
func (v *Vector) AppendArray(a arrow.Array, from, to int) error {
	data := a.Data()
	if ext, ok := a.(array.ExtensionArray); ok {
		data = ext.Storage().Data()
	}
	if from < 0 || from > to || to > data.Len() {
		return fmt.Errorf("rows %d..%d of an array of %d: %w", from, to, data.Len(), errs.ErrInvalid)
	}
	rows := to - from
	switch {
	case rows == 0:
		return nil
	case v.typ.Key > 0:
		return v.appendKeyed(data, from, to)
	case len(v.typ.Fields) > 0:
		return v.appendPackedArray(data, from, to)
	}
	return v.appendPlainArray(data, from, to)
}

// appendPlainArray is AppendArray for arrays of the values themselves.
func (v *Vector) appendPlainArray(data arrow.ArrayData, from, to int) error {
	rows := to - from
	if v.typ.Kind == KindNull {
		return v.AppendNulls(rows)
	}
	off := data.Offset() + from
	valid, nulls := validityOfArray(data, off, rows)
	switch v.typ.Kind {
	case KindVar32:
		if err := appendOffsets(v, wordsOf[uint32](bufferOf(data, 1)), bufferOf(data, 2), valid, off, rows, nulls); err != nil {
			return err
		}
	case KindVar64:
		if err := appendOffsets(v, wordsOf[uint64](bufferOf(data, 1)), bufferOf(data, 2), valid, off, rows, nulls); err != nil {
			return err
		}
	default:
		if err := v.appendItems(data, off, rows); err != nil {
			return err
		}
		if nulls > 0 {
			v.zeroUnder(valid, off, rows)
		}
	}
	v.addBitmap(valid, off, rows, nulls)
	return nil
}

// ArrayBytes returns the unencoded bytes of rows [from, to) of an array of this physical type, validity not counted.
func (t Type) ArrayBytes(a arrow.Array, from, to int) int {
	if t.Key > 0 {
		return keyedBytes(a.Data(), t, to-from)
	}
	if !t.Variable() {
		return (to - from) * t.RowBits() / 8
	}
	data := a.Data()
	if ext, ok := a.(array.ExtensionArray); ok {
		data = ext.Storage().Data()
	}
	from, to = from+data.Offset(), to+data.Offset()
	n := (to - from) * t.OffsetBits() / 8
	if offs := wordsOf[uint32](bufferOf(data, 1)); t.Kind == KindVar32 && to < len(offs) {
		n += int(offs[to] - offs[from])
	}
	if offs := wordsOf[uint64](bufferOf(data, 1)); t.Kind == KindVar64 && to < len(offs) {
		n += int(offs[to] - offs[from])
	}
	return n
}

func bufferOf(data arrow.ArrayData, i int) []byte {
	if b := data.Buffers(); i < len(b) && b[i] != nil {
		return b[i].Bytes()
	}
	return nil
}

// validityOfArray returns the validity bitmap (nil if all rows are valid) and the nulls in a range of it.
func validityOfArray(data arrow.ArrayData, off, rows int) ([]byte, int) {
	valid := bufferOf(data, 0)
	if len(valid) == 0 || data.NullN() == 0 {
		return nil, 0
	}
	return valid, rows - countBits(valid, off, rows)
}

// appendItems appends the items of rows fixed-width rows starting at absolute position off, item validity included.
func (v *Vector) appendItems(data arrow.ArrayData, off, rows int) error {
	n := rows
	for l, d := range v.typ.Dims {
		if len(data.Children()) != 1 {
			return fmt.Errorf("fixed-size list without a child: %w", errs.ErrInvalid)
		}
		data = data.Children()[0]
		off = off*d + data.Offset()
		n *= d
		valid, nulls := validityOfArray(data, off, n)
		if nulls == 0 {
			valid = nil
		}
		v.addItems(l, valid, off, rows)
	}
	b := bufferOf(data, 1)
	bits := v.typ.Bits
	if len(b) < bitmapBytes((off+n)*bits) {
		return fmt.Errorf("array buffer of %d bytes for %d items of %d bits: %w", len(b), off+n, bits, errs.ErrInvalid)
	}
	if bits == 1 {
		v.appendBits(b, off, rows)
	} else {
		v.appendFixed(b[off*bits/8 : (off+n)*bits/8])
	}
	return nil
}

// zeroUnder clears the values of the rows just appended (not yet counted) that are null, and marks their items valid.
func (v *Vector) zeroUnder(valid []byte, off, rows int) {
	width := v.typ.RowBits()
	b := v.data.bytes()
	if len(v.items) == 0 && width%8 == 0 {
		zeroRows(b[v.n*width/8:], width/8, valid, off, rows)
		return
	}
	for i := range rows {
		if getBit(valid, off+i) {
			continue
		}
		at := v.n + i
		if v.typ.Bits == 1 {
			setBits(b, at*width, width, false)
		} else {
			clear(b[at*width/8 : (at+1)*width/8])
		}
		for l := range v.items {
			lv := &v.items[l]
			if lv.nulls > 0 {
				set := countBits(lv.valid.bytes(), at*lv.perRow, lv.perRow)
				lv.nulls -= lv.perRow - set
				setBits(lv.valid.bytes(), at*lv.perRow, lv.perRow, true)
			}
		}
	}
}

// zeroRows clears those of rows rows of w bytes whose validity bit, from bit off on, is 0.
func zeroRows(b []byte, w int, valid []byte, off, rows int) {
	for at := 0; at < rows; {
		// A byte of validity at a time, whose bits before off+at and behind the last row are taken for valid.
		skip := (off + at) & 7
		n := min(8-skip, rows-at)
		missing := ^valid[(off+at)>>3] >> skip & (1<<n - 1)
		for ; missing != 0; missing &= missing - 1 {
			row := b[(at+bits.TrailingZeros8(missing))*w:]
			if w == 8 {
				binary.LittleEndian.PutUint64(row, 0)
			} else {
				clear(row[:w])
			}
		}
		at += n
	}
}

// appendOffsets appends rows of a variable-width array.
func appendOffsets[T uint32 | uint64](v *Vector, offs []T, bytes, valid []byte, off, rows, nulls int) error {
	if len(offs) < off+rows+1 {
		return fmt.Errorf("array of %d offsets for %d rows: %w", len(offs), off+rows, errs.ErrInvalid)
	}
	offs = offs[off : off+rows+1]
	lo, hi := offs[0], offs[rows]
	if lo > hi || uint64(hi) > uint64(len(bytes)) {
		return fmt.Errorf("array offsets %d..%d in %d bytes: %w", lo, hi, len(bytes), errs.ErrInvalid)
	}
	if v.data.len()+int(hi-lo) > math.MaxInt32 && v.typ.Kind == KindVar32 {
		return fmt.Errorf("page of more than 2 GiB: %w", errs.ErrLimit)
	}
	v.ensureOffsets()
	at := T(v.data.len())
	out := wordsOf[T](v.offs.grow(v.mem, rows*v.typ.OffsetBits()/8))
	if nulls == 0 {
		copy(v.data.grow(v.mem, int(hi-lo)), bytes[lo:hi])
		for i := range out {
			out[i] = at + offs[i+1] - lo
		}
		return nil
	}
	for i := range out {
		if getBit(valid, off+i) {
			b, e := offs[i], offs[i+1]
			if b > e || uint64(e) > uint64(len(bytes)) {
				return fmt.Errorf("array offsets %d..%d: %w", b, e, errs.ErrInvalid)
			}
			at += T(copy(v.data.grow(v.mem, int(e-b)), bytes[b:e]))
		}
		out[i] = at
	}
	return nil
}
