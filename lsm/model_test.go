package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// tableSchema has the key id.
func tableSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "v", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: keyPart("1")},
		{Name: "n", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
}

// compositeSchema has the key (tag, id), which has the order of id: see tag.
func compositeSchema() *arrow.Schema {
	f := tableSchema().Fields()
	f[1].Metadata = keyPart("2")
	return arrow.NewSchema(append(f, arrow.Field{Name: "tag", Type: arrow.BinaryTypes.String, Metadata: keyPart("1")}), nil)
}

func tag(id int64) string { return fmt.Sprintf("%07d", id/10) }

func keyPart(position string) arrow.Metadata {
	return arrow.NewMetadata(
		[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"}, []string{"true", position})
}

// journalRecord is one commit in the caller's journal.
type journalRecord struct {
	number uint64
	parts  []lsm.Part
}

// model is a table under test with the contents of every CommitSeq that is still registered.
type model struct {
	t     *testing.T
	rng   *rand.Rand
	store objstore.Store
	keys  *pkstore.Store
	table *lsm.Table
	enc   *rowkey.Encoder

	schema  *arrow.Schema
	keyCols []int

	journal []journalRecord // what the caller's journal keeps
	next    uint64          // number of its next record

	visible uint64
	now     map[int64]int32            // contents at visible
	views   map[uint64]map[int64]int32 // registered views and what they must see
	counts  map[string]int

	noIndexes bool // secondary ones

	zones  lsm.ZoneMapOptions
	scans  []lsm.ScanIndex
	rows   int64      // of a fragment; 0: nine
	spared sparedRows // by zone maps, over all filtered scans
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	return newModelOn(t, seed, objstore.NewMem())
}

func newModelOn(t *testing.T, seed uint64, st objstore.Store) *model {
	t.Helper()
	keys, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keys.Close()) })
	m := &model{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), store: &besideStore{Store: st}, keys: keys, schema: tableSchema(), keyCols: []int{1},
		now: map[int64]int32{}, views: map[uint64]map[int64]int32{}, counts: map[string]int{},
	}
	if seed%3 == 1 {
		m.schema, m.keyCols = compositeSchema(), []int{3, 1}
	}
	m.enc, err = lsm.KeyEncoder(m.schema, m.keyCols)
	require.NoError(t, err)
	m.zones = lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: 6 * int64(seed%2), Off: seed%6 == 5}
	if m.zones.EveryRows == 0 {
		m.zones.EveryRows = -1
	}
	if seed%2 == 1 {
		m.scans = []lsm.ScanIndex{{Name: "map_n", Column: 2, Kind: indexes.Bitmap}, {Name: "bloom_n", Column: 2, Kind: indexes.Bloom},
			{Name: "map_v", Column: 0, Kind: indexes.Bitmap}, {Name: "bloom_v", Column: 0, Kind: indexes.Bloom}}
	}
	sharding := lsm.Sharding{}
	switch seed % 4 {
	case 2:
		sharding = lsm.Sharding{Column: "id", Buckets: 3}
	case 3:
		sharding = lsm.Sharding{Column: "id", Identity: true}
	}
	require.NoError(t, lsm.CreateSharded(t.Context(), m.openWith(m.store), "db/t.lance", m.schema, nil, sharding))
	m.open()
	return m
}

func (m *model) openWith(st objstore.Store) lsm.Options {
	o := lsm.Options{Store: st, Keys: m.keys, MemTableRows: 12, BatchRows: 5, RowsPerFragment: 9, Floor: m.visible,
		Indexes:  []lsm.IndexDef{{Name: "by_v", Column: 0}, {Name: "by_n", Column: 2}, {Name: "by_id", Column: 1}},
		ZoneMaps: m.zones}
	if m.noIndexes {
		o.Indexes = nil
	}
	for _, r := range m.journal {
		for _, p := range r.parts {
			o.Journal = append(o.Journal, lsm.JournalPart{Journal: r.number, Shard: p.Shard, Body: p.Body})
		}
	}
	return o
}

