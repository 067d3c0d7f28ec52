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
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lance/table"
	"lancesql/lsm"
)

func heapSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "v", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "n", Type: arrow.PrimitiveTypes.Int32},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
}

// bag is rows and how often each is there. Rows of equal n are equal: column v is cell(n) and column f its half.
type bag map[int32]int

func (b bag) add(n int32) { b[n]++ }

func (b bag) minus(o bag) {
	for n, c := range o {
		if b[n] -= c; b[n] == 0 {
			delete(b, n)
		}
	}
}

func heapRow(n int32) arrowx.Row {
	if n%5 == 0 {
		return arrowx.Row{cell(n), n, nil}
	}
	return arrowx.Row{cell(n), n, float64(n) / 2}
}

// heap is a table without a key under test: a multiset of rows at every CommitSeq that is still registered.
type heap struct {
	t     *testing.T
	rng   *rand.Rand
	store objstore.Store
	keys  *pkstore.Store
	table *lsm.Table

	journal []journalRecord
	next    uint64
	visible uint64
	now     bag
	views   map[uint64]bag
	counts  map[string]int
	indexed bool
}

func newHeap(t *testing.T, seed uint64) *heap { return newHeapOn(t, seed, objstore.NewMem()) }

func newHeapOn(t *testing.T, seed uint64, st objstore.Store) *heap {
	t.Helper()
	keys, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keys.Close()) })
	m := &heap{t: t, rng: rand.New(rand.NewPCG(seed, 7)), store: st, keys: keys, now: bag{}, views: map[uint64]bag{}, counts: map[string]int{}}
	m.indexed = seed%2 == 0
	sharding := lsm.Sharding{}
	switch seed % 4 {
	case 1:
		sharding = lsm.Sharding{Column: "f", Buckets: 3} // a column that no key can have, with NULLs
	case 2:
		sharding = lsm.Sharding{Column: "v", Buckets: 2}
	case 3:
		sharding = lsm.Sharding{Column: "n", Identity: true}
	}
	require.NoError(t, lsm.CreateSharded(t.Context(), m.options(m.store), checkedTable, heapSchema(), nil, sharding))
	m.open()
	require.Equal(t, sharding, m.table.Sharding())
	return m
}

func (m *heap) options(st objstore.Store) lsm.Options {
	o := lsm.Options{Store: st, Keys: m.keys, MemTableRows: 12, BatchRows: 5, RowsPerFragment: 9, Floor: m.visible,
		ZoneMaps: lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: 6}}
	if m.indexed {
		o.Indexes = []lsm.IndexDef{{Name: "by_n", Column: 1}}
	}
	for _, r := range m.journal {
		for _, p := range r.parts {
			o.Journal = append(o.Journal, lsm.JournalPart{Journal: r.number, Shard: p.Shard, Body: p.Body})
		}
	}
	return o
}

func (m *heap) open() {
	var err error
	m.table, err = lsm.Open(m.t.Context(), m.options(m.store), checkedTable)
	require.NoError(m.t, err)
	clear(m.views)
}

// crash abandons the table and opens it again; that crashes first, twice, a few operations in.
func (m *heap) crash() {
	for range 2 {
		st := faultstore.New(m.store, faultstore.CrashAt(1+m.rng.Int64N(12), m.rng.IntN(2) == 0))
		if again, err := lsm.Open(m.t.Context(), m.options(st), checkedTable); err == nil {
			require.NoError(m.t, again.Close(m.t.Context()))
		}
	}
	m.open()
}

// dying runs a mover that crashes in the middle, and recovers.
func (m *heap) dying(move func() error) {
	require.NoError(m.t, m.table.Close(m.t.Context()))
	st := faultstore.New(m.store, faultstore.Plan{})
	var err error
	m.table, err = lsm.Open(m.t.Context(), m.options(st), checkedTable)
	require.NoError(m.t, err)
	clear(m.views)
	st.Reset(faultstore.CrashAt(1+m.rng.Int64N(40), m.rng.IntN(2) == 0))
	if move() != nil {
		m.counts["died"]++
	}
	m.open()
}

func (m *heap) hooks() lsm.Hooks {
	low := func() uint64 {
		low := m.visible
		for s := range m.views {
			low = min(low, s)
		}
		return low
	}
	return lsm.Hooks{LowWater: low, Advance: func() uint64 { m.visible++; return m.visible }}
}

