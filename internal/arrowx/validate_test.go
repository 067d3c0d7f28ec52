package arrowx_test

import (
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
)

func stringReader(s string) io.Reader { return strings.NewReader(s) }

func buf(n int) *memory.Buffer { return memory.NewBufferBytes(make([]byte, n)) }

func int32s(v ...int32) *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(v))
}

func TestValidateRefuses(t *testing.T) {
	child := array.NewData(arrow.PrimitiveTypes.Int64, 3, []*memory.Buffer{nil, buf(24)}, nil, 0, 0)
	short := array.NewData(arrow.PrimitiveTypes.Int64, 3, []*memory.Buffer{nil, buf(23)}, nil, 0, 0)
	list := arrow.ListOf(arrow.PrimitiveTypes.Int64)
	pair := arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int64)
	of := func(t arrow.DataType, n, nulls int, children []arrow.ArrayData, bufs ...*memory.Buffer) arrow.ArrayData {
		return array.NewData(t, n, bufs, children, nulls, 0)
	}
	for name, d := range map[string]arrow.ArrayData{
		"values missing":        of(arrow.PrimitiveTypes.Int64, 1, 0, nil, nil, nil),
		"values short":          short,
		"bits short":            of(arrow.FixedWidthTypes.Boolean, 9, 0, nil, nil, buf(1)),
		"bitmap short":          of(arrow.PrimitiveTypes.Int8, 9, 9, nil, buf(1), buf(9)),
		"nulls without bitmap":  of(arrow.PrimitiveTypes.Int8, 1, 1, nil, nil, buf(1)),
		"nulls miscounted":      of(arrow.PrimitiveTypes.Int8, 2, 1, nil, buf(1), buf(2)),
		"offsets short":         of(arrow.BinaryTypes.String, 2, 0, nil, nil, int32s(0, 0), buf(0)),
		"offsets fall":          of(arrow.BinaryTypes.String, 2, 0, nil, nil, int32s(0, 2, 1), buf(2)),
		"offset negative":       of(arrow.BinaryTypes.Binary, 1, 0, nil, nil, int32s(-1, 1), buf(2)),
		"offsets beyond values": of(arrow.BinaryTypes.Binary, 1, 0, nil, nil, int32s(0, 3), buf(2)),
		"list beyond child":     of(list, 1, 0, []arrow.ArrayData{child}, nil, int32s(0, 4)),
		"list of bad child":     of(list, 1, 0, []arrow.ArrayData{short}, nil, int32s(0, 1)),
		"list without child":    of(list, 1, 0, nil, nil, int32s(0, 1)),
		"fixed list short":      of(pair, 2, 0, []arrow.ArrayData{child}, nil),
		"decimal scale":         of(&arrow.Decimal128Type{Precision: 3, Scale: 1 << 20}, 0, 0, nil, nil, buf(0)),
		"decimal precision":     of(&arrow.Decimal256Type{Precision: 99}, 0, 0, nil, nil, buf(0)),
		"struct without child":  of(arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64}), 1, 0, nil, nil),
	} {
		require.ErrorIs(t, arrowx.Validate(d), errs.ErrInvalid, name)
	}
	require.NoError(t, arrowx.Validate(of(list, 1, 0, []arrow.ArrayData{child}, nil, int32s(0, 3))))
	require.NoError(t, arrowx.Validate(of(arrow.BinaryTypes.String, 0, 0, nil, nil, nil, nil)))
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	require.ErrorIs(t, arrowx.Validate(of(dict, 0, 0, nil, nil, buf(0))), errs.ErrUnsupported)
}
