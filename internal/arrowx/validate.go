package arrowx

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// Validate checks that every cell of an array that came from untrusted bytes can be read: buffers long enough,
// offsets ascending and inside the value buffer, null count equal to the validity bitmap. Run it on the data
// before an array is made of it, since Arrow's constructors trust what it checks. Errors describe the problem
// and match errs.ErrInvalid; a type it cannot judge is errs.ErrUnsupported.
func Validate(d arrow.ArrayData) error {
	n, off := d.Len(), d.Offset()
	if n < 0 || off < 0 || n > math.MaxInt-off-1 {
		return fmt.Errorf("%d cells from %d: %w", n, off, errs.ErrInvalid)
	}
	if err := validateNulls(d, off+n); err != nil {
		return err
	}
	end := int64(off + n)
	switch t := d.DataType().(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		return needBuffer(d, 1, bitutil.BytesForBits(end))
	case arrow.DecimalType:
		digits := int32(38)
		if t.BitWidth() > 128 {
			digits = 76
		}
		if t.GetPrecision() < 1 || t.GetPrecision() > digits || t.GetScale() < -digits || t.GetScale() > digits {
			return fmt.Errorf("type %s: %w", t, errs.ErrInvalid)
		}
	case *arrow.StringType, *arrow.BinaryType:
		return validateOffsets[int32](d, end, bufLen(d, 2))
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return validateOffsets[int64](d, end, bufLen(d, 2))
	case *arrow.ListType, *arrow.MapType:
		return validateList[int32](d, end)
	case *arrow.LargeListType:
		return validateList[int64](d, end)
	case *arrow.FixedSizeListType:
		return validateChild(d, 0, end, int64(t.Len()))
	case *arrow.StructType:
		for i := range t.NumFields() {
			if err := validateChild(d, i, end, 1); err != nil {
				return err
			}
		}
		return nil
	}
	if w, ok := d.DataType().(arrow.FixedWidthDataType); ok && plainFixed(d.DataType()) {
		width := int64(w.BitWidth() / 8)
		if width > 0 && end > math.MaxInt64/width {
			return fmt.Errorf("%d cells of %d bytes: %w", end, width, errs.ErrInvalid)
		}
		return needBuffer(d, 1, end*width)
	}
	return fmt.Errorf("arrays of type %s: %w", d.DataType(), errs.ErrUnsupported)
}

func buffer(d arrow.ArrayData, i int) *memory.Buffer {
	if i < len(d.Buffers()) {
		return d.Buffers()[i]
	}
	return nil
}

func bufLen(d arrow.ArrayData, i int) int64 {
	if b := buffer(d, i); b != nil {
		return int64(b.Len())
	}
	return 0
}

func needBuffer(d arrow.ArrayData, i int, size int64) error {
	if have := bufLen(d, i); have < size {
		return fmt.Errorf("buffer %d of %s has %d bytes, needs %d: %w", i, d.DataType(), have, size, errs.ErrInvalid)
	}
	return nil
}

func validateNulls(d arrow.ArrayData, end int) error {
	nulls := d.NullN()
	if nulls > d.Len() {
		return fmt.Errorf("%d nulls among %d cells: %w", nulls, d.Len(), errs.ErrInvalid)
	}
	bitmap := buffer(d, 0)
	if d.DataType().ID() == arrow.NULL {
		return nil
	}
	if bitmap == nil || bitmap.Len() == 0 {
		if nulls > 0 {
			return fmt.Errorf("%d nulls without a validity bitmap: %w", nulls, errs.ErrInvalid)
		}
		return nil
	}
	if int64(bitmap.Len()) < bitutil.BytesForBits(int64(end)) {
		return fmt.Errorf("validity bitmap of %d bytes for %d cells: %w", bitmap.Len(), end, errs.ErrInvalid)
	}
	if nulls < 0 {
		return nil // not counted yet
	}
	if set := bitutil.CountSetBits(bitmap.Bytes(), d.Offset(), d.Len()); set != d.Len()-nulls {
		return fmt.Errorf("%d nulls claimed, %d in the bitmap: %w", nulls, d.Len()-set, errs.ErrInvalid)
	}
	return nil
}

// validateOffsets checks the offsets of the cells in use against the limit of what they point into.
func validateOffsets[O int32 | int64](d arrow.ArrayData, end, limit int64) error {
	if d.Len() == 0 {
		return nil
	}
	var zero O
	width := int64(4)
	if _, wide := any(zero).(int64); wide {
		width = 8
	}
	if end > math.MaxInt64/width-1 {
		return fmt.Errorf("%d offsets: %w", end, errs.ErrInvalid)
	}
	if err := needBuffer(d, 1, (end+1)*width); err != nil {
		return err
	}
	offsets := arrow.GetData[O](d.Buffers()[1].Bytes())[d.Offset() : end+1]
	if offsets[0] < 0 || int64(offsets[len(offsets)-1]) > limit {
		return fmt.Errorf("offsets %d to %d of %d: %w", offsets[0], offsets[len(offsets)-1], limit, errs.ErrInvalid)
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] < offsets[i-1] {
			return fmt.Errorf("offset %d falls from %d to %d: %w", i, offsets[i-1], offsets[i], errs.ErrInvalid)
		}
	}
	return nil
}

func validateList[O int32 | int64](d arrow.ArrayData, end int64) error {
	if len(d.Children()) != 1 {
		return fmt.Errorf("%s with %d children: %w", d.DataType(), len(d.Children()), errs.ErrInvalid)
	}
	if err := validateOffsets[O](d, end, int64(d.Children()[0].Len())); err != nil {
		return err
	}
	return Validate(d.Children()[0])
}

// validateChild checks that child i has per cells for each of the first end cells.
func validateChild(d arrow.ArrayData, i int, end, per int64) error {
	if i >= len(d.Children()) {
		return fmt.Errorf("%s with %d children: %w", d.DataType(), len(d.Children()), errs.ErrInvalid)
	}
	child := d.Children()[i]
	if per < 0 || per > 0 && end > int64(child.Len())/per {
		return fmt.Errorf("child %d of %s has %d cells for %d: %w", i, d.DataType(), child.Len(), end, errs.ErrInvalid)
	}
	return Validate(child)
}