// commit appends up to six rows, some of them equal.
func (m *heap) commit() {
	next := maps.Clone(m.now)
	var ops []lsm.Op
	for i := range 1 + m.rng.IntN(6) {
		n := m.rng.Int32N(30)
		next.add(n)
		// A key without meaning: the caller's, to tell its writes apart.
		ops = append(ops, lsm.Op{Key: rowkey.Key(fmt.Sprint(i)), Row: heapRow(n)})
	}
	m.write(ops)
	m.now = next
	require.NoError(m.t, m.table.FreezeIfFull())
}

func (m *heap) write(ops []lsm.Op) {
	st, err := m.table.Stage(m.t.Context(), ops)
	require.NoError(m.t, err)
	defer st.Release()
	require.Equal(m.t, len(ops), st.Rows())
	parts, err := st.Parts()
	require.NoError(m.t, err)
	m.next++
	m.journal = append(m.journal, journalRecord{number: m.next, parts: parts})
	m.table.Logged(st, m.next)
	require.NoError(m.t, m.table.Apply(st, m.visible+1))
	m.visible++
}

func (m *heap) step() {
	ctx := m.t.Context()
	op := "commit"
	switch r := m.rng.IntN(100); {
	case r < 40:
		m.commit()
	case r < 50:
		op = "outside"
		m.outside()
	case r < 56:
		op = "view"
		m.views[m.visible] = maps.Clone(m.now)
	case r < 62:
		op = "release"
		for s := range m.views {
			delete(m.views, s)
			break
		}
	case r < 70:
		op = "flush"
		require.NoError(m.t, m.table.Freeze())
		require.NoError(m.t, m.table.Flush(ctx))
	case r < 73:
		op = "compact"
		_, err := m.table.Compact(ctx, m.hooks(), lsm.Compaction{Groups: m.rng.IntN(3), RemapFrom: m.rng.IntN(3)})
		require.NoError(m.t, err)
	case r < 75:
		op = "recluster"
		_, err := m.table.Recluster(ctx, m.hooks(), lsm.Recluster{Columns: []int{m.rng.IntN(2)}, Buckets: 1 + m.rng.IntN(4), Publish: m.rng.IntN(2) == 0})
		require.NoError(m.t, err)
	case r < 80:
		op = "merge"
		require.NoError(m.t, m.table.Merge(ctx, m.hooks()))
	case r < 84:
		op = "cleanup"
		require.NoError(m.t, m.table.Cleanup(ctx, m.hooks().LowWater()))
	case r < 87:
		op = "truncate"
		start := m.next + 1
		if first, _, waits := m.table.Behind(); waits {
			start = first
		}
		m.journal = slices.DeleteFunc(m.journal, func(r journalRecord) bool { return r.number < start })
		require.NoError(m.t, m.table.RemoveWAL(ctx, start))
	case r < 89:
		op = "reopen"
		require.NoError(m.t, m.table.Close(ctx))
		m.open()
	case r < 92:
		op = "crash"
		m.crash()
	case r < 94:
		op = "dying flush"
		m.dying(func() error { return errors.Join(m.table.Freeze(), m.table.Flush(ctx)) })
	case r < 96:
		op = "dying merge"
		m.dying(func() error { return m.table.Merge(ctx, m.hooks()) })
	default:
		op = "write behind"
		require.NoError(m.t, m.table.WriteBehind(ctx))
	}
	m.counts[op]++
}

// outside commits to the base as another Lance writer would, lets our own commits go on, and has it adopted.
func (m *heap) outside() {
	ctx := m.t.Context()
	ds, err := table.Open(ctx, m.store, checkedTable)
	require.NoError(m.t, err)
	kind := m.rng.IntN(8)
	switch {
	case kind < 3: // rows that are there already count again
		rec, err := arrowx.FromRows(memory.DefaultAllocator, heapSchema(), []arrowx.Row{heapRow(3), heapRow(4)})
		require.NoError(m.t, err)
		_, err = ds.Append(ctx, table.Records(heapSchema(), rec), table.WriteOptions{})
		require.NoError(m.t, err)
		rec.Release()
		m.now = maps.Clone(m.now)
		m.now.add(3)
		m.now.add(4)
	case kind < 5:
		before := m.base(ds)
		less := m.rng.Int32N(30)
		next, _, err := ds.DeleteWhere(ctx, predicate.Compare{Column: 1, Op: predicate.Lt, Value: less})
		require.NoError(m.t, err)
		before.minus(m.base(next))
		m.now = maps.Clone(m.now)
		m.now.minus(before)
	case kind < 7:
		_, _, err := ds.Compact(ctx, table.CompactOptions{FragmentRows: 1000, DeferRemap: m.rng.IntN(2) == 0})
		require.NoError(m.t, err)
	default:
		rec, err := arrowx.FromRows(memory.DefaultAllocator, heapSchema(), []arrowx.Row{heapRow(1), heapRow(1)})
		require.NoError(m.t, err)
		_, err = ds.Overwrite(ctx, table.Records(heapSchema(), rec), table.WriteOptions{})
		require.NoError(m.t, err)
		rec.Release()
		m.counts["overwrite"]++
	}
	for range m.rng.IntN(3) {
		m.commit()
	}
	if kind == 7 {
		m.now = bag{1: 2} // what came before the adoption is gone with the rest
	}
	if m.rng.IntN(2) == 0 {
		require.NoError(m.t, m.table.Merge(ctx, m.hooks()))
		return
	}
	_, err = m.table.Adopt(ctx, m.hooks())
	require.NoError(m.t, err)
}

