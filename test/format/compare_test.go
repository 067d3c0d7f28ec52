package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// diffArrays says what differs between two arrays, "" if nothing does. Types must be equal, floats by their bits, and
// what lies under nulls does not count.
func diffArrays(want, got arrow.Array) string {
	w, g := want.Data(), got.Data()
	if s := diffTypes(storage(w.DataType()), storage(g.DataType())); s != "" {
		return s
	}
	if w.Len() != g.Len() {
		return fmt.Sprintf("%d values, want %d", g.Len(), w.Len())
	}
	return diffRange(w, g, w.Offset(), g.Offset(), w.Len())
}

func storage(t arrow.DataType) arrow.DataType {
	if ext, ok := t.(arrow.ExtensionType); ok {
		return storage(ext.StorageType())
	}
	return t
}

// diffTypes compares types with the names and nullability of inner fields, as far as a schema of Lance keeps them: items
// of fixed-size lists of plain values and the parts of maps have none.
func diffTypes(w, g arrow.DataType) string {
	w, g = storage(w), storage(g)
	bad := fmt.Sprintf("type %s, want %s", g, w)
	if w.ID() != g.ID() {
		return bad
	}
	field := func(w, g arrow.Field) string {
		if w.Name != g.Name || w.Nullable != g.Nullable {
			return fmt.Sprintf("inner field %q nullable %v, want %q nullable %v", g.Name, g.Nullable, w.Name, w.Nullable)
		}
		return diffTypes(w.Type, g.Type)
	}
	switch w := w.(type) {
	case *arrow.StructType:
		g := g.(*arrow.StructType)
		if w.NumFields() != g.NumFields() {
			return bad
		}
		for i := range w.NumFields() {
			if s := field(w.Field(i), g.Field(i)); s != "" {
				return s
			}
		}
		return ""
	case *arrow.MapType:
		g := g.(*arrow.MapType)
		if s := diffTypes(w.KeyType(), g.KeyType()); s != "" {
			return s
		}
		return diffTypes(w.ItemType(), g.ItemType())
	case *arrow.FixedSizeListType:
		g := g.(*arrow.FixedSizeListType)
		if w.Len() != g.Len() {
			return bad
		}
		return diffTypes(w.Elem(), g.Elem())
	case arrow.ListLikeType:
		return field(w.ElemField(), g.(arrow.ListLikeType).ElemField())
	}
	if !arrow.TypeEqual(w, g) {
		return bad
	}
	return ""
}

// validity reads the nulls of array data.
type validity struct{ bits []byte }

func validityOf(d arrow.ArrayData) validity {
	b := d.Buffers()
	if d.NullN() == 0 || len(b) == 0 || b[0] == nil {
		return validity{}
	}
	return validity{b[0].Bytes()}
}

func (v validity) at(i int) bool { return v.bits == nil || bitutil.BitIsSet(v.bits, i) }

// diffRange compares n values from the physical positions wo and so on, which count the offset of the data.
func diffRange(w, g arrow.ArrayData, wo, gOff, n int) string {
	if n == 0 || storage(w.DataType()).ID() == arrow.NULL {
		return ""
	}
	wv, gv := validityOf(w), validityOf(g)
	if wv.bits == nil && gv.bits == nil {
		return diffValues(w, g, wo, gOff, n)
	}
	for i := 0; i < n; {
		valid := wv.at(wo + i)
		if gv.at(gOff+i) != valid {
			return fmt.Sprintf("row %d: null is %v, want %v", wo+i-w.Offset(), valid, !valid)
		}
		run := 1
		for i+run < n && wv.at(wo+i+run) == valid && gv.at(gOff+i+run) == valid {
			run++
		}
		if valid {
			if s := diffValues(w, g, wo+i, gOff+i, run); s != "" {
				return s
			}
		}
		i += run
	}
	return ""
}

