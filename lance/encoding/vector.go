package encoding

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/errs"
)

// Vector is a growing column of one physical type: decoders append to it on reading, pages are cut from it on writing.
// It is not safe for concurrent use. Release frees it; NewArray hands its memory over.
type Vector struct {
	typ     Type
	mem     memory.Allocator
	n       int   // rows
	nulls   int   // rows that are null
	valid   store // validity of rows, 1 = valid; empty while nulls == 0
	data    store // fixed: items; variable: bytes of all rows
	offs    store // variable: n+1 offsets of OffsetBits each, the first is 0
	items   []level
	members []*Vector // KindPacked: one per member, all of n rows
}

// level is the validity of the items of one fixed-size list level.
type level struct {
	perRow int   // items of this level in one row
	nulls  int   // items that are null
	valid  store // 1 = valid; empty while nulls == 0
}

// store is a growing byte buffer from an Arrow allocator.
type store struct {
	buf *memory.Buffer
}

// len returns the bytes in use.
func (s *store) len() int {
	if s.buf == nil {
		return 0
	}
	return s.buf.Len()
}

// bytes returns the bytes in use, valid until the next growth.
func (s *store) bytes() []byte {
	if s.buf == nil {
		return nil
	}
	return s.buf.Bytes()
}

// reserve makes room for n more bytes.
func (s *store) reserve(mem memory.Allocator, n int) {
	if s.buf == nil {
		s.buf = memory.NewResizableBuffer(mem)
	}
	if need := s.buf.Len() + n; need > s.buf.Cap() {
		s.buf.Reserve(max(need, 2*s.buf.Cap()))
	}
}

// grow appends n bytes of arbitrary content and returns them.
func (s *store) grow(mem memory.Allocator, n int) []byte {
	s.reserve(mem, n)
	at := s.buf.Len()
	s.buf.ResizeNoShrink(at + n)
	return s.buf.Bytes()[at:]
}

func (s *store) reset() {
	if s.buf != nil {
		s.buf.ResizeNoShrink(0)
	}
}

func (s *store) release() {
	if s.buf != nil {
		s.buf.Release()
		s.buf = nil
	}
}

// take returns the buffer and gives up the reference; nil if nothing was stored.
func (s *store) take() *memory.Buffer {
	b := s.buf
	s.buf = nil
	return b
}

// NewVector returns an empty vector. mem nil means the Go allocator.
func NewVector(t Type, mem memory.Allocator) *Vector {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	v := &Vector{typ: t, mem: mem}
	if t.Kind == KindPacked {
		for _, m := range t.Fields {
			v.members = append(v.members, NewVector(m, mem))
		}
	}
	perRow := 1
	for _, d := range t.Dims {
		perRow *= d
		v.items = append(v.items, level{perRow: perRow})
	}
	return v
}

// Type returns the physical type.
func (v *Vector) Type() Type { return v.typ }

// Len returns the number of rows.
func (v *Vector) Len() int { return v.n }

// Nulls returns the number of null rows.
func (v *Vector) Nulls() int { return v.nulls }

// Bytes returns the unencoded size of what the vector holds.
func (v *Vector) Bytes() int {
	n := v.valid.len() + v.data.len() + v.offs.len()
	for _, m := range v.members {
		n += m.Bytes()
	}
	for i := range v.items {
		n += v.items[i].valid.len()
	}
	return n
}

// Release frees the memory. The vector is empty afterwards and may be used again.
func (v *Vector) Release() {
	for _, m := range v.members {
		m.Release()
	}
	v.valid.release()
	v.data.release()
	v.offs.release()
	for i := range v.items {
		v.items[i].valid.release()
		v.items[i].nulls = 0
	}
	v.n, v.nulls = 0, 0
}

// Reset empties the vector and keeps its memory for reuse.
func (v *Vector) Reset() {
	for _, m := range v.members {
		m.Reset()
	}
	v.valid.reset()
	v.data.reset()
	v.offs.reset()
	for i := range v.items {
		v.items[i].valid.reset()
		v.items[i].nulls = 0
	}
	v.n, v.nulls = 0, 0
}

// maxReserve bounds what Reserve allocates ahead of the data.
const maxReserve = 64 << 20

// Reserve makes room for rows more rows (for variable columns: their offsets), within reason.
func (v *Vector) Reserve(rows int) {
	bits := v.typ.RowBits()
	s := &v.data
	if v.typ.Variable() {
		bits, s = v.typ.OffsetBits(), &v.offs
		rows++
	}
	if v.typ.Kind != KindNull && bits > 0 && rows <= maxReserve/bits {
		s.reserve(v.mem, bitmapBytes(rows*bits))
	}
}

// DataBytes returns the bytes of the strings of a variable-width vector, 0 for others.
func (v *Vector) DataBytes() int {
	if !v.typ.Variable() {
		return 0
	}
	return v.data.len()
}

// ReserveData makes room for n more bytes of a variable-width column, within reason.
func (v *Vector) ReserveData(n uint64) {
	if v.typ.Variable() && n > 0 && n <= maxReserve {
		v.data.reserve(v.mem, int(n))
	}
}

