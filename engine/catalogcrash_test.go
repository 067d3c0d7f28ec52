package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
	"lancesql/internal/objstore/faultstore"
)

// foreignFiles were there before us; whatever happens they stay.
var foreignFiles = []string{"a/notes.txt", "a/theirs.lance/data/1.lance", "c/x"}

// ddlStep is one statement and the tables after it.
type ddlStep struct {
	what  string
	run   func(ctx context.Context, s *catalogStore) error
	after string
	fails bool // the statement reports an error although it does something
}

func ddlSteps() []ddlStep {
	createDB := func(name string) func(context.Context, *catalogStore) error {
		return func(ctx context.Context, s *catalogStore) error { return s.createDatabase(ctx, name, nil) }
	}
	dropDB := func(name string) func(context.Context, *catalogStore) error {
		return func(ctx context.Context, s *catalogStore) error { return s.dropDatabase(ctx, name, noEvict) }
	}
	create := func(db, name string) func(context.Context, *catalogStore) error {
		return func(ctx context.Context, s *catalogStore) error {
			_, err := s.createTable(ctx, db, name, ddlDef(), fill(s.store))
			return err
		}
	}
	drop := func(db, name string) func(context.Context, *catalogStore) error {
		return func(ctx context.Context, s *catalogStore) error { return s.dropTable(ctx, db, name, noEvict) }
	}
	rename := func(db, name, newDB, newName string) func(context.Context, *catalogStore) error {
		return func(ctx context.Context, s *catalogStore) error {
			return s.renameTable(ctx, db, name, newDB, newName, noEvict)
		}
	}
	brokenCreate := func(ctx context.Context, s *catalogStore) error {
		_, err := s.createTable(ctx, "a", "bad", ddlDef(), func(ctx context.Context, path string, id TableID) error {
			return errors.Join(fill(s.store)(ctx, path, id), errs.ErrNoSpace)
		})
		return err
	}
	return []ddlStep{
		{"create a", createDB("a"), "a", false},
		{"create a.t", create("a", "t"), "a.t", false},
		{"create a.u", create("a", "u"), "a.t a.u", false},
		{"rename a.t", rename("a", "t", "a", "r"), "a.r a.u", false},
		{"create b", createDB("b"), "a.r a.u b", false},
		{"move a.r", rename("a", "r", "b", "m"), "a.u b.m", false},
		{"change case", rename("b", "m", "b", "M"), "a.u b.M", false},
		{"alter b", func(ctx context.Context, s *catalogStore) error {
			return s.alterDatabase(ctx, "b", map[string]string{"x": "y"})
		}, "a.u b.M", false},
		{"drop a.u", drop("a", "u"), "a b.M", false},
		{"create a.u again", create("a", "u"), "a.u b.M", false},
		{"broken create", brokenCreate, "a.u b.M", true},
		{"create b.second", create("b", "second"), "a.u b.M b.second", false},
		{"drop b", dropDB("b"), "a.u", false},
		{"drop a", dropDB("a"), "a", true},
		{"create b again", createDB("b"), "a b", false},
		{"create b.M again", create("b", "M"), "a b.M", false},
	}
}

func plantForeign(t testing.TB, st objstore.Store) {
	t.Helper()
	for _, f := range foreignFiles {
		require.NoError(t, st.PutIfAbsent(context.Background(), f, []byte("foreign "+f)))
	}
}

// requireWhole checks that foreign files are untouched and that every listed table has exactly its own files.
func requireWhole(t testing.TB, s *catalogStore, where string) {
	t.Helper()
	ctx := context.Background()
	for _, f := range foreignFiles {
		data, err := s.store.ReadAll(ctx, f, 1000)
		require.NoError(t, err, where)
		require.Equal(t, "foreign "+f, string(data), where)
	}
	for _, d := range s.image.Load().Databases() {
		for _, e := range d.Tables() {
			id, err := s.store.ReadAll(ctx, e.Path+"/_versions/1.manifest", 1000)
			require.NoError(t, err, "%s: %s.%s", where, d.Name, e.Name)
			require.Equal(t, e.ID.String(), string(id), where)
			rows, err := s.store.ReadAll(ctx, e.Path+"/data/"+e.ID.String()+".lance", 1000)
			require.NoError(t, err, where)
			require.Equal(t, "rows of "+e.ID.String(), string(rows), where)
			require.Same(t, e, s.image.Load().TableByID(e.ID), where)
		}
	}
}