// diffValues compares n values that are not null.
func diffValues(w, g arrow.ArrayData, wo, gOff, n int) string {
	switch t := storage(w.DataType()).(type) {
	case *arrow.StructType:
		for i, c := range w.Children() {
			gc := g.Children()[i]
			if s := diffRange(c, gc, c.Offset()+wo, gc.Offset()+gOff, n); s != "" {
				return t.Field(i).Name + ": " + s
			}
		}
		return ""
	case *arrow.FixedSizeListType:
		size := int(t.Len())
		return diffItems(w, g, wo*size, gOff*size, n*size)
	case *arrow.DictionaryType:
		return diffDictionary(w, g, wo, gOff, n)
	case arrow.ListLikeType:
		a, b := offsets(w, wo, n), offsets(g, gOff, n)
		if s := diffLengths(a, b, n, wo-w.Offset()); s != "" {
			return s
		}
		return diffItems(w, g, int(a(0)), int(b(0)), int(a(n)-a(0)))
	case arrow.FixedWidthDataType:
		return diffFixed(w, g, wo, gOff, n, t.BitWidth())
	case arrow.BinaryDataType:
		a, b := offsets(w, wo, n), offsets(g, gOff, n)
		if s := diffLengths(a, b, n, wo-w.Offset()); s != "" {
			return s
		}
		x, y := bufferBytes(w, 2)[a(0):a(n)], bufferBytes(g, 2)[b(0):b(n)]
		if bytes.Equal(x, y) {
			return ""
		}
		for i := range n {
			x, y := bufferBytes(w, 2)[a(i):a(i+1)], bufferBytes(g, 2)[b(i):b(i+1)]
			if !bytes.Equal(x, y) {
				return fmt.Sprintf("row %d: %.60q, want %.60q", wo-w.Offset()+i, y, x)
			}
		}
		return "bytes differ"
	default:
		return fmt.Sprintf("cannot compare type %s", t)
	}
}

func diffItems(w, g arrow.ArrayData, wo, gOff, n int) string {
	a, b := w.Children()[0], g.Children()[0]
	if s := diffRange(a, b, a.Offset()+wo, b.Offset()+gOff, n); s != "" {
		return "item " + s
	}
	return ""
}

func bufferBytes(d arrow.ArrayData, i int) []byte {
	if b := d.Buffers()[i]; b != nil {
		return b.Bytes()
	}
	return nil
}

// offsets returns the n+1 offsets from position first.
func offsets(d arrow.ArrayData, first, n int) func(i int) int64 {
	raw := bufferBytes(d, 1)
	if len(raw) == 0 { // arrays without values may have none
		return func(int) int64 { return 0 }
	}
	switch storage(d.DataType()).ID() {
	case arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LARGE_LIST:
		raw = raw[8*first : 8*(first+n+1)]
		return func(i int) int64 { return int64(binary.LittleEndian.Uint64(raw[8*i:])) }
	}
	raw = raw[4*first : 4*(first+n+1)]
	return func(i int) int64 { return int64(int32(binary.LittleEndian.Uint32(raw[4*i:]))) }
}

// diffLengths compares the lengths of n variable values; row numbers the first.
func diffLengths(a, b func(int) int64, n, row int) string {
	for i := range n {
		if x, y := a(i+1)-a(i), b(i+1)-b(i); x != y {
			return fmt.Sprintf("row %d: length %d, want %d", row+i, y, x)
		}
	}
	return ""
}

func diffFixed(w, g arrow.ArrayData, wo, gOff, n, bits int) string {
	x, y := bufferBytes(w, 1), bufferBytes(g, 1)
	if bits == 1 {
		for i := range n {
			if bitutil.BitIsSet(x, wo+i) != bitutil.BitIsSet(y, gOff+i) {
				return fmt.Sprintf("row %d: %v, want %v", wo-w.Offset()+i, bitutil.BitIsSet(y, gOff+i), bitutil.BitIsSet(x, wo+i))
			}
		}
		return ""
	}
	width := bits / 8
	x, y = x[wo*width:(wo+n)*width], y[gOff*width:(gOff+n)*width]
	if bytes.Equal(x, y) {
		return ""
	}
	for i := range n {
		if a, b := x[i*width:(i+1)*width], y[i*width:(i+1)*width]; !bytes.Equal(a, b) {
			return fmt.Sprintf("row %d: bytes %.40x, want %.40x", wo-w.Offset()+i, b, a)
		}
	}
	return ""
}

