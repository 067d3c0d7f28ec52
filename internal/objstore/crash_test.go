package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
)

const crashRoot = "/disk/base"

// history is the life of a table, with each kind of operation in it.
func history() []step {
	large := strings.Repeat("0123456789abcdef", 10_000)
	return []step{
		putStep("top", "1"),
		putStep("db/t.lance/wal/1", "one"),
		putStep("db/t.lance/wal/2", "two"),
		streamStep("db/t.lance/data/large", large),
		hintStep("db/t.lance/hint", "first"),
		hintStep("db/t.lance/hint", "second"),
		deleteStep("db/t.lance/wal/2"),
		mkdirStep("db/u.lance/data"),
		putStep("db/t.lance/wal/3", "three"),
		renameStep("db/t.lance", ".dropped/deep/1"),
		putStep("db/t.lance/wal/1", "one again"),
		putStep(".dropped/deep/1/late", "late"),
		removeAllStep(".dropped/deep/1"),
		renameStep("db/t.lance", "db/v.lance"),
		renameStep("db/v.lance/wal/1", "db/v.lance/archive/1"),
		putStep("db/v.lance/wal/1", "third"),
		streamStep("db/v.lance/wal/2", "streamed"),
		removeAllStep("top"),
		deleteStep("db/v.lance/wal/1"),
		syncDirStep("db/v.lance/wal", "db/v.lance/wal/1"),
	}
}

// play runs steps on a store and follows them in the model, up to the first error. after, if not nil, runs
// after each acknowledgement.
func play(ctx context.Context, st objstore.Store, m *model, steps []step, after func() error) error {
	for _, s := range steps {
		s.begin(m)
		if err := s.run(ctx, st); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		s.ack(m)
		if after == nil {
			continue
		}
		if err := after(); err != nil {
			return fmt.Errorf("after %s: %w", s.what, err)
		}
	}
	return nil
}

// crashRun plays the history with a plan and returns the filesystem and the model at the crash or the end.
func crashRun(t *testing.T, plan faultfs.Plan) (fs *faultfs.FS, m *model, crashed bool) {
	t.Helper()
	fs, m = faultfs.New(vfs.NewCrashableMem(), plan), newModel()
	st, err := objstore.OpenLocal(fs, crashRoot)
	if err == nil {
		defer st.Close()
		err = play(t.Context(), st, m, history(), nil)
	}
	switch {
	case errors.Is(err, faultfs.ErrCrashed):
		return fs, m, true
	case err != nil:
		t.Fatalf("%v; trace:\n%s", err, strings.Join(fs.Trace(), "\n"))
	}
	return fs, m, false
}

// checkClones compares the model with what several kinds of crashes leave.
func checkClones(ctx context.Context, fs *faultfs.FS, m *model, percents ...int) error {
	for _, percent := range percents {
		seeds := uint64(1)
		if percent != 0 && percent != 100 {
			seeds = 4
		}
		for seed := range seeds {
			clone, err := fs.CrashClone(faultfs.CloneConfig{
				UnsyncedPercent: percent, Rand: rand.New(rand.NewPCG(seed, 3)),
			})
			if err == nil {
				err = m.check(ctx, clone, crashRoot)
			}
			if err != nil {
				return fmt.Errorf("%d %% of the unsynced spared, seed %d: %w", percent, seed, err)
			}
		}
	}
	return nil
}

// TestCrashAtEveryCall stops the history at every filesystem call and looks at what may be left of it.
func TestCrashAtEveryCall(t *testing.T) {
	calls := int64(0)
	for n := int64(1); ; n++ {
		fs, m, crashed := crashRun(t, faultfs.Plan{CrashAt: n})
		if err := checkClones(t.Context(), fs, m, 0, 100, 50); err != nil {
			t.Fatalf("crash at call %d: %v; trace:\n%s", n, err, strings.Join(fs.Trace(), "\n"))
		}
		if !crashed {
			calls = fs.Count()
			break
		}
	}
	if calls < 80 {
		t.Errorf("the history makes only %d calls", calls)
	}
	t.Logf("%d calls", calls)
}

// TestDeadProcess kills the process at every call, without losing what it wrote; then another process goes on
// in the same directories and the machine loses power. What the second one acknowledged must be there, even
// though directories on the way were made, and not synced, by the first. A rename that was begun is tried
// again, and if there is nothing left to rename, that must be durable as well.
func TestDeadProcess(t *testing.T) {
	second := []step{
		putStep("db/t.lance/wal/9", "nine"),
		putStep("db/t.lance/data/9", "nine"),
		putStep("db/v.lance/archive/9", "nine"),
		putStep(".dropped/deep/1/data/9", "nine"),
		mkdirStep("db/u.lance/data"),
		removeAllStep(".dropped/deep/1"),
	}
	for n := int64(1); ; n++ {
		fs, m, crashed := crashRun(t, faultfs.Plan{CrashAt: n})
		steps := second
		if m.moving != nil {
			steps = append([]step{finishStep(m.moving)}, second...)
		}
		for _, s := range steps {
			fs.Reset(faultfs.Plan{})
			st, err := objstore.OpenLocal(fs, crashRoot)
			if err == nil {
				err = play(t.Context(), st, m, []step{s}, nil)
			}
			if err == nil {
				err = st.Close()
			}
			if err == nil {
				err = checkClones(t.Context(), fs, m, 0)
			}
			if err != nil {
				t.Fatalf("killed at call %d, then %s: %v; trace:\n%s", n, s.what, err, strings.Join(fs.Trace(), "\n"))
			}
		}
		if !crashed {
			return
		}
	}
}

