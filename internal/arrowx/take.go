package arrowx

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// Take gathers the rows at indices, in that order and with repeats, into a new batch of the same schema.
// errs.ErrInvalid for an index out of range.
func Take(mem memory.Allocator, rec arrow.RecordBatch, indices []int) (arrow.RecordBatch, error) {
	n := int(rec.NumRows())
	for _, i := range indices {
		if uint(i) >= uint(n) {
			return nil, fmt.Errorf("take row %d of %d: %w", i, n, errs.ErrInvalid)
		}
	}
	return take(mem, rec, indices)
}

// Filter keeps the rows whose flag is set; keep has one flag per row. When all rows stay, the result shares
// the buffers of rec.
func Filter(mem memory.Allocator, rec arrow.RecordBatch, keep []bool) (arrow.RecordBatch, error) {
	if int64(len(keep)) != rec.NumRows() {
		return nil, fmt.Errorf("filter %d rows by %d flags: %w", rec.NumRows(), len(keep), errs.ErrInvalid)
	}
	m := NewMask(len(keep))
	for i, k := range keep {
		if k {
			m.Set(i)
		}
	}
	return FilterByMask(mem, rec, m)
}

// FilterByMask keeps the rows in m, which has one bit per row. When all rows stay, or the rows that stay are
// consecutive, the result shares the buffers of rec.
func FilterByMask(mem memory.Allocator, rec arrow.RecordBatch, m *Mask) (arrow.RecordBatch, error) {
	if int64(m.Len()) != rec.NumRows() {
		return nil, fmt.Errorf("filter %d rows by a mask of %d: %w", rec.NumRows(), m.Len(), errs.ErrInvalid)
	}
	n := m.Count()
	if n == m.Len() {
		rec.Retain()
		return rec, nil
	}
	indices := m.Indices(make([]int, 0, n))
	if n > 0 && indices[n-1]-indices[0] == n-1 {
		return rec.NewSlice(int64(indices[0]), int64(indices[n-1]+1)), nil
	}
	return take(mem, rec, indices)
}

func take(mem memory.Allocator, rec arrow.RecordBatch, indices []int) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, 0, rec.NumCols())
	defer func() { releaseAll(cols) }()
	for i, a := range rec.Columns() {
		c, err := TakeArray(mem, a, indices)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
		}
		cols = append(cols, c)
	}
	return array.NewRecordBatch(rec.Schema(), cols, int64(len(indices))), nil
}

// TakeArray gathers the cells of a at indices, which must be in range. The caller releases the result.
func TakeArray(mem memory.Allocator, a arrow.Array, indices []int) (arrow.Array, error) {
	if len(indices) == 0 {
		b := array.NewBuilder(mem, a.DataType())
		defer b.Release()
		return b.NewArray(), nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return takeBits(mem, a, indices), nil
	case *array.String:
		return takeVar(mem, a, a.ValueOffsets(), indices)
	case *array.Binary:
		return takeVar(mem, a, a.ValueOffsets(), indices)
	case *array.LargeString:
		return takeVar(mem, a, a.ValueOffsets(), indices)
	case *array.LargeBinary:
		return takeVar(mem, a, a.ValueOffsets(), indices)
	case *array.FixedSizeList:
		return takeFixedList(mem, a, indices)
	}
	if w, ok := a.DataType().(arrow.FixedWidthDataType); ok && plainFixed(a.DataType()) {
		return takeFixed(mem, a, w.BitWidth()/8, indices), nil
	}
	return takeRuns(mem, a, indices)
}

// plainFixed reports whether t is one buffer of whole bytes per cell.
func plainFixed(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.DICTIONARY, arrow.BOOL, arrow.FIXED_SIZE_LIST, arrow.EXTENSION:
		return false
	default:
		return true
	}
}

// finish wraps buffers (ownership passes) and children (borrowed) as an array with the validity of a gathered.
func finish(mem memory.Allocator, a arrow.Array, indices []int, bufs []*memory.Buffer, children []arrow.ArrayData) arrow.Array {
	valid, nulls := takeValidity(mem, a, indices)
	all := append([]*memory.Buffer{valid}, bufs...)
	data := array.NewData(a.DataType(), len(indices), all, children, nulls, 0)
	defer data.Release()
	for _, b := range all {
		if b != nil {
			b.Release()
		}
	}
	return array.MakeFromData(data)
}

func newBuffer(mem memory.Allocator, size int) *memory.Buffer {
	b := memory.NewResizableBuffer(mem)
	b.Resize(size)
	return b
}