// growFixed appends rows whole-byte rows of arbitrary content and returns their bytes. The caller fills them and
// calls addValid (or another validity append) for the same rows.
func (v *Vector) growFixed(rows int) []byte { return v.data.grow(v.mem, rows*v.typ.RowBits()/8) }

// AppendPlain appends rows rows of a fixed-width column of whole bytes, all valid down to the items, and returns their
// bytes for the caller to fill; they are valid until the next append.
func (v *Vector) AppendPlain(rows int) []byte {
	for l := range v.items {
		v.addItems(l, nil, 0, rows)
	}
	b := v.growFixed(rows)
	v.addValid(rows)
	return b
}

// appendFixed appends rows from their bytes (RowBits a multiple of 8).
func (v *Vector) appendFixed(b []byte) { copy(v.data.grow(v.mem, len(b)), b) }

// appendBits appends rows of a column whose items are single bits; src holds them from bit off.
func (v *Vector) appendBits(src []byte, off, rows int) {
	width := v.typ.RowBits()
	copyBits(v.growBits(rows), v.n*width, src, off, rows*width)
}

// growBits makes room for rows of a single-bit column and returns the whole bitmap; new bytes are zero.
func (v *Vector) growBits(rows int) []byte {
	have := v.data.len()
	if more := bitmapBytes((v.n+rows)*v.typ.RowBits()) - have; more > 0 {
		clear(v.data.grow(v.mem, more))
	}
	return v.data.bytes()
}

// ensureOffsets writes the leading zero offset.
func (v *Vector) ensureOffsets() {
	if v.offs.len() == 0 {
		clear(v.offs.grow(v.mem, v.typ.OffsetBits()/8))
	}
}

// growOffsets32 makes room for rows offsets of a KindVar32 column and returns them.
func (v *Vector) growOffsets32(rows int) []uint32 {
	v.ensureOffsets()
	return wordsOf[uint32](v.offs.grow(v.mem, rows*4))
}

// growOffsets64 is growOffsets32 for KindVar64.
func (v *Vector) growOffsets64(rows int) []uint64 {
	v.ensureOffsets()
	return wordsOf[uint64](v.offs.grow(v.mem, rows*8))
}

// maxVectorBytes bounds the data of a vector of more than one row, so that a few stored bytes (constant pages, runs)
// cannot ask for unbounded memory. Readers retry with fewer rows.
const maxVectorBytes = 1 << 30

// room checks that more bytes of data fit the vector.
func (v *Vector) room(more int) error {
	total := v.data.len() + more
	if v.typ.Kind == KindVar32 && total > math.MaxInt32 || v.n > 0 && total > maxVectorBytes {
		return fmt.Errorf("more than %d bytes of data in one batch: %w", maxVectorBytes, errs.ErrLimit)
	}
	return nil
}

// roomRows is room for rows more rows of bytesPerRow bytes each.
func (v *Vector) roomRows(rows, bytesPerRow int) error {
	if rows > 1 && bytesPerRow > 0 && rows > maxVectorBytes/bytesPerRow {
		return fmt.Errorf("%d rows of %d bytes in one batch: %w", rows, bytesPerRow, errs.ErrLimit)
	}
	return v.room(rows * bytesPerRow)
}

// closeRow ends the current row of a variable column at the present end of data.
func (v *Vector) closeRow() {
	if v.typ.Kind == KindVar32 {
		v.growOffsets32(1)[0] = uint32(v.data.len())
	} else {
		v.growOffsets64(1)[0] = uint64(v.data.len())
	}
}

// addValid counts rows whose values were just appended, all valid.
func (v *Vector) addValid(rows int) {
	if v.nulls > 0 {
		setBits(v.growValid(rows), v.n, rows, true)
	}
	v.n += rows
}

// addNull counts rows whose (placeholder) values were just appended, all null.
func (v *Vector) addNull(rows int) {
	if rows == 0 {
		return
	}
	setBits(v.growValid(rows), v.n, rows, false)
	v.n += rows
	v.nulls += rows
}

// addBitmap counts rows whose values were just appended; validity is taken from bits src[off:off+rows], nulls of
// which are zero.
func (v *Vector) addBitmap(src []byte, off, rows, nulls int) {
	if nulls == 0 {
		v.addValid(rows)
		return
	}
	copyBits(v.growValid(rows), v.n, src, off, rows)
	v.n += rows
	v.nulls += nulls
}

// growValid makes room for rows more validity bits and returns the bitmap; it is created, all valid so far, on the
// first call.
func (v *Vector) growValid(rows int) []byte { return growValidity(&v.valid, v.mem, v.n, v.n+rows) }

// growValidity extends a lazily created bitmap of have bits to total bits; bits before have are valid if new.
func growValidity(s *store, mem memory.Allocator, have, total int) []byte {
	old := s.len()
	if more := bitmapBytes(total) - old; more > 0 {
		clear(s.grow(mem, more))
	}
	b := s.bytes()
	if old == 0 {
		setBits(b, 0, have, true)
	}
	return b
}

