package zonebloom

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/indexes/bloom"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// FileName is the only file of a segment.
const FileName = "bloomfilter.lance"

const (
	columnFragment = "fragment_id"
	columnStart    = "zone_start"
	columnLength   = "zone_length"
	columnNull     = "has_null"
	columnFilter   = "bloom_filter_data"

	metaItems       = "bloomfilter_item"
	metaProbability = "bloomfilter_probability"
	metaNullBitmap  = "null_bitmap" // decimal number of a global buffer

	// writeBytes is how many bytes of filters make a batch.
	writeBytes = 4 << 20
)

func fileSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: columnFragment, Type: arrow.PrimitiveTypes.Uint64}, {Name: columnStart, Type: arrow.PrimitiveTypes.Uint64},
		{Name: columnLength, Type: arrow.PrimitiveTypes.Uint64}, {Name: columnNull, Type: arrow.FixedWidthTypes.Boolean},
		{Name: columnFilter, Type: arrow.BinaryTypes.Binary}}, nil)
}

// Options says how filters are made. The zero value is the default.
type Options struct {
	Items       uint64           // rows that make a zone, deleted ones not counted; 0: ItemsDefault
	Probability float64          // rate of false answers of a full zone; 0: ProbabilityDefault
	Memory      memory.Allocator // nil: the Go allocator
}

// Builder writes one segment while rows go by; finished zones are streamed into the file. Exactly one of Finish and
// Abort ends it. It is not safe for concurrent use.
type Builder struct {
	typ       arrow.DataType
	options   Options
	out       *store.Writer
	build     *array.RecordBuilder
	size      int // bytes of a filter
	held      int // bytes of filters in build
	fragments *roaring.Bitmap
	nulls     *rowaddr.Treemap
	fragment  int64 // running, -1: none
	filter    *bloom.Filter
	start     uint64
	next      uint64 // least offset that may come
	rows      uint64 // in the running zone
	hasNull   bool
	scratch   []rowaddr.Addr
	done      bool
}

// Written is what the index entry must say about a segment; its details are empty.
type Written struct {
	File      store.Info
	Version   int32
	Fragments *roaring.Bitmap
}

// NewBuilder starts a segment over a column of type t. errs.ErrUnsupported for types that Lance does not take,
// errs.ErrInvalid for options out of range.
func NewBuilder(ctx context.Context, dir store.Dir, t arrow.DataType, o Options) (*Builder, error) {
	if !Supported(t) {
		return nil, fmt.Errorf("bloom filter index of type %s: %w", t, errs.ErrUnsupported)
	}
	if o.Items == 0 {
		o.Items = ItemsDefault
	}
	if o.Probability == 0 {
		o.Probability = ProbabilityDefault
	}
	if o.Items > math.MaxUint32 || !(o.Probability > 0 && o.Probability < 1) {
		return nil, fmt.Errorf("bloom filter index of %d rows per zone and probability %v: %w", o.Items, o.Probability, errs.ErrInvalid)
	}
	if o.Memory == nil {
		o.Memory = memory.DefaultAllocator
	}
	out, err := dir.Create(ctx, FileName, fileSchema())
	if err != nil {
		return nil, fmt.Errorf("build bloom filter index: %w", err)
	}
	return &Builder{typ: t, options: o, out: out, build: array.NewRecordBuilder(o.Memory, fileSchema()), size: filterBytes(o.Items, o.Probability),
		fragments: roaring.New(), nulls: rowaddr.NewTreemap(), fragment: -1}, nil
}

// Begin starts a fragment, which must not have been begun before. Its rows come by Append.
func (b *Builder) Begin(fragment uint32) error {
	if b.fragments.Contains(fragment) {
		return fmt.Errorf("fragment %d twice in a bloom filter index: %w", fragment, errs.ErrInvalid)
	}
	if err := b.endZone(); err != nil {
		return err
	}
	b.fragments.Add(fragment)
	b.fragment, b.next = int64(fragment), 0
	return nil
}

// Append takes in the next live rows of the fragment: cell i is the row at offsets[i], ascending. a is borrowed.
// errs.ErrInvalid if it is of another type or does not follow what came before.
func (b *Builder) Append(a arrow.Array, offsets []uint32) error {
	if b.fragment < 0 || !arrow.TypeEqual(a.DataType(), b.typ) || len(offsets) != a.Len() {
		return fmt.Errorf("%d cells of %s at %d offsets for a bloom filter index of %s: %w", a.Len(), a.DataType(), len(offsets), b.typ, errs.ErrInvalid)
	}
	hash := hasher(a)
	for i, o := range offsets {
		if uint64(o) < b.next {
			return fmt.Errorf("row %d after %d: %w", o, b.next, errs.ErrInvalid)
		}
		if b.rows == 0 {
			if err := b.beginZone(uint64(o)); err != nil {
				return err
			}
		}
		b.next = uint64(o) + 1
		b.rows++
		if a.IsNull(i) {
			b.hasNull = true
			b.scratch = append(b.scratch, rowaddr.New(uint32(b.fragment), o))
		} else {
			b.filter.Add(hash(i))
		}
		if b.rows == b.options.Items {
			if err := b.endZone(); err != nil {
				return err
			}
		}
	}
	b.nulls.AddMany(b.scratch)
	b.scratch = b.scratch[:0]
	return nil
}

