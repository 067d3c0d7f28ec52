package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/engine/sched"
	"lancesql/indexes"
	"lancesql/internal/arrowx"
	"lancesql/internal/logfile"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// objects lists every object of a store with its contents.
func objects(t *testing.T, st objstore.Store, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, st.List(t.Context(), dir, func(i objstore.Info) error {
		if i.Dir {
			maps.Copy(out, objects(t, st, i.Name))
			return nil
		}
		b, err := st.ReadAll(t.Context(), i.Name, 1<<24)
		out[i.Name] = string(b)
		return err
	}))
	return out
}

// commitMany commits rows from one id to another, merging now and then, so that the base gets many fragments.
func commitMany(t *testing.T, e *Engine, from, to int64) {
	t.Helper()
	for id := from; id < to; id++ {
		require.NoError(t, write{put: contents{id: fmt.Sprint("v", id%7), id / 2: "again"}}.run(t.Context(), e))
		if id%5 == 0 {
			require.NoError(t, e.FlushTables(t.Context(), nil))
		}
	}
}

// TestOptimizeTenTimes is case L17: with no new rows nothing is written, whatever runs in the background.
func TestOptimizeTenTimes(t *testing.T) {
	st := objstore.NewMem()
	e := mustOpen(t, st)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	require.NoError(t, createTestTable(t.Context(), e))
	commitMany(t, e, 1, 60)
	want := mustDump(t, e)
	id := testTable(e).ID
	before, _ := e.State(id)
	require.Greater(t, before.Base.Small, 1)
	old := e.Begin(TxnOptions{})
	defer old.Rollback()
	old.BeginStatement()
	first, err := read(t.Context(), old, Consistent, lsm.ScanSpec{})
	require.NoError(t, err)
	require.Equal(t, want, first)

	done, err := e.Optimize(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, done.Unsupported)
	require.NotZero(t, done.Groups)
	work(e)
	after, _ := e.State(id)
	require.Less(t, after.Base.Fragments, before.Base.Fragments)
	require.Zero(t, after.Base.Deleted)
	require.Equal(t, want, mustDump(t, e))
	again, err := read(t.Context(), old, Consistent, lsm.ScanSpec{})
	require.NoError(t, err)
	require.Equal(t, want, again, "a view from before")
	old.Rollback()

	_, err = e.Optimize(t.Context(), id) // what the old view held goes now
	require.NoError(t, err)
	was := objects(t, st, "db")
	for range 10 {
		done, err := e.Optimize(t.Context(), id)
		require.NoError(t, err)
		require.Zero(t, done)
		work(e)
	}
	require.Equal(t, was, objects(t, st, "db"))
	rows, err := e.CheckTable(t.Context(), testTable(e), true, func(what string) { t.Error(what) })
	require.NoError(t, err)
	require.Equal(t, uint64(len(want)), rows)
}

// TestCompactInTheBackground: a base of many small fragments is compacted after a merge without anybody asking.
func TestCompactInTheBackground(t *testing.T) {
	e := mustOpen(t, objstore.NewMem())
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	require.NoError(t, createTestTable(t.Context(), e))
	most := 0
	for id := int64(1); id < 200; id++ {
		require.NoError(t, write{put: contents{id: fmt.Sprint("v", id)}}.run(t.Context(), e))
		if id%3 == 0 {
			require.NoError(t, e.FlushTables(t.Context(), nil))
		}
		if id%10 == 0 {
			work(e)
		}
		s, _ := e.State(testTable(e).ID)
		most = max(most, s.Base.Fragments)
	}
	work(e)
	require.Less(t, most, 30)
	require.Len(t, mustDump(t, e), 199)
	require.NoError(t, write{drop: []int64{1, 2, 3}}.run(t.Context(), e))
	for id := int64(4); id < 60; id++ {
		require.NoError(t, write{drop: []int64{id}}.run(t.Context(), e))
	}
	require.NoError(t, e.FlushTables(t.Context(), nil))
	require.True(t, slices.ContainsFunc(e.Jobs(), func(s sched.State) bool { return s.Kind == sched.Compact && s.Queued }))
	work(e)
	s, _ := e.State(testTable(e).ID)
	require.LessOrEqual(t, s.Base.Deleted*10, s.Base.Rows+s.Base.Deleted)
	require.Len(t, mustDump(t, e), 140)
}