// diffDictionary compares the values that the indices name, each pair of indices once.
func diffDictionary(w, g arrow.ArrayData, wo, gOff, n int) string {
	x, y := array.NewDictionaryData(w), array.NewDictionaryData(g)
	defer x.Release()
	defer y.Release()
	a, b := x.Dictionary().Data(), y.Dictionary().Data()
	equal := map[[2]int]string{}
	for i := range n {
		pair := [2]int{x.GetValueIndex(wo - w.Offset() + i), y.GetValueIndex(gOff - g.Offset() + i)}
		s, seen := equal[pair]
		if !seen {
			if pair[1] >= b.Len() {
				return fmt.Sprintf("row %d: index %d of %d", wo-w.Offset()+i, pair[1], b.Len())
			}
			s = diffRange(a, b, a.Offset()+pair[0], b.Offset()+pair[1], 1)
			equal[pair] = s
		}
		if s != "" {
			return fmt.Sprintf("row %d: dictionary %s", wo-w.Offset()+i, s)
		}
	}
	return ""
}

// TestDiffArrays: the judge itself sees each kind of difference, and through slices.
func TestDiffArrays(t *testing.T) {
	build := func(typ arrow.DataType, text string) arrow.Array {
		a, _, err := array.FromJSON(memory.DefaultAllocator, typ, bytes.NewReader([]byte(text)))
		require.NoError(t, err)
		return a
	}
	list := arrow.ListOf(arrow.PrimitiveTypes.Int16)
	structs := arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, arrow.Field{Name: "l", Type: list, Nullable: true})
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	cases := []struct {
		typ  arrow.DataType
		text string   // rows 1.. are compared
		bad  []string // the same with something else
	}{
		{arrow.PrimitiveTypes.Int32, `[1,2,null,3]`, []string{`[1,2,2,3]`, `[1,2,null,4]`, `[1,null,null,3]`, `[1,2,null]`}},
		{arrow.FixedWidthTypes.Boolean, `[true,false,null,true]`, []string{`[true,false,null,false]`}},
		{arrow.BinaryTypes.String, `["a","bb",null,""]`, []string{`["a","bc",null,""]`, `["a","b",null,"b"]`, `["a","bb",null,null]`}},
		{arrow.BinaryTypes.LargeBinary, `["aa==","bbbb",null]`, []string{`["aa==","bbbc",null]`}},
		{list, `[[1],[1,2],null,[],[3,null]]`, []string{`[[1],[1,2],[],[],[3,null]]`, `[[1],[1],null,[2],[3,null]]`, `[[1],[1,2],null,[],[3,4]]`}},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8), `[[1,2],[3,null],null]`, []string{`[[1,2],[3,4],null]`, `[[1,2],[3,null],[5,6]]`}},
		{structs, `[{"x":1,"l":[1]},{"x":2,"l":[2,3]},null,{"x":null,"l":null}]`,
			[]string{`[{"x":1,"l":[1]},{"x":2,"l":[2,4]},null,{"x":null,"l":null}]`, `[{"x":1,"l":[1]},{"x":2,"l":[2,3]},null,{"x":null,"l":[]}]`}},
		{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8), `[[],[{"key":"a","value":1}],null]`, []string{`[[],[{"key":"b","value":1}],null]`}},
		{dict, `["a","b",null,"a"]`, []string{`["a","b",null,"b"]`}},
	}
	tail := func(a arrow.Array) arrow.Array { return array.NewSlice(a, 1, int64(a.Len())) }
	for _, c := range cases {
		w := build(c.typ, c.text)
		require.Empty(t, diffArrays(w, build(c.typ, c.text)))
		require.Empty(t, diffArrays(tail(tail(w)), tail(tail(build(c.typ, c.text)))))
		for _, bad := range c.bad {
			require.NotEmpty(t, diffArrays(tail(w), tail(build(c.typ, bad))), "%s: %s against %s", c.typ, bad, c.text)
		}
	}
	nan := func(bits uint32) arrow.Array {
		raw := binary.LittleEndian.AppendUint32(nil, bits)
		return array.MakeFromData(array.NewData(arrow.PrimitiveTypes.Float32, 1, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0))
	}
	require.Empty(t, diffArrays(nan(0x7fc00000), nan(0x7fc00000)))
	require.NotEmpty(t, diffArrays(nan(0x7fc00000), nan(0x7fc00001)))
	require.NotEmpty(t, diffArrays(nan(0), nan(0x80000000)))
	require.NotEmpty(t, diffArrays(nan(0), build(arrow.PrimitiveTypes.Int32, `[0]`)))
}
