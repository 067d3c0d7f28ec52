package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/indexes/zonebloom"
	"lancesql/indexes/zonemap"
	"lancesql/internal/errs"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// ScanIndex is an index over one column of the base that narrows scans: indexes.Bitmap or indexes.Bloom. MemTables and
// generations have none, they are read.
type ScanIndex struct {
	Name   string
	Column int // physical position
	Kind   indexes.Kind
}

// supported reports whether the kind can hold the type.
func (d ScanIndex) supported(typ arrow.DataType) bool {
	switch d.Kind {
	case indexes.Bitmap:
		return bitmap.Supported(typ)
	case indexes.Bloom:
		return zonebloom.Supported(typ)
	}
	return false
}

// ScanIndexable reports whether a column of a type can have such an index.
func ScanIndexable(kind indexes.Kind, typ arrow.DataType) bool {
	return ScanIndex{Kind: kind}.supported(typ)
}

// scanIndexes are the segments of one base version, by physical position of their column. Immutable but for segments
// being loaded.
type scanIndexes [][]*scanSegment

// scanSegment is one segment, loaded when it is first asked for.
type scanSegment struct {
	entry table.IndexEntry
	kind  indexes.Kind
	frags *roaring.Bitmap // of the base version, which it answers for
	// moved leads the rows of a bitmap through the rewrites since it was made; nil if there were none.
	moved *fragreuse.Translation

	mu    sync.Mutex
	tried bool
	x     scanSearcher // nil: not loaded, or of no use
}

// scanSearcher is what the kinds have in common.
type scanSearcher interface {
	SearchRanges(ctx context.Context, r predicate.Ranges) (indexes.Result, error)
}

// openScans finds the BITMAP and BLOOMFILTER segments that a base version names, by whomever, without reading them. Of two
// segments of a kind over a column that name a fragment the first has it.
func (t *Table) openScans(ctx context.Context, b, prev *base) error {
	b.scans = make(scanIndexes, t.physical.NumFields())
	entries, err := b.ds.Indexes()
	if err != nil {
		return err
	}
	live := roaring.New()
	for _, f := range b.frags {
		live.Add(uint32(f.ID))
	}
	// Why ours first: a segment of somebody else that turns out to be damaged must not stand before what is built in its place.
	ours := make(map[string]bool)
	for _, d := range t.tuning().Indexes {
		ours[d.Name] = true
	}
	slices.SortStableFunc(entries, func(x, y table.IndexEntry) int { return boolOrder(ours[y.Name], ours[x.Name]) })
	type columnKind struct {
		column int
		kind   indexes.Kind
	}
	covered := make(map[columnKind]*roaring.Bitmap)
	var history *fragreuse.History
	for _, e := range entries {
		info, known := indexes.KindOf(e.DetailsType)
		if !known || info.Kind != indexes.Bitmap && info.Kind != indexes.Bloom || !info.Readable(e.Version) || len(e.Fields) != 1 || e.BaseID != nil || e.Fragments == nil {
			continue
		}
		c := slices.Index(b.fieldIDs, e.Fields[0])
		if c < 0 || !ScanIndexable(info.Kind, t.physical.Field(c).Type) {
			continue
		}
		s := &scanSegment{entry: e, kind: info.Kind}
		mine := e.Fragments
		if info.Kind == indexes.Bitmap {
			if history == nil {
				if history, err = fragreuse.Open(ctx, b.ds, fragreuse.Options{}); err != nil {
					// Why not fatal: without the history no segment says which rows it has, so all rows are read.
					t.o.Log.Warn("indexes cannot be used", "table", t.root, "error", err)
					return nil
				}
			}
			moved, err := history.Segment(ctx, e.UUID, e.Fragments)
			if err != nil {
				t.o.Log.Warn("index segment cannot be used", "table", t.root, "index", e.Name, "segment", e.UUID.String(), "error", err)
				continue
			}
			if mine = moved.Coverage(); moved.Steps() > 0 {
				s.moved = moved
			}
		}
		k := columnKind{c, info.Kind}
		if covered[k] == nil {
			covered[k] = roaring.New()
		}
		if s.frags = roaring.AndNot(roaring.And(mine, live), covered[k]); s.frags.IsEmpty() {
			continue
		}
		covered[k].Or(s.frags)
		if prev != nil {
			for _, old := range prev.scans[c] {
				if old.entry.UUID == e.UUID && old.moved == nil && s.moved == nil && old.frags.Equals(s.frags) {
					s = old
				}
			}
		}
		b.scans[c] = append(b.scans[c], s)
	}
	return nil
}

