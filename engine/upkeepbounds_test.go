package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine/sched"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// shape is what upkeep has to keep bounded.
type shape struct {
	Rows                       uint64
	Fragments, Manifests, Segs int
	Deleted                    uint64 // rows in deletion vectors
	Generations                int
	Bytes                      int64 // on disk, all files of the table
	Scan, Point                time.Duration
}

func (s shape) String() string {
	return fmt.Sprintf("%d rows, %d fragments, %d deleted, %d manifests, %d index segments, %d generations, %.1f MB, scan %v, point read %v", s.Rows,
		s.Fragments, s.Deleted, s.Manifests, s.Segs, s.Generations, float64(s.Bytes)/1e6, s.Scan.Round(100*time.Microsecond), s.Point.Round(time.Microsecond))
}

// upkept is a table on disk with a secondary index under automatic upkeep.
type upkept struct {
	t      testing.TB
	dir    string
	e      *Engine
	tbl    *TableEntry
	stalls stallLog
}

// stallLog collects how long writers were held back.
type stallLog struct {
	mu      sync.Mutex
	longest time.Duration
	reasons []string
	trouble []string
}

func (s *stallLog) Enabled(context.Context, slog.Level) bool { return true }
func (s *stallLog) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *stallLog) WithGroup(string) slog.Handler            { return s }

// Handle implements slog.Handler.
func (s *stallLog) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Level >= slog.LevelError {
		s.trouble = append(s.trouble, r.Message)
	}
	if r.Message != "writers go on" {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "after":
			s.longest = max(s.longest, a.Value.Duration())
		case "reason":
			s.reasons = append(s.reasons, a.Value.String())
		}
		return true
	})
	return nil
}

// openUpkept makes a table of rows, merged, whose fragments aim at fragmentRows.
func openUpkept(t testing.TB, c clock.Clock, rows, fragmentRows int64, change func(*Config)) *upkept {
	t.Helper()
	u := &upkept{t: t, dir: t.TempDir()}
	cfg := Config{DataDir: u.dir, ManifestRetention: 2 * time.Second, Freshness: 5 * time.Second}
	change(&cfg)
	var err error
	u.e, err = Open(t.Context(), cfg, Components{Log: slog.New(&u.stalls), Clock: c, TableOptions: func(*TableEntry) TableOptions {
		return TableOptions{Tuning: lsm.Tuning{FragmentRows: fragmentRows}}
	}})
	require.NoError(t, err)
	require.NoError(t, u.e.CreateDatabase(t.Context(), "db", nil))
	def := testDef()
	def.Indexes = []IndexDef{{Name: "by_v", Column: 1, Parts: []int{1}}}
	u.tbl, err = u.e.CreateTable(t.Context(), "db", "t", def)
	require.NoError(t, err)
	const batch = 5000
	for at := int64(0); at < rows; at += batch {
		require.NoError(t, u.upsert(t.Context(), nil, at, min(at+batch, rows)))
	}
	require.NoError(t, u.e.FlushTables(t.Context(), nil))
	return u
}

// upsert writes rows of the ids given, or of a range.
func (u *upkept) upsert(ctx context.Context, ids []int64, from, to int64) error {
	for id := from; id < to; id++ {
		ids = append(ids, id)
	}
	for {
		x := u.e.Begin(TxnOptions{})
		x.BeginStatement()
		err := u.put(ctx, x, ids)
		if err == nil {
			err = x.Commit(ctx)
		}
		x.Rollback()
		if !errors.Is(err, errs.ErrWriteConflict) { // a merge has folded what the statement began with; SQL runs it again
			return err
		}
	}
}