func (m *model) open() {
	var err error
	m.table, err = lsm.Open(m.t.Context(), m.openWith(m.store), "db/t.lance")
	require.NoError(m.t, err)
	m.table.Tune(lsm.Tuning{ZoneMaps: m.zones, Indexes: m.scans, FragmentRows: m.rows})
	require.LessOrEqual(m.t, m.table.Evidence(), m.next)
}

// crash abandons the table as it is and opens it again; the open itself crashes first, a few operations in.
func (m *model) crash() {
	st := faultstore.New(m.store, faultstore.CrashAt(1+m.rng.Int64N(6), m.rng.IntN(2) == 0))
	if again, err := lsm.Open(m.t.Context(), m.openWith(st), "db/t.lance"); err == nil {
		require.NoError(m.t, again.Close(m.t.Context()))
	}
	clear(m.views)
	m.open()
}

// truncate gives up the journal records whose rows are all in entries, then the entries they were evidence for.
func (m *model) truncate() {
	start := m.next + 1
	if first, _, waits := m.table.Behind(); waits {
		start = first
	}
	m.journal = slices.DeleteFunc(m.journal, func(r journalRecord) bool { return r.number < start })
	require.NoError(m.t, m.table.RemoveWAL(m.t.Context(), start))
}

func (m *model) key(id int64) rowkey.Key {
	k, err := m.enc.Row(m.row(nil, id, 0), m.keyCols)
	require.NoError(m.t, err)
	return k
}

// row is a physical row.
func (m *model) row(v any, id int64, n int32) arrowx.Row {
	return arrowx.Row{v, id, n, tag(id)}[:m.schema.NumFields()]
}

func cell(n int32) any {
	if n%4 == 0 {
		return nil
	}
	return fmt.Sprint("v", n)
}

func (m *model) lowWater() uint64 {
	low := m.visible
	for s := range m.views {
		low = min(low, s)
	}
	return low
}

func (m *model) hooks() lsm.Hooks {
	return lsm.Hooks{LowWater: m.lowWater, Advance: func() uint64 { m.visible++; return m.visible }}
}

// commit writes up to six random keys.
func (m *model) commit() {
	ids := map[int64]bool{}
	for range 1 + m.rng.IntN(6) {
		ids[m.rng.Int64N(40)] = true
	}
	next := maps.Clone(m.now)
	var ops []lsm.Op
	for id := range ids {
		if m.rng.IntN(3) == 0 {
			ops = append(ops, lsm.Op{Key: m.key(id)})
			delete(next, id)
			continue
		}
		n := m.rng.Int32N(1000)
		ops = append(ops, lsm.Op{Key: m.key(id), Row: m.row(cell(n), id, n)})
		next[id] = n
	}
	m.write(ops)
	m.now = next
	require.NoError(m.t, m.table.FreezeIfFull())
}

// put writes one row.
func (m *model) put(id int64, n int32) {
	m.write([]lsm.Op{{Key: m.key(id), Row: m.row(cell(n), id, n)}})
	m.now = maps.Clone(m.now)
	m.now[id] = n
}

// write commits ops by way of the journal.
func (m *model) write(ops []lsm.Op) {
	st, err := m.table.Stage(m.t.Context(), ops)
	require.NoError(m.t, err)
	defer st.Release()
	if !st.Empty() {
		parts, err := st.Parts()
		require.NoError(m.t, err)
		m.next++
		m.journal = append(m.journal, journalRecord{number: m.next, parts: parts})
		m.table.Logged(st, m.next)
		require.NoError(m.t, m.table.Apply(st, m.visible+1))
		m.visible++
	}
}

