package zonemap_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonemap"
	"lancesql/internal/testkit/indextable"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

const zoneRows = 16

// openEntry opens a segment as an engine does, from its entry alone.
func openEntry(t testing.TB, tb *indextable.Table, e table.IndexEntry, c indextable.Column) *zonemap.Segment {
	t.Helper()
	info, ok := indexes.KindOf(e.DetailsType)
	require.True(t, ok && info.Kind == indexes.ZoneMap && info.Readable(e.Version), "%s version %d", e.DetailsType, e.Version)
	d, err := zonemap.DecodeDetails("manifest", e.Details)
	require.NoError(t, err)
	dir := store.NewDir(tb.Store, tb.Root+"/_indices/"+e.UUID.String(), nil)
	s, err := zonemap.Open(context.Background(), dir, zonemap.Spec{Version: e.Version, Fragments: e.Fragments, Type: c.Type})
	require.NoError(t, err)
	require.Equal(t, d.HasNullBitmap, s.HasNullBitmap())
	require.Equal(t, *d.RowsPerZone, s.RowsPerZone())
	return s
}

// checkSegments compares what segments leave with the rows that match.
func checkSegments(t *testing.T, tb *indextable.Table, d *table.Dataset, segs []*zonemap.Segment, filters []indextable.Filter) (kept, total int) {
	for _, f := range filters {
		_, addrs := tb.Matches(t, d, f.Expr)
		sel, err := zonemap.Prune(f.Expr, func(int) []*zonemap.Segment { return segs })
		require.NoError(t, err)
		kept, total = kept+sel.ZonesKept, total+sel.Zones
		for _, a := range addrs {
			require.True(t, inSelection(sel, a.Fragment(), uint64(a.Offset())), "%s loses %s", f.SQL, a)
		}
		for _, s := range segs {
			switch f.Kind {
			case "null":
				checkExact(t, s, indexes.IsNull{}, addrs, true)
			case "notnull":
				checkExact(t, s, indexes.NotNull{}, addrs, false)
			}
		}
	}
	return kept, total
}

// checkExact compares an exact answer with the live rows that match.
func checkExact(t *testing.T, s *zonemap.Segment, q indexes.Query, addrs []rowaddr.Addr, all bool) {
	res, err := s.Search(context.Background(), q)
	require.NoError(t, err)
	require.True(t, res.Exact)
	n := 0
	for _, a := range addrs {
		if res.Fragments.Contains(a.Fragment()) {
			require.True(t, res.Addrs.Contains(a), "%+v loses %s", q, a)
			n++
		}
	}
	if count, _ := res.Addrs.Count(); all { // deleted rows were left out when the index was built
		require.EqualValues(t, n, count)
	}
}

// Segments that pylance built prune for us, and lose nothing.
func TestReadsReference(t *testing.T) {
	tb := indextable.New(t, 1)
	var builds []indextable.Build
	for _, c := range tb.Columns {
		builds = append(builds, indextable.Build{Column: c.Name, Kind: "zonemap", Name: "z_" + c.Name, Params: map[string]any{"rows_per_zone": zoneRows}})
	}
	require.Empty(t, tb.ReferenceBuild(t, builds))
	d := tb.Latest(t)
	for i, c := range tb.Columns {
		var segs []*zonemap.Segment
		for _, e := range tb.Entries(t, d, "z_"+c.Name) {
			s := openEntry(t, tb, e, c)
			sameStatistics(t, s, stats(t, tb, c, zoneRows))
			segs = append(segs, s)
		}
		kept, total := checkSegments(t, tb, d, segs, indextable.Filters(i))
		t.Logf("%s: %d of %d zones kept", c.Name, kept, total)
		if zonemap.Supports(c.Type) && len(c.Pool) > 2 {
			require.Less(t, kept*4, total*3, c.Name)
		}
	}
}

