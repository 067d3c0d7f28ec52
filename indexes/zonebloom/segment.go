package zonebloom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes"
	"lancesql/indexes/bloom"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
)

const (
	zonesMax           = 1 << 26
	nullBitmapBytesMax = 1 << 30
	readRows           = 8192
	// chunkBytes is about how many bytes of filters are read and kept together.
	chunkBytes = 1 << 20
)

// Spec says what the index entry knows about a segment.
type Spec struct {
	Version   int32           // index_version: 0
	Fragments *roaring.Bitmap // fragment_bitmap, not nil: zones of others are passed over
	Type      arrow.DataType  // of the indexed column
	Size      uint64          // bytes of the file, 0: not known
	Cache     *store.Cache    // keeps filters that were read; nil: none are
}

// zone is a zone without its filter.
type zone struct {
	row           uint64 // in the file
	fragment      uint32
	start, length uint64
	hasNull       bool
}

// Segment is one opened BLOOMFILTER segment. It implements indexes.Segment.
type Segment struct {
	typ      arrow.DataType
	r        *store.Reader
	filters  store.Columns
	cache    *store.Cache
	owner    store.Owner
	coverage *roaring.Bitmap // fragments that are covered and have zones
	zones    []zone          // ascending by fragment and start
	chunk    uint64          // zones read together
	nulls    *rowaddr.Treemap
}

// Open reads everything of a segment but its filters. errs.ErrUnsupported for other versions and types that have no
// such index, errs.ErrNotFound without the file, errs.ErrCorruption if it is damaged.
// Spec: indexes, "BLOOMFILTER".
func Open(ctx context.Context, dir store.Dir, spec Spec) (*Segment, error) {
	if spec.Version != 0 || !Supported(spec.Type) {
		return nil, fmt.Errorf("bloom filter index of version %d over %s: %w", spec.Version, spec.Type, errs.ErrUnsupported)
	}
	if spec.Fragments == nil {
		return nil, fmt.Errorf("bloom filter index without its fragments: %w", errs.ErrInvalid)
	}
	r, err := dir.Open(ctx, FileName, spec.Size)
	if err != nil {
		return nil, fmt.Errorf("open bloom filter index: %w", err)
	}
	s := &Segment{typ: spec.Type, r: r, cache: spec.Cache, coverage: roaring.New()}
	if err := s.load(ctx, spec.Fragments); err != nil {
		return nil, fmt.Errorf("open bloom filter index: %w", err)
	}
	if s.cache != nil {
		s.owner = s.cache.NewOwner()
	}
	return s, nil
}

func (s *Segment) load(ctx context.Context, fragments *roaring.Bitmap) error {
	cols, err := s.r.Columns(columnFragment, columnStart, columnLength, columnNull)
	if err != nil {
		return err
	}
	if s.filters, err = s.r.Columns(columnFilter); err != nil {
		return err
	}
	number := arrow.PrimitiveTypes.Uint64
	if err := errors.Join(s.r.Require(cols, 0, number), s.r.Require(cols, 1, number), s.r.Require(cols, 2, number),
		s.r.Require(cols, 3, arrow.FixedWidthTypes.Boolean), s.r.Require(s.filters, 0, arrow.BinaryTypes.Binary)); err != nil {
		return err
	}
	if s.r.Rows() > zonesMax {
		return fmt.Errorf("%s: %d zones: %w", s.r.Object(), s.r.Rows(), errs.ErrLimit)
	}
	if err := s.r.Read(ctx, cols, 0, s.r.Rows(), readRows, func(rec arrow.RecordBatch) error { return s.addZones(rec, fragments) }); err != nil {
		return err
	}
	if err := s.order(); err != nil {
		return err
	}
	s.zones = slices.DeleteFunc(s.zones, func(z zone) bool { return !fragments.Contains(z.fragment) })
	for _, z := range s.zones {
		s.coverage.Add(z.fragment)
	}
	items, err := s.r.Number(metaItems, ItemsDefault, 1, math.MaxUint32)
	if err != nil {
		return err
	}
	s.chunk = max(1, chunkBytes/uint64(filterBytes(items, ProbabilityDefault)))
	return s.loadNulls(ctx, fragments)
}

func (s *Segment) loadNulls(ctx context.Context, fragments *roaring.Bitmap) error {
	if _, ok := s.r.Metadata(metaNullBitmap); !ok {
		return nil
	}
	number, err := s.r.Number(metaNullBitmap, 0, 1, math.MaxUint32)
	if err != nil {
		return err
	}
	b, err := s.r.Buffer(ctx, uint32(number), nullBitmapBytesMax)
	if err != nil {
		return fmt.Errorf("null bitmap: %w", err)
	}
	if s.nulls, err = rowaddr.DecodeTreemap(s.r.Object(), b); err != nil {
		return err
	}
	s.nulls.Retain(fragments)
	return nil
}

func (s *Segment) addZones(rec arrow.RecordBatch, fragments *roaring.Bitmap) error {
	for i := range rec.Columns() {
		if rec.Column(i).NullN() > 0 {
			return errs.Corrupt(s.r.Object(), -1, "column %q has nulls", rec.ColumnName(i))
		}
	}
	at := func(c, i int) uint64 { return rec.Column(c).(*array.Uint64).Value(i) }
	for i := range int(rec.NumRows()) {
		f, start, length := at(0, i), at(1, i), at(2, i)
		if f > math.MaxUint32 || start > math.MaxUint32 || length > math.MaxUint32+1-start {
			return errs.Corrupt(s.r.Object(), -1, "zone of %d rows from %d of fragment %d", length, start, f)
		}
		s.zones = append(s.zones, zone{row: uint64(len(s.zones)), fragment: uint32(f), start: start, length: length,
			hasNull: rec.Column(3).(*array.Boolean).Value(i)})
	}
	return nil
}

