package lsm

import (
	"context"
	"fmt"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonemap"
	"lancesql/lance/table"
)

// zoneFeed gathers the statistics of the fragments that a merge writes, column by column.
type zoneFeed struct {
	t        *Table
	b        *base
	options  ZoneMapOptions
	builders []*zonemap.Builder // by physical position; nil: no zone map is kept
	done     [][]*zonemap.Stats // of the new fragments, in order
	rows     int64              // in them
}

func (t *Table) newZoneFeed(b *base) (*zoneFeed, error) {
	z := &zoneFeed{t: t, b: b, options: t.tuning().ZoneMaps, builders: make([]*zonemap.Builder, len(b.zones.columns))}
	for i := range b.zones.columns {
		if !b.zones.columns[i].kept || z.options.Off {
			continue
		}
		var err error
		if z.builders[i], err = zonemap.NewBuilder(t.physical.Field(i).Type, zonemap.Options{RowsPerZone: z.options.RowsPerZone}); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// add implements rowFeed.
func (z *zoneFeed) add(_ int, first uint64, rec arrow.RecordBatch) error {
	for i, b := range z.builders {
		if b == nil {
			continue
		}
		if err := b.Append(rec.Column(i), first); err != nil {
			return fmt.Errorf("zones of column %s: %w", z.t.physical.Field(i).Name, err)
		}
	}
	z.rows += rec.NumRows()
	return nil
}

// endFragment implements rowFeed.
func (z *zoneFeed) endFragment(int) error {
	stats := make([]*zonemap.Stats, len(z.builders))
	for i, b := range z.builders {
		if b != nil {
			stats[i] = b.Finish()
		}
	}
	z.done = append(z.done, stats)
	return nil
}

// zoneBatch says of which fragments a zoneFeed writes zones.
type zoneBatch struct {
	gone  *roaring.Bitmap // fragments of the base version that the commit removes
	first uint32          // id of the first new fragment; the others follow
	rows  int64           // nothing is written while fewer rows wait for zones
	read  bool            // fragments whose statistics are not known are read
}

// segmentChange is what a commit does to the segments of indexes.
type segmentChange struct {
	added    []table.IndexEntry
	replaced []uuid.UUID
}

// finish writes one segment for each column, if enough rows wait for one: over the new fragments, those still without
// zones, and the smaller segments. What was written is in the change beside an error as well.
func (z *zoneFeed) finish(ctx context.Context, o zoneBatch) (change segmentChange, err error) {
	gone := o.gone
	if z.options.Off {
		return change, nil
	}
	if err := z.load(ctx); err != nil {
		return change, err
	}
	var unread []*table.Fragment
	if o.read {
		unread = z.unread(gone)
	}
	waiting := z.rows
	fragments := make(map[uint32][]*zonemap.Stats, len(z.done))
	for id := range z.b.zones.pending {
		if stats := z.pending(id); stats != nil && !gone.Contains(id) {
			fragments[id] = stats
			waiting += int64(z.b.byID[id].PhysicalRows)
		}
	}
	for _, f := range unread {
		waiting += int64(f.PhysicalRows)
	}
	if waiting == 0 || waiting < o.rows {
		return change, nil
	}
	for _, f := range unread {
		stats, err := z.read(ctx, f)
		switch {
		case err == nil:
			fragments[uint32(f.ID)] = stats
		case unusable(err):
			// Why not fatal: a damaged fragment must not hold up merges.
			z.t.o.Log.Warn("fragment gets no zones", "table", z.t.root, "fragment", f.ID, "error", err)
		default:
			return change, fmt.Errorf("zones of fragment %d: %w", f.ID, err)
		}
	}
	for n, stats := range z.done {
		fragments[o.first+uint32(n)] = stats
	}
	for i := range z.b.zones.columns {
		c := &z.b.zones.columns[i]
		var parts []zonemap.Part
		for id, stats := range fragments {
			if stats[i] != nil && stats[i].Zones() > 0 && !c.covers(id) {
				parts = append(parts, zonemap.Part{Fragment: id, Stats: stats[i]})
			}
		}
		if len(parts) == 0 {
			continue
		}
		if err := z.write(ctx, c, z.t.physical.Field(i).Type, parts, gone, &change); err != nil {
			return change, fmt.Errorf("zone map of column %s: %w", z.t.physical.Field(i).Name, err)
		}
	}
	return change, nil
}

// zoneRows is how many rows make a zone.
func (z *zoneFeed) zoneRows() uint64 {
	if z.options.RowsPerZone == 0 {
		return zonemap.RowsPerZoneDefault
	}
	return z.options.RowsPerZone
}

// pending returns the statistics of a fragment that wait for their segment; nil if there are none of today's zone size.
func (z *zoneFeed) pending(fragment uint32) []*zonemap.Stats {
	want := z.zoneRows()
	for _, s := range z.b.zones.pending[fragment] {
		if s != nil && s.RowsPerZone() != want {
			return nil
		}
	}
	return z.b.zones.pending[fragment]
}

// load loads the segments of all columns, so that it is known which fragments they have zones of. The bitmaps of their
// entries may have more: the reference extends them to fragments that its compaction wrote, and a segment may be damaged.
func (z *zoneFeed) load(ctx context.Context) error {
	for i := range z.b.zones.columns {
		c := &z.b.zones.columns[i]
		if !c.kept {
			continue
		}
		for _, s := range c.segs {
			if _, err := s.load(ctx, z.t, z.t.physical.Field(i).Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// unread picks fragments without zones that have to be read for them: what a compaction or another writer made, and
// what was merged just before the table was last closed. Not more than a number of rows at a time.
func (z *zoneFeed) unread(gone *roaring.Bitmap) []*table.Fragment {
	var out []*table.Fragment
	rows := uint64(0)
	for _, f := range z.b.frags {
		id := uint32(f.ID)
		if z.pending(id) != nil || gone.Contains(id) || len(z.missing(id)) == 0 {
			continue
		}
		if rows += f.PhysicalRows; rows > zoneUnreadMax && len(out) > 0 {
			break
		}
		out = append(out, f)
	}
	return out
}

// missing lists the columns whose zone maps do not cover a fragment.
func (z *zoneFeed) missing(fragment uint32) []int {
	var out []int
	for i := range z.b.zones.columns {
		if c := &z.b.zones.columns[i]; c.kept && !c.covers(fragment) {
			out = append(out, i)
		}
	}
	return out
}

// read gathers the statistics of a fragment of the base. Deleted rows count as well: bounds are wider for it, never wrong.
func (z *zoneFeed) read(ctx context.Context, f *table.Fragment) ([]*zonemap.Stats, error) {
	columns := z.missing(uint32(f.ID))
	err := eachBatch(ctx, z.b.ds, f, pick(z.b.fieldIDs, columns), z.t.o.BatchRows, func(first uint64, rec arrow.RecordBatch) error {
		for n, i := range columns {
			if err := z.builders[i].Append(rec.Column(n), first); err != nil {
				return err
			}
		}
		return nil
	})
	out := make([]*zonemap.Stats, len(z.builders))
	for _, i := range columns {
		out[i] = z.builders[i].Finish()
	}
	return out, err
}

// write writes the segment of one column over parts and the smaller segments.
func (z *zoneFeed) write(ctx context.Context, c *zoneColumn, typ arrow.DataType, parts []zonemap.Part, gone *roaring.Bitmap, change *segmentChange) error {
	joined, err := z.joined(ctx, c, typ, parts)
	if err != nil {
		return err
	}
	for _, s := range joined {
		change.replaced = append(change.replaced, s.entry.UUID)
		if s.x == nil {
			continue // of use to nobody any more
		}
		for _, id := range s.frags.ToArray() {
			if z.b.byID[id] == nil || gone.Contains(id) {
				continue
			}
			if stats, ok := s.x.Stats(id); ok {
				parts = append(parts, zonemap.Part{Fragment: id, Stats: stats})
			}
		}
	}
	change.replaced = append(change.replaced, c.dead...)
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("name an index segment: %w", err)
	}
	w, err := zonemap.Write(ctx, store.NewDir(z.t.o.Store, indexes.SegmentDir(z.t.root, id), z.t.o.Alloc), parts, zonemap.WriteOptions{Version: z.options.Version, Memory: z.t.o.Alloc})
	if err != nil {
		return err
	}
	files := []table.IndexFile{{Path: w.File.Name, Size: w.File.Size}}
	entry, err := indexes.NewEntry(indexes.ZoneMap, id, c.name, []int32{c.field}, w.Fragments, w.Details, files)
	if err != nil {
		return err
	}
	entry.Version = w.Version
	change.added = append(change.added, entry)
	return nil
}

// joined picks the segments that one of so many parts replaces, loaded: those at most twice as large as what comes
// before them and the smallest beyond a number, so that zones are rewritten a logarithmic number of times.
func (z *zoneFeed) joined(ctx context.Context, c *zoneColumn, typ arrow.DataType, parts []zonemap.Part) ([]*zoneSegment, error) {
	zones := 0
	for _, p := range parts {
		zones += p.Stats.Zones()
	}
	var own, out []*zoneSegment
	for _, s := range c.segs {
		if !s.own {
			continue
		}
		x, err := s.load(ctx, z.t, typ)
		switch {
		case err != nil:
			return nil, err
		case x == nil:
			out = append(out, s)
		case x.RowsPerZone() == parts[0].Stats.RowsPerZone() && x.Version() == z.options.Version:
			own = append(own, s)
		}
	}
	sort.SliceStable(own, func(i, j int) bool { return own[i].x.Zones() < own[j].x.Zones() })
	for n, s := range own {
		if s.x.Zones() > 2*zones && len(own)-n < zoneSegmentsMax {
			break
		}
		zones += s.x.Zones()
		out = append(out, s)
	}
	return out, nil
}

// publish leaves the statistics of the new fragments, in order, with the version that has them.
func (z *zoneFeed) publish(nb *base) {
	n := 0
	for _, f := range nb.frags {
		if z.b.byID[uint32(f.ID)] == nil && n < len(z.done) {
			nb.zones.keep(uint32(f.ID), z.done[n])
			n++
		}
	}
}