func (b *Builder) beginZone(start uint64) error {
	var err error
	b.start, b.hasNull = start, false
	b.filter, err = bloom.NewFilter(b.size)
	return err
}

func (b *Builder) endZone() error {
	if b.rows == 0 {
		return nil
	}
	f := b.filter.Bytes()
	b.rows, b.filter = 0, nil
	return b.putZone(uint32(b.fragment), b.start, b.next-b.start, b.hasNull, f)
}

func (b *Builder) putZone(fragment uint32, start, length uint64, hasNull bool, filter []byte) error {
	for i, v := range []uint64{uint64(fragment), start, length} {
		b.build.Field(i).(*array.Uint64Builder).Append(v)
	}
	b.build.Field(3).(*array.BooleanBuilder).Append(hasNull)
	b.build.Field(4).(*array.BinaryBuilder).Append(filter)
	if b.held += b.size; b.held >= writeBytes {
		return b.flush()
	}
	return nil
}

func (b *Builder) flush() error {
	b.held = 0
	rec := b.build.NewRecordBatch()
	defer rec.Release()
	if rec.NumRows() == 0 {
		return nil
	}
	return b.out.Write(rec)
}

// AddSegment adds the zones of another segment that lie in fragments of keep, which must not have been begun. errs.ErrInvalid
// if its filters are of another size, or it does not know where its NULLs are.
func (b *Builder) AddSegment(ctx context.Context, s *Segment, keep *roaring.Bitmap) error {
	if s.nulls == nil || !arrow.TypeEqual(s.typ, b.typ) || b.fragments.Intersects(keep) {
		return fmt.Errorf("add a segment to a bloom filter index: %w", errs.ErrInvalid)
	}
	if err := b.endZone(); err != nil {
		return err
	}
	b.fragment = -1
	var chunk []*bloom.Filter
	at := uint64(math.MaxUint64)
	for _, z := range s.zones {
		if !keep.Contains(z.fragment) {
			continue
		}
		if n := z.row / s.chunk; n != at {
			var err error
			if chunk, err = s.read(ctx, n); err != nil {
				return fmt.Errorf("add a segment to a bloom filter index: %w", err)
			}
			at = n
		}
		f := chunk[z.row-at*s.chunk].Bytes()
		if len(f) != b.size {
			return fmt.Errorf("filters of %d bytes for an index of %d: %w", len(f), b.size, errs.ErrInvalid)
		}
		if err := b.putZone(z.fragment, z.start, z.length, z.hasNull, f); err != nil {
			return err
		}
	}
	nulls := s.nulls.Clone()
	nulls.Retain(keep)
	b.nulls.Or(nulls)
	b.fragments.Or(keep)
	return nil
}

// Finish completes the file. The bitmap of NULLs is always written.
// Spec: indexes, "BLOOMFILTER".
func (b *Builder) Finish(ctx context.Context) (Written, error) {
	defer b.Abort()
	w, err := b.finish(ctx)
	if err != nil {
		return Written{}, fmt.Errorf("build bloom filter index: %w", err)
	}
	return w, nil
}

func (b *Builder) finish(ctx context.Context) (Written, error) {
	if err := b.endZone(); err != nil {
		return Written{}, err
	}
	if err := b.flush(); err != nil {
		return Written{}, err
	}
	nulls, err := b.nulls.Encode()
	if err != nil {
		return Written{}, err
	}
	number, err := b.out.AddBuffer(nulls)
	if err != nil {
		return Written{}, err
	}
	b.out.SetMetadata(metaNullBitmap, strconv.FormatUint(uint64(number), 10))
	b.out.SetMetadata(metaItems, strconv.FormatUint(b.options.Items, 10))
	b.out.SetMetadata(metaProbability, strconv.FormatFloat(b.options.Probability, 'f', -1, 64))
	info, err := b.out.Finish(ctx)
	if err != nil {
		return Written{}, err
	}
	return Written{File: info, Fragments: b.fragments}, nil
}

// Abort gives the segment up. It is a no-op after Finish.
func (b *Builder) Abort() {
	if !b.done {
		b.done = true
		b.build.Release()
		b.out.Abort()
	}
}
