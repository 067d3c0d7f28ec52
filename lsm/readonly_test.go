package lsm_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// lookOnly fails every call that would change something and counts them.
type lookOnly struct {
	objstore.Store
	tried  atomic.Int64
	before func(name string) // called before an object is read; may be nil
}

func (l *lookOnly) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	if l.before != nil {
		l.before(name)
	}
	return l.Store.ReadAll(ctx, name, limit)
}

func (l *lookOnly) refuse() error {
	l.tried.Add(1)
	return errs.ErrReadOnly
}

func (l *lookOnly) PutIfAbsent(context.Context, string, []byte) error { return l.refuse() }
func (l *lookOnly) Put(context.Context, string, []byte) error         { return l.refuse() }
func (l *lookOnly) Create(context.Context, string) (objstore.Writer, error) {
	return nil, l.refuse()
}
func (l *lookOnly) Delete(context.Context, string) error         { return l.refuse() }
func (l *lookOnly) RemoveAll(context.Context, string) error      { return l.refuse() }
func (l *lookOnly) Rename(context.Context, string, string) error { return l.refuse() }
func (l *lookOnly) MakeDir(context.Context, string) error        { return l.refuse() }
func (l *lookOnly) SweepTemp(context.Context, string) (int, error) {
	return 0, l.refuse()
}

// follower is a table opened for reading only beside the one of a model.
type follower struct {
	t       *testing.T
	m       *model
	store   *lookOnly
	table   *lsm.Table
	visible uint64
	views   map[uint64]map[int64]int32
}

func follow(t *testing.T, m *model) *follower {
	t.Helper()
	keys, err := pkstore.Open()
	require.NoError(t, err)
	f := &follower{t: t, m: m, store: &lookOnly{Store: m.store}, views: map[uint64]map[int64]int32{}}
	f.table, err = lsm.OpenReadOnly(t.Context(), lsm.Options{Store: f.store, Keys: keys, BatchRows: 5}, checkedTable)
	require.NoError(t, err)
	require.True(t, f.table.ReadOnly())
	t.Cleanup(func() {
		require.NoError(t, f.table.Close(context.Background()))
		require.NoError(t, keys.Close())
		require.Zero(t, f.store.tried.Load(), "a reader tried to change something")
	})
	return f
}

func (f *follower) hooks() lsm.FollowHooks {
	return lsm.FollowHooks{
		Publish: func(apply func(uint64) error) error {
			if err := apply(f.visible + 1); err != nil {
				return err
			}
			f.visible++
			return nil
		},
		LowWater: func() uint64 {
			low := f.visible
			for s := range f.views {
				low = min(low, s)
			}
			return low
		},
	}
}

func (f *follower) at(s uint64) map[int64]int32 {
	snap, err := f.table.Snapshot(s)
	require.NoError(f.t, err)
	defer snap.Release()
	return f.m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}}, nil)
}

// TestFollow: after every step of a history, once it is in WAL entries, a reader sees exactly what the writer has; what it saw
// before it sees again in views that it kept, as long as their files are there.
func TestFollow(t *testing.T) {
	seeds, steps := uint64(8), 100
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		m := newModel(t, seed)
		f := follow(t, m)
		for i := range steps {
			m.step()
			require.NoError(t, m.table.WriteBehind(t.Context()))
			require.NoError(t, f.table.Refresh(t.Context(), f.hooks()), "seed %d, step %d", seed, i)
			require.Equal(t, m.now, f.at(f.visible), "seed %d, step %d", seed, i)
			snap, err := f.table.Snapshot(f.visible)
			require.NoError(t, err)
			m.t = t
			lo, hi := m.rng.Int64N(40), m.rng.Int64N(60)
			ranged := maps.Clone(m.now)
			maps.DeleteFunc(ranged, func(id int64, _ int32) bool { return id < lo || id >= hi })
			require.Equal(t, ranged, m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}, Range: &lsm.KeyRange{Lo: m.key(lo), Hi: m.key(hi)}, BatchRows: 3}, nil))
			snap.Release()
		}
		require.NoError(t, m.table.Close(t.Context()))
	}
}

// TestFollowKeepsViews: commits, flushes and merges do not change what a view of before sees.
func TestFollowKeepsViews(t *testing.T) {
	m := newModel(t, 0)
	f := follow(t, m)
	for i := range 60 {
		m.commit()
		if i%7 == 0 {
			require.NoError(t, m.table.Flush(t.Context()))
		}
		if i%20 == 19 {
			require.NoError(t, m.table.Merge(t.Context(), m.hooks())) // without clean-up: the files stay
		}
		require.NoError(t, m.table.WriteBehind(t.Context()))
		require.NoError(t, f.table.Refresh(t.Context(), f.hooks()))
		f.views[f.visible] = maps.Clone(m.now)
		if i%5 == 0 {
			for s, want := range f.views {
				require.Equal(t, want, f.at(s), "view %d at step %d", s, i)
			}
		}
	}
	require.NoError(t, m.table.Close(t.Context()))
}

