package zonemap

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// FileName is the only file of a segment.
const FileName = "zonemap.lance"

// Keys of the file's schema metadata.
const (
	metaRowsPerZone = "rows_per_zone"
	metaNullBitmap  = "null_bitmap" // decimal number of a global buffer
)

const (
	zonesMax           = 1 << 26 // of one segment
	nullBitmapBytesMax = 1 << 30
	readRows           = 8192
)

// Segment is one opened ZONEMAP segment; it holds everything in memory and needs no Close. It is safe for concurrent
// use. It implements indexes.Segment.
type Segment struct {
	typ         arrow.DataType
	version     int32
	rowsPerZone uint64
	coverage    *roaring.Bitmap // fragments that are covered and have zones
	nulls       *rowaddr.Treemap
	zones       zones
	tests       masks
}

// Spec says what the index entry knows about a segment.
type Spec struct {
	Version   int32           // index_version: 0 or 1
	Fragments *roaring.Bitmap // fragment_bitmap, not nil: zones of others are passed over
	Type      arrow.DataType  // of the indexed column
	Size      uint64          // bytes of the file, 0: not known
}

// Open reads a segment. errs.ErrUnsupported for versions above 1, errs.ErrNotFound without the file, errs.ErrCorruption
// if it is damaged or not of the column's type.
// Spec: zone map index, "Storage Layout", "Version 1 Statistics", "Version 0".
func Open(ctx context.Context, dir store.Dir, spec Spec) (*Segment, error) {
	if spec.Version < 0 || spec.Version > 1 {
		return nil, fmt.Errorf("zone map of version %d: %w", spec.Version, errs.ErrUnsupported)
	}
	if spec.Fragments == nil {
		return nil, fmt.Errorf("zone map without its fragments: %w", errs.ErrInvalid)
	}
	r, err := dir.Open(ctx, FileName, spec.Size)
	if err != nil {
		return nil, fmt.Errorf("open zone map: %w", err)
	}
	s := &Segment{typ: spec.Type, version: spec.Version, zones: zones{form: formOf(spec.Type)}}
	if err := s.read(ctx, r); err != nil {
		return nil, fmt.Errorf("open zone map: %w", err)
	}
	s.zones.sort()
	s.zones.keep(func(i int) bool { return spec.Fragments.Contains(s.zones.fragment[i]) })
	if err := s.zones.check(r.Object()); err != nil {
		return nil, fmt.Errorf("open zone map: %w", err)
	}
	if s.nulls != nil {
		s.nulls.Retain(spec.Fragments)
	}
	s.finish()
	return s, nil
}

// InMemory is a segment over one fragment that was never written.
func InMemory(fragment uint32, stats *Stats) *Segment {
	s := &Segment{typ: stats.typ, rowsPerZone: stats.rowsPerZone, zones: stats.zones}
	s.zones.fragment = slices.Repeat([]uint32{fragment}, stats.zones.len())
	if stats.nulls != nil {
		s.nulls = rowaddr.NewTreemap()
		s.nulls.AddOffsets(fragment, stats.nulls)
	}
	s.finish()
	return s
}

// finish derives what searches use.
func (s *Segment) finish() {
	s.coverage = roaring.New()
	for _, f := range s.zones.fragment {
		s.coverage.Add(f)
	}
	s.tests = masksOf(&s.zones)
}

func (s *Segment) read(ctx context.Context, r *store.Reader) error {
	var err error
	if r.Rows() > zonesMax {
		return fmt.Errorf("%s: %d zones: %w", r.Object(), r.Rows(), errs.ErrLimit)
	}
	if s.rowsPerZone, err = r.Number(metaRowsPerZone, RowsPerZoneDefault, 1, math.MaxUint32); err != nil {
		return err
	}
	cols, err := s.columns(r)
	if err != nil {
		return err
	}
	sh := shape{version: s.version, location: true}
	if err := r.Read(ctx, cols, 0, r.Rows(), readRows, func(rec arrow.RecordBatch) error {
		return sh.decode(r.Object(), s.typ, rec, &s.zones)
	}); err != nil {
		return err
	}
	if _, ok := r.Metadata(metaNullBitmap); !ok {
		return nil
	}
	number, err := r.Number(metaNullBitmap, 0, 1, math.MaxUint32)
	if err != nil {
		return err
	}
	b, err := r.Buffer(ctx, uint32(number), nullBitmapBytesMax)
	if err != nil {
		return fmt.Errorf("null bitmap: %w", err)
	}
	s.nulls, err = rowaddr.DecodeTreemap(r.Object(), b)
	return err
}