func takeValidity(mem memory.Allocator, a arrow.Array, indices []int) (*memory.Buffer, int) {
	if a.NullN() == 0 {
		return nil, 0
	}
	src, off := a.NullBitmapBytes(), a.Data().Offset()
	buf := newBuffer(mem, int(bitutil.BytesForBits(int64(len(indices)))))
	dst, nulls := buf.Bytes(), 0
	clear(dst)
	for o, i := range indices {
		if bitutil.BitIsSet(src, off+i) {
			bitutil.SetBit(dst, o)
		} else {
			nulls++
		}
	}
	return buf, nulls
}

func takeBits(mem memory.Allocator, a *array.Boolean, indices []int) arrow.Array {
	buf := newBuffer(mem, int(bitutil.BytesForBits(int64(len(indices)))))
	dst := buf.Bytes()
	clear(dst)
	for o, i := range indices {
		if a.Value(i) {
			bitutil.SetBit(dst, o)
		}
	}
	return finish(mem, a, indices, []*memory.Buffer{buf}, nil)
}

func takeFixed(mem memory.Allocator, a arrow.Array, width int, indices []int) arrow.Array {
	buf := newBuffer(mem, width*len(indices))
	if width > 0 {
		src, dst := a.Data().Buffers()[1].Bytes()[a.Data().Offset()*width:], buf.Bytes()
		switch width {
		case 1:
			for o, i := range indices {
				dst[o] = src[i]
			}
		case 4:
			gather(arrow.Uint32Traits.CastFromBytes(src), arrow.Uint32Traits.CastFromBytes(dst), indices)
		case 8:
			gather(arrow.Uint64Traits.CastFromBytes(src), arrow.Uint64Traits.CastFromBytes(dst), indices)
		default:
			for o, i := range indices {
				copy(dst[o*width:(o+1)*width], src[i*width:])
			}
		}
	}
	return finish(mem, a, indices, []*memory.Buffer{buf}, nil)
}

func gather[T any](src, dst []T, indices []int) {
	for o, i := range indices {
		dst[o] = src[i]
	}
}

// takeVar gathers variable-length cells; offsets are those of a's cells, absolute in its value buffer.
func takeVar[O int32 | int64](mem memory.Allocator, a arrow.Array, offsets []O, indices []int) (arrow.Array, error) {
	var total int64
	for _, i := range indices {
		total += int64(offsets[i+1] - offsets[i])
	}
	if int64(O(total)) != total {
		return nil, fmt.Errorf("gathered %d bytes into 32-bit offsets: %w", total, errs.ErrLimit)
	}
	width := int(unsafe.Sizeof(O(0)))
	offBuf, valBuf := newBuffer(mem, width*(len(indices)+1)), newBuffer(mem, int(total))
	out, src, dst := arrow.GetData[O](offBuf.Bytes()), varBytes(a), valBuf.Bytes()
	pos := 0
	for o, i := range indices {
		out[o] = O(pos)
		pos += copy(dst[pos:], src[offsets[i]:offsets[i+1]])
	}
	out[len(indices)] = O(pos)
	return finish(mem, a, indices, []*memory.Buffer{offBuf, valBuf}, nil), nil
}

func varBytes(a arrow.Array) []byte {
	if b := a.Data().Buffers()[2]; b != nil {
		return b.Bytes()
	}
	return nil
}

func takeFixedList(mem memory.Allocator, a *array.FixedSizeList, indices []int) (arrow.Array, error) {
	size := int(a.DataType().(*arrow.FixedSizeListType).Len())
	inner := make([]int, 0, size*len(indices))
	for _, i := range indices {
		from := (a.Data().Offset() + i) * size
		for j := range size {
			inner = append(inner, from+j)
		}
	}
	child, err := TakeArray(mem, a.ListValues(), inner)
	if err != nil {
		return nil, err
	}
	defer child.Release()
	return finish(mem, a, indices, nil, []arrow.ArrayData{child.Data()}), nil
}

// takeRuns joins zero-copy slices of consecutive indices: right for every type, slow when runs are short.
func takeRuns(mem memory.Allocator, a arrow.Array, indices []int) (arrow.Array, error) {
	var parts []arrow.Array
	defer func() { releaseAll(parts) }()
	for from := 0; from < len(indices); {
		to := from + 1
		for to < len(indices) && indices[to] == indices[to-1]+1 {
			to++
		}
		parts = append(parts, array.NewSlice(a, int64(indices[from]), int64(indices[to-1]+1)))
		from = to
	}
	return array.Concatenate(parts, mem)
}