func (m *model) step() {
	op := "commit"
	switch r := m.rng.IntN(100); {
	case r < 45:
		m.commit()
	case r < 50:
		op = "outside"
		m.outside()
	case r < 60:
		op = "view"
		m.views[m.visible] = maps.Clone(m.now)
	case r < 68:
		op = "release"
		for s := range m.views {
			delete(m.views, s)
			break
		}
	case r < 76:
		op = "flush"
		require.NoError(m.t, m.table.Flush(m.t.Context()))
	case r < 78:
		op = "compact"
		m.compact()
	case r < 79:
		op = "recluster"
		m.recluster()
	case r < 80:
		op = "freeze"
		require.NoError(m.t, m.table.Freeze())
	case r < 88:
		op = "merge"
		require.NoError(m.t, m.table.Merge(m.t.Context(), m.hooks()))
	case r < 92:
		op = "cleanup"
		require.NoError(m.t, m.table.Cleanup(m.t.Context(), m.lowWater()))
	case r < 93:
		op = "truncate"
		m.truncate()
	case r < 94:
		op = "reopen"
		require.NoError(m.t, m.table.Close(m.t.Context()))
		clear(m.views) // Why: views older than an open cannot be served
		m.open()
	case r < 97:
		op = "crash"
		m.crash()
	case r < 99:
		op = "write behind"
		require.NoError(m.t, m.table.WriteBehind(m.t.Context()))
	default:
		op = "check"
	}
	m.counts[op]++
}

// compact is our own compaction; the base must hold the same rows after it.
func (m *model) compact() {
	visible := m.visible
	if m.rng.IntN(2) == 0 {
		m.store.(*besideStore).beside = func() {
			m.mergeBeside()
			visible = m.visible
		}
	}
	defer func() { require.Equal(m.t, visible, m.visible, "the Floor stays") }()
	defer func() { m.store.(*besideStore).beside = nil }()
	done, err := m.table.Compact(m.t.Context(), m.hooks(), lsm.Compaction{Small: m.rng.IntN(2) == 0, Groups: m.rng.IntN(3), RemapFrom: m.rng.IntN(4), CatchUp: m.rng.IntN(4) == 0})
	require.NoError(m.t, err)
	if done.Groups > 0 {
		m.counts["compacted"]++
	}
	if done.Remapped > 0 {
		m.counts["remapped"]++
	}
	if done.Trimmed > 0 {
		m.counts["trimmed"]++
	}
}

// outside commits to the base as another Lance writer would, lets our own commits go on, and has it adopted.
func (m *model) outside() {
	ds, err := table.Open(m.t.Context(), m.store, "db/t.lance")
	require.NoError(m.t, err)
	inBase := m.baseKeys(ds)
	var appended map[int64]int32
	deleted := int64(-1)
	switch m.rng.IntN(5) {
	case 0: // a new key
		id := 1000 + m.rng.Int64N(1_000_000)
		appended = map[int64]int32{id: 7}
		m.appendOutside(ds, id, 7)
	case 1: // a key that only our generations have: ours wins
		for id := range m.now {
			if !inBase[id] {
				m.appendOutside(ds, id, 999)
				break
			}
		}
	case 2:
		for id := range inBase {
			deleted = id
			_, _, err := ds.DeleteWhere(m.t.Context(), predicate.Compare{Column: 1, Op: predicate.Eq, Value: id})
			require.NoError(m.t, err)
			break
		}
	case 3:
		_, _, err := ds.Compact(m.t.Context(), table.CompactOptions{FragmentRows: 1000, DeferRemap: m.rng.IntN(2) == 0})
		require.NoError(m.t, err)
	case 4:
		_, err := ds.Commit(m.t.Context(), table.UpdateConfig{Config: &table.MapUpdate{Set: map[string]string{"x": fmt.Sprint(m.visible)}}})
		require.NoError(m.t, err)
	}
	for range m.rng.IntN(3) {
		m.commit()
	}
	m.now = maps.Clone(m.now)
	maps.Copy(m.now, appended)
	if deleted >= 0 {
		snap, err := m.table.Snapshot(m.visible)
		require.NoError(m.t, err)
		if loc, ok, err := snap.Locate(m.t.Context(), m.key(deleted)); ok && loc.Source == 0 {
			require.NoError(m.t, err)
			delete(m.now, deleted)
		}
		snap.Release()
	}
	if m.rng.IntN(2) == 0 {
		require.NoError(m.t, m.table.Merge(m.t.Context(), m.hooks()))
		return
	}
	_, err = m.table.Adopt(m.t.Context(), m.hooks())
	require.NoError(m.t, err)
}