// TestFollowConcurrently: beside a writer that flushes, merges and cleans up all the time, a reader sees prefixes only and
// never goes back.
func TestFollowConcurrently(t *testing.T) {
	m := newModel(t, 0)
	m.put(1, 0)
	m.put(2, 0)
	require.NoError(t, m.table.WriteBehind(t.Context()))
	f := follow(t, m)
	rounds := int32(400)
	if testing.Short() {
		rounds = 100
	}
	const enough = 20      // looks
	var looks atomic.Int64 // the writer goes on until there have been enough, however the two are scheduled
	written := int32(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		defer close(done)
		ctx := context.Background()
		for n := int32(1); n <= rounds || looks.Load() < enough && !t.Failed(); n++ {
			written = n
			// First key 1, then key 2: a prefix has both equal, or key 1 ahead by one.
			for _, id := range []int64{1, 2} {
				st, err := m.table.Stage(ctx, []lsm.Op{{Key: m.key(id), Row: m.row(nil, id, n)}})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = st.Parts()
				m.next++
				m.table.Logged(st, m.next)
				err = errors.Join(err, m.table.Apply(st, m.visible+1))
				m.visible++
				st.Release()
				if err = errors.Join(err, m.table.WriteBehind(ctx)); err != nil {
					t.Error(err)
					return
				}
			}
			var err error
			switch {
			case n%9 == 0:
				err = errors.Join(m.table.Freeze(), m.table.Flush(ctx), m.table.RemoveWAL(ctx, m.next+1))
			case n%19 == 0:
				err = errors.Join(m.table.Merge(ctx, m.hooks()), m.table.Cleanup(ctx, m.visible))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	last, vanished := int32(0), 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		require.NoError(t, f.table.Refresh(t.Context(), f.hooks()))
		snap, err := f.table.Snapshot(f.visible)
		require.NoError(t, err)
		rows, err := m.tryScan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}})
		snap.Release()
		if errors.Is(err, errs.ErrNotFound) {
			vanished++
			continue // the statement runs again
		}
		require.NoError(t, err)
		looks.Add(1)
		require.Len(t, rows, 2)
		require.Contains(t, []int32{rows[2], rows[2] + 1}, rows[1], "%v", rows)
		require.GreaterOrEqual(t, rows[1]+rows[2], last, "a reader went back")
		last = rows[1] + rows[2]
	}
	wg.Wait()
	require.Equal(t, 2*written, last)
	t.Logf("%d writes, %d looks, %d met removed files", written, looks.Load(), vanished)
	require.NoError(t, m.table.Close(t.Context()))
}

// TestFollowPassedByRemoval: the writer flushes and removes the WAL between a reader's look at the shard manifest and its
// look at the WAL, which then seems to end early. Neither an opening nor a refresh may miss the rows.
func TestFollowPassedByRemoval(t *testing.T) {
	m := newModel(t, 0)
	passed := 0
	pass := func(l *lookOnly) {
		l.before = func(name string) {
			if !strings.Contains(name, "/wal/") {
				return
			}
			l.before = nil
			passed++
			require.NoError(t, m.table.Freeze())
			require.NoError(t, m.table.Flush(t.Context()))
			require.NoError(t, m.table.RemoveWAL(t.Context(), m.next+1))
		}
	}
	m.put(1, 1)
	require.NoError(t, m.table.WriteBehind(t.Context()))
	keys, err := pkstore.Open()
	require.NoError(t, err)
	l := &lookOnly{Store: m.store}
	pass(l)
	opened, err := lsm.OpenReadOnly(t.Context(), lsm.Options{Store: l, Keys: keys}, checkedTable)
	require.NoError(t, err)
	snap, err := opened.Snapshot(0)
	require.NoError(t, err)
	require.Equal(t, m.now, m.scan(snap, lsm.ScanSpec{Columns: []int{1, 2, 0}}, nil), "opening")
	snap.Release()
	require.NoError(t, opened.Close(t.Context()))
	require.NoError(t, keys.Close())

	f := follow(t, m)
	m.put(1, 2)
	require.NoError(t, m.table.WriteBehind(t.Context()))
	pass(f.store)
	require.NoError(t, f.table.Refresh(t.Context(), f.hooks()))
	require.Equal(t, m.now, f.at(f.visible), "refresh")
	require.Equal(t, 2, passed)
	require.NoError(t, m.table.Close(t.Context()))
}

// tryScan is scan with errors returned.
func (m *model) tryScan(snap *lsm.Snapshot, spec lsm.ScanSpec) (map[int64]int32, error) {
	r, err := snap.Scan(m.t.Context(), spec, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := map[int64]int32{}
	for {
		rec, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return out, err
		}
		for i := range int(rec.NumRows()) {
			row := arrowx.RowOf(rec, i)
			out[row[0].(int64)] = row[1].(int32)
		}
		rec.Release()
	}
}
