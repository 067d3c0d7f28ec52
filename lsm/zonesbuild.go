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
	builders []*zonemap.Builder // by physical position; nil: no zone map is kept
	done     [][]*zonemap.Stats // of the new fragments, in order
	rows     int64              // in them
}

func (t *Table) newZoneFeed(b *base) (*zoneFeed, error) {
	z := &zoneFeed{t: t, b: b, builders: make([]*zonemap.Builder, len(b.zones.columns))}
	for i := range b.zones.columns {
		if !b.zones.columns[i].kept {
			continue
		}
		var err error
		if z.builders[i], err = zonemap.NewBuilder(t.physical.Field(i).Type, zonemap.Options{RowsPerZone: t.o.ZoneMaps.RowsPerZone}); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// add takes the rows first, first+1, … of the fragment being written; rec has the physical columns.
func (z *zoneFeed) add(first uint64, rec arrow.RecordBatch) error {
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

// endFragment says that the fragment is complete.
func (z *zoneFeed) endFragment() {
	stats := make([]*zonemap.Stats, len(z.builders))
	for i, b := range z.builders {
		if b != nil {
			stats[i] = b.Finish()
		}
	}
	z.done = append(z.done, stats)
}

// finish adds one segment for each column to op, which deletes what it names from the base version, if enough rows wait
// for one: over the new fragments, those still without zones, and the smaller segments.
func (z *zoneFeed) finish(ctx context.Context, op *table.Update) error {
	gone := roaring.New()
	for _, id := range op.RemovedFragmentIDs {
		gone.Add(uint32(id))
	}
	if err := z.load(ctx); err != nil {
		return err
	}
	unread := z.unread(gone)
	waiting := z.rows
	for id := range z.b.zones.pending {
		if !gone.Contains(id) {
			waiting += int64(z.b.byID[id].PhysicalRows)
		}
	}
	for _, f := range unread {
		waiting += int64(f.PhysicalRows)
	}
	if waiting == 0 || waiting < z.t.o.ZoneMaps.EveryRows {
		return nil
	}
	fragments := make(map[uint32][]*zonemap.Stats, len(z.done))
	for id, stats := range z.b.zones.pending {
		if !gone.Contains(id) {
			fragments[id] = stats
		}
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
			return fmt.Errorf("zones of fragment %d: %w", f.ID, err)
		}
	}
	next := uint32(z.b.ds.NextFragmentID())
	for n, stats := range z.done {
		fragments[next+uint32(n)] = stats
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
		if err := z.write(ctx, c, z.t.physical.Field(i).Type, parts, gone, op); err != nil {
			return fmt.Errorf("zone map of column %s: %w", z.t.physical.Field(i).Name, err)
		}
	}
	return nil
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
		if z.b.zones.pending[id] != nil || gone.Contains(id) || len(z.missing(id)) == 0 {
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
func (z *zoneFeed) write(ctx context.Context, c *zoneColumn, typ arrow.DataType, parts []zonemap.Part, gone *roaring.Bitmap, op *table.Update) error {
	joined, err := z.joined(ctx, c, typ, parts)
	if err != nil {
		return err
	}
	for _, s := range joined {
		op.ReplacedIndexes = append(op.ReplacedIndexes, s.entry.UUID)
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
	op.ReplacedIndexes = append(op.ReplacedIndexes, c.dead...)
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("name an index segment: %w", err)
	}
	w, err := zonemap.Write(ctx, store.NewDir(z.t.o.Store, indexes.SegmentDir(z.t.root, id), z.t.o.Alloc), parts, zonemap.WriteOptions{Memory: z.t.o.Alloc})
	if err != nil {
		return err
	}
	files := []table.IndexFile{{Path: w.File.Name, Size: w.File.Size}}
	entry, err := indexes.NewEntry(indexes.ZoneMap, id, c.name, []int32{c.field}, w.Fragments, w.Details, files)
	if err != nil {
		return err
	}
	entry.Version = w.Version
	op.NewIndexes = append(op.NewIndexes, entry)
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
		case x.RowsPerZone() == parts[0].Stats.RowsPerZone():
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
