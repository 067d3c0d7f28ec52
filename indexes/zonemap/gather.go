package zonemap

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// running is the summary of the zone that is being filled.
type running struct {
	rows              uint64
	nulls, nans, negs uint32
	has               bool // there is an ordinary value
	lo, hi            int64
	loText, hiText    []byte // owned
	loHead, hiHead    uint64 // their first bytes, see head
	aliased           bool   // loText and hiText may point into the batch that is being read
}

// reset empties r for the next zone; the texts' memory is not reused, they may have been given away.
func (r *running) reset() { *r = running{} }

// validity is a view of an array's validity bitmap.
type validity struct {
	bitmap []byte // nil: no NULLs
	off    int
}

func validityOf(a arrow.Array) validity {
	if a.NullN() == 0 {
		return validity{}
	}
	return validity{bitmap: a.NullBitmapBytes(), off: a.Data().Offset()}
}

// word returns the validity of cells [i, i+n), n <= 64, in its low bits.
func (v validity) word(i, n int) uint64 {
	mask := ^uint64(0) >> (64 - uint(n))
	if v.bitmap == nil {
		return mask
	}
	at, shift := (v.off+i)>>3, uint((v.off+i)&7)
	b := v.bitmap[at:]
	if len(b) >= 9 {
		w := binary.LittleEndian.Uint64(b) >> shift
		if shift != 0 {
			w |= uint64(b[8]) << (64 - shift)
		}
		return w & mask
	}
	var w uint64
	for k, x := range b {
		if pos := 8*k - int(shift); pos >= 0 {
			w |= uint64(x) << uint(pos)
		} else {
			w |= uint64(x) >> shift
		}
	}
	return w & mask
}

// add takes in cells [from, to) of a, whose validity is v.
func (r *running) add(a arrow.Array, v validity, from, to int) {
	r.rows += uint64(to - from)
	switch a := a.(type) {
	case *array.Boolean:
		r.addBools(a, v, from, to)
	case *array.Int8:
		addInts(r, a.Int8Values(), v, from, to)
	case *array.Int16:
		addInts(r, a.Int16Values(), v, from, to)
	case *array.Int32:
		addInts(r, a.Int32Values(), v, from, to)
	case *array.Int64:
		addInts(r, a.Int64Values(), v, from, to)
	case *array.Uint8:
		addInts(r, a.Uint8Values(), v, from, to)
	case *array.Uint16:
		addInts(r, a.Uint16Values(), v, from, to)
	case *array.Uint32:
		addInts(r, a.Uint32Values(), v, from, to)
	case *array.Uint64:
		r.addUints(a.Uint64Values(), v, from, to)
	case *array.Date32:
		addInts(r, a.Date32Values(), v, from, to)
	case *array.Date64:
		addInts(r, a.Date64Values(), v, from, to)
	case *array.Time32:
		addInts(r, a.Time32Values(), v, from, to)
	case *array.Time64:
		addInts(r, a.Time64Values(), v, from, to)
	case *array.Timestamp:
		addInts(r, a.TimestampValues(), v, from, to)
	case *array.Duration:
		addInts(r, a.DurationValues(), v, from, to)
	case *array.Float16:
		r.addCells(v, from, to, func(i int) { r.addFloat(float64(a.Value(i).Float32())) })
	case *array.Float32:
		addFloats(r, a.Float32Values(), v, from, to)
	case *array.Float64:
		addFloats(r, a.Float64Values(), v, from, to)
	case *array.String:
		addTexts(r, a.ValueOffsets(), a.ValueBytes(), v, from, to)
	case *array.LargeString:
		addTexts(r, a.ValueOffsets(), a.ValueBytes(), v, from, to)
	case *array.Binary:
		addTexts(r, a.ValueOffsets(), a.ValueBytes(), v, from, to)
	case *array.LargeBinary:
		addTexts(r, a.ValueOffsets(), a.ValueBytes(), v, from, to)
	case *array.Decimal128:
		r.addDecimals128(a.Values(), v, from, to)
	case *array.Decimal256:
		addDecimals(r, a.Values(), v, from, to, decimal256Key)
	case *array.Null:
		r.nulls += uint32(to - from)
	default:
		r.addCells(v, from, to, func(int) {})
	}
}

