package btree

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// The order of the values of an index, and the comparable form that has it:
//
//	bool, ints, dates, times, timestamps, durations   numeric; signed ones widened to 64 bits with the sign bit flipped
//	float32, float64                                  IEEE total order: -NaN < -inf < .. < -0 < +0 < .. < +inf < +NaN;
//	                                                  the bits, all flipped if negative, else the sign bit flipped
//	utf8, binary, fixed-size binary                   bytewise
//	decimal128, decimal256                            numeric; big-endian two's complement with the sign bit flipped
//
// Both directions are exact, so that an index can be copied in its comparable form.
// Spec: indexes, "Order".
const signBit = 1 << 63

// Supported reports whether a column of type t can have a BTREE index.
func Supported(t arrow.DataType) bool {
	_, ok := formOf(t)
	return ok
}

// formOf says whether the values of a type are byte strings; ok is false for types without an order here.
func formOf(t arrow.DataType) (wide, ok bool) {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.UINT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64,
		arrow.TIMESTAMP, arrow.DURATION:
		return false, true
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY,
		arrow.DECIMAL128, arrow.DECIMAL256:
		return true, true
	}
	return false, false
}

// newColumn returns an empty column for values of type t.
func newColumn(t arrow.DataType) (column, error) {
	wide, ok := formOf(t)
	if !ok {
		return column{}, fmt.Errorf("BTREE over values of type %s: %w", t, errs.ErrUnsupported)
	}
	return column{wide: wide}, nil
}

// encode appends cells [from, to) of an array, none of which is NULL.
func (c *column) encode(a arrow.Array, from, to int) error {
	switch a := a.(type) {
	case *array.Boolean:
		for i := from; i < to; i++ {
			v := uint64(0)
			if a.Value(i) {
				v = 1
			}
			c.fixed = append(c.fixed, v)
		}
	case *array.Int8:
		c.fixed = appendSigned(c.fixed, a.Int8Values()[from:to])
	case *array.Int16:
		c.fixed = appendSigned(c.fixed, a.Int16Values()[from:to])
	case *array.Int32:
		c.fixed = appendSigned(c.fixed, a.Int32Values()[from:to])
	case *array.Int64:
		c.fixed = appendSigned(c.fixed, a.Int64Values()[from:to])
	case *array.Date32:
		c.fixed = appendSigned(c.fixed, a.Date32Values()[from:to])
	case *array.Date64:
		c.fixed = appendSigned(c.fixed, a.Date64Values()[from:to])
	case *array.Time32:
		c.fixed = appendSigned(c.fixed, a.Time32Values()[from:to])
	case *array.Time64:
		c.fixed = appendSigned(c.fixed, a.Time64Values()[from:to])
	case *array.Timestamp:
		c.fixed = appendSigned(c.fixed, a.TimestampValues()[from:to])
	case *array.Duration:
		c.fixed = appendSigned(c.fixed, a.DurationValues()[from:to])
	case *array.Uint8:
		c.fixed = appendUnsigned(c.fixed, a.Uint8Values()[from:to])
	case *array.Uint16:
		c.fixed = appendUnsigned(c.fixed, a.Uint16Values()[from:to])
	case *array.Uint32:
		c.fixed = appendUnsigned(c.fixed, a.Uint32Values()[from:to])
	case *array.Uint64:
		c.fixed = append(c.fixed, a.Uint64Values()[from:to]...)
	case *array.Float32:
		for _, v := range a.Float32Values()[from:to] {
			c.fixed = append(c.fixed, orderFloat32(v))
		}
	case *array.Float64:
		for _, v := range a.Float64Values()[from:to] {
			c.fixed = append(c.fixed, orderFloat64(v))
		}
	default:
		return c.encodeWide(a, from, to)
	}
	return nil
}

func (c *column) encodeWide(a arrow.Array, from, to int) error {
	var value func(i int) []byte
	switch a := a.(type) {
	case *array.String:
		return appendText(c, a.ValueBytes(), a.ValueOffsets(), from, to)
	case *array.Binary:
		return appendText(c, a.ValueBytes(), a.ValueOffsets(), from, to)
	case *array.LargeString:
		return appendText(c, a.ValueBytes(), a.ValueOffsets(), from, to)
	case *array.LargeBinary:
		return appendText(c, a.ValueBytes(), a.ValueOffsets(), from, to)
	case *array.FixedSizeBinary:
		value = a.Value
	case *array.Decimal128:
		var b [16]byte
		value = func(i int) []byte {
			v := a.Value(i)
			binary.BigEndian.PutUint64(b[:], uint64(v.HighBits())^signBit)
			binary.BigEndian.PutUint64(b[8:], v.LowBits())
			return b[:]
		}
	case *array.Decimal256:
		var b [32]byte
		value = func(i int) []byte {
			words := a.Value(i).Array() // least significant first
			words[3] ^= signBit
			for w := range 4 {
				binary.BigEndian.PutUint64(b[8*w:], words[3-w])
			}
			return b[:]
		}
	default:
		return fmt.Errorf("BTREE over values of type %s: %w", a.DataType(), errs.ErrUnsupported)
	}
	for i := from; i < to; i++ {
		if err := c.add(key{wide: value(i)}); err != nil {
			return err
		}
	}
	return nil
}

// appendText appends variable-length cells. data begins at the first cell's offset, as Arrow's ValueBytes does.
func appendText[O int32 | int64](c *column, data []byte, offsets []O, from, to int) error {
	if from == to {
		return nil
	}
	start := offsets[0]
	lo, hi := offsets[from], offsets[to]
	if uint64(len(c.data))+uint64(hi-lo) > columnBytesMax {
		return errTooWide()
	}
	base := int64(len(c.data))
	c.data = append(c.data, data[lo-start:hi-start]...)
	for _, end := range offsets[from+1 : to+1] {
		c.ends = append(c.ends, uint32(int64(end-lo)+base))
	}
	return nil
}