func (u *upkept) put(ctx context.Context, x *Txn, ids []int64) error {
	for _, id := range ids {
		row := testRow(id, fmt.Sprintf("%07d some value of a common length", rand.Uint32()%1_000_000)) //nolint:gosec // any value will do
		err := x.Insert(ctx, u.tbl, row)
		var dup *DuplicateKeyError
		if errors.As(err, &dup) {
			err = x.Update(ctx, u.tbl, dup.Existing, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settled waits until no background job is left.
func (u *upkept) settled() {
	require.NoError(u.t, u.e.jobs.Drain(u.t.Context()))
}

// measure looks at the table.
func (u *upkept) measure() (s shape) {
	ctx := u.t.Context()
	state, ok := u.e.State(u.tbl.ID)
	require.True(u.t, ok)
	s.Fragments, s.Deleted, s.Generations = state.Base.Fragments, state.Base.Deleted, state.Pressure.Generations
	root := filepath.Join(u.dir, filepath.FromSlash(u.tbl.Path))
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if filepath.Base(filepath.Dir(path)) == "_indices" {
				s.Segs++
			}
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		s.Bytes += info.Size()
		if filepath.Base(filepath.Dir(path)) == "_versions" && filepath.Dir(filepath.Dir(path)) == root && strings.HasSuffix(path, ".manifest") {
			s.Manifests++
		}
		return nil
	})
	require.NoError(u.t, err)
	began := time.Now()
	s.Rows = u.count(ctx, lsm.ScanSpec{Columns: []int{1}})
	s.Scan = time.Since(began)
	ot, err := u.e.openTable(ctx, u.tbl)
	require.NoError(u.t, err)
	var took []time.Duration
	for range 201 {
		k, err := ot.key(testRow(rand.Int64N(int64(s.Rows)), "")) //nolint:gosec // any row will do
		require.NoError(u.t, err)
		began := time.Now()
		u.count(ctx, lsm.ScanSpec{Columns: []int{1}, Keys: []rowkey.Key{k}})
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	s.Point = took[len(took)/2]
	return s
}

func (u *upkept) count(ctx context.Context, spec lsm.ScanSpec) (n uint64) {
	x := u.e.Begin(TxnOptions{})
	defer x.Rollback()
	r, err := x.Scan(ctx, u.tbl, Consistent, spec)
	require.NoError(u.t, err)
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		require.NoError(u.t, err)
		n += uint64(rec.NumRows())
		rec.Release()
	}
}

// checked compares every index with its table, closes, and runs the offline check.
func (u *upkept) checked() {
	_, err := u.e.CheckTable(u.t.Context(), u.tbl, true, func(what string) { u.t.Error(what) })
	require.NoError(u.t, err)
	require.NoError(u.t, u.e.Close(u.t.Context()))
	o := CheckOptions{CheckOptions: lsm.CheckOptions{Deep: true, Progress: func(string) {}}}
	_, err = Check(u.t.Context(), u.dir, o, func(f CheckFinding) {
		if f.Severity == lsm.Error {
			u.t.Error(f.Object, f.What)
		}
	})
	require.NoError(u.t, err)
	u.stalls.mu.Lock()
	defer u.stalls.mu.Unlock()
	require.Empty(u.t, u.stalls.trouble)
}

// Twenty rounds of updates, deletes and inserts over most of a table leave it in the shape it had after the first ones.
func TestUpkeepBoundsRounds(t *testing.T) {
	rows := int64(8000)
	if soak() {
		rows = 200_000
	}
	// Why a clock moved by hand: retention is counted in rounds, however fast the machine is.
	clk := clock.NewManual(time.Now())
	u := openUpkept(t, clk, rows, rows/2, func(c *Config) { c.MemTableRows = uint64(rows / 20) })
	rng := rand.New(rand.NewPCG(1, 2))
	var list []shape
	for range 20 {
		for range 10 {
			ids := make([]int64, 0, rows/20)
			for range cap(ids) {
				ids = append(ids, rng.Int64N(rows))
			}
			slices.Sort(ids)
			require.NoError(t, u.upsert(t.Context(), slices.Compact(ids), 0, 0))
		}
		u.settled()
		list = append(list, u.measure())
		t.Log(list[len(list)-1])
		clk.Advance(time.Second)
	}
	early, late := worst(list[2:8]), worst(list[14:])
	for _, s := range list {
		require.Equal(t, uint64(rows), s.Rows)
		require.LessOrEqual(t, s.Fragments, 3+compactSmall+2, "a full fragment or two beside small ones")
		require.LessOrEqual(t, s.Deleted, s.Rows/5)
	}
	require.LessOrEqual(t, late.Fragments, early.Fragments+4)
	require.LessOrEqual(t, float64(late.Bytes), 1.5*float64(early.Bytes))
	require.LessOrEqual(t, late.Manifests, 2*early.Manifests)
	require.LessOrEqual(t, late.Segs, 2*early.Segs)
	u.checked()
}

// worst is the greatest of each figure.
func worst(list []shape) (w shape) {
	for _, s := range list {
		w.Rows, w.Deleted, w.Bytes = max(w.Rows, s.Rows), max(w.Deleted, s.Deleted), max(w.Bytes, s.Bytes)
		w.Fragments, w.Manifests, w.Segs = max(w.Fragments, s.Fragments), max(w.Manifests, s.Manifests), max(w.Segs, s.Segs)
		w.Generations, w.Scan, w.Point = max(w.Generations, s.Generations), max(w.Scan, s.Scan), max(w.Point, s.Point)
	}
	return w
}

// Upserts of random rows by two writers without a pause: nobody is held up for long, and the table stays in shape. With
// LANCESQL_SOAK it is ten minutes on five million rows, with the default settings but for the retention.
func TestUpkeepBoundsUpserts(t *testing.T) {
	rows, length, sample, fragment := int64(20_000), 6*time.Second, time.Second, int64(10_000)
	change := func(c *Config) { c.MemTableRows = 1000 }
	if soak() {
		rows, length, sample, fragment = 5_000_000, 10*time.Minute, 20*time.Second, 0
		change = func(c *Config) { c.ManifestRetention, c.Freshness = time.Minute, time.Minute }
	}
	u := openUpkept(t, clock.System(), rows, fragment, change)
	loaded := u.measure()
	t.Log("loaded:", loaded)
	ctx := t.Context()
	stop := time.Now().Add(length)
	var commits, slowest atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	for n := range int64(2) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(3, uint64(n)))
			for time.Now().Before(stop) {
				ids := make([]int64, 0, 50)
				for range cap(ids) {
					ids = append(ids, rng.Int64N(rows/2)*2+n) // each has rows of its own
				}
				slices.Sort(ids)
				began := time.Now()
				if err := u.upsert(ctx, slices.Compact(ids), 0, 0); err != nil {
					failed <- err
					return
				}
				commits.Add(1)
				slowest.Store(max(slowest.Load(), int64(time.Since(began))))
			}
		}()
	}
	var list []shape
	for time.Now().Before(stop) {
		time.Sleep(sample)
		list = append(list, u.measure())
		t.Log(list[len(list)-1])
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	u.stalls.mu.Lock()
	longest, reasons := u.stalls.longest, len(u.stalls.reasons)
	u.stalls.mu.Unlock()
	t.Logf("%d commits of 50 rows in %v, the slowest took %v; writers were held up %d times, at most %v", commits.Load(), length,
		time.Duration(slowest.Load()).Round(time.Millisecond), reasons, longest.Round(time.Millisecond))
	limit := 10 * time.Second // Why: a busy machine of CI may not run a flush at once
	if soak() {
		limit = time.Second
	}
	require.Less(t, longest, limit)
	u.settled()
	end := u.measure()
	t.Log("at rest:", end)
	if soak() {
		early, late := worst(list[:len(list)/2]), worst(list[len(list)/2:])
		require.LessOrEqual(t, late.Fragments, 2*early.Fragments+compactSmall)
		require.LessOrEqual(t, late.Bytes, 2*early.Bytes+loaded.Bytes)
		require.LessOrEqual(t, late.Manifests, 2*early.Manifests+10)
	} else { // Why not the halves: background jobs come last, and a busy machine may not get to them in these few seconds
		time.Sleep(3 * time.Second) // the retention, and a little
		require.NoError(t, u.e.RunUpkeep(ctx, u.tbl, sched.Cleanup))
		clean := u.measure()
		t.Log("after a clean-up:", clean)
		require.LessOrEqual(t, clean.Manifests, 3)
		require.LessOrEqual(t, clean.Fragments, 3+compactSmall+2)
		require.LessOrEqual(t, clean.Bytes, 3*loaded.Bytes)
	}
	require.LessOrEqual(t, end.Deleted, end.Rows/5)
	require.Equal(t, uint64(rows), end.Rows)
	u.checked()
}
