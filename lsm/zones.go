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
	"lancesql/indexes/store"
	"lancesql/indexes/zonemap"
	"lancesql/internal/errs"
	"lancesql/lance/table"
)

// zoneRowsDefault is how many rows are merged before the next segments of zone maps are written.
const zoneRowsDefault = 1 << 18

// zoneUnreadMax is how many rows of fragments that somebody else wrote a merge reads to give them zones.
const zoneUnreadMax = 1 << 20

// zoneSegmentsMax is how many segments of ours a column's zone map has at most.
const zoneSegmentsMax = 3

// ZoneMapOptions says how a table keeps zone maps of its columns. The zero value is the default: of every column with
// an order.
type ZoneMapOptions struct {
	Off         bool   // none are written; those that are there are still used
	RowsPerZone uint64 // 0: zonemap.RowsPerZoneDefault
	Version     int32  // of the statistics: 0, which every Lance reads, or 1, which Lance 14 passes over
	// EveryRows is how many rows are merged before the next segments are written; the fragments since are scanned. 0:
	// 262,144, negative: at every merge.
	EveryRows int64
}

// ZoneMapIndex is the name of the zone map that merges keep of a column.
func ZoneMapIndex(column string) string { return column + "_zonemap" }

// zoneMaps is what a base version knows about the zones of its fragments. Immutable but for segments being loaded.
type zoneMaps struct {
	columns []zoneColumn // by physical position
	// pending are statistics of fragments that no segment of ours covers yet, by column position (nil: none are kept).
	// They are lost when the table is closed: the fragments are read for them then.
	pending map[uint32][]*zonemap.Stats
}

// zoneColumn is the zone map of one column.
type zoneColumn struct {
	name  string // of the index that merges write
	field int32
	kept  bool // merges write it, unless the table keeps none
	segs  []*zoneSegment
	dead  []uuid.UUID // segments of ours that cover nothing any more
}

// zoneSegment is one segment, loaded when it is first asked for. It is shared by base versions.
type zoneSegment struct {
	entry table.IndexEntry
	own   bool            // merges may replace it
	frags *roaring.Bitmap // fragments it answers for in the version that opened it

	mu    sync.Mutex
	tried bool
	x     *zonemap.Segment // nil: not loaded, or of no use
}

// openZones finds the zone maps that a base version names, without reading them. Those of prev (may be nil) are kept,
// and the statistics of its fragments that have no segment yet.
func (t *Table) openZones(b, prev *base) error {
	entries, err := b.ds.Indexes()
	if err != nil {
		return err
	}
	live := roaring.New()
	for _, f := range b.frags {
		live.Add(uint32(f.ID))
	}
	byField := make(map[int32][]table.IndexEntry)
	names := make(map[string]table.IndexEntry, len(entries))
	for _, e := range entries {
		names[e.Name] = e
		info, known := indexes.KindOf(e.DetailsType)
		if known && info.Kind == indexes.ZoneMap && info.Readable(e.Version) && len(e.Fields) == 1 && e.BaseID == nil && e.Fragments != nil {
			byField[e.Fields[0]] = append(byField[e.Fields[0]], e)
		}
	}
	known := make(map[uuid.UUID]*zoneSegment)
	if prev != nil {
		for _, c := range prev.zones.columns {
			for _, s := range c.segs {
				known[s.entry.UUID] = s
			}
		}
	}
	b.zones = &zoneMaps{columns: make([]zoneColumn, t.physical.NumFields()), pending: make(map[uint32][]*zonemap.Stats)}
	for i, f := range t.physical.Fields() {
		c := zoneColumn{name: ZoneMapIndex(f.Name), field: b.fieldIDs[i]}
		c.kept = zonemap.Supports(f.Type) && t.nameIsFree(c, names)
		covered := roaring.New()
		for _, e := range slices.Backward(byField[c.field]) { // newest first: see zoneFeed.load
			own := e.Name == c.name
			mine := roaring.AndNot(roaring.And(e.Fragments, live), covered)
			if mine.IsEmpty() {
				if own {
					c.dead = append(c.dead, e.UUID)
				}
				continue
			}
			covered.Or(mine)
			s := known[e.UUID]
			// Why: a fragment that was taken out of the segment, or went to another one, must not be answered for.
			if s == nil || !roaring.And(s.frags, live).Equals(mine) {
				s = &zoneSegment{entry: e, own: own, frags: mine}
			}
			c.segs = append(c.segs, s)
		}
		b.zones.columns[i] = c
	}
	if prev != nil {
		for id, stats := range prev.zones.pending {
			if f := b.byID[id]; f != nil && sameFiles(f, prev.byID[id]) {
				b.zones.keep(id, stats)
			}
		}
	}
	return nil
}

// nameIsFree reports whether no other index has the name of a column's zone map.
func (t *Table) nameIsFree(c zoneColumn, names map[string]table.IndexEntry) bool {
	for _, d := range t.o.Indexes {
		if d.Name == c.name {
			return false
		}
	}
	e, taken := names[c.name]
	if !taken {
		return true
	}
	info, known := indexes.KindOf(e.DetailsType)
	return known && info.Kind == indexes.ZoneMap && slices.Equal(e.Fields, []int32{c.field})
}

// sameFiles reports whether a fragment holds what it held.
func sameFiles(a, b *table.Fragment) bool {
	return a.PhysicalRows == b.PhysicalRows &&
		slices.EqualFunc(a.Files, b.Files, func(x, y table.DataFile) bool { return x.Path == y.Path && slices.Equal(x.Fields, y.Fields) })
}

// keep remembers the statistics of a fragment unless segments have them.
func (z *zoneMaps) keep(fragment uint32, stats []*zonemap.Stats) {
	for i := range z.columns {
		if stats[i] != nil && z.columns[i].kept && !z.columns[i].covers(fragment) {
			z.pending[fragment] = stats
			return
		}
	}
}

// covers reports whether a segment has zones of a fragment, as far as is known.
func (c *zoneColumn) covers(fragment uint32) bool {
	return slices.ContainsFunc(c.segs, func(s *zoneSegment) bool { return s.covers(fragment) })
}

func (s *zoneSegment) covers(fragment uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.tried:
		return s.frags.Contains(fragment)
	case s.x == nil:
		return false
	}
	return s.x.Coverage().Contains(fragment)
}

// load returns the segment; nil if it is of no use, which is logged once. err is a failure that may pass.
func (s *zoneSegment) load(ctx context.Context, t *Table, typ arrow.DataType) (*zonemap.Segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried {
		return s.x, nil
	}
	dir := store.NewDir(t.o.Store, indexes.SegmentDir(t.root, s.entry.UUID), t.o.Alloc)
	spec := zonemap.Spec{Version: s.entry.Version, Fragments: s.frags, Type: typ}
	for _, f := range s.entry.Files {
		if f.Path == zonemap.FileName {
			spec.Size = f.Size
		}
	}
	x, err := zonemap.Open(ctx, dir, spec)
	switch {
	case err == nil:
		s.x = x
	case unusable(err):
		// Why not fatal: the fragments are scanned whole instead, so answers stay right.
		t.o.Log.Warn("zone map cannot be used", "table", t.root, "index", s.entry.Name, "segment", s.entry.UUID.String(), "error", err)
	default:
		return nil, fmt.Errorf("zone map %s: %w", s.entry.Name, err)
	}
	s.tried = true
	return s.x, nil
}

// unusable reports whether an error says that a file will never be readable.
func unusable(err error) bool {
	return errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrNotFound) || errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrLimit)
}