func appendSigned[T ~int8 | ~int16 | ~int32 | ~int64](dst []uint64, values []T) []uint64 {
	for _, v := range values {
		dst = append(dst, uint64(int64(v))^signBit)
	}
	return dst
}

func appendUnsigned[T ~uint8 | ~uint16 | ~uint32](dst []uint64, values []T) []uint64 {
	for _, v := range values {
		dst = append(dst, uint64(v))
	}
	return dst
}

func orderFloat64(v float64) uint64 {
	b := math.Float64bits(v)
	if b&signBit != 0 {
		return ^b
	}
	return b | signBit
}

func orderFloat32(v float32) uint64 {
	b := math.Float32bits(v)
	if b&(1<<31) != 0 {
		return uint64(^b)
	}
	return uint64(b | 1<<31)
}

// arrow returns nulls NULLs followed by the values as an array of type t. The caller releases it.
func (c *column) arrow(mem memory.Allocator, t arrow.DataType, nulls int) (arrow.Array, error) {
	n := nulls + c.len()
	var valid *memory.Buffer
	if nulls > 0 {
		valid = newBuffer(mem, int(bitutil.BytesForBits(int64(n))))
		clear(valid.Bytes())
		bitutil.SetBitsTo(valid.Bytes(), int64(nulls), int64(c.len()), true)
	}
	bufs := []*memory.Buffer{valid}
	defer func() {
		for _, b := range bufs {
			if b != nil {
				b.Release()
			}
		}
	}()
	switch t := t.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		more, err := textBuffers[int32](mem, c, nulls)
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, more...)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		more, err := textBuffers[int64](mem, c, nulls)
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, more...)
	case *arrow.BooleanType:
		b := newBuffer(mem, int(bitutil.BytesForBits(int64(n))))
		clear(b.Bytes())
		for i, v := range c.fixed {
			bitutil.SetBitTo(b.Bytes(), nulls+i, v != 0)
		}
		bufs = append(bufs, b)
	case arrow.FixedWidthDataType:
		width := t.BitWidth() / 8
		b := newBuffer(mem, n*width)
		clear(b.Bytes()[:nulls*width])
		c.put(b.Bytes()[nulls*width:], t)
		bufs = append(bufs, b)
	default:
		return nil, fmt.Errorf("BTREE over values of type %s: %w", t, errs.ErrUnsupported)
	}
	data := array.NewData(t, n, bufs, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// put writes the values of a fixed-width type.
func (c *column) put(dst []byte, t arrow.DataType) {
	switch t.ID() {
	case arrow.FIXED_SIZE_BINARY:
		copy(dst, c.data)
	case arrow.DECIMAL128:
		out := arrow.Decimal128Traits.CastFromBytes(dst)
		for i := range out {
			k := c.key(i).wide
			out[i] = decimal128.New(int64(binary.BigEndian.Uint64(k)^signBit), binary.BigEndian.Uint64(k[8:]))
		}
	case arrow.DECIMAL256:
		out := arrow.Decimal256Traits.CastFromBytes(dst)
		for i := range out {
			k := c.key(i).wide
			out[i] = decimal256.New(binary.BigEndian.Uint64(k)^signBit, binary.BigEndian.Uint64(k[8:]),
				binary.BigEndian.Uint64(k[16:]), binary.BigEndian.Uint64(k[24:]))
		}
	case arrow.FLOAT64:
		for i, v := range c.fixed {
			if v&signBit != 0 {
				v ^= signBit
			} else {
				v = ^v
			}
			binary.LittleEndian.PutUint64(dst[8*i:], v)
		}
	case arrow.FLOAT32:
		for i, v := range c.fixed {
			b := uint32(v)
			if b&(1<<31) != 0 {
				b ^= 1 << 31
			} else {
				b = ^b
			}
			binary.LittleEndian.PutUint32(dst[4*i:], b)
		}
	default:
		c.putInts(dst, t)
	}
}

func (c *column) putInts(dst []byte, t arrow.DataType) {
	flip := uint64(signBit)
	switch t.ID() {
	case arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		flip = 0
	}
	switch t.(arrow.FixedWidthDataType).BitWidth() {
	case 8:
		for i, v := range c.fixed {
			dst[i] = byte(v ^ flip)
		}
	case 16:
		for i, v := range c.fixed {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(v^flip))
		}
	case 32:
		for i, v := range c.fixed {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(v^flip))
		}
	default:
		for i, v := range c.fixed {
			binary.LittleEndian.PutUint64(dst[8*i:], v^flip)
		}
	}
}

// textBuffers makes offsets and values of variable-length cells, NULLs first.
func textBuffers[O int32 | int64](mem memory.Allocator, c *column, nulls int) ([]*memory.Buffer, error) {
	if int64(O(len(c.data))) != int64(len(c.data)) {
		return nil, errTooWide()
	}
	n := nulls + len(c.ends)
	var zero O
	width := 4
	if _, large := any(zero).(int64); large {
		width = 8
	}
	offs, data := newBuffer(mem, width*(n+1)), newBuffer(mem, len(c.data))
	out := arrow.GetData[O](offs.Bytes())
	clear(out[:nulls+1])
	for i, end := range c.ends {
		out[nulls+1+i] = O(end)
	}
	copy(data.Bytes(), c.data)
	return []*memory.Buffer{offs, data}, nil
}

func newBuffer(mem memory.Allocator, size int) *memory.Buffer {
	b := memory.NewResizableBuffer(mem)
	b.Resize(size)
	return b
}