// finishStep finishes a rename that was begun, like the recovery of an intent does: there may be nothing left
// to rename, or both names may be there.
func finishStep(begun *moving) step {
	s := begun.step
	s.what = "finish " + s.what
	s.begin = func(*model) {}
	s.run = func(ctx context.Context, st objstore.Store) error {
		err := begun.step.run(ctx, st)
		switch {
		case errors.Is(err, errs.ErrNotFound):
			return nil
		case errors.Is(err, errs.ErrExists):
			return st.RemoveAll(ctx, begun.from)
		}
		return err
	}
	return s
}

// TestAmbiguousPut checks errs.ErrExists of a name that a dead process linked but did not sync: the caller may
// find its own bytes there and count that as success, so the name must be durable.
func TestAmbiguousPut(t *testing.T) {
	attempt := putStep("d/wal/1", "mine")
	seen := false
	for n := int64(1); ; n++ {
		fs, m := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{CrashAt: n}), newModel()
		st, err := objstore.OpenLocal(fs, crashRoot)
		if err == nil {
			err = play(t.Context(), st, m, []step{attempt}, nil)
		}
		if err == nil {
			break
		}
		fs.Reset(faultfs.Plan{})
		st = openLocal(t, fs, crashRoot)
		err = play(t.Context(), st, m, []step{attempt}, nil)
		if errors.Is(err, errs.ErrExists) {
			seen, err = true, nil
			attempt.ack(m)
		}
		if err == nil {
			err = checkClones(t.Context(), fs, m, 0)
		}
		if err != nil {
			t.Fatalf("crash at call %d: %v; trace:\n%s", n, err, strings.Join(fs.Trace(), "\n"))
		}
	}
	if !seen {
		t.Error("no crash left a linked and unsynced name")
	}
}

// noticed plants a bug and reports whether losing power after an acknowledgement, or at some call, shows it.
func noticed(t *testing.T, plan faultfs.Plan) bool {
	t.Helper()
	fs, m := faultfs.New(vfs.NewCrashableMem(), plan), newModel()
	st := openLocal(t, fs, crashRoot)
	lost := func() error { return checkClones(t.Context(), fs, m, 0) }
	if play(t.Context(), st, m, history(), lost) != nil {
		return true
	}
	for n := int64(1); ; n++ {
		plan.CrashAt = n
		fs, m, crashed := crashRun(t, plan)
		if checkClones(t.Context(), fs, m, 0) != nil {
			return true
		}
		if !crashed {
			return false
		}
	}
}

// superfluous lists the syncs of the history that no crash needs: after a rename the store does not remember
// that the directory is durable under its new name, and makes sure of it again before the next put in it.
func superfluous() map[string]bool {
	return map[string]bool{
		"sync directory /disk/base/.dropped/deep (left out)": true,
		"sync directory /disk/base/db (left out)":            true,
		"sync directory /disk/base/db/v.lance (left out)":    true,
	}
}

// TestPlantedBugs leaves out each single sync of the history. If one could be left out unnoticed, either it is
// superfluous or these tests are blind.
func TestPlantedBugs(t *testing.T) {
	fs, _, _ := crashRun(t, faultfs.Plan{})
	dirSyncs, fileSyncs := fs.DirSyncs(), fs.FileSyncs()
	if dirSyncs < 30 || fileSyncs < 10 {
		t.Errorf("only %d directory syncs and %d file syncs", dirSyncs, fileSyncs)
	}
	unnoticed := 0
	for k := int64(1); k <= dirSyncs; k++ {
		plan := faultfs.Plan{SkipDirSync: faultfs.Only(k)}
		if noticed(t, plan) {
			continue
		}
		unnoticed++
		fs, _, _ := crashRun(t, plan)
		for _, call := range fs.Trace() {
			_, what, _ := strings.Cut(call, " ")
			if strings.HasSuffix(what, "(left out)") && !superfluous()[what] {
				t.Errorf("directory sync %d left out unnoticed: %s", k, call)
			}
		}
	}
	if unnoticed > len(superfluous()) {
		t.Errorf("%d directory syncs can be left out unnoticed", unnoticed)
	}
	for k := int64(1); k <= fileSyncs; k++ {
		if !noticed(t, faultfs.Plan{SkipFileSync: faultfs.Only(k)}) {
			t.Errorf("file sync %d left out unnoticed", k)
		}
	}
	if !noticed(t, faultfs.Plan{SkipDirSync: faultfs.All()}) || !noticed(t, faultfs.Plan{SkipFileSync: faultfs.All()}) {
		t.Error("all syncs left out unnoticed")
	}
}

// TestCrashConcurrent crashes at random calls under writers that share new directories.
func TestCrashConcurrent(t *testing.T) {
	const writers, perWriter = 8, 12
	run := func(seed uint64, crashAt int64) int64 {
		fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{CrashAt: crashAt})
		st, err := objstore.OpenLocal(fs, crashRoot)
		if err != nil {
			return fs.Count()
		}
		defer st.Close()
		var mu sync.Mutex
		m := newModel()
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for j := range perWriter {
					s := putStep(fmt.Sprintf("a/%d/%d/c/%d", j, (i+j)%3, i), fmt.Sprintf("%d.%d", i, j))
					mu.Lock()
					s.begin(m)
					mu.Unlock()
					if err := s.run(t.Context(), st); err != nil {
						if !errors.Is(err, faultfs.ErrCrashed) {
							t.Errorf("%s: %v", s.what, err)
						}
						return
					}
					mu.Lock()
					s.ack(m)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := checkClones(t.Context(), fs, m, 0, 50); err != nil {
			t.Errorf("seed %d, crash at %d: %v", seed, crashAt, err)
		}
		return fs.Count()
	}
	calls := run(0, 0)
	rng := rand.New(rand.NewPCG(11, 12))
	for seed := range uint64(40) {
		run(seed, 1+rng.Int64N(calls))
	}
}
