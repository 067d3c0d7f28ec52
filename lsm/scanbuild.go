package lsm

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/store"
	"lancesql/indexes/zonebloom"
	"lancesql/internal/arrowx"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// scanBuilder makes the segment that a merge or rewrite adds to a BITMAP or BLOOMFILTER index. Nothing is written
// before the first row.
type scanBuilder struct {
	t    *Table
	b    *base
	def  ScanIndex
	next uint32          // id of the first new fragment
	ctx  context.Context //nolint:containedctx // of one merge or rewrite

	id     uuid.UUID
	bitmap *bitmap.Builder
	bloom  *zonebloom.Builder
	cover  *roaring.Bitmap
	rows   uint64
}

// scanBuilders returns a builder for each index that the table keeps and its kind is among kinds.
func (t *Table) scanBuilders(ctx context.Context, b *base, next uint32, kinds ...indexes.Kind) []*scanBuilder {
	return t.buildersOf(ctx, b, next, t.tuning().Indexes, kinds)
}

func (t *Table) buildersOf(ctx context.Context, b *base, next uint32, defs []ScanIndex, kinds []indexes.Kind) (list []*scanBuilder) {
	for _, d := range defs {
		if slices.Contains(kinds, d.Kind) && d.Column >= 0 && d.Column < t.physical.NumFields() && d.supported(t.physical.Field(d.Column).Type) {
			list = append(list, &scanBuilder{t: t, b: b, def: d, next: next, ctx: ctx, cover: roaring.New()})
		}
	}
	return list
}

// add implements rowFeed.
func (s *scanBuilder) add(nth int, first uint64, rec arrow.RecordBatch) error {
	return s.append(s.next+uint32(nth), uint32(first), rec.Column(s.def.Column), nil)
}

// endFragment implements rowFeed.
func (s *scanBuilder) endFragment(int) error { return nil }

// append takes cells of rows first, first+1, … of a fragment, fragment by fragment; only those of live (nil: all) count.
func (s *scanBuilder) append(fragment, first uint32, a arrow.Array, live *arrowx.Mask) error {
	if err := s.begin(); err != nil {
		return err
	}
	if live != nil && !live.All() {
		kept, err := arrowx.TakeArray(s.t.o.Alloc, a, live.Indices(nil))
		if err != nil {
			return err
		}
		defer kept.Release()
		a = kept
	}
	offsets := make([]uint32, 0, a.Len())
	for i, n := 0, a.Len(); len(offsets) < n; i++ {
		if live == nil || live.Get(i) {
			offsets = append(offsets, first+uint32(i))
		}
	}
	s.rows += uint64(len(offsets))
	if s.bloom != nil {
		if !s.cover.Contains(fragment) {
			s.cover.Add(fragment)
			if err := s.bloom.Begin(fragment); err != nil {
				return err
			}
		}
		return s.bloom.Append(a, offsets)
	}
	s.cover.Add(fragment)
	addrs := make([]rowaddr.Addr, len(offsets))
	for i, o := range offsets {
		addrs[i] = rowaddr.New(fragment, o)
	}
	return s.bitmap.Append(s.ctx, a, addrs)
}

func (s *scanBuilder) begin() (err error) {
	if s.bitmap != nil || s.bloom != nil {
		return nil
	}
	if s.id, err = uuid.NewRandom(); err != nil {
		return fmt.Errorf("name an index segment: %w", err)
	}
	dir := store.NewDir(s.t.o.Store, indexes.SegmentDir(s.t.root, s.id), s.t.o.Alloc)
	typ := s.t.physical.Field(s.def.Column).Type
	if s.def.Kind == indexes.Bloom {
		s.bloom, err = zonebloom.NewBuilder(s.ctx, dir, typ, zonebloom.Options{Memory: s.t.o.Alloc})
	} else {
		s.bitmap, err = bitmap.NewBuilder(dir, typ, bitmap.Options{Memory: s.t.o.Alloc, Scratch: s.t.o.Store})
	}
	return err
}

// abort gives up what was written. It is a no-op after finish.
func (s *scanBuilder) abort() {
	if s.bloom != nil {
		s.bloom.Abort()
	}
	if s.bitmap != nil {
		if err := s.bitmap.Abort(context.WithoutCancel(s.ctx)); err != nil {
			s.t.o.Log.Warn("remove runs of a bitmap index", "table", s.t.root, "error", err)
		}
	}
	s.bloom, s.bitmap = nil, nil
}

// takeBare adds fragments of the base version that no segment of the kind covers, about a million rows of them at most.
// gone are those that the commit removes.
func (s *scanBuilder) takeBare(gone *roaring.Bitmap) error {
	covered := gone.Clone()
	for _, seg := range s.b.scans[s.def.Column] {
		if seg.kind == s.def.Kind {
			covered.Or(seg.covers())
		}
	}
	rows := uint64(0)
	for _, f := range s.b.frags {
		id := uint32(f.ID)
		if covered.Contains(id) || s.cover.Contains(id) {
			continue
		}
		if rows += f.PhysicalRows; rows > zoneUnreadMax && rows > f.PhysicalRows {
			return nil
		}
		err := eachBatch(s.ctx, s.b.ds, f, []int32{s.b.fieldIDs[s.def.Column]}, s.t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
			return s.append(id, uint32(first), rec.Column(0), s.b.liveMask(id, uint32(first), int(rec.NumRows())))
		})
		switch {
		case err == nil:
		case unusable(err) && !s.cover.Contains(id):
			// Why not fatal: a damaged fragment must not hold up merges.
			s.t.o.Log.Warn("fragment is not indexed", "table", s.t.root, "index", s.def.Name, "fragment", f.ID, "error", err)
		default:
			return fmt.Errorf("index fragment %d: %w", f.ID, err)
		}
	}
	return nil
}