func (m *model) appendOutside(ds *table.Dataset, id int64, n int32) {
	rec, err := arrowx.FromRows(memory.DefaultAllocator, m.schema, []arrowx.Row{m.row(cell(n), id, n)})
	require.NoError(m.t, err)
	defer rec.Release()
	w, err := ds.NewFragmentWriter(m.t.Context())
	require.NoError(m.t, err)
	require.NoError(m.t, w.Write(rec))
	frag, err := w.Finish(m.t.Context())
	require.NoError(m.t, err)
	_, err = ds.Commit(m.t.Context(), table.Append{Fragments: []*table.Fragment{frag}})
	require.NoError(m.t, err)
}

// baseKeys is what a reader of the base alone sees.
func (m *model) baseKeys(ds *table.Dataset) map[int64]bool {
	r, err := ds.Rows(m.t.Context(), table.ScanOptions{Columns: []string{"id"}})
	require.NoError(m.t, err)
	defer r.Close()
	out := map[int64]bool{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(m.t, err)
		for i := range int(rec.NumRows()) {
			id := arrowx.RowOf(rec, i)[0].(int64)
			require.False(m.t, out[id], "base has key %d twice", id)
			out[id] = true
		}
		rec.Release()
	}
}

func (m *model) check() {
	for s, want := range m.views {
		m.checkAt(s, want)
	}
	m.checkAt(m.visible, m.now)
}

func (m *model) checkAt(s uint64, want map[int64]int32) {
	snap, err := m.table.Snapshot(s)
	require.NoError(m.t, err)
	defer snap.Release()
	require.Equal(m.t, want, m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}}, nil), "full scan at %d", s)

	limit := m.rng.Int32N(1000)
	filtered := maps.Clone(want)
	maps.DeleteFunc(filtered, func(_ int64, n int32) bool { return n >= limit })
	spec := lsm.ScanSpec{Columns: []int{1, 2, 0}, Filter: predicate.Compare{Column: 2, Op: predicate.Lt, Value: limit}}
	require.Equal(m.t, filtered, m.scan(snap, spec, nil), "filtered scan at %d", s)
	m.checkFilters(snap, want)

	lo, hi := m.rng.Int64N(40), m.rng.Int64N(60)
	ranged := maps.Clone(want)
	maps.DeleteFunc(ranged, func(id int64, _ int32) bool { return id < lo || id >= hi })
	spec = lsm.ScanSpec{Columns: []int{1, 2, 0}, Range: &lsm.KeyRange{Lo: m.key(lo), Hi: m.key(hi)}, BatchRows: 3}
	require.Equal(m.t, ranged, m.scan(snap, spec, nil), "range [%d,%d) at %d", lo, hi, s)

	// own writes: hide one key, replace another, add a third
	ids := []int64{m.rng.Int64N(40), 50 + m.rng.Int64N(5), 60 + m.rng.Int64N(5)}
	own := &lsm.Overlay{Keys: []rowkey.Key{m.key(ids[0]), m.key(ids[1]), m.key(ids[2])},
		Rows: []arrowx.Row{nil, m.row(cell(5), ids[1], 5), m.row(cell(6), ids[2], 6)}}
	over := maps.Clone(want)
	delete(over, ids[0])
	over[ids[1]], over[ids[2]] = 5, 6
	require.Equal(m.t, over, m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}}, own), "overlay at %d", s)
	require.Equal(m.t, over, m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}, Range: &lsm.KeyRange{}, BatchRows: 4}, own), "overlay range at %d", s)
	list := []rowkey.Key{m.key(ids[2]), m.key(3), m.key(ids[0]), m.key(ids[1]), m.key(17)}
	listed := maps.Clone(over)
	maps.DeleteFunc(listed, func(id int64, _ int32) bool { return !slices.Contains(append([]int64{3, 17}, ids...), id) })
	require.Equal(m.t, listed, m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}, Keys: list}, own), "keys at %d", s)

	m.checkIndexes(snap, want, over, own)

	rows := 0
	r, err := snap.Scan(m.t.Context(), lsm.ScanSpec{}, nil)
	require.NoError(m.t, err)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(m.t, err)
		rows += int(rec.NumRows())
		rec.Release()
	}
	require.NoError(m.t, r.Close())
	require.Equal(m.t, len(want), rows, "row count at %d", s)
}