// load returns the segment; nil if it is of no use, which is logged once. err is a failure that may pass.
func (s *scanSegment) load(ctx context.Context, t *Table, typ arrow.DataType) (scanSearcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried {
		return s.x, nil
	}
	dir := store.NewDir(t.o.Store, indexes.SegmentDir(t.root, s.entry.UUID), t.o.Alloc)
	size := uint64(0)
	for _, f := range s.entry.Files {
		if f.Path == bitmap.FileName || f.Path == zonebloom.FileName {
			size = f.Size
		}
	}
	var err error
	switch s.kind {
	case indexes.Bitmap:
		from := s.frags
		if s.moved != nil {
			from = s.moved.Sources()
		}
		var x *bitmap.Segment
		if x, err = bitmap.Open(ctx, dir, bitmap.Spec{Version: s.entry.Version, Fragments: from, Type: typ, Size: size, Cache: t.o.Pages}); err == nil {
			s.x = x
		}
	default:
		var x *zonebloom.Segment
		if x, err = zonebloom.Open(ctx, dir, zonebloom.Spec{Version: s.entry.Version, Fragments: s.frags, Type: typ, Size: size, Cache: t.o.Pages}); err == nil {
			s.x = x
		}
	}
	switch {
	case err == nil:
	case unusable(err):
		// Why not fatal: the fragments are read instead, so answers stay right.
		t.o.Log.Warn("index segment cannot be used", "table", t.root, "index", s.entry.Name, "segment", s.entry.UUID.String(), "error", err)
	default:
		return nil, fmt.Errorf("index %s: %w", s.entry.Name, err)
	}
	s.tried = true
	return s.x, nil
}

// covers is the fragments it has rows of, as far as is known.
func (s *scanSegment) covers() *roaring.Bitmap {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		return s.frags
	}
	switch x := s.x.(type) {
	case nil:
		return roaring.New()
	case *zonebloom.Segment: // its bitmap may be too wide: see zoneFeed.load
		return x.Coverage()
	}
	return s.frags
}

// search returns the rows of the segment's fragments that may have a cell in r; ok is false if it cannot tell.
func (s *scanSegment) search(ctx context.Context, t *Table, typ arrow.DataType, r predicate.Ranges) (rows *rowaddr.Treemap, covered *roaring.Bitmap, ok bool, err error) {
	x, err := s.load(ctx, t, typ)
	if err != nil || x == nil {
		return nil, nil, false, err
	}
	res, err := x.SearchRanges(ctx, r)
	switch {
	case errors.Is(err, errs.ErrUnsupported), errors.Is(err, errs.ErrInvalid):
		return nil, nil, false, nil // the scan says itself what is wrong with a value
	case err != nil && unusable(err):
		t.o.Log.Warn("index segment cannot be used", "table", t.root, "index", s.entry.Name, "segment", s.entry.UUID.String(), "error", err)
		return nil, nil, false, nil
	case err != nil:
		return nil, nil, false, err
	}
	if s.moved != nil {
		if res.Addrs, err = s.moved.Treemap(ctx, res.Addrs); err != nil {
			return nil, nil, false, err
		}
	}
	return res.Addrs, roaring.And(s.frags, s.covers()), true, nil
}

// askBitmaps is what bitmap indexes leave of the base for the filter; nil: everything.
func (sc *scan) askBitmaps() (*choice, error) {
	var chosen *choice
	err := sc.eachScanIndex(indexes.Bitmap, func(s *scanSegment, rows *rowaddr.Treemap, covered *roaring.Bitmap) {
		c := &choice{covered: covered, base: make(map[uint32]*roaring.Bitmap)}
		for _, f := range rows.Fragments() {
			if offsets, whole := rows.Offsets(f); !whole {
				c.base[f] = offsets
			} else if frag := sc.s.v.base.byID[f]; frag != nil {
				c.base[f] = roaring.New()
				c.base[f].AddRange(0, frag.PhysicalRows)
			}
			if c.base[f] != nil {
				sc.stats.Candidates += c.base[f].GetCardinality()
			}
		}
		chosen = bothChoices(chosen, c)
	})
	return chosen, err
}