// runSteps performs the statements until one does not do what it should, which it returns.
func runSteps(ctx context.Context, s *catalogStore, steps []ddlStep) (failed int, err error) {
	for i, step := range steps {
		err := step.run(ctx, s)
		if (err != nil) != step.fails || names(s.image.Load()) != step.after {
			return i, err
		}
	}
	return len(steps), nil
}

// crashDisk is a disk that can crash, and the store on it.
type crashDisk struct {
	fs    *faultfs.FS
	store *objstore.Local
}

func openDisk(t testing.TB, mem *vfs.MemFS, p faultfs.Plan) *crashDisk {
	t.Helper()
	fs := faultfs.New(mem, faultfs.Plan{})
	st, err := objstore.OpenLocal(fs, "root")
	require.NoError(t, err)
	fs.Reset(p)
	return &crashDisk{fs: fs, store: st}
}

func tryOpenCatalog(st objstore.Store) (*catalogStore, error) {
	return openCatalog(context.Background(), st, clock.NewManual(time.Unix(1_700_000_000, 0)), slog.New(slog.DiscardHandler))
}

// freshDisk returns a disk with foreign files on it, all synced.
func freshDisk(t testing.TB) *vfs.MemFS {
	mem := vfs.NewCrashableMem()
	d := openDisk(t, mem, faultfs.Plan{})
	plantForeign(t, d.store)
	return mem
}

// TestCrashAtEveryCall stops the statements at every filesystem call in turn, loses what was not synced in several
// ways, crashes once more during recovery, and requires the state before or after the interrupted statement.
func TestCrashAtEveryCall(t *testing.T) {
	ctx := context.Background()
	steps := ddlSteps()
	whole := openDisk(t, freshDisk(t), faultfs.Plan{})
	done, err := runSteps(ctx, openTestCatalog(t, whole.store), steps)
	require.NoError(t, err)
	require.Equal(t, len(steps), done)
	calls := whole.fs.Count()
	stride := int64(1)
	if testing.Short() {
		stride = 7
	}
	for n := int64(1); n <= calls; n += stride {
		for _, unsynced := range []int{0, 50, 100} {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(unsynced)))
			d := openDisk(t, freshDisk(t), faultfs.Plan{CrashAt: n})
			i := -1
			if s, err := tryOpenCatalog(d.store); err == nil {
				i, _ = runSteps(ctx, s, steps)
			}
			where := fmt.Sprintf("crash at call %d of %d, %d %% of the unsynced survive, step %d", n, calls, unsynced, i)
			mem, err := d.fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: unsynced, Rand: rng})
			require.NoError(t, err, where)
			if rng.IntN(2) == 0 {
				mem = crashInRecovery(t, mem, unsynced, rng)
			}
			requireBeforeOrAfter(t, mem, steps, i, where)
		}
	}
}

// crashInRecovery opens the catalog, crashes in the middle and returns the disk afterwards.
func crashInRecovery(t testing.TB, mem *vfs.MemFS, unsynced int, rng *rand.Rand) *vfs.MemFS {
	t.Helper()
	d := openDisk(t, mem, faultfs.Plan{CrashAt: 1 + rng.Int64N(20)})
	_, _ = tryOpenCatalog(d.store)
	clone, err := d.fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: unsynced, Rand: rng})
	require.NoError(t, err)
	return clone
}

func requireBeforeOrAfter(t testing.TB, mem *vfs.MemFS, steps []ddlStep, i int, where string) {
	t.Helper()
	ctx := context.Background()
	d := openDisk(t, mem, faultfs.Plan{})
	s, err := tryOpenCatalog(d.store)
	require.NoError(t, err, where)
	before, after := "", ""
	if i > 0 {
		before = steps[i-1].after
	}
	if i >= 0 && i < len(steps) {
		after = steps[i].after
	} else if i == len(steps) {
		after = steps[i-1].after
	}
	got := names(s.image.Load())
	require.Contains(t, []string{before, after}, got, where)
	requireWhole(t, s, where)
	requireTidy(t, s, foreignFiles...)

	// The catalog goes on working, with the same names.
	for _, db := range s.image.Load().Databases() {
		for _, e := range db.Tables() {
			require.NoError(t, s.dropTable(ctx, db.Name, e.Name, noEvict), where)
			mustTable(t, s, db.Name, e.Name)
		}
	}
	for _, name := range []string{"t", "r", "u", "m"} {
		for _, db := range s.image.Load().Databases() {
			if db.Table(name) == nil {
				_, err := s.createTable(ctx, db.Name, name, ddlDef(), fill(d.store))
				require.NoError(t, err, where)
			}
		}
	}
	requireWhole(t, s, where)
	requireTidy(t, openTestCatalog(t, d.store), foreignFiles...)
}