// stats builds the statistics of the live rows of each fragment.
func stats(t testing.TB, tb *indextable.Table, c indextable.Column, rowsPerZone uint64) []zonemap.Part {
	ctx := context.Background()
	b, err := zonemap.NewBuilder(c.Type, zonemap.Options{RowsPerZone: rowsPerZone, BoundBytesMax: 1 << 20})
	require.NoError(t, err)
	var parts []zonemap.Part
	rd, err := tb.D.Rows(ctx, table.ScanOptions{Columns: []string{c.Name}, RowAddress: true, BatchRows: 50})
	require.NoError(t, err)
	defer rd.Close()
	for {
		rec, err := rd.Next()
		if err != nil {
			return append(parts[:len(parts)-1], zonemap.Part{Fragment: parts[len(parts)-1].Fragment, Stats: b.Finish()})
		}
		var offsets []uint32
		f := rowaddr.Addr(rec.Column(1).(*array.Uint64).Value(0)).Fragment()
		for _, a := range rec.Column(1).(*array.Uint64).Uint64Values() {
			require.Equal(t, f, rowaddr.Addr(a).Fragment())
			offsets = append(offsets, rowaddr.Addr(a).Offset())
		}
		if len(parts) == 0 || parts[len(parts)-1].Fragment != f {
			if len(parts) > 0 {
				parts[len(parts)-1].Stats = b.Finish()
			}
			parts = append(parts, zonemap.Part{Fragment: f})
		}
		require.NoError(t, b.AppendAt(rec.Column(0), offsets))
		rec.Release()
	}
}

// sameStatistics requires that what pylance gathered is what we gather.
func sameStatistics(t *testing.T, theirs *zonemap.Segment, parts []zonemap.Part) {
	ctx := context.Background()
	dir := store.NewDir(memStore(), "", nil)
	w, err := zonemap.Write(ctx, dir, parts, zonemap.WriteOptions{})
	require.NoError(t, err)
	ours, err := zonemap.Open(ctx, dir, zonemap.Spec{Fragments: w.Fragments, Type: parts[0].Stats.Type()})
	require.NoError(t, err)
	require.Equal(t, ours.Zones(), theirs.Zones())
	for i := range ours.Zones() {
		require.Equal(t, print(ours.At(i)), print(theirs.At(i)))
	}
	for _, q := range []indexes.Query{indexes.IsNull{}, indexes.NotNull{}} {
		a, err := ours.Search(ctx, q)
		require.NoError(t, err)
		b, err := theirs.Search(ctx, q)
		require.NoError(t, err)
		require.Equal(t, slices.Collect(a.Addrs.All()), slices.Collect(b.Addrs.All()))
	}
}

// entries writes segments over some fragments each, which belong to one index.
func entries(t testing.TB, tb *indextable.Table, c indextable.Column, version int32, groups ...[]zonemap.Part) []table.IndexEntry {
	info, _ := indexes.InfoOf(indexes.ZoneMap)
	var out []table.IndexEntry
	for _, parts := range groups {
		id := uuid.New()
		w, err := zonemap.Write(context.Background(), store.NewDir(tb.Store, tb.Root+"/_indices/"+id.String(), nil), parts,
			zonemap.WriteOptions{Version: version, UseSeeds: zonemap.SeedsByDefault(c.Type)})
		require.NoError(t, err)
		out = append(out, table.IndexEntry{UUID: id, Name: "z_" + c.Name, Fields: []int32{tb.Field(c.Name)}, DatasetVersion: tb.D.Version(),
			Fragments: w.Fragments, DetailsType: info.TypeURL, Details: w.Details, Version: w.Version, CreatedAt: time.Now(),
			Files: []table.IndexFile{{Path: w.File.Name, Size: w.File.Size}}})
	}
	return out
}

