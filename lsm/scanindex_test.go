package lsm_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
	"lancesql/lsm"
)

func scanDefs() []lsm.ScanIndex {
	return []lsm.ScanIndex{{Name: "map_n", Column: 2, Kind: indexes.Bitmap}, {Name: "bloom_v", Column: 0, Kind: indexes.Bloom}}
}

// scanEntries are the segments of an index, and how many fragments of the newest version their bitmaps name.
func (m *model) scanEntries(name string) (entries []table.IndexEntry, covered, fragments int) {
	ds, err := table.Open(m.t.Context(), m.store, "db/t.lance")
	require.NoError(m.t, err)
	list, err := ds.Indexes()
	require.NoError(m.t, err)
	live := roaring.New()
	for _, f := range ds.Fragments() {
		live.Add(uint32(f.ID))
	}
	for _, e := range list {
		if e.Name == name {
			entries = append(entries, e)
			covered += int(roaring.And(e.Fragments, live).GetCardinality())
		}
	}
	return entries, covered, len(ds.Fragments())
}

// reads is what a scan with a filter reads.
func (m *model) reads(e predicate.Expr, want int) *lsm.ReadStats {
	snap, err := m.table.Snapshot(m.visible)
	require.NoError(m.t, err)
	defer snap.Release()
	st := new(lsm.ReadStats)
	require.Len(m.t, m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}, Filter: e, Stats: st, Verify: true}, nil), want)
	return st
}

// scanned is a table of 8 merges of 50 rows without zone maps: n from 0 to 49, v as in the model.
func scanned(t *testing.T, m *model) *model {
	m.scans = scanDefs()
	m.rows = 100
	m.reopen(lsm.ZoneMapOptions{Off: true})
	for round := range int64(8) {
		var ops []lsm.Op
		next := maps.Clone(m.now)
		for i := range int64(50) {
			id, n := round*50+i, int32((i*7+round)%50)
			ops = append(ops, lsm.Op{Key: m.key(id), Row: []any{cell(n), id, n}})
			next[id] = n
		}
		m.write(ops)
		m.write([]lsm.Op{{Key: m.key(round * 40)}})
		delete(next, round*40)
		m.now = next
		m.mergeAll()
	}
	return m
}

func (m *model) mergeAll() {
	require.NoError(m.t, m.table.Freeze())
	require.NoError(m.t, m.table.Flush(m.t.Context()))
	require.NoError(m.t, m.table.Merge(m.t.Context(), m.hooks()))
}

// checkScan is check for a table without secondary indexes.
func (m *model) checkScan() {
	m.reads(predicate.Const{Value: true}, len(m.now))
	for n := range int32(50) {
		m.reads(isN(n), m.count(n))
	}
	m.reads(isV("v7"), m.count(7))
}

func isN(n int32) predicate.Expr { return predicate.Compare{Column: 2, Op: predicate.Eq, Value: n} }

func isV(v string) predicate.Expr { return predicate.Compare{Column: 0, Op: predicate.Eq, Value: v} }

func (m *model) count(n int32) int {
	k := 0
	for _, v := range m.now {
		if v == n {
			k++
		}
	}
	return k
}

// TestScanIndexes: merges keep bitmaps and bloom filters in few segments, scans read what they leave; after a compaction
// bitmaps follow through the history until they are rewritten, bloom filters are there anew; after a recluster both are.
func TestScanIndexes(t *testing.T) {
	m := scanned(t, newModel(t, 0))
	small := func() {
		t.Helper()
		st := m.reads(isN(7), m.count(7))
		require.Positive(t, st.Segments)
		require.EqualValues(t, m.count(7), st.RowsRead, "a bitmap is exact")
		require.Zero(t, m.reads(isV("v77"), 0).RowsRead, "no filter has it")
		m.check()
	}
	full := func() {
		t.Helper()
		for _, d := range scanDefs() {
			entries, covered, fragments := m.scanEntries(d.Name)
			require.Equal(t, fragments, covered, d.Name)
			require.LessOrEqual(t, len(entries), 8, d.Name)
		}
		small()
	}
	full()
	m.reopen(m.zones)
	full()
	done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{})
	require.NoError(t, err)
	require.NotZero(t, done.Groups)
	_, covered, fragments := m.scanEntries("bloom_v")
	require.Equal(t, fragments, covered)
	_, covered, _ = m.scanEntries("map_n")
	require.Less(t, covered, fragments)
	require.Positive(t, m.reads(isN(7), m.count(7)).Hops)
	small()
	done, err = m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{RemapFrom: 1, CatchUp: true})
	require.NoError(t, err)
	require.NotZero(t, done.Remapped)
	require.NotZero(t, done.Trimmed)
	full()
	_, err = m.table.Recluster(t.Context(), m.hooks(), lsm.Recluster{Columns: []int{2}, Buckets: 5})
	require.NoError(t, err)
	full()
	_, err = m.table.Recluster(t.Context(), m.hooks(), lsm.Recluster{Columns: []int{1}, Buckets: 5, Publish: true})
	require.NoError(t, err)
	small()
	m.fill(5000, 20)
	small()

	require.NoError(t, m.table.DropScanIndex(t.Context(), m.hooks(), "map_n"))
	entries, _, _ := m.scanEntries("map_n")
	require.Empty(t, entries)
	require.Greater(t, m.reads(isN(7), m.count(7)).RowsRead, uint64(m.count(7)))
	m.check()
	_, err = m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{CatchUp: true}) // builds it anew
	require.NoError(t, err)
	small()
}

