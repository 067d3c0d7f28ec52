package lsm_test

import (
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/internal/predicate"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// zoneEntries are the zone maps of the newest version by name, and how many of its fragments each covers.
func (m *model) zoneEntries() (entries map[string][]table.IndexEntry, covered map[string]int, fragments int) {
	ds, err := table.Open(m.t.Context(), m.store, "db/t.lance")
	require.NoError(m.t, err)
	list, err := ds.Indexes()
	require.NoError(m.t, err)
	live := roaring.New()
	for _, f := range ds.Fragments() {
		live.Add(uint32(f.ID))
	}
	entries, covered = map[string][]table.IndexEntry{}, map[string]int{}
	for _, e := range list {
		if info, ok := indexes.KindOf(e.DetailsType); ok && info.Kind == indexes.ZoneMap {
			entries[e.Name] = append(entries[e.Name], e)
			covered[e.Name] += int(roaring.And(e.Fragments, live).GetCardinality())
		}
	}
	return entries, covered, len(ds.Fragments())
}

// fill merges n new rows from an id on.
func (m *model) fill(from, n int64) {
	var ops []lsm.Op
	next := map[int64]int32{}
	for id := range m.now {
		next[id] = m.now[id]
	}
	for id := from; id < from+n; id++ {
		next[id] = int32(id % 1000)
		ops = append(ops, lsm.Op{Key: m.key(id), Row: m.row(cell(next[id]), id, next[id])})
	}
	m.write(ops)
	m.now = next
	require.NoError(m.t, m.table.Freeze())
	require.NoError(m.t, m.table.Flush(m.t.Context()))
	require.NoError(m.t, m.table.Merge(m.t.Context(), m.hooks()))
}

func (m *model) reopen(z lsm.ZoneMapOptions) {
	require.NoError(m.t, m.table.Close(m.t.Context()))
	m.zones = z
	m.open()
}

func zoneNames() []string {
	return []string{lsm.ZoneMapIndex("v"), lsm.ZoneMapIndex("id"), lsm.ZoneMapIndex("n")}
}

// Segments are written when enough rows wait; the rows that waited when the table was closed, and what another writer
// brought, get zones as well.
func TestZoneMapsWaitAndCatchUp(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: 60})
	m.fill(0, 25)
	m.fill(100, 25)
	entries, _, fragments := m.zoneEntries()
	require.Empty(t, entries)
	require.Positive(t, fragments)
	m.reopen(m.zones)
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	m.appendOutside(ds, 5000, 7)
	m.now[5000] = 7
	m.fill(200, 10)
	_, covered, fragments := m.zoneEntries()
	for _, name := range zoneNames() {
		require.Equal(t, fragments, covered[name], name)
	}
	m.spared = sparedRows{}
	m.check()
	require.Positive(t, m.spared.Zones)

	m.reopen(lsm.ZoneMapOptions{Off: true})
	m.fill(300, 100)
	_, later, _ := m.zoneEntries()
	require.Equal(t, covered, later)
	m.spared = sparedRows{}
	m.check()
	require.Positive(t, m.spared.Zones, "those that are there are used")
}

// What waits for its segment is not read again, and each fragment gets its own statistics.
func TestZoneMapsOfWaitingFragments(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: 60})
	m.fill(0, 25)
	m.fill(100, 25)
	m.put(101, 3) // one of the waiting rows dies
	m.fill(200, 25)
	_, covered, fragments := m.zoneEntries()
	require.Greater(t, fragments, 3)
	for _, name := range zoneNames() {
		require.Equal(t, fragments, covered[name], name)
	}
	m.spared = sparedRows{}
	for range 20 {
		m.check()
	}
	require.Positive(t, m.spared.RowsPruned)
}

// pruning is what zone maps spare a scan for keys that are not there.
func (m *model) pruning() lsm.Pruning {
	snap, err := m.table.Snapshot(m.visible)
	require.NoError(m.t, err)
	defer snap.Release()
	p, err := snap.Pruning(m.t.Context(), predicate.Compare{Column: 1, Op: predicate.Lt, Value: int64(-5)})
	require.NoError(m.t, err)
	return p
}

// A bitmap may name fragments that the file has no zones of, as after a compaction by pylance: the next merge sees it.
func TestZoneMapWithTooWideBitmap(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: -1})
	m.fill(0, 40)
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	m.appendOutside(ds, 5000, 7)
	m.now[5000] = 7
	ds, err = table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	last := uint32(ds.Fragments()[len(ds.Fragments())-1].ID)
	entries, _, _ := m.zoneEntries()
	var wide []table.IndexEntry
	for _, list := range entries {
		for _, e := range list {
			e.Fragments = e.Fragments.Clone()
			e.Fragments.Add(last)
			wide = append(wide, e)
		}
	}
	_, err = ds.Commit(t.Context(), table.CreateIndex{New: wide})
	require.NoError(t, err)
	_, err = m.table.Adopt(t.Context(), m.hooks())
	require.NoError(t, err)
	m.check()
	p := m.pruning()
	require.EqualValues(t, p.Rows-1, p.RowsPruned)
	for i := range int64(3) {
		m.fill(100*(i+1), 3)
		m.check()
		p = m.pruning()
		require.Equal(t, p.Rows, p.RowsPruned)
		require.Equal(t, p.Fragments, p.FragmentsPruned)
	}
	later, _, _ := m.zoneEntries()
	for _, list := range later {
		require.LessOrEqual(t, len(list), 3)
	}
}

