package zonemap

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
)

const (
	// RowsPerZoneDefault is the reference's default.
	RowsPerZoneDefault = 8192
	// rowsPerZoneMax keeps the counts of a zone below 32 bits.
	rowsPerZoneMax = math.MaxUint32
	// boundBytesMax is the length beyond which bounds of text and binary are shortened.
	boundBytesMax = 1024
)

// Options says how statistics are gathered. The zero value is the default.
type Options struct {
	RowsPerZone uint64 // rows that make a zone, deleted ones not counted; 0: RowsPerZoneDefault
	// BoundBytesMax is the length to which longer bounds of text and binary are shortened: the minimum down, the maximum
	// up. 0: 1024.
	BoundBytesMax int
	// NoNullBitmap leaves out where the NULLs are; IS NULL is then answered by zone.
	NoNullBitmap bool
}

// Stats are the statistics of one column of one fragment. They are immutable.
type Stats struct {
	typ         arrow.DataType
	rowsPerZone uint64
	zones       zones
	nulls       *roaring.Bitmap // offsets of NULLs; nil: not recorded
}

// Zones returns the number of zones.
func (s *Stats) Zones() int { return s.zones.len() }

// RowsPerZone returns how many rows make a zone.
func (s *Stats) RowsPerZone() uint64 { return s.rowsPerZone }

// Type returns the type of the column.
func (s *Stats) Type() arrow.DataType { return s.typ }

// Bytes estimates the memory the statistics take.
func (s *Stats) Bytes() int64 {
	n := s.zones.bytes()
	if s.nulls != nil {
		n += int64(s.nulls.GetSizeInBytes())
	}
	return n
}

// Builder gathers the statistics of one column while its fragments are written. It is not safe for concurrent use.
type Builder struct {
	typ     arrow.DataType
	options Options
	zones   zones
	nulls   *roaring.Bitmap
	zone    running
	start   uint64 // of the running zone
	next    uint64 // least offset that may come
	scratch []uint32
}

// NewBuilder returns a builder for a column of type t. errs.ErrInvalid for options out of range.
func NewBuilder(t arrow.DataType, o Options) (*Builder, error) {
	if o.RowsPerZone == 0 {
		o.RowsPerZone = RowsPerZoneDefault
	}
	if o.BoundBytesMax == 0 {
		o.BoundBytesMax = boundBytesMax
	}
	if o.RowsPerZone > rowsPerZoneMax || o.BoundBytesMax < 8 {
		return nil, fmt.Errorf("zones of %d rows, bounds of %d bytes: %w", o.RowsPerZone, o.BoundBytesMax, errs.ErrInvalid)
	}
	b := &Builder{typ: t, options: o}
	b.begin()
	return b, nil
}

func (b *Builder) begin() {
	b.zones, b.next = zones{form: formOf(b.typ)}, 0
	b.zone.reset()
	b.nulls = nil
	if !b.options.NoNullBitmap {
		b.nulls = roaring.New()
	}
}

// Append takes in the next rows of the fragment: cell i is the row at physical offset first+i. a is borrowed.
// errs.ErrInvalid if it is of another type or does not follow what came before.
func (b *Builder) Append(a arrow.Array, first uint64) error {
	if err := b.check(a, first, first+uint64(a.Len())); err != nil {
		return err
	}
	v := validityOf(a)
	for from := 0; from < a.Len(); {
		if b.zone.rows == 0 {
			b.start = first + uint64(from)
		}
		to := int(min(uint64(a.Len()), uint64(from)+b.options.RowsPerZone-b.zone.rows))
		b.zone.add(a, v, from, to)
		b.next = first + uint64(to)
		b.endIfFull()
		from = to
	}
	b.zone.own()
	if a.NullN() > 0 && b.nulls != nil {
		b.addNulls(a, v, func(i int) uint32 { return uint32(first) + uint32(i) })
	}
	return nil
}

// AppendAt is Append for rows that do not follow each other: cell i is the row at offsets[i], ascending. It is for
// building over fragments with deleted rows, which are left out.
func (b *Builder) AppendAt(a arrow.Array, offsets []uint32) error {
	if len(offsets) != a.Len() {
		return fmt.Errorf("%d offsets for %d cells: %w", len(offsets), a.Len(), errs.ErrInvalid)
	}
	if len(offsets) == 0 {
		return nil
	}
	if err := b.check(a, uint64(offsets[0]), uint64(offsets[len(offsets)-1])+1); err != nil {
		return err
	}
	for i, o := range offsets[1:] {
		if o <= offsets[i] {
			return fmt.Errorf("offset %d after %d: %w", o, offsets[i], errs.ErrInvalid)
		}
	}
	v := validityOf(a)
	for from := 0; from < a.Len(); {
		if b.zone.rows == 0 {
			b.start = uint64(offsets[from])
		}
		to := int(min(uint64(a.Len()), uint64(from)+b.options.RowsPerZone-b.zone.rows))
		b.zone.add(a, v, from, to)
		b.next = uint64(offsets[to-1]) + 1
		b.endIfFull()
		from = to
	}
	b.zone.own()
	if a.NullN() > 0 && b.nulls != nil {
		b.addNulls(a, v, func(i int) uint32 { return offsets[i] })
	}
	return nil
}

func (b *Builder) check(a arrow.Array, first, end uint64) error {
	if !arrow.TypeEqual(a.DataType(), b.typ) {
		return fmt.Errorf("statistics of %s over cells of %s: %w", b.typ, a.DataType(), errs.ErrInvalid)
	}
	if a.Len() > 0 && (first < b.next || end > math.MaxUint32+1) {
		return fmt.Errorf("rows %d to %d after row %d: %w", first, end, b.next, errs.ErrInvalid)
	}
	return nil
}

func (b *Builder) endIfFull() {
	if b.zone.rows == b.options.RowsPerZone {
		b.endZone()
	}
}

func (b *Builder) endZone() {
	b.zones.appendRunning(&b.zone, b.start, b.next-b.start, b.typ, b.options.BoundBytesMax)
	b.zone.reset()
}

// addNulls records where the NULLs of a are.
func (b *Builder) addNulls(a arrow.Array, v validity, offset func(i int) uint32) {
	b.scratch = b.scratch[:0]
	all := a.DataType().ID() == arrow.NULL
	for i := 0; i < a.Len(); i += 64 {
		size := min(64, a.Len()-i)
		w := ^v.word(i, size) & (^uint64(0) >> (64 - uint(size)))
		if all {
			w = ^uint64(0) >> (64 - uint(size))
		}
		for ; w != 0; w &= w - 1 {
			b.scratch = append(b.scratch, offset(i+bits.TrailingZeros64(w)))
		}
	}
	b.nulls.AddMany(b.scratch)
}

// Finish ends the fragment and returns its statistics; the builder is ready for the next fragment.
func (b *Builder) Finish() *Stats {
	if b.zone.rows > 0 {
		b.endZone()
	}
	if b.nulls != nil {
		b.nulls.RunOptimize()
	}
	s := &Stats{typ: b.typ, rowsPerZone: b.options.RowsPerZone, zones: b.zones, nulls: b.nulls}
	b.begin()
	return s
}