// addItems records the validity of the items of fixed-size list level l for rows about to be counted (call before
// addValid and its kin); src nil means all valid.
func (v *Vector) addItems(l int, src []byte, off, rows int) {
	lv := &v.items[l]
	n := rows * lv.perRow
	nulls := 0
	if src != nil {
		nulls = n - countBits(src, off, n)
	}
	if nulls == 0 && lv.nulls == 0 {
		return
	}
	b := growValidity(&lv.valid, v.mem, v.n*lv.perRow, v.n*lv.perRow+n)
	if src == nil {
		setBits(b, v.n*lv.perRow, n, true)
		return
	}
	copyBits(b, v.n*lv.perRow, src, off, n)
	lv.nulls += nulls
}

// AppendNulls appends rows null rows. errs.ErrLimit if their placeholders would take too much memory.
func (v *Vector) AppendNulls(rows int) error {
	switch {
	case v.typ.Kind == KindNull:
		v.n += rows
		v.nulls += rows
		return nil
	case v.typ.Kind == KindPacked:
		for _, m := range v.members {
			if err := m.appendPlaceholders(rows); err != nil {
				return err
			}
		}
	case v.typ.Variable():
		if err := v.roomRows(rows, 0); err != nil {
			return err
		}
		if v.typ.Kind == KindVar32 {
			fill(v.growOffsets32(rows), uint32(v.data.len()))
		} else {
			fill(v.growOffsets64(rows), uint64(v.data.len()))
		}
	default:
		if err := v.roomRows(rows, bitmapBytes(v.typ.RowBits())); err != nil {
			return err
		}
		v.growZero(rows)
	}
	for l := range v.items {
		v.addItems(l, nil, 0, rows)
	}
	v.addNull(rows)
	return nil
}

// growZero appends the values of rows fixed-width rows, all zero, without counting them.
func (v *Vector) growZero(rows int) {
	if v.typ.Bits == 1 {
		v.growBits(rows)
	} else {
		clear(v.growFixed(rows))
	}
}

func fill[T word](s []T, x T) {
	for i := range s {
		s[i] = x
	}
}

// NewArray hands the vector's memory over as an Arrow array of type dt, whose physical type must be the vector's. The
// vector is empty afterwards. The caller releases the array.
func (v *Vector) NewArray(dt arrow.DataType) (arrow.Array, error) {
	if got, err := TypeOf(dt); err != nil {
		return nil, err
	} else if got.Kind != v.typ.Kind || got.RowBits() != v.typ.RowBits() || len(got.Dims) != len(v.typ.Dims) {
		return nil, fmt.Errorf("column of %s from a vector of another type: %w", dt, errs.ErrInvalid)
	}
	var data arrow.ArrayData
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		var err error
		if data, err = v.keyedData(dt); err != nil {
			return nil, err
		}
	case *arrow.StructType:
		var err error
		if data, err = v.packedData(dt); err != nil {
			return nil, err
		}
	default:
		data = v.newData(dt)
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

func (v *Vector) newData(dt arrow.DataType) arrow.ArrayData {
	rows, nulls := v.n, v.nulls
	v.n, v.nulls = 0, 0
	if v.typ.Kind == KindNull {
		return array.NewData(dt, rows, []*memory.Buffer{nil}, nil, rows, 0)
	}
	valid := v.takeValid(&v.valid, nulls)
	switch {
	case v.typ.Variable():
		v.ensureOffsets()
		v.data.reserve(v.mem, 0)
		return newData(dt, rows, nulls, valid, v.offs.take(), v.data.take())
	case len(v.typ.Dims) == 0:
		v.data.reserve(v.mem, 0)
		return newData(dt, rows, nulls, valid, v.data.take())
	}
	return v.listData(dt, rows, nulls, valid, 0)
}

// listData builds the data of fixed-size list level l and what it contains.
func (v *Vector) listData(dt arrow.DataType, rows, nulls int, valid *memory.Buffer, l int) arrow.ArrayData {
	elem := dt.(*arrow.FixedSizeListType).Elem()
	n := rows * v.typ.Dims[l]
	itemNulls := v.items[l].nulls
	itemValid := v.takeValid(&v.items[l].valid, itemNulls)
	v.items[l].nulls = 0
	var child arrow.ArrayData
	if l+1 < len(v.typ.Dims) {
		child = v.listData(elem, n, itemNulls, itemValid, l+1)
	} else {
		v.data.reserve(v.mem, 0)
		child = newData(elem, n, itemNulls, itemValid, v.data.take())
	}
	defer child.Release()
	out := array.NewData(dt, rows, []*memory.Buffer{valid}, []arrow.ArrayData{child}, nulls, 0)
	if valid != nil {
		valid.Release()
	}
	return out
}

func (v *Vector) takeValid(s *store, nulls int) *memory.Buffer {
	if nulls == 0 {
		s.release()
		return nil
	}
	return s.take()
}

// newData takes over the references to the buffers.
func newData(dt arrow.DataType, rows, nulls int, buffers ...*memory.Buffer) arrow.ArrayData {
	out := array.NewData(dt, rows, buffers, nil, nulls, 0)
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	return out
}
