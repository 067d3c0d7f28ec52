package lsm

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/memtable"
)

// Locate finds the row of a key at the snapshot; a deleted key has none.
func (s *Snapshot) Locate(ctx context.Context, k rowkey.Key) (Location, bool, error) {
	p, err := s.Find(ctx, k)
	return p.f.loc, p.Live(), err
}

// Place is what a look-up found for a key: the newest row, or that there is none. It stays true as long as its Version
// is the newest and nobody else writes the key. The zero Place knows nothing.
type Place struct {
	v *Version // only compared: a Place keeps nothing open
	f found
}

// Live reports whether there is a row, and none that deletes the key.
func (p Place) Live() bool { return p.f.ok && !p.f.tombstone }

// Find looks a key up. Op takes the Place, so that a writer that holds the key's lock since before this call need not look
// again.
//
// errs.ErrUnsupported in a table without a key.
func (s *Snapshot) Find(ctx context.Context, k rowkey.Key) (Place, error) {
	if err := s.t.requireKey(); err != nil {
		return Place{}, err
	}
	f, err := s.v.locateOne(ctx, k, s.s)
	return Place{v: s.v, f: f}, err
}

// Row returns the columns (physical positions) of the row of a key at the snapshot.
func (s *Snapshot) Row(ctx context.Context, k rowkey.Key, cols []int) (arrowx.Row, bool, error) {
	p, err := s.Find(ctx, k)
	if err != nil {
		return nil, false, err
	}
	return s.RowAt(ctx, p, cols)
}

// RowAt is Row for what Find of this snapshot returned.
func (s *Snapshot) RowAt(ctx context.Context, p Place, cols []int) (arrowx.Row, bool, error) {
	if !p.Live() {
		return nil, false, nil
	}
	row, err := s.t.fetchRow(ctx, s.v, p.f.loc, cols)
	return row, err == nil, err
}

// fetchRow reads one row by location, alive or not.
func (t *Table) fetchRow(ctx context.Context, v *Version, loc Location, cols []int) (arrowx.Row, error) {
	rec, err := t.fetch(ctx, v, []Location{loc}, cols)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	return arrowx.RowOf(rec, 0), nil
}

// group is the wanted rows of one fragment or MemTable.
type group struct {
	loc  Location // of any of its rows
	offs []uint32
	idx  []int // where each row stands in the result
}

// fetch reads rows by location, in the order given. Columns are physical positions.
func (t *Table) fetch(ctx context.Context, v *Version, locs []Location, cols []int) (arrow.RecordBatch, error) {
	schema := ScanSpec{Columns: cols}.OutputSchema(t.physical)
	if len(cols) == 0 {
		return array.NewRecordBatch(schema, nil, int64(len(locs))), nil
	}
	type groupKey struct {
		source SourceID
		frag   uint32
	}
	groups := make(map[groupKey]*group)
	var order []*group
	for i, l := range locs {
		k := groupKey{l.Source, l.Addr.Fragment()}
		g := groups[k]
		if g == nil {
			g = &group{loc: l}
			groups[k] = g
			order = append(order, g)
		}
		g.offs = append(g.offs, l.Addr.Offset())
		g.idx = append(g.idx, i)
	}
	recs := make([]arrow.RecordBatch, 0, len(order))
	defer func() {
		for _, r := range recs {
			r.Release()
		}
	}()
	take := make([]int, len(locs))
	at := 0
	for _, g := range order {
		sort.Sort(g)
		rec, err := t.fetchGroup(ctx, v, g, schema, cols)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
		for i, idx := range g.idx {
			take[idx] = at + i
		}
		at += len(g.offs)
	}
	return arrange(t, schema, recs, take)
}