// TestCleanupPlan: what a dry run lists is what the real run removes, and nothing else goes.
func TestCleanupPlan(t *testing.T) {
	st := objstore.NewMem()
	e := mustOpen(t, st)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	require.NoError(t, createTestTable(t.Context(), e))
	commitMany(t, e, 1, 40)
	id := testTable(e).ID
	before := objects(t, st, "")
	plan, err := e.Cleanup(t.Context(), id, true)
	require.NoError(t, err)
	require.Equal(t, before, objects(t, st, ""), "a dry run changes nothing")
	require.NotEmpty(t, plan)
	removed, err := e.Cleanup(t.Context(), id, false)
	require.NoError(t, err)
	require.Equal(t, plan, removed)
	after := objects(t, st, "")
	generations := 0
	for name := range before {
		listed := slices.ContainsFunc(plan, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
		_, there := after[name]
		require.NotEqual(t, listed, there, name)
		if listed && strings.Contains(name, "_mem_wal") {
			generations++
		}
	}
	require.NotZero(t, generations)
	none, err := e.Cleanup(t.Context(), id, true)
	require.NoError(t, err)
	require.Empty(t, none)
}

// TestCheckTable: a healthy table has no findings at any stage; a segment that holds other rows and a key brought twice have.
func TestCheckTable(t *testing.T) {
	st := objstore.NewMem()
	e := mustOpen(t, st)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	def := testDef()
	def.Indexes = []IndexDef{{Name: "by_v", Column: 1}, {Name: "by_n", Column: 2}}
	require.NoError(t, e.CreateDatabase(t.Context(), "db", nil))
	for _, name := range []string{"t", "u"} {
		_, err := e.CreateTable(t.Context(), "db", name, def)
		require.NoError(t, err)
	}
	check := func() []string {
		t.Helper()
		var all []string
		rows, err := e.CheckTable(t.Context(), testTable(e), true, func(what string) { all = append(all, what) })
		require.NoError(t, err)
		require.NotZero(t, rows)
		return all
	}
	for id := range int64(30) {
		require.NoError(t, write{put: contents{id: fmt.Sprint("a", id%10)}}.runOn(t.Context(), e, "t"))
		require.NoError(t, write{put: contents{id + 100: fmt.Sprint("b", id%10)}}.runOn(t.Context(), e, "u"))
		if id%10 == 0 {
			work(e)
		}
		require.Empty(t, check())
	}
	require.NoError(t, e.FlushTables(t.Context(), nil))
	require.Empty(t, check())

	// another writer brings a key again
	ds, err := table.Open(t.Context(), st, testTable(e).Path)
	require.NoError(t, err)
	rec, err := arrowx.FromRows(memory.DefaultAllocator, testSchema(), []arrowx.Row{testRow(7, "twice")})
	require.NoError(t, err)
	defer rec.Release()
	w, err := ds.NewFragmentWriter(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	frag, err := w.Finish(t.Context())
	require.NoError(t, err)
	_, err = ds.Commit(t.Context(), table.Append{Fragments: []*table.Fragment{frag}})
	require.NoError(t, err)
	require.NoError(t, e.RunUpkeep(t.Context(), testTable(e), sched.Adopt))
	require.Equal(t, []string{"the primary key finds 30 rows, a scan 31", "primary key (7) is there 2 times, the primary key finds 1: another writer brought it again"}, check())
	require.NoError(t, write{put: contents{1000: "z"}}.run(t.Context(), e))
	_, err = e.Optimize(t.Context(), testTable(e).ID)
	require.NoError(t, err)
	s, _ := e.State(testTable(e).ID)
	require.Equal(t, 1, s.Twice)
	require.Contains(t, check(), "primary key (7) is there 2 times, the primary key finds 1: another writer brought it again")
}

// TestCheckTableFindsForeignSegments: index files of another table in the place of a table's own.
func TestCheckTableFindsForeignSegments(t *testing.T) {
	st := objstore.NewMem()
	e := mustOpen(t, st)
	def := testDef()
	def.Indexes = []IndexDef{{Name: "by_v", Column: 1}}
	require.NoError(t, e.CreateDatabase(t.Context(), "db", nil))
	for _, name := range []string{"t", "u"} {
		_, err := e.CreateTable(t.Context(), "db", name, def)
		require.NoError(t, err)
		rows := contents{}
		for id := range int64(7) {
			rows[id] = fmt.Sprint(name, id)
		}
		require.NoError(t, write{put: rows}.runOn(t.Context(), e, name))
	}
	require.NoError(t, e.FlushTables(t.Context(), nil))
	_, err := e.CheckTable(t.Context(), testTable(e), true, func(what string) { t.Error(what) })
	require.NoError(t, err)
	require.NoError(t, e.Close(context.Background()))
	from, to := segmentOf(t, st, "db/u.lance", "by_v"), segmentOf(t, st, "db/t.lance", "by_v")
	for name, b := range objects(t, st, from) {
		target := to + strings.TrimPrefix(name, from)
		require.NoError(t, st.Delete(t.Context(), target))
		require.NoError(t, st.PutIfAbsent(t.Context(), target, []byte(b)))
	}
	e = mustOpen(t, st)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	var all []string
	_, err = e.CheckTable(t.Context(), testTable(e), true, func(what string) { all = append(all, what) })
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Contains(t, all[0], "index by_v does not find rows by their value")
}

// TestCheckTableFindsWrongPruning: a zone map or bitmap of other rows is found by an extended check, and by it alone.
func TestCheckTableFindsWrongPruning(t *testing.T) {
	for _, index := range []string{"v_zonemap", "bits", "bloom"} {
		t.Run(index, func(t *testing.T) {
			st := objstore.NewMem()
			open := func() *Engine {
				e, err := Open(t.Context(), Config{Workers: NoWorkers, Freshness: NoFreshness}, Components{Store: st, Journal: logfile.Memory(),
					TableOptions: func(*TableEntry) TableOptions {
						return TableOptions{Tuning: lsm.Tuning{ZoneMaps: lsm.ZoneMapOptions{EveryRows: -1, Off: index != "v_zonemap"},
							Indexes: []lsm.ScanIndex{{Name: "bits", Column: 1, Kind: indexes.Bitmap}, {Name: "bloom", Column: 1, Kind: indexes.Bloom}}}}
					}})
				require.NoError(t, err)
				return e
			}
			e := open()
			require.NoError(t, e.CreateDatabase(t.Context(), "db", nil))
			for _, name := range []string{"t", "u"} {
				_, err := e.CreateTable(t.Context(), "db", name, testDef())
				require.NoError(t, err)
				rows := contents{}
				for id := range int64(700) {
					rows[id] = fmt.Sprint(name, id)
				}
				require.NoError(t, write{put: rows}.runOn(t.Context(), e, name))
			}
			require.NoError(t, e.FlushTables(t.Context(), nil))
			_, err := e.CheckTable(t.Context(), testTable(e), true, func(what string) { t.Error(what) })
			require.NoError(t, err)
			require.NoError(t, e.Close(context.Background()))
			from, to := segmentOf(t, st, "db/u.lance", index), segmentOf(t, st, "db/t.lance", index)
			for name, b := range objects(t, st, from) {
				target := to + strings.TrimPrefix(name, from)
				require.NoError(t, st.Delete(t.Context(), target))
				require.NoError(t, st.PutIfAbsent(t.Context(), target, []byte(b)))
			}
			e = open()
			defer func() { require.NoError(t, e.Close(context.Background())) }()
			for _, extended := range []bool{false, true} {
				var all []string
				_, err = e.CheckTable(t.Context(), testTable(e), extended, func(what string) { all = append(all, what) })
				require.NoError(t, err)
				if !extended {
					require.Empty(t, all)
					continue
				}
				require.Len(t, all, 1)
				require.Contains(t, all[0], "an index of column v does not find all rows")
			}
		})
	}
}

// segmentOf is the folder of the one segment of an index.
func segmentOf(t *testing.T, st objstore.Store, root, index string) string {
	t.Helper()
	ds, err := table.Open(t.Context(), st, root)
	require.NoError(t, err)
	list, err := ds.Indexes()
	require.NoError(t, err)
	for _, x := range list {
		if x.Name == index {
			return root + "/_indices/" + x.UUID.String()
		}
	}
	require.Failf(t, "no segment", "of index %s", index)
	return ""
}