// Segments of ours are used by pylance, whose answers are those of its scan.
func TestReferenceReads(t *testing.T) {
	tb := indextable.New(t, 2)
	var op table.CreateIndex
	for i, c := range tb.Columns {
		parts := stats(t, tb, c, zoneRows)
		if i%2 == 0 {
			op.New = append(op.New, entries(t, tb, c, 0, parts)...)
		} else {
			op.New = append(op.New, entries(t, tb, c, 0, parts[:2], parts[2:])...)
		}
	}
	_, err := tb.D.Commit(context.Background(), op)
	require.NoError(t, err)
	var filters []indextable.Filter
	for i := range tb.Columns {
		filters = append(filters, indextable.Sample(indextable.Filters(i), 4, i)...)
	}
	used := 0
	for k, a := range tb.ReferenceQuery(t, filters) {
		f := filters[k]
		require.Empty(t, a.Error, f.SQL)
		if a.Used("z_" + f.Column) {
			used++
		} else if f.Column != "bool" { // pylance scans for NOT b
			require.Equal(t, "other", f.Kind, "%s: not used\n%s", f.SQL, a.Plan)
		}
		require.Equal(t, a.Scanned, a.Indexed, "%s\n%s", f.SQL, a.Plan)
	}
	require.Greater(t, used*2, len(filters))
}

// pylance 14.0.2 passes over version 1 and scans; we read it.
func TestReferencePassesOverVersion1(t *testing.T) {
	tb := indextable.New(t, 8)
	var op table.CreateIndex
	var filters []indextable.Filter
	for i, c := range tb.Columns {
		if c.Name == "float64" || c.Name == "utf8" {
			op.New = append(op.New, entries(t, tb, c, 1, stats(t, tb, c, zoneRows))...)
			filters = append(filters, indextable.Sample(indextable.Filters(i), 3, i)...)
		}
	}
	d, err := tb.D.Commit(context.Background(), op)
	require.NoError(t, err)
	for k, a := range tb.ReferenceQuery(t, filters) {
		require.Empty(t, a.Error)
		require.False(t, a.Used("z_"+filters[k].Column), a.Plan)
		require.Equal(t, a.Scanned, a.Indexed)
	}
	for i, c := range tb.Columns {
		if c.Name == "float64" || c.Name == "utf8" {
			s := openEntry(t, tb, tb.Entries(t, d, "z_"+c.Name)[0], c)
			require.EqualValues(t, 1, s.Version())
			kept, total := checkSegments(t, tb, d, []*zonemap.Segment{s}, indextable.Filters(i))
			require.Less(t, kept*4, total*3)
		}
	}
}

// pylance leaves seeds for indexes of ours when it appends, and takes our segments into the ones it writes.
func TestReferenceUpdatesOurs(t *testing.T) {
	tb := indextable.New(t, 9)
	var op table.CreateIndex
	for _, c := range tb.Columns {
		op.New = append(op.New, entries(t, tb, c, 0, stats(t, tb, c, zoneRows))...)
	}
	_, err := tb.D.Commit(context.Background(), op)
	require.NoError(t, err)
	tb.ReferenceRun(t, "append", map[string]int{"rows": 100}, new(map[string]any))
	d := tb.Latest(t)
	f := d.Fragments()[len(d.Fragments())-1]
	for _, c := range tb.Columns {
		if _, ok := harvest(t, tb, d, f, c, zoneRows); zonemap.SeedsByDefault(c.Type) {
			require.True(t, ok, "%s: no seed", c.Name)
		} else {
			require.False(t, ok, "%s: a seed nobody asked for", c.Name)
		}
	}
	tb.ReferenceRun(t, "optimize", map[string]int{}, new(map[string]any))
	d = tb.Latest(t)
	for i, c := range tb.Columns {
		var segs []*zonemap.Segment
		var covered uint64
		for _, e := range tb.Entries(t, d, "z_"+c.Name) {
			s := openEntry(t, tb, e, c)
			segs, covered = append(segs, s), covered+s.Coverage().GetCardinality()
		}
		require.EqualValues(t, indextable.Fragments+1, covered, c.Name)
		checkSegments(t, tb, d, segs, indextable.Sample(indextable.Filters(i), 2, i))
	}
}