// arrange concatenates recs and puts row take[i] of the result at place i.
func arrange(t *Table, schema *arrow.Schema, recs []arrow.RecordBatch, take []int) (arrow.RecordBatch, error) {
	if len(recs) == 0 {
		return arrowx.FromRows(t.o.Alloc, schema, nil)
	}
	all := recs[0]
	if len(recs) > 1 {
		var err error
		if all, err = arrowx.Concat(t.o.Alloc, recs); err != nil {
			return nil, err
		}
		defer all.Release()
	}
	if slices.IsSorted(take) {
		all.Retain()
		return all, nil
	}
	return arrowx.Take(t.o.Alloc, all, take)
}

// Len, Less and Swap sort a group by offset.
func (g *group) Len() int           { return len(g.offs) }
func (g *group) Less(i, j int) bool { return g.offs[i] < g.offs[j] }
func (g *group) Swap(i, j int) {
	g.offs[i], g.offs[j] = g.offs[j], g.offs[i]
	g.idx[i], g.idx[j] = g.idx[j], g.idx[i]
}

// fetchGroup reads ascending offsets of one source under the given schema.
func (t *Table) fetchGroup(ctx context.Context, v *Version, g *group, schema *arrow.Schema, cols []int) (arrow.RecordBatch, error) {
	if g.loc.Source == 0 {
		frag := v.base.byID[g.loc.Addr.Fragment()]
		if frag == nil {
			return nil, fmt.Errorf("base fragment %d: %w", g.loc.Addr.Fragment(), errs.ErrNotFound)
		}
		rec, err := v.base.ds.TakeFragment(ctx, frag, pick(v.base.fieldIDs, cols), g.offs)
		return withSchema(schema, rec, err)
	}
	gen := v.generation(g.loc.Source)
	if gen == nil {
		return nil, fmt.Errorf("generation %d: %w", g.loc.Source.generation(), errs.ErrNotFound)
	}
	if gen.mem != nil {
		return t.fetchMem(gen, g.offs, schema, cols)
	}
	rec, err := gen.ds.TakeFragment(ctx, gen.frag, pick(gen.fieldIDs, cols), g.offs)
	return withSchema(schema, rec, err)
}

// withSchema replaces the schema of rec, whose columns match by position. It takes over the reference.
func withSchema(schema *arrow.Schema, rec arrow.RecordBatch, err error) (arrow.RecordBatch, error) {
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	return array.NewRecordBatch(schema, rec.Columns(), rec.NumRows()), nil
}

// fetchMem reads ascending offsets of a MemTable.
func (t *Table) fetchMem(g *generation, offs []uint32, schema *arrow.Schema, cols []int) (arrow.RecordBatch, error) {
	chunks := g.mem.Batches(offs[len(offs)-1] + 1)
	defer func() {
		for _, c := range chunks {
			c.Batch.Release()
		}
	}()
	var recs []arrow.RecordBatch
	defer func() {
		for _, r := range recs {
			r.Release()
		}
	}()
	for len(offs) > 0 {
		c := chunkOf(chunks, offs[0])
		end := c.First + uint32(c.Batch.NumRows())
		var rows []int
		for len(offs) > 0 && offs[0] < end {
			rows = append(rows, int(offs[0]-c.First))
			offs = offs[1:]
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("row %d of generation %d: %w", offs[0], g.number, errs.ErrNotFound)
		}
		arrays := make([]arrow.Array, len(cols))
		for i, p := range cols {
			arrays[i] = c.Batch.Column(p)
		}
		view := array.NewRecordBatch(schema, arrays, c.Batch.NumRows())
		rec, err := arrowx.Take(t.o.Alloc, view, rows)
		view.Release()
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	if len(recs) == 1 {
		recs[0].Retain()
		return recs[0], nil
	}
	return arrowx.Concat(t.o.Alloc, recs)
}

// chunkOf finds the chunk that holds a row.
func chunkOf(chunks []memtable.Chunk, row uint32) memtable.Chunk {
	i := sort.Search(len(chunks), func(i int) bool { return chunks[i].First > row })
	return chunks[max(i-1, 0)]
}