// takeWritten adds new fragments, in order, by reading them: for rewrites that learn their ids at the end.
func (s *scanBuilder) takeWritten(list []*table.Fragment) error {
	for n, f := range list {
		err := eachBatch(s.ctx, s.b.ds, f, []int32{s.b.fieldIDs[s.def.Column]}, s.t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
			return s.append(s.next+uint32(n), uint32(first), rec.Column(0), nil)
		})
		if err != nil {
			return fmt.Errorf("index a new fragment: %w", err)
		}
	}
	return nil
}

// takeSmaller adds the rows of the index's own segments that are at most twice as large as what is there, and the smallest
// beyond a number, so that rows are rewritten a logarithmic number of times. It returns the segments that go.
func (s *scanBuilder) takeSmaller(gone *roaring.Bitmap) (replaced []uuid.UUID, err error) {
	type sized struct {
		*scanSegment
		rows uint64
	}
	var own []sized
	for _, seg := range s.b.scans[s.def.Column] {
		if seg.kind != s.def.Kind || seg.entry.Name != s.def.Name {
			continue
		}
		x, err := seg.load(s.ctx, s.t, s.t.physical.Field(s.def.Column).Type)
		if err != nil {
			return nil, err
		}
		if x == nil {
			replaced = append(replaced, seg.entry.UUID) // of use to nobody any more
			continue
		}
		one := sized{scanSegment: seg}
		for it := roaring.AndNot(seg.frags, gone).Iterator(); it.HasNext(); {
			one.rows += s.b.byID[it.Next()].LiveRows()
		}
		own = append(own, one)
	}
	sort.SliceStable(own, func(i, j int) bool { return own[i].rows < own[j].rows })
	total := s.rows
	for n, seg := range own {
		if seg.rows > 2*total && len(own)-n < segmentsMax {
			break
		}
		total += seg.rows
		if err := s.join(seg.scanSegment, roaring.AndNot(seg.frags, gone)); err != nil {
			return replaced, fmt.Errorf("join a segment: %w", err)
		}
		replaced = append(replaced, seg.entry.UUID)
	}
	return replaced, nil
}

// join adds the rows of a segment that lie in keep.
func (s *scanBuilder) join(seg *scanSegment, keep *roaring.Bitmap) error {
	if err := s.begin(); err != nil {
		return err
	}
	switch x := seg.x.(type) {
	case *bitmap.Segment:
		s.cover.Or(keep)
		return s.bitmap.AddSegment(s.ctx, x, func(m *rowaddr.Treemap) (*rowaddr.Treemap, error) {
			if seg.moved != nil {
				var err error
				if m, err = seg.moved.Treemap(s.ctx, m); err != nil {
					return nil, err
				}
			}
			m.Retain(keep)
			return m, nil
		})
	case *zonebloom.Segment:
		keep = roaring.And(keep, x.Coverage())
		s.cover.Or(keep)
		return s.bloom.AddSegment(s.ctx, x, keep)
	}
	return nil
}

// write completes the segment; ok is false if there is nothing in it.
func (s *scanBuilder) write() (entry table.IndexEntry, ok bool, err error) {
	if s.bitmap == nil && s.bloom == nil || s.cover.IsEmpty() {
		s.abort()
		return entry, false, nil
	}
	var file store.Info
	if s.bloom != nil {
		w, err := s.bloom.Finish(s.ctx)
		if err != nil {
			return entry, false, fmt.Errorf("segment of index %s: %w", s.def.Name, err)
		}
		file = w.File
	} else {
		w, err := s.bitmap.Finish(s.ctx)
		if err != nil {
			return entry, false, fmt.Errorf("segment of index %s: %w", s.def.Name, err)
		}
		file = w.File
	}
	s.bloom, s.bitmap = nil, nil
	entry, err = indexes.NewEntry(s.def.Kind, s.id, s.def.Name, []int32{s.b.fieldIDs[s.def.Column]}, s.cover, nil,
		[]table.IndexFile{{Path: file.Name, Size: file.Size}})
	return entry, err == nil, err
}

// finish writes one segment over the new fragments, the fragments that no segment covers (with bare), and the smaller
// segments, and adds it to change. gone are the fragments that the commit removes.
func (s *scanBuilder) finish(gone *roaring.Bitmap, bare bool, change *segmentChange) error {
	if bare {
		if err := s.takeBare(gone); err != nil {
			return err
		}
	}
	if s.rows == 0 {
		s.abort()
		return nil
	}
	replaced, err := s.takeSmaller(gone)
	if err != nil {
		return err
	}
	entry, ok, err := s.write()
	if err != nil || !ok {
		return err
	}
	change.added, change.replaced = append(change.added, entry), append(change.replaced, replaced...)
	return nil
}