// columns finds the columns by name; others are passed over.
func (s *Segment) columns(r *store.Reader) (store.Columns, error) {
	want := shape{version: s.version, location: true}.schema(s.typ)
	from := 0
	if s.zones.form == formNone { // their bounds say nothing
		from = 2
	}
	var names []string
	for _, f := range want.Fields()[from:] {
		names = append(names, f.Name)
	}
	cols, err := r.Columns(names...)
	if err != nil {
		return cols, err
	}
	for i, f := range want.Fields()[from:] {
		if err := r.Require(cols, i, f.Type); err != nil {
			return cols, err
		}
	}
	return cols, nil
}

// Coverage implements indexes.Segment: the covered fragments that have zones. A fragment of the entry without any, all
// of whose rows were deleted before, is not spoken about.
func (s *Segment) Coverage() *roaring.Bitmap { return s.coverage }

// Close implements indexes.Segment.
func (s *Segment) Close() error { return nil }

// Zones returns the number of zones.
func (s *Segment) Zones() int { return s.zones.len() }

// RowsPerZone returns how many rows make a zone.
func (s *Segment) RowsPerZone() uint64 { return s.rowsPerZone }

// Version returns the version of the statistics.
func (s *Segment) Version() int32 { return s.version }

// HasNullBitmap reports whether the segment knows where the NULLs are.
func (s *Segment) HasNullBitmap() bool { return s.nulls != nil }

// Bytes estimates the memory the segment takes.
func (s *Segment) Bytes() int64 { return s.zones.bytes() + s.tests.bytes() }

// Zone is one zone as CHECK TABLE and tools see it.
type Zone struct {
	Fragment          uint32
	Start, Length     uint64 // physical offsets
	Nulls, NaNs       uint32
	Min, Max          any  // cells as described at arrowx.Row; nil: no bound
	Unknown, MaxKnown bool // Unknown: there may be values beside Min and Max; MaxKnown: Max is a bound of the data
}

// At returns zone i.
func (s *Segment) At(i int) Zone {
	z := &s.zones
	out := Zone{Fragment: z.fragment[i], Start: z.start[i], Length: z.length[i], Nulls: z.nulls[i], NaNs: z.nans[i],
		Unknown: z.flags[i]&flagUnknown != 0, MaxKnown: z.flags[i]&flagBounds != 0 && z.flags[i]&flagHidden == 0}
	switch {
	case z.flags[i]&flagBounds == 0:
	case z.form == formKey:
		out.Min, out.Max = cellOf(s.typ, z.lo[i], ""), cellOf(s.typ, z.hi[i], "")
	case z.form == formText:
		out.Min, out.Max = cellOf(s.typ, 0, z.loText[i]), cellOf(s.typ, 0, z.hiText[i])
	}
	return out
}

// Stats returns the statistics of one fragment, to be written into another segment; ok is false if there are none.
func (s *Segment) Stats(fragment uint32) (stats *Stats, ok bool) {
	if !s.coverage.Contains(fragment) {
		return nil, false
	}
	out := &Stats{typ: s.typ, rowsPerZone: s.rowsPerZone, zones: zones{form: s.zones.form}}
	for i, f := range s.zones.fragment {
		if f == fragment {
			out.zones.appendFrom(&s.zones, i)
		}
	}
	out.zones.fragment = nil
	if s.nulls != nil {
		out.nulls = roaring.New()
		if offsets, whole := s.nulls.Offsets(fragment); whole {
			for i := range out.zones.start {
				out.nulls.AddRange(out.zones.start[i], out.zones.start[i]+out.zones.length[i])
			}
		} else if offsets != nil {
			out.nulls.Or(offsets)
		}
	}
	return out, true
}

var _ indexes.Segment = (*Segment)(nil)