// order sorts the zones and refuses overlapping ones.
func (s *Segment) order() error {
	slices.SortStableFunc(s.zones, func(a, b zone) int {
		if a.fragment != b.fragment {
			return int(int64(a.fragment) - int64(b.fragment))
		}
		return int(int64(a.start) - int64(b.start))
	})
	for i := 1; i < len(s.zones); i++ {
		if a, b := s.zones[i-1], s.zones[i]; a.fragment == b.fragment && b.start < a.start+a.length {
			return errs.Corrupt(s.r.Object(), -1, "zone %d begins at %d, inside the one before", i, b.start)
		}
	}
	return nil
}

// Coverage implements indexes.Segment: the covered fragments that have zones.
func (s *Segment) Coverage() *roaring.Bitmap { return s.coverage }

// Close implements indexes.Segment.
func (s *Segment) Close() error {
	if s.cache != nil {
		s.cache.Drop(s.owner)
	}
	return nil
}

// Zones returns the number of zones.
func (s *Segment) Zones() int { return len(s.zones) }

// HasNullBitmap reports whether the segment knows where the NULLs are.
func (s *Segment) HasNullBitmap() bool { return s.nulls != nil }

// Search implements indexes.Segment. Single values, sets of them and IS NULL are answered, everything else is
// errs.ErrUnsupported. Results are runs of whole zones, to be evaluated again; IS NULL is exact where the bitmap is there.
func (s *Segment) Search(ctx context.Context, q indexes.Query) (indexes.Result, error) {
	r, err := indexes.RangesOf(q)
	if err != nil {
		return indexes.Result{}, err
	}
	return s.SearchRanges(ctx, r)
}

// SearchRanges is Search for any set of single cells, NULL among them or not.
func (s *Segment) SearchRanges(ctx context.Context, r predicate.Ranges) (indexes.Result, error) {
	out := indexes.Result{Addrs: rowaddr.NewTreemap(), Fragments: s.coverage}
	values, ok := points(r)
	if !ok {
		return indexes.Result{}, fmt.Errorf("a range looked for in a bloom filter index: %w", errs.ErrUnsupported)
	}
	var hashes []uint64
	everywhere := false
	for _, v := range values {
		h, known, err := hashesOf(s.typ, v)
		if err != nil {
			return indexes.Result{}, err
		}
		hashes, everywhere = append(hashes, h...), everywhere || !known
	}
	if r.Null && s.nulls != nil {
		out.Addrs.Or(s.nulls)
		out.Exact = len(values) == 0
	}
	keep := func(z zone) { out.Addrs.AddRange(z.fragment, z.start, z.start+z.length) }
	for _, z := range s.zones {
		if everywhere || r.Null && s.nulls == nil && z.hasNull {
			keep(z)
		}
	}
	if everywhere || len(hashes) == 0 {
		return out, nil
	}
	if err := s.probe(ctx, hashes, keep); err != nil {
		return indexes.Result{}, fmt.Errorf("search bloom filter index: %w", err)
	}
	return out, nil
}

// points is predicate.Ranges.Points, with NaN, up to which nothing else lies, as a point.
func points(r predicate.Ranges) ([]any, bool) {
	if values, ok := r.Points(); ok {
		return values, true
	}
	n := len(r.Intervals)
	if n == 0 || r.Intervals[n-1].High != nil || !isNaN(r.Intervals[n-1].Low) || r.Intervals[n-1].LowOpen {
		return nil, false
	}
	values, ok := predicate.Ranges{Intervals: r.Intervals[:n-1]}.Points()
	return append(values, r.Intervals[n-1].Low), ok
}

func isNaN(v any) bool {
	switch v := v.(type) {
	case float32:
		return v != v
	case float64:
		return v != v
	}
	return false
}

// probe calls keep for the zones that may hold a value of one of the hashes.
func (s *Segment) probe(ctx context.Context, hashes []uint64, keep func(zone)) error {
	var chunk []*bloom.Filter
	at := uint64(math.MaxUint64)
	for _, z := range s.zones {
		if n := z.row / s.chunk; n != at {
			var err error
			if chunk, err = s.read(ctx, n); err != nil {
				return err
			}
			at = n
		}
		f := chunk[z.row-at*s.chunk]
		if slices.ContainsFunc(hashes, f.MayHold) {
			keep(z)
		}
	}
	return nil
}

// read returns the filters of chunk n.
func (s *Segment) read(ctx context.Context, n uint64) ([]*bloom.Filter, error) {
	if s.cache != nil {
		if v, ok := s.cache.Get(s.owner, n); ok {
			return v.([]*bloom.Filter), nil
		}
	}
	var out []*bloom.Filter
	bytes := int64(0)
	from := n * s.chunk
	if err := s.r.Read(ctx, s.filters, from, min(from+s.chunk, s.r.Rows()), int(s.chunk), func(rec arrow.RecordBatch) error {
		column := rec.Column(0).(*array.Binary)
		for i := range column.Len() {
			if column.IsNull(i) {
				return errs.Corrupt(s.r.Object(), -1, "a zone without its filter")
			}
			f, err := bloom.FilterOf(s.r.Object(), slices.Clone(column.Value(i)))
			if err != nil {
				return err
			}
			bytes += int64(column.ValueLen(i)) + 48
			out = append(out, f)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if s.cache != nil {
		s.cache.Put(s.owner, n, out, bytes)
	}
	return out, nil
}

var _ indexes.Segment = (*Segment)(nil)