// checkIndexes compares range scans by the secondary indexes with the model.
func (m *model) checkIndexes(snap *lsm.Snapshot, want, over map[int64]int32, own *lsm.Overlay) {
	byN, err := rowkey.NewEncoder([]arrow.DataType{arrow.PrimitiveTypes.Int32})
	require.NoError(m.t, err)
	byID, err := rowkey.NewEncoder([]arrow.DataType{arrow.PrimitiveTypes.Int64})
	require.NoError(m.t, err)
	byV, err := rowkey.NewEncoder([]arrow.DataType{arrow.BinaryTypes.String})
	require.NoError(m.t, err)
	lo, hi := m.rng.Int32N(1000), m.rng.Int32N(1200)
	tuple := func(e *rowkey.Encoder, v any) rowkey.Key {
		k, err := e.Tuple(v)
		require.NoError(m.t, err)
		return k
	}
	for _, c := range []struct {
		index  int
		lo, hi rowkey.Key
		want   func(id int64, n int32) bool
	}{
		{1, tuple(byN, lo), tuple(byN, hi), func(_ int64, n int32) bool { return n >= lo && n < hi }},
		{1, "", "", func(int64, int32) bool { return true }},
		{0, tuple(byV, fmt.Sprint("v", lo)), "", func(_ int64, n int32) bool { v := cell(n); return v != nil && v.(string) >= fmt.Sprint("v", lo) }},
		{2, tuple(byID, int64(lo)%50), tuple(byID, int64(70)), func(id int64, _ int32) bool { return id >= int64(lo)%50 && id < 70 }},
	} {
		for _, o := range []*lsm.Overlay{nil, own} {
			rows := maps.Clone(want)
			if o != nil {
				rows = maps.Clone(over)
			}
			maps.DeleteFunc(rows, func(id int64, n int32) bool { return !c.want(id, n) })
			spec := lsm.ScanSpec{Columns: []int{1, 2, 0}, Index: &lsm.IndexRange{Index: c.index, Range: lsm.KeyRange{Lo: c.lo, Hi: c.hi}}, BatchRows: 3}
			require.Equal(m.t, rows, m.scan(snap, spec, o), "index %d [%x,%x) overlay %v", c.index, c.lo, c.hi, o != nil)
		}
	}
}

func (m *model) scan(snap *lsm.Snapshot, spec lsm.ScanSpec, own *lsm.Overlay) map[int64]int32 {
	spec.Verify = m.rng.IntN(4) == 0
	r, err := snap.Scan(context.Background(), spec, own)
	require.NoError(m.t, err)
	defer r.Close()
	out := map[int64]int32{}
	last := int64(-1)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			m.countSpared(r)
			return out
		}
		require.NoError(m.t, err)
		for i := range int(rec.NumRows()) {
			row := arrowx.RowOf(rec, i)
			id, n := row[0].(int64), row[1].(int32)
			require.Equal(m.t, cell(n), row[2])
			_, twice := out[id]
			require.False(m.t, twice, "key %d came twice", id)
			switch {
			case spec.Index == nil && spec.Keyed():
				require.Greater(m.t, id, last, "key order")
				last = id
			case spec.Index != nil && spec.Index.Index == 1:
				require.GreaterOrEqual(m.t, int64(n), last, "index order")
				last = int64(n)
			}
			out[id] = n
		}
		rec.Release()
	}
}

// TestAgainstModel runs random histories and compares every registered view after each step.
func TestAgainstModel(t *testing.T) {
	seeds := uint64(12)
	switch {
	case os.Getenv("LANCESQL_SOAK") != "":
		seeds = 400
	case testing.Short():
		seeds = 3
	}
	var mu sync.Mutex
	var spared sparedRows
	t.Cleanup(func() {
		require.Positive(t, spared.FragmentsPruned)
		require.Positive(t, spared.RowsPruned)
		require.Less(t, spared.RowsPruned, spared.Rows)
		require.Less(t, spared.ZonesKept, spared.Zones)
	})
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			for range 80 {
				m.step()
				m.check()
			}
			require.NoError(t, m.table.Close(t.Context()))
			if m.zones.Off {
				require.Zero(t, m.spared.Zones)
			}
			mu.Lock()
			defer mu.Unlock()
			spared.add(m.spared)
		})
	}
}