// A damaged segment costs what it would have spared, until a merge replaces it.
func TestDamagedScanIndex(t *testing.T) {
	m := scanned(t, newModel(t, 0))
	was := map[string]bool{}
	for _, d := range scanDefs() {
		entries, _, _ := m.scanEntries(d.Name)
		for _, e := range entries {
			was[e.UUID.String()] = true
			require.NoError(t, m.store.Put(t.Context(), indexes.SegmentDir("db/t.lance", e.UUID)+"/"+e.Files[0].Path, []byte("no index at all, but long enough")))
		}
	}
	m.reopen(m.zones)
	require.Greater(t, m.reads(isN(7), m.count(7)).RowsRead, uint64(300))
	m.check()
	m.fill(9000, 9)
	require.EqualValues(t, m.count(7), m.reads(isN(7), m.count(7)).RowsRead)
	for _, d := range scanDefs() {
		entries, _, _ := m.scanEntries(d.Name)
		for _, e := range entries {
			require.False(t, was[e.UUID.String()], d.Name)
		}
	}
	m.check()
}

// A damaged segment of somebody else over a column of an index of ours does not stand in its way.
func TestDamagedScanIndexOfOthers(t *testing.T) {
	m := scanned(t, newModel(t, 0))
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	entries, _, _ := m.scanEntries("map_n")
	var op table.CreateIndex
	for _, e := range entries {
		require.NoError(t, m.store.Put(t.Context(), indexes.SegmentDir("db/t.lance", e.UUID)+"/"+e.Files[0].Path, []byte("no index at all, but long enough")))
		op.Removed = append(op.Removed, e.UUID)
		e.Name = "theirs"
		op.New = append(op.New, e)
	}
	_, err = ds.Commit(t.Context(), op)
	require.NoError(t, err)
	m.reopen(m.zones)
	m.check()
	for range 2 {
		_, err = m.table.CatchUp(t.Context(), m.hooks())
		require.NoError(t, err)
	}
	require.EqualValues(t, m.count(7), m.reads(isN(7), m.count(7)).RowsRead)
	n, err := m.table.CatchUp(t.Context(), m.hooks())
	require.NoError(t, err)
	require.Zero(t, n)
	m.check()
}

// TestScanIndexesWithPylance: its plans name our bitmaps and bloom filters and its answers are right, after merges,
// compactions and a recluster; those that it builds narrow our scans, and ours are extended beside them.
func TestScanIndexesWithPylance(t *testing.T) {
	root := t.TempDir()
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	m := newModelOn(t, 0, st)
	m.noIndexes = true
	scanned(t, m)
	path := filepath.Join(root, "db", "t.lance")
	filters := []string{"n = 7", "n in (1, 3)", "n < 2", "v = 'v7'", "v is null", "v = 'none'"}
	check := func(ours bool) {
		t.Helper()
		got := askPylance(t, path, filters)
		require.Equal(t, len(m.now), got.Count)
		for i, f := range got.Filters {
			require.Equal(t, f.Scan, f.Rows, filters[i])
			if ours {
				require.Contains(t, f.Plan, map[bool]string{true: "map_n(Bitmap)", false: "bloom_v(BloomFilter)"}[filters[i][0] == 'n'], filters[i])
			}
		}
		want := []int64{}
		for _, id := range slices.Sorted(maps.Keys(m.now)) {
			if m.now[id] == 7 {
				want = append(want, id)
			}
		}
		require.Equal(t, want, got.Filters[0].Rows)
		require.Equal(t, want, got.Filters[3].Rows)
		require.NotEmpty(t, got.Filters[4].Rows)
	}
	check(true)
	_, err = m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{})
	require.NoError(t, err)
	check(true)
	_, err = m.table.Recluster(t.Context(), m.hooks(), lsm.Recluster{Columns: []int{2}, Buckets: 4})
	require.NoError(t, err)
	check(true)

	// Theirs.
	m.scans = nil
	m.reopen(m.zones)
	for _, d := range scanDefs() {
		require.NoError(t, m.table.DropScanIndex(t.Context(), m.hooks(), d.Name))
	}
	oracle.RunPython(t, "lsm_index.py", "make", path, "theirs_n", "n", "BITMAP")
	oracle.RunPython(t, "lsm_index.py", "make", path, "theirs_v", "v", "BLOOMFILTER")
	_, err = m.table.Adopt(t.Context(), m.hooks())
	require.NoError(t, err)
	m.checkScan()
	require.EqualValues(t, m.count(7), m.reads(isN(7), m.count(7)).RowsRead)
	require.Zero(t, m.reads(isV("v77"), 0).RowsRead)
	m.fill(5000, 30)
	_, err = m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{RemapFrom: 1})
	require.NoError(t, err)
	m.checkScan()
	require.Less(t, m.reads(isN(7), m.count(7)).RowsRead, uint64(m.count(7)+50))
	check(false)
	_, err = m.table.Recluster(t.Context(), m.hooks(), lsm.Recluster{Columns: []int{1}, Buckets: 4})
	require.NoError(t, err)
	require.EqualValues(t, m.count(7), m.reads(isN(7), m.count(7)).RowsRead)
	require.Zero(t, m.reads(isV("v77"), 0).RowsRead)
	var said lancedbSays
	require.NoError(t, json.Unmarshal(oracle.RunNode(t, "lsm_index.mjs", filepath.Join(root, "db"), "n = 7"), &said))
	require.Empty(t, said.Error)
	require.Len(t, said.Filters[0].Rows, m.count(7))
	require.Contains(t, said.Filters[0].Plan, "theirs_n")
}