// keys takes in that the zone has ordinary values from lo to hi.
func (r *running) keys(lo, hi int64) {
	if !r.has {
		r.lo, r.hi, r.has = lo, hi, true
		return
	}
	r.lo, r.hi = min(r.lo, lo), max(r.hi, hi)
}

// extremes returns the least and the greatest valid value of [from, to) and the number of valid ones.
// Why blocks of 64: one look at a word of validity, then a loop without a test for NULL in almost all blocks.
func extremes[T arrow.IntType | arrow.UintType | ~int32 | ~int64](values []T, v validity, from, to int) (lo, hi T, n int) {
	if v.bitmap == nil {
		lo, hi = values[from], values[from]
		for _, x := range values[from:to] {
			lo, hi = min(lo, x), max(hi, x)
		}
		return lo, hi, to - from
	}
	for i := from; i < to; i += 64 {
		size := min(64, to-i)
		w := v.word(i, size)
		if w == 0 {
			continue
		}
		if n == 0 {
			lo = values[i+bits.TrailingZeros64(w)]
			hi = lo
		}
		n += bits.OnesCount64(w)
		block := values[i : i+size]
		if bits.OnesCount64(w) == size {
			for _, x := range block {
				lo, hi = min(lo, x), max(hi, x)
			}
			continue
		}
		for ; w != 0; w &= w - 1 {
			x := block[bits.TrailingZeros64(w)]
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return lo, hi, n
}

func addInts[T arrow.IntType | uint8 | uint16 | uint32 | ~int32 | ~int64](r *running, values []T, v validity, from, to int) {
	lo, hi, n := extremes(values, v, from, to)
	r.nulls += uint32(to - from - n)
	if n > 0 {
		r.keys(int64(lo), int64(hi))
	}
}

func (r *running) addUints(values []uint64, v validity, from, to int) {
	lo, hi, n := extremes(values, v, from, to)
	r.nulls += uint32(to - from - n)
	if n > 0 {
		r.keys(uintKey(lo), uintKey(hi))
	}
}

func (r *running) addBools(a *array.Boolean, v validity, from, to int) {
	values := validity{off: a.Data().Offset()}
	if buf := a.Data().Buffers()[1]; buf != nil {
		values.bitmap = buf.Bytes()
	}
	for i := from; i < to; i += 64 {
		size := min(64, to-i)
		valid := v.word(i, size)
		r.nulls += uint32(size - bits.OnesCount64(valid))
		set := values.word(i, size)
		if valid&set != 0 {
			r.keys(1, 1)
		}
		if valid&^set != 0 {
			r.keys(0, 0)
		}
	}
}

// addCells calls add for the valid cells of [from, to).
func (r *running) addCells(v validity, from, to int, add func(i int)) {
	for i := from; i < to; i += 64 {
		size := min(64, to-i)
		w := v.word(i, size)
		r.nulls += uint32(size - bits.OnesCount64(w))
		for ; w != 0; w &= w - 1 {
			add(i + bits.TrailingZeros64(w))
		}
	}
}

func (r *running) addFloat(x float64) {
	k := floatKey(x)
	if x == x {
		r.keys(k, k)
		return
	}
	r.nans++
	if k < 0 {
		r.negs++
	}
}

// addFloats compares keys, which order -0 below +0 as the total order does.
func addFloats[T float32 | float64](r *running, values []T, v validity, from, to int) {
	lo, hi := int64(keyPosInf), int64(keyNegInf)
	nans, negs := 0, 0
	for i := from; i < to; i += 64 {
		size := min(64, to-i)
		w := v.word(i, size)
		valid := bits.OnesCount64(w)
		r.nulls += uint32(size - valid)
		block := values[i : i+size]
		if valid == size {
			for _, x := range block {
				if x != x {
					nans++
					negs += int(uint64(floatKey(float64(x))) >> 63)
					continue
				}
				k := floatKey(float64(x))
				lo, hi = min(lo, k), max(hi, k)
			}
			continue
		}
		for ; w != 0; w &= w - 1 {
			r.addFloat(float64(block[bits.TrailingZeros64(w)]))
		}
	}
	r.nans += uint32(nans)
	r.negs += uint32(negs)
	if lo <= hi {
		r.keys(lo, hi)
	}
}

// head is the first eight bytes of a text as a number, zeros where it is shorter: heads that differ are in the texts'
// order.
func head(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var h uint64
	for i, x := range b {
		h |= uint64(x) << (56 - 8*i)
	}
	return h
}

// addTexts keeps the bounds as slices of the batch; own copies them at its end.
func addTexts[O int32 | int64](r *running, offsets []O, data []byte, v validity, from, to int) {
	if len(offsets) == 0 {
		return
	}
	base := offsets[0] // data begins at the first cell of the array
	one := func(i int) {
		x := data[offsets[i]-base : offsets[i+1]-base]
		h := head(x)
		if r.has && h > r.loHead && h < r.hiHead {
			return
		}
		r.text(x, h)
	}
	if v.bitmap == nil {
		for i := from; i < to; i++ {
			one(i)
		}
		return
	}
	r.addCells(v, from, to, one)
}

// text takes in one value that may be a new bound.
func (r *running) text(x []byte, h uint64) {
	if !r.has {
		r.loText, r.hiText, r.loHead, r.hiHead, r.has, r.aliased = x, x, h, h, true, true
		return
	}
	if h < r.loHead || h == r.loHead && bytes.Compare(x, r.loText) < 0 {
		r.loText, r.loHead, r.aliased = x, h, true
	}
	if h > r.hiHead || h == r.hiHead && bytes.Compare(x, r.hiText) > 0 {
		r.hiText, r.hiHead, r.aliased = x, h, true
	}
}

// own copies what still points into a batch.
func (r *running) own() {
	if r.aliased {
		r.loText, r.hiText, r.aliased = bytes.Clone(r.loText), bytes.Clone(r.hiText), false
	}
}

// addDecimals128 is addDecimals with the comparison written out, which takes half the time.
func (r *running) addDecimals128(values []decimal128.Num, v validity, from, to int) {
	var loHigh, hiHigh int64
	var loLow, hiLow uint64
	n := 0
	for i := from; i < to; i += 64 {
		size := min(64, to-i)
		w := v.word(i, size)
		r.nulls += uint32(size - bits.OnesCount64(w))
		for ; w != 0; w &= w - 1 {
			x := values[i+bits.TrailingZeros64(w)]
			high, low := x.HighBits(), x.LowBits()
			if n == 0 {
				loHigh, loLow, hiHigh, hiLow = high, low, high, low
			}
			n++
			if high < loHigh || high == loHigh && low < loLow {
				loHigh, loLow = high, low
			}
			if high > hiHigh || high == hiHigh && low > hiLow {
				hiHigh, hiLow = high, low
			}
		}
	}
	if n > 0 {
		r.ownedTexts(decimal128Key(decimal128.New(loHigh, loLow)), decimal128Key(decimal128.New(hiHigh, hiLow)))
	}
}

// ownedTexts takes in bounds that do not point into a batch.
func (r *running) ownedTexts(lo, hi string) {
	for _, x := range []string{lo, hi} {
		r.text([]byte(x), head([]byte(x)))
	}
	r.aliased = false
}

func addDecimals[T interface{ Cmp(T) int }](r *running, values []T, v validity, from, to int, key func(T) string) {
	var lo, hi T
	n := 0
	one := func(i int) {
		x := values[i]
		if n == 0 {
			lo, hi = x, x
		} else if x.Cmp(lo) < 0 {
			lo = x
		} else if x.Cmp(hi) > 0 {
			hi = x
		}
		n++
	}
	r.addCells(v, from, to, one)
	if n > 0 {
		r.ownedTexts(key(lo), key(hi))
	}
}