// Many merges leave few segments.
func TestZoneMapSegmentsAreFew(t *testing.T) {
	m := newModel(t, 1)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: -1})
	for i := range int64(25) {
		m.fill(i*100, 2+(i*37)%40)
		entries, covered, fragments := m.zoneEntries()
		require.Len(t, entries, m.schema.NumFields())
		for _, name := range zoneNames() {
			require.LessOrEqual(t, len(entries[name]), 3, name)
			require.Equal(t, fragments, covered[name], name)
		}
	}
	m.check()
}

// A damaged segment costs what it would have spared, until the next merge replaces it.
func TestDamagedZoneMap(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: -1})
	m.fill(0, 40)
	entries, _, _ := m.zoneEntries()
	for _, list := range entries {
		for _, e := range list {
			name := indexes.SegmentDir("db/t.lance", e.UUID) + "/" + e.Files[0].Path
			require.NoError(t, m.store.Put(t.Context(), name, []byte("no zone map at all, but long enough")))
		}
	}
	m.reopen(m.zones)
	m.spared = sparedRows{}
	m.check()
	require.Zero(t, m.spared.Zones)
	m.fill(100, 20)
	later, _, _ := m.zoneEntries()
	for name, list := range later {
		for _, e := range list {
			require.NotEqual(t, entries[name][0].UUID, e.UUID)
		}
	}
	m.spared = sparedRows{}
	m.check()
	require.Positive(t, m.spared.Zones)
}

// A snapshot goes on with the zones of its own version.
func TestOldSnapshotWithZones(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: -1})
	m.fill(0, 40)
	snap, err := m.table.Snapshot(m.visible)
	require.NoError(t, err)
	defer snap.Release()
	for i := range int64(4) {
		m.fill(0, 40) // every row again: the fragments of the snapshot go
		m.fill(100*(i+1), 20)
	}
	spec := lsm.ScanSpec{Columns: []int{1, 2, 0}, Filter: predicate.Compare{Column: 2, Op: predicate.Lt, Value: int32(5)}}
	require.Equal(t, map[int64]int32{0: 0, 1: 1, 2: 2, 3: 3, 4: 4}, m.scan(snap, spec, nil))
	require.Positive(t, m.spared.RowsPruned)
}

// A compaction takes the fragments it rewrites out of the old segments and gives the new ones theirs, in the version that
// moves the rows; what waits for its segment does not hinder it.
func TestZoneMapsOfCompactions(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: 12})
	for i := range int64(6) {
		m.fill(100*i, 5)
	}
	m.write([]lsm.Op{{Key: m.key(201)}, {Key: m.key(401)}})
	delete(m.now, 201)
	delete(m.now, 401)
	m.fill(900, 1)
	_, before, _ := m.zoneEntries()
	done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{})
	require.NoError(t, err)
	require.NotZero(t, done.Groups)
	_, covered, fragments := m.zoneEntries()
	for _, name := range zoneNames() {
		require.NotZero(t, before[name], name)
		require.Equal(t, fragments, covered[name], name)
	}
	m.check()
	p := m.pruning()
	require.Equal(t, p.Fragments, p.FragmentsPruned)
}

// OPTIMIZE gives zones to whatever has none, once.
func TestZoneMapsCatchUp(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: 1000})
	m.fill(0, 9)
	m.fill(100, 9)
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	m.appendOutside(ds, 5000, 7)
	m.now[5000] = 7
	entries, _, _ := m.zoneEntries()
	require.Empty(t, entries)
	done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{CatchUp: true})
	require.NoError(t, err)
	require.Equal(t, 3, done.CaughtUp)
	_, covered, fragments := m.zoneEntries()
	for _, name := range zoneNames() {
		require.Equal(t, fragments, covered[name], name)
	}
	m.check()
	done, err = m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{CatchUp: true})
	require.NoError(t, err)
	require.Zero(t, done)

	// Another zone size is for what is written from then on.
	m.table.Tune(lsm.Tuning{ZoneMaps: lsm.ZoneMapOptions{RowsPerZone: 2, EveryRows: -1}})
	m.fill(200, 6)
	m.check()
	later, covered, fragments := m.zoneEntries()
	for _, name := range zoneNames() {
		require.Len(t, later[name], 2, name)
		require.Equal(t, fragments, covered[name], name)
	}
	m.table.Tune(lsm.Tuning{ZoneMaps: lsm.ZoneMapOptions{Off: true}})
	m.fill(300, 6)
	_, off, _ := m.zoneEntries()
	require.Equal(t, covered, off)
	m.check()
}