// TestPlantedBug leaves out directory syncs: the crash test must notice, else it proves nothing.
func TestPlantedBug(t *testing.T) {
	ctx := context.Background()
	d := openDisk(t, freshDisk(t), faultfs.Plan{SkipDirSync: faultfs.All()})
	s := openTestCatalog(t, d.store)
	done, err := runSteps(ctx, s, ddlSteps()[:3])
	require.NoError(t, err)
	require.Equal(t, 3, done)
	mem, err := d.fs.CrashClone(faultfs.CloneConfig{})
	require.NoError(t, err)
	s = openTestCatalog(t, openDisk(t, mem, faultfs.Plan{}).store)
	require.Empty(t, names(s.image.Load()), "acknowledged statements are lost without directory syncs")
}

// TestFaultAtEveryOperation fails every store operation in turn, with and without effect. The statement then has
// happened or not, as its result says, unless the catalog says that it does not know; a restart agrees.
func TestFaultAtEveryOperation(t *testing.T) {
	ctx := context.Background()
	steps := ddlSteps()
	for _, action := range []faultstore.Action{faultstore.Fail, faultstore.Ambiguous} {
		for _, injected := range []error{faultstore.ErrInjected, errs.ErrNoSpace, errs.ErrSync} {
			operations := int64(1000)
			for n := int64(1); n <= operations; n++ {
				mem := objstore.NewMem()
				plantForeign(t, mem)
				st := faultstore.New(mem, faultstore.Plan{CountReads: true})
				s, err := tryOpenCatalog(st)
				require.NoError(t, err)
				st.Reset(faultstore.Plan{CountReads: true, Faults: []faultstore.Fault{{At: n, Action: action, Err: injected}}})
				oneFault(ctx, t, s, mem, steps, fmt.Sprintf("action %d, error %v, operation %d", action, injected, n))
				if st.Count() < n {
					operations = st.Count() // all statements ran without reaching the fault
				}
			}
		}
	}
}

// oneFault runs the statements on a store with one fault; mem is the store without it.
func oneFault(ctx context.Context, t *testing.T, s *catalogStore, mem objstore.Store, steps []ddlStep, where string) {
	t.Helper()
	before := names(s.image.Load())
	for _, step := range steps {
		err := step.run(ctx, s)
		got := names(s.image.Load())
		where := fmt.Sprintf("%s, %s, result %v", where, step.what, err)
		if s.broken != nil {
			// A statement whose commit point was behind it has happened; only what follows it on disk is open.
			allowed := []string{step.after}
			if err != nil && !step.fails {
				require.ErrorIs(t, err, errs.ErrPoisoned, where)
			}
			if errors.Is(err, errs.ErrPoisoned) {
				allowed = []string{before, step.after}
			}
			requireOneOf(t, mem, allowed, where)
			require.ErrorIs(t, s.createDatabase(ctx, "z", nil), errs.ErrPoisoned, where)
			return
		}
		if err == nil || step.fails && got == step.after {
			require.Equal(t, step.after, got, where)
		} else {
			require.Equal(t, before, got, where)
			require.NoError(t, ignoreFailure(step, step.run(ctx, s)), "%s: the second attempt", where)
			require.Equal(t, step.after, names(s.image.Load()), where)
		}
		before = step.after
	}
	requireOneOf(t, mem, []string{before}, where)
}

func ignoreFailure(step ddlStep, err error) error {
	if step.fails && err != nil {
		return nil
	}
	return err
}

// requireOneOf opens the catalog anew and compares.
func requireOneOf(t *testing.T, st objstore.Store, want []string, where string) {
	t.Helper()
	s, err := tryOpenCatalog(st)
	require.NoError(t, err, where)
	require.Contains(t, want, names(s.image.Load()), where)
	requireWhole(t, s, where)
	requireTidy(t, s, foreignFiles...)
}
