package arrowx

import (
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// column builds the common types in exactly the buffers they need; nil for other types, and for cells that a builder has
// to judge.
//
// Why: a commit makes one array per column for a row or two, and most of what a builder does is to prepare for more.
func column(t arrow.DataType, rows []Row, c int) arrow.Array {
	switch t.ID() {
	case arrow.BOOL:
		return bools(rows, c)
	case arrow.INT8:
		return fixed[int8](t, rows, c)
	case arrow.INT16:
		return fixed[int16](t, rows, c)
	case arrow.INT32:
		return fixed[int32](t, rows, c)
	case arrow.INT64:
		return fixed[int64](t, rows, c)
	case arrow.UINT8:
		return fixed[uint8](t, rows, c)
	case arrow.UINT16:
		return fixed[uint16](t, rows, c)
	case arrow.UINT32:
		return fixed[uint32](t, rows, c)
	case arrow.UINT64:
		return fixed[uint64](t, rows, c)
	case arrow.FLOAT32:
		return fixed[float32](t, rows, c)
	case arrow.FLOAT64:
		return fixed[float64](t, rows, c)
	case arrow.DATE32:
		return fixed[arrow.Date32](t, rows, c)
	case arrow.TIME64:
		return fixed[arrow.Time64](t, rows, c)
	case arrow.TIMESTAMP:
		return fixed[arrow.Timestamp](t, rows, c)
	case arrow.STRING:
		return texts(t, rows, c)
	}
	return nil
}

// validity is a bitmap of the cells that are not NULL; none if all are not.
type validity struct {
	bits  []byte
	nulls int
}

func (v *validity) null(i, n int) {
	if v.bits == nil {
		v.bits = make([]byte, bitutil.BytesForBits(int64(n)))
		bitutil.SetBitsTo(v.bits, 0, int64(n), true)
	}
	bitutil.ClearBit(v.bits, i)
	v.nulls++
}

func (v *validity) array(t arrow.DataType, n int, buffers ...[]byte) arrow.Array {
	all := make([]*memory.Buffer, 1, 1+len(buffers))
	if v.bits != nil {
		all[0] = memory.NewBufferBytes(v.bits)
	}
	for _, b := range buffers {
		all = append(all, memory.NewBufferBytes(b))
	}
	data := array.NewData(t, n, all, nil, v.nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

func fixed[T any](t arrow.DataType, rows []Row, c int) arrow.Array {
	var v validity
	cells := make([]T, len(rows))
	for i, row := range rows {
		cell := row[c]
		if cell == nil {
			v.null(i, len(rows))
			continue
		}
		x, ok := cell.(T)
		if !ok {
			return nil
		}
		cells[i] = x
	}
	// Why unsafe: the bytes of the cells are the Arrow buffer, on a little-endian machine as everywhere else here.
	return v.array(t, len(rows), unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(cells))), len(cells)*int(unsafe.Sizeof(*new(T)))))
}

func bools(rows []Row, c int) arrow.Array {
	var v validity
	bits := make([]byte, bitutil.BytesForBits(int64(len(rows))))
	for i, row := range rows {
		switch x := row[c].(type) {
		case nil:
			v.null(i, len(rows))
		case bool:
			bitutil.SetBitTo(bits, i, x)
		default:
			return nil
		}
	}
	return v.array(arrow.FixedWidthTypes.Boolean, len(rows), bits)
}

func texts(t arrow.DataType, rows []Row, c int) arrow.Array {
	var v validity
	total := 0
	for i, row := range rows {
		switch x := row[c].(type) {
		case nil:
			v.null(i, len(rows))
		case string:
			total += len(x)
		default:
			return nil
		}
	}
	if total > math.MaxInt32 {
		return nil
	}
	offsets, body := make([]int32, len(rows)+1), make([]byte, 0, total)
	for i, row := range rows {
		if x, ok := row[c].(string); ok {
			body = append(body, x...)
		}
		offsets[i+1] = int32(len(body))
	}
	return v.array(t, len(rows), arrow.Int32Traits.CastToBytes(offsets), body)
}
