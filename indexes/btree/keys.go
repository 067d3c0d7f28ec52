package btree

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
)

// Keys is a batch of keys prepared for look-ups, in ascending order. It is immutable, so one may be looked up in any
// number of segments at once.
type Keys struct {
	typ  arrow.DataType
	col  column
	rows []int32 // the place of each key in what Keys was made of; nil: the same place
}

// NewKeys prepares the values of an array, in any order and with repetitions; NULLs match nothing. errs.ErrUnsupported
// for floats, whose equality is not that of the order (use Search), and for types without an order.
func NewKeys(a arrow.Array) (*Keys, error) {
	if id := a.DataType().ID(); id == arrow.FLOAT32 || id == arrow.FLOAT64 {
		return nil, fmt.Errorf("keys of type %s: %w", a.DataType(), errs.ErrUnsupported)
	}
	return keysOf(a)
}

func keysOf(a arrow.Array) (*Keys, error) {
	c, err := newColumn(a.DataType())
	if err != nil {
		return nil, err
	}
	k := &Keys{typ: a.DataType(), col: c}
	n, nulls := a.Len(), a.NullN()
	if n == 0 {
		return k, nil
	}
	if nulls == 0 {
		if err := k.col.encode(a, 0, n); err != nil {
			return nil, err
		}
		return k.sorted()
	}
	for i := range n {
		if a.IsNull(i) {
			continue
		}
		if err := k.col.encode(a, i, i+1); err != nil {
			return nil, err
		}
		k.rows = append(k.rows, int32(i))
	}
	return k.sorted()
}

// KeysOfTuples prepares primary keys in their tuple encoding for indexes over values of type t: the type of the key's
// only column, or Binary, of tuples, for a composite key. For a single column of another type than t, or a type that
// tuples cannot have, errs.ErrInvalid. composite says which of the two Binary means.
func KeysOfTuples(t arrow.DataType, composite bool, keys []rowkey.Key) (*Keys, error) {
	c, err := newColumn(t)
	if err != nil {
		return nil, err
	}
	if composite && t.ID() != arrow.BINARY || !composite && !rowkey.Encodable(t) {
		return nil, fmt.Errorf("tuples as keys of type %s: %w", t, errs.ErrInvalid)
	}
	k := &Keys{typ: t, col: c}
	for i, tuple := range keys {
		v, null, ok := key{wide: []byte(tuple)}, false, true
		if !composite {
			v, null, ok = untuple(t, tuple)
		}
		if !ok {
			return nil, fmt.Errorf("tuple %x as a key of type %s: %w", string(tuple), t, errs.ErrInvalid)
		}
		if null {
			if k.rows == nil {
				k.rows = identity(i)
			}
			continue
		}
		if k.rows != nil {
			k.rows = append(k.rows, int32(i))
		}
		if err := k.col.add(v); err != nil {
			return nil, err
		}
	}
	return k.sorted()
}

// untuple turns a tuple of one column into the comparable form, which is the same number for fixed-width types.
func untuple(t arrow.DataType, tuple rowkey.Key) (k key, null, ok bool) {
	if len(tuple) == 0 || tuple[0] > 1 || tuple[0] == 0 && len(tuple) > 1 {
		return key{}, false, false
	}
	if tuple[0] == 0 {
		return key{}, true, true
	}
	body := []byte(tuple[1:])
	switch t.ID() {
	case arrow.BOOL:
		if len(body) != 1 || body[0] > 1 {
			return key{}, false, false
		}
		return key{fixed: uint64(body[0])}, false, true
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		b, ok := unescape(body)
		if f, fixed := t.(*arrow.FixedSizeBinaryType); fixed && len(b) != f.ByteWidth {
			ok = false
		}
		return key{wide: b}, false, ok
	}
	if len(body) != 8 {
		return key{}, false, false
	}
	return key{fixed: binary.BigEndian.Uint64(body)}, false, true
}

// unescape undoes the encoding of byte strings in tuples, in place.
func unescape(b []byte) ([]byte, bool) {
	out := b[:0]
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			out = append(out, b[i])
			continue
		}
		i++
		switch {
		case b[i] == 0xff:
			out = append(out, 0)
		case b[i] == 0:
			return out, i == len(b)-1
		default:
			return nil, false
		}
	}
	return nil, false
}

func identity(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// sorted puts the keys in order.
func (k *Keys) sorted() (*Keys, error) {
	inOrder := true
	for i := 1; i < k.col.len() && inOrder; i++ {
		inOrder = k.col.compare(i, k.col.key(i-1)) >= 0
	}
	if inOrder {
		return k, nil
	}
	out := &Keys{typ: k.typ, col: column{wide: k.col.wide}, rows: make([]int32, 0, k.col.len())}
	for _, item := range sortColumn(&k.col) {
		if err := out.col.add(k.col.key(int(item.row))); err != nil {
			return nil, err
		}
		out.rows = append(out.rows, k.row(int(item.row)))
	}
	return out, nil
}

func (k *Keys) row(i int) int32 {
	if k.rows == nil {
		return int32(i)
	}
	return k.rows[i]
}

// Len returns the number of keys that are not NULL.
func (k *Keys) Len() int { return k.col.len() }

// Only returns the keys whose place (in what Keys was made of) is in rows, ascending places, for further look-ups of
// those that earlier ones did not find.
func (k *Keys) Only(rows []int32) (*Keys, error) {
	out := &Keys{typ: k.typ, col: column{wide: k.col.wide}, rows: make([]int32, 0, len(rows))}
	for i := range k.col.len() {
		if _, found := slices.BinarySearch(rows, k.row(i)); !found {
			continue
		}
		if err := out.col.add(k.col.key(i)); err != nil {
			return nil, err
		}
		out.rows = append(out.rows, k.row(i))
	}
	return out, nil
}
