package encoding

import (
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
)

// Kind says how the items of a column lie in memory.
type Kind uint8

// Kinds of physical columns.
const (
	KindNull   Kind = iota // no bytes at all
	KindFixed              // Bits bits per item
	KindVar32              // bytes with 32-bit offsets
	KindVar64              // bytes with 64-bit offsets
	KindPacked             // packed structs with variable members
)

// Type is the physical type of one column. Columns of different Arrow types with the same physical type share all
// encodings.
type Type struct {
	Kind   Kind
	Bits   int    // bits per item of KindFixed: 1 or a multiple of 8
	Key    int    // bits of the indices of an Arrow dictionary column, whose values the rest describes; 0 = none
	Fields []Type // members of a packed struct, row by row in one column; nil for other columns
	Dims   []int  // sizes of the nested fixed-size lists around the item, outermost first; empty for plain columns
}

// maxRowBytes bounds the width of one fixed-width row.
const maxRowBytes = 1 << 28

// TypeOf returns the physical type of an Arrow type that is stored in one column; structs are taken for packed ones.
// errs.ErrUnsupported for other nested types, errs.ErrLimit for absurdly wide fixed-size lists.
func TypeOf(dt arrow.DataType) (Type, error) {
	switch dt := dt.(type) {
	case *arrow.NullType:
		return Type{Kind: KindNull}, nil
	case *arrow.StringType, *arrow.BinaryType:
		return Type{Kind: KindVar32}, nil
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return Type{Kind: KindVar64}, nil
	case *arrow.FixedSizeListType:
		item, err := TypeOf(dt.Elem())
		if err != nil {
			return Type{}, err
		}
		if item.Kind != KindFixed || item.Key > 0 || len(item.Fields) > 0 {
			return Type{}, fmt.Errorf("fixed-size list of %s: %w", dt.Elem(), errs.ErrUnsupported)
		}
		n := int(dt.Len())
		if hi, lo := bits.Mul64(uint64(n), uint64(item.RowBits())); n <= 0 || hi != 0 || lo > maxRowBytes*8 {
			return Type{}, fmt.Errorf("fixed-size list of %d × %s: %w", n, dt.Elem(), errs.ErrLimit)
		}
		return Type{Kind: KindFixed, Bits: item.Bits, Dims: append([]int{n}, item.Dims...)}, nil
	case *arrow.DictionaryType:
		return keyedType(dt)
	case *arrow.StructType:
		return packedType(dt)
	case arrow.FixedWidthDataType:
		if w := dt.BitWidth(); w == 1 || w > 0 && w%8 == 0 && w <= maxRowBytes*8 {
			return Type{Kind: KindFixed, Bits: w}, nil
		}
	}
	return Type{}, fmt.Errorf("arrow type %s: %w", dt, errs.ErrUnsupported)
}

// Items returns the number of items in a row: the product of Dims.
func (t Type) Items() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// RowBits returns the bits of one row of a fixed-width column.
func (t Type) RowBits() int { return t.Bits * t.Items() }

// Variable reports whether the column holds byte strings.
func (t Type) Variable() bool { return t.Kind == KindVar32 || t.Kind == KindVar64 }

// OffsetBits returns 32 or 64 for variable columns, 0 otherwise.
func (t Type) OffsetBits() int {
	switch t.Kind {
	case KindVar32:
		return 32
	case KindVar64:
		return 64
	}
	return 0
}

// corrupt reports bad page bytes. lance/file replaces the object name and adds the position.
func corrupt(format string, args ...any) error { return errs.Corrupt("page", -1, format, args...) }

// unsupported reports an encoding we do not read.
func unsupported(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errs.ErrUnsupported)...)
}