// base is what a reader of the base alone sees.
func (m *heap) base(ds *table.Dataset) bag {
	r, err := ds.Rows(m.t.Context(), table.ScanOptions{})
	require.NoError(m.t, err)
	return m.collect(r, 1)
}

// collect reads and closes r, whose column n is at a position.
func (m *heap) collect(r arrowx.BatchReader, at int) bag {
	defer r.Close()
	out := bag{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(m.t, err)
		for i := range int(rec.NumRows()) {
			out.add(arrowx.RowOf(rec, i)[at].(int32))
		}
		rec.Release()
	}
}

func (m *heap) scan(snap *lsm.Snapshot, spec lsm.ScanSpec, own *lsm.Overlay) bag {
	spec.Columns, spec.Verify = []int{0, 1, 2}, m.rng.IntN(2) == 0
	r, err := snap.Scan(m.t.Context(), spec, own)
	require.NoError(m.t, err)
	defer r.Close()
	out := bag{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(m.t, err)
		for i := range int(rec.NumRows()) {
			row := arrowx.RowOf(rec, i)
			require.Equal(m.t, heapRow(row[1].(int32)), row)
			out.add(row[1].(int32))
		}
		rec.Release()
	}
}

func (m *heap) check() {
	m.checkAt(m.visible, m.now)
	for s, want := range m.views {
		m.checkAt(s, want)
	}
}

func (m *heap) checkAt(s uint64, want bag) {
	ctx := m.t.Context()
	snap, err := m.table.Snapshot(s)
	require.NoError(m.t, err)
	defer snap.Release()
	require.Equal(m.t, want, m.scan(snap, lsm.ScanSpec{}, nil), "at %d", s)
	limit := m.rng.Int32N(30)
	less := maps.Clone(want)
	maps.DeleteFunc(less, func(n int32, _ int) bool { return n >= limit })
	require.Equal(m.t, less, m.scan(snap, lsm.ScanSpec{Filter: predicate.Compare{Column: 1, Op: predicate.Lt, Value: limit}}, nil), "below %d at %d", limit, s)

	one := maps.Clone(want)
	maps.DeleteFunc(one, func(n int32, _ int) bool { return n != limit })
	require.Equal(m.t, one, m.scan(snap, lsm.ScanSpec{Filter: predicate.Compare{Column: 1, Op: predicate.Eq, Value: limit}}, nil), "n = %d at %d", limit, s)

	// own writes add rows and hide none, whatever keys the caller gave them
	own := &lsm.Overlay{Keys: []rowkey.Key{"0", "1"}, Rows: []arrowx.Row{heapRow(3), heapRow(29)}}
	over := maps.Clone(want)
	over.add(3)
	over.add(29)
	require.Equal(m.t, over, m.scan(snap, lsm.ScanSpec{}, own), "overlay at %d", s)
	if m.indexed {
		enc, err := rowkey.NewEncoder([]arrow.DataType{arrow.PrimitiveTypes.Int32})
		require.NoError(m.t, err)
		lo, err := enc.Tuple(limit)
		require.NoError(m.t, err)
		maps.DeleteFunc(over, func(n int32, _ int) bool { return n < limit })
		spec := lsm.ScanSpec{Index: &lsm.IndexRange{Range: lsm.KeyRange{Lo: lo}}, BatchRows: 3}
		require.Equal(m.t, over, m.scan(snap, spec, own), "index from %d at %d", limit, s)
	}
	_, err = snap.Find(ctx, "0")
	require.ErrorIs(m.t, err, errs.ErrUnsupported)
	_, err = snap.Unchanged(ctx, "0", s)
	require.ErrorIs(m.t, err, errs.ErrUnsupported)
	for _, spec := range []lsm.ScanSpec{{Keys: []rowkey.Key{}}, {Range: &lsm.KeyRange{}}} {
		_, err = snap.Scan(ctx, spec, nil)
		require.ErrorIs(m.t, err, errs.ErrUnsupported)
	}
}

