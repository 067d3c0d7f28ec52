package arrowx

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// Bytes returns the memory the cells of rec need, in bytes: values, offsets and validity of its own rows only,
// whatever larger buffers it shares.
func Bytes(rec arrow.RecordBatch) int64 {
	var n int64
	for _, c := range rec.Columns() {
		n += ArrayBytes(c)
	}
	return n
}

// ArrayBytes returns the bytes that the values of an array take, its slice only.
func ArrayBytes(a arrow.Array) int64 {
	n := int64(a.Len())
	if n == 0 {
		return 0
	}
	var size int64
	if a.NullN() > 0 {
		size = bitutil.BytesForBits(n)
	}
	switch a := a.(type) {
	case *array.Boolean:
		return size + bitutil.BytesForBits(n)
	case *array.String:
		return size + 4*(n+1) + int64(len(a.ValueBytes()))
	case *array.Binary:
		return size + 4*(n+1) + int64(len(a.ValueBytes()))
	case *array.LargeString:
		return size + 8*(n+1) + int64(len(a.ValueBytes()))
	case *array.LargeBinary:
		return size + 8*(n+1) + int64(len(a.ValueBytes()))
	case *array.FixedSizeList:
		if a.ListValues().Len() == 0 {
			return size
		}
		per := int64(a.DataType().(*arrow.FixedSizeListType).Len())
		child := ArrayBytes(a.ListValues())
		return size + child*n*per/int64(a.ListValues().Len())
	}
	if w, ok := a.DataType().(arrow.FixedWidthDataType); ok && plainFixed(a.DataType()) {
		return size + n*int64(w.BitWidth()/8)
	}
	return size + held(a.Data())
}

// Held returns the size in bytes of all buffers rec keeps alive, shared or not, each counted once per use.
func Held(rec arrow.RecordBatch) int64 {
	var n int64
	for _, c := range rec.Columns() {
		n += held(c.Data())
	}
	return n
}

func held(d arrow.ArrayData) int64 {
	var n int64
	for _, b := range d.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, c := range d.Children() {
		n += held(c)
	}
	return n
}