// bothChoices is the rows that are left by both; either may be nil.
func bothChoices(a, b *choice) *choice {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return a.and(b)
}

// askBlooms narrows a selection by bloom filters, whose answers are runs of rows; nil: everything is left so far.
func (sc *scan) askBlooms(sel *zonemap.Selection) (*zonemap.Selection, error) {
	err := sc.eachScanIndex(indexes.Bloom, func(s *scanSegment, rows *rowaddr.Treemap, covered *roaring.Bitmap) {
		one := zonemap.Selection{Fragments: covered}
		for _, f := range rows.Fragments() {
			if covered.Contains(f) {
				one.Ranges = append(one.Ranges, runsOf(rows, sc.s.v.base.byID[f])...)
			}
		}
		if sel == nil {
			sel = &one
			return
		}
		both := zonemap.Both(*sel, one)
		both.Zones, both.ZonesKept = sel.Zones, sel.ZonesKept
		sel = &both
	})
	return sel, err
}

// runsOf is the rows of one fragment as runs.
func runsOf(rows *rowaddr.Treemap, f *table.Fragment) (out []zonemap.Range) {
	id := uint32(f.ID)
	offsets, whole := rows.Offsets(id)
	if whole {
		return []zonemap.Range{{Fragment: id, To: f.PhysicalRows}}
	}
	for it := offsets.Iterator(); it.HasNext(); {
		at := uint64(it.Next())
		if n := len(out); n > 0 && out[n-1].To == at {
			out[n-1].To++
			continue
		}
		out = append(out, zonemap.Range{Fragment: id, From: at, To: at + 1})
	}
	return out
}

// eachScanIndex asks the segments of a kind over the columns of the filter, as far as it says something about them.
func (sc *scan) eachScanIndex(kind indexes.Kind, visit func(s *scanSegment, rows *rowaddr.Treemap, covered *roaring.Bitmap)) error {
	for _, c := range predicate.Columns(sc.spec.Filter) {
		segs := sc.s.v.base.scans[c]
		if len(segs) == 0 {
			continue
		}
		r, _ := predicate.Bounds(sc.spec.Filter, c)
		if r.IsEverything() || slices.ContainsFunc(r.Intervals, func(iv predicate.Interval) bool { return iv.Low == nil && iv.High == nil }) {
			continue // Why: everything but NULL is no reason to read every bitmap
		}
		for _, s := range segs {
			if s.kind != kind {
				continue
			}
			rows, covered, ok, err := s.search(sc.ctx, sc.s.t, sc.s.t.physical.Field(c).Type, r)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			sc.stats.Segments++
			if s.moved != nil {
				sc.stats.Hops += s.moved.Steps()
			}
			visit(s, rows, covered)
		}
	}
	return nil
}

// DropScanIndex takes the segments of a BITMAP or BLOOMFILTER index out of the base; others of that name stay.
func (t *Table) DropScanIndex(ctx context.Context, h Hooks, name string) error {
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	for range rewriteAttemptsMax {
		if _, err := t.adopt(ctx, h); err != nil {
			return fmt.Errorf("adopt outside commits: %w", err)
		}
		v, err := t.newest()
		if err != nil {
			return err
		}
		err = t.dropScanIndex(ctx, h, v, name)
		t.release(v)
		if !errors.Is(err, errs.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("drop index %s of %s: %w", name, t.root, errs.ErrConflict)
}

func (t *Table) dropScanIndex(ctx context.Context, h Hooks, v *Version, name string) error {
	entries, err := v.base.ds.Indexes()
	if err != nil {
		return err
	}
	var removed []uuid.UUID
	for _, e := range entries {
		if info, known := indexes.KindOf(e.DetailsType); known && e.Name == name && (info.Kind == indexes.Bitmap || info.Kind == indexes.Bloom) {
			removed = append(removed, e.UUID)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	next, err := v.base.ds.Commit(ctx, table.CreateIndex{Removed: removed})
	if err != nil {
		return err
	}
	return t.takeIn(ctx, h, v, next, 1, stays(v.base))
}