// noKeyFiles fails if anything on disk knows of keys.
func (m *heap) noKeyFiles() {
	generations := 0
	require.NoError(m.t, objstore.Walk(m.t.Context(), m.store, checkedTable, func(i objstore.Info) error {
		require.NotContains(m.t, i.Name, "_pk_index")
		require.NotContains(m.t, i.Name, "bloom_filter")
		if strings.Contains(i.Name, "_gen_") {
			generations++
			require.NotContains(m.t, i.Name, "_deletions")
		}
		return nil
	}))
	if generations > 0 {
		m.counts["generation files"]++
	}
	ds, err := table.Open(m.t.Context(), m.store, checkedTable)
	require.NoError(m.t, err)
	list, err := ds.Indexes()
	require.NoError(m.t, err)
	for _, e := range list {
		require.NotEqual(m.t, lsm.PrimaryIndex, e.Name)
	}
}

// TestHeapAgainstModel runs random histories of a table without a key and compares every registered view after each step:
// every row is there exactly as often as it was appended.
func TestHeapAgainstModel(t *testing.T) {
	seeds := uint64(12)
	switch {
	case os.Getenv("LANCESQL_SOAK") != "":
		seeds = 400
	case testing.Short():
		seeds = 4
	}
	total := map[string]int{}
	for seed := range seeds {
		m := newHeap(t, seed)
		for range 100 {
			m.step()
			if m.check(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			m.noKeyFiles()
		}
		require.NoError(t, m.table.WriteBehind(t.Context()))
		require.NoError(t, m.table.Close(t.Context()))
		_, found := checkTable(t, m.store, lsm.CheckOptions{Deep: true})
		require.Empty(t, faults(found, lsm.Error), "seed %d", seed)
		for k, n := range m.counts {
			total[k] += n
		}
	}
	for _, k := range []string{"outside", "overwrite", "flush", "merge", "compact", "recluster", "crash", "dying flush", "dying merge", "died", "cleanup", "truncate", "generation files"} {
		require.Positive(t, total[k], k)
	}
}

// TestFollowHeap: a reader beside the writer sees every row exactly as often, through flushes, merges and clean-up.
func TestFollowHeap(t *testing.T) {
	for seed := range uint64(4) {
		m := newHeap(t, seed)
		keys, err := pkstore.Open()
		require.NoError(t, err)
		reader, err := lsm.OpenReadOnly(t.Context(), lsm.Options{Store: &lookOnly{Store: m.store}, Keys: keys, BatchRows: 5}, checkedTable)
		require.NoError(t, err)
		visible := uint64(0)
		hooks := lsm.FollowHooks{LowWater: func() uint64 { return visible }, Publish: func(apply func(uint64) error) error {
			err := apply(visible + 1)
			if err == nil {
				visible++
			}
			return err
		}}
		for i := range 60 {
			m.step()
			require.NoError(t, m.table.WriteBehind(t.Context()))
			require.NoError(t, reader.Refresh(t.Context(), hooks))
			snap, err := reader.Snapshot(visible)
			require.NoError(t, err)
			require.Equal(t, m.now, m.scan(snap, lsm.ScanSpec{}, nil), "seed %d, step %d", seed, i)
			snap.Release()
		}
		require.NoError(t, reader.Close(context.Background()))
		require.NoError(t, keys.Close())
	}
}

// A write without a row, and a row of another width, are refused before anything happens.
func TestHeapRefusesDeletes(t *testing.T) {
	for seed := range uint64(4) {
		m := newHeap(t, seed)
		_, err := m.table.Stage(t.Context(), []lsm.Op{{Key: "1", Row: arrowx.Row{nil}}})
		require.ErrorIs(t, err, errs.ErrInvalid)
		if seed == 0 {
			_, err = m.table.Stage(t.Context(), []lsm.Op{{Key: "1"}})
			require.ErrorIs(t, err, errs.ErrUnsupported)
		}
		m.commit()
		m.check()
	}
}
