package encoding

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// Arrow dictionary columns. In memory a Vector holds their values one by one: each page has a dictionary of its own, and
// batches reach over pages. NewArray makes a dictionary of what a batch holds.

// keyedType is the physical type of an Arrow dictionary type.
func keyedType(dt *arrow.DictionaryType) (Type, error) {
	t, err := TypeOf(dt.ValueType)
	if err != nil {
		return Type{}, err
	}
	index, ok := dt.IndexType.(arrow.FixedWidthDataType)
	if !ok || len(t.Dims) > 0 || len(t.Fields) > 0 || t.Key > 0 || t.Kind != KindVar32 && t.Kind != KindVar64 && (t.Kind != KindFixed || t.Bits%8 != 0) {
		return Type{}, unsupported("dictionary of %s", dt.ValueType)
	}
	t.Key = index.BitWidth()
	return t, nil
}

// plain is the type of the values alone.
func (t Type) plain() Type {
	t.Key = 0
	return t
}

// value returns the bytes of row i of a column of whole bytes.
func (v *Vector) value(i int) []byte {
	if v.typ.Variable() {
		return v.stringValue(i)
	}
	w := v.typ.RowBits() / 8
	return v.data.bytes()[i*w : (i+1)*w]
}

// keys splits a vector into its distinct values and, per row, which one it is (0 in null rows). errs.ErrLimit if there
// are more than limit.
func (v *Vector) keys(limit int) (items *Vector, keys []uint32, err error) {
	items = NewVector(v.typ.plain(), v.mem)
	keys = make([]uint32, v.n)
	seen := make(map[string]uint32)
	valid := v.valid.bytes()
	for i := range keys {
		if v.nulls > 0 && !getBit(valid, i) {
			continue
		}
		b := v.value(i)
		at, ok := seen[string(b)]
		if !ok {
			at = uint32(len(seen))
			if len(seen) >= limit {
				items.Release()
				return nil, nil, fmt.Errorf("more than %d distinct values: %w", limit, errs.ErrLimit)
			}
			if items.typ.Variable() {
				if err := items.appendString(b); err != nil {
					items.Release()
					return nil, nil, err
				}
			} else {
				items.appendFixed(b)
			}
			items.addValid(1)
			seen[string(b)] = at
		}
		keys[i] = at
	}
	return items, keys, nil
}

// keyLimit is how many items indices of an integer type can tell apart.
func keyLimit(bits int, signed bool) int {
	if signed {
		bits--
	}
	return 1 << min(bits, 31)
}

// keyedData builds the data of a dictionary array.
func (v *Vector) keyedData(dt *arrow.DictionaryType) (arrow.ArrayData, error) {
	items, keys, err := v.keys(keyLimit(v.typ.Key, arrow.IsSignedInteger(dt.IndexType.ID())))
	if err != nil {
		return nil, err
	}
	defer items.Release()
	dict, err := items.NewArray(dt.ValueType)
	if err != nil {
		return nil, err
	}
	defer dict.Release()
	var store store
	defer store.release()
	putKeys(store.grow(v.mem, len(keys)*v.typ.Key/8), keys, v.typ.Key/8)
	rows, nulls := v.n, v.nulls
	valid := v.takeValid(&v.valid, nulls)
	if valid != nil {
		defer valid.Release()
	}
	data, ok := dict.Data().(*array.Data)
	if !ok {
		return nil, fmt.Errorf("dictionary items: %w", errs.ErrInvalid)
	}
	out := array.NewDataWithDictionary(dt, rows, []*memory.Buffer{valid, store.buf}, nulls, 0, data)
	v.Release()
	return out, nil
}

func putKeys(dst []byte, keys []uint32, w int) {
	clear(dst)
	for i, k := range keys {
		for j := range min(w, 4) {
			dst[i*w+j] = byte(k >> (8 * j))
		}
	}
}

// dictionaryOf returns the dictionary of an array, nil if it has none.
func dictionaryOf(data arrow.ArrayData) arrow.ArrayData {
	if d, ok := data.Dictionary().(*array.Data); ok && d != nil { // Why: an absent one is a typed nil
		return d
	}
	return nil
}

// appendKeyed appends rows of a dictionary array: the values that the indices name.
func (v *Vector) appendKeyed(data arrow.ArrayData, from, to int) error {
	dict := dictionaryOf(data)
	if dict == nil {
		return fmt.Errorf("dictionary array without a dictionary: %w", errs.ErrInvalid)
	}
	items := array.MakeFromData(dict)
	defer items.Release()
	w := v.typ.Key / 8
	b := bufferOf(data, 1)
	valid, nulls := validityOfArray(data, data.Offset()+from, to-from)
	for i := from; i < to; i++ {
		at := data.Offset() + i
		if nulls > 0 && !getBit(valid, at) {
			if err := v.AppendNulls(1); err != nil {
				return err
			}
			continue
		}
		if len(b) < (at+1)*w {
			return fmt.Errorf("dictionary array of %d bytes of indices: %w", len(b), errs.ErrInvalid)
		}
		k := uintN(b[at*w:], w)
		if k >= uint64(items.Len()) {
			return fmt.Errorf("dictionary index %d of %d: %w", k, items.Len(), errs.ErrInvalid)
		}
		if err := v.appendPlainArray(items.Data(), int(k), int(k)+1); err != nil {
			return err
		}
	}
	return nil
}

// keyedBytes is about the size of rows of a dictionary array.
func keyedBytes(data arrow.ArrayData, t Type, rows int) int {
	dict := dictionaryOf(data)
	if dict == nil || dict.Len() == 0 {
		return rows
	}
	items := array.MakeFromData(dict)
	defer items.Release()
	return rows * (1 + t.plain().ArrayBytes(items, 0, items.Len())/items.Len())
}

// keyedDictionary is the dictionary of a page of an Arrow dictionary column, which always has one: the reference does
// not read such columns from plain pages. Indices have the width of the key type.
func keyedDictionary(v *Vector) (*dictionary, error) {
	items, keys, err := v.keys(keyLimit(v.typ.Key, false))
	if err != nil {
		return nil, err
	}
	if items.n == 0 { // only nulls, which carry index 0
		items.growZeroOrEmpty()
	}
	if uint64(items.n) > math.MaxUint32 {
		return nil, errNoRows()
	}
	d := &dictionary{items: items, indices: NewVector(Type{Kind: KindFixed, Bits: v.typ.Key}, v.mem)}
	putKeys(d.indices.growFixed(v.n), keys, v.typ.Key/8)
	d.indices.n, d.indices.nulls, d.indices.valid = v.n, v.nulls, v.valid
	return d, nil
}

// growZeroOrEmpty appends one row, zero or empty.
func (v *Vector) growZeroOrEmpty() {
	if v.typ.Variable() {
		v.closeRow()
	} else {
		v.growZero(1)
	}
	v.addValid(1)
}

// keyedPage writes a page of an Arrow dictionary column.
func (w *miniWriter) keyedPage(l *pb.MiniBlockLayout, o PageOptions) ([]byte, error) {
	d, err := keyedDictionary(w.v)
	if err != nil {
		return nil, err
	}
	defer d.release()
	var items []byte
	if l.Dictionary, items, err = d.encodeItems(o.Large, Hints{}); err != nil {
		return nil, err
	}
	l.NumDictionaryItems = uint64(d.items.n)
	w.v = d.indices
	w.writeFixed(l)
	return items, nil
}
