package wal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
	"lancesql/wal"
)

const dir = "db/t.lance/_mem_wal/aa48498d-ac91-59e2-8452-69f46010ace2"

// shard stands for the shard manifest: the epoch that is current.
type shard struct {
	mu    sync.Mutex
	epoch wal.Epoch
	err   error
}

func (s *shard) current(context.Context) (wal.Epoch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch, s.err
}

// claim raises the epoch and opens a log for it whose next position is next.
func (s *shard) claim(st objstore.Store, next wal.Position) *wal.Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	return wal.Open(st, dir, s.epoch, next, s.current)
}

func add(t testing.TB, l *wal.Log, id int64) (wal.Position, error) {
	s := testSchema()
	return l.Append(context.Background(), s, 1, []arrow.RecordBatch{batch(t, s, row(id, fmt.Sprint(id)))})
}

// replay returns the ids of all rows, in order, and the tail.
func replay(t testing.TB, st objstore.Store, from wal.Position) (ids []int64, tail wal.Position) {
	next := max(from, 1)
	tail, err := wal.Read(context.Background(), st, dir, from, 0, func(e wal.Entry) error {
		require.Equal(t, next, e.Position)
		next++
		for _, r := range rowsOf(e.Batches) {
			ids = append(ids, r[0].(int64))
		}
		return nil
	})
	require.NoError(t, err)
	return ids, tail
}

func TestAppendAndRead(t *testing.T) {
	st, sh := objstore.NewMem(), &shard{}
	ids, tail := replay(t, st, 0)
	require.Empty(t, ids)
	require.Zero(t, tail)
	l := sh.claim(st, 1)
	for id := range int64(5) {
		p, err := add(t, l, id)
		require.NoError(t, err)
		require.EqualValues(t, id+1, p)
	}
	require.EqualValues(t, 6, l.Next())
	ids, tail = replay(t, st, 1)
	require.Equal(t, []int64{0, 1, 2, 3, 4}, ids)
	require.EqualValues(t, 5, tail)
	ids, tail = replay(t, st, 4)
	require.Equal(t, []int64{3, 4}, ids)
	require.EqualValues(t, 5, tail)
	ids, tail = replay(t, st, 9)
	require.Empty(t, ids)
	require.EqualValues(t, 8, tail)
}

func TestConcurrentAppendsTakeTurns(t *testing.T) {
	st, sh := objstore.NewMem(), &shard{}
	l := sh.claim(st, 1)
	var wg sync.WaitGroup
	got := make([]wal.Position, 40)
	for i := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s := testSchema()
			rec, err := arrowx.FromRows(defaultMem, s, []arrowx.Row{row(int64(i), "x")})
			if err == nil {
				got[i], err = l.Append(context.Background(), s, 1, []arrow.RecordBatch{rec})
				rec.Release()
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	ids, tail := replay(t, st, 1)
	require.EqualValues(t, 40, tail)
	for i, p := range got {
		require.EqualValues(t, i, ids[p-1], "the row is at the position that was acknowledged")
	}
}

func TestNewerWriterFencesOlder(t *testing.T) {
	st, sh := objstore.NewMem(), &shard{}
	a := sh.claim(st, 1)
	_, err := add(t, a, 1)
	require.NoError(t, err)
	b := sh.claim(st, 1) // does not know the tip
	p, err := b.Fence(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 2, p)
	ids, tail := replay(t, st, 1)
	require.Equal(t, []int64{1}, ids)
	require.EqualValues(t, 2, tail)

	for range 2 { // fenced for good
		_, err = add(t, a, 99)
		require.ErrorIs(t, err, errs.ErrFenced)
		require.NotErrorIs(t, err, errs.ErrPoisoned)
	}
	_, err = a.Fence(context.Background())
	require.ErrorIs(t, err, errs.ErrFenced)
	require.ErrorIs(t, a.Err(), errs.ErrFenced)
	p, err = add(t, b, 2)
	require.NoError(t, err)
	require.EqualValues(t, 3, p)
	ids, _ = replay(t, st, 1)
	require.Equal(t, []int64{1, 2}, ids)
}

// A claim that is overtaken between claim and sentinel notices after writing it.
func TestFenceNoticesNewerClaim(t *testing.T) {
	st, sh := objstore.NewMem(), &shard{}
	a := sh.claim(st, 1)
	b := sh.claim(st, 1)
	_, err := a.Fence(context.Background())
	require.ErrorIs(t, err, errs.ErrFenced)
	p, err := b.Fence(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 2, p, "behind the useless sentinel")
}

func TestUnknownEntryAtOurPositionPoisons(t *testing.T) {
	st, sh := objstore.NewMem(), &shard{}
	a := sh.claim(st, 1)
	_, err := add(t, a, 1)
	require.NoError(t, err)
	b := wal.Open(st, dir, sh.epoch, 1, sh.current) // same epoch, wrong tip
	_, err = add(t, b, 2)
	require.ErrorIs(t, err, errs.ErrPoisoned)
	_, err = add(t, b, 2)
	require.ErrorIs(t, err, errs.ErrPoisoned)
	ids, _ := replay(t, st, 1)
	require.Equal(t, []int64{1}, ids)
}

func TestUnreadableEpochPoisons(t *testing.T) {
	st, sh := objstore.NewMem(), &shard{}
	a := sh.claim(st, 1)
	require.NoError(t, st.PutIfAbsent(context.Background(), wal.EntryName(dir, 1), []byte("x")))
	sh.err = errors.New("no manifest")
	_, err := add(t, a, 1)
	require.ErrorIs(t, err, errs.ErrPoisoned)
	require.ErrorIs(t, err, sh.err)
}

func puts(faults ...faultstore.Fault) faultstore.Plan {
	return faultstore.Plan{Faults: faults, Match: func(op faultstore.Op) bool { return op.Kind == faultstore.PutIfAbsent }}
}

func TestTransientFailureIsRetriedAtTheSamePosition(t *testing.T) {
	for _, action := range []faultstore.Action{faultstore.Fail, faultstore.Ambiguous} {
		mem, sh := objstore.NewMem(), &shard{}
		st := faultstore.New(mem, puts(faultstore.Fault{At: 2, Action: action}))
		l := sh.claim(st, 1)
		for id := range int64(3) {
			p, err := add(t, l, id)
			require.NoError(t, err)
			require.EqualValues(t, id+1, p)
		}
		ids, _ := replay(t, mem, 1)
		require.Equal(t, []int64{0, 1, 2}, ids, "action %d", action)
	}
}

func TestLastingFailurePoisons(t *testing.T) {
	mem, sh := objstore.NewMem(), &shard{}
	st := faultstore.New(mem, puts(faultstore.Fault{Action: faultstore.Fail}))
	l := sh.claim(st, 1)
	_, err := add(t, l, 1)
	require.ErrorIs(t, err, errs.ErrPoisoned)
	require.ErrorIs(t, err, faultstore.ErrInjected)
	require.EqualValues(t, 1, l.Next(), "never skipped")
	_, err = add(t, l, 1)
	require.ErrorIs(t, err, errs.ErrPoisoned)
}

func TestFailedSyncPoisonsAtOnce(t *testing.T) {
	mem, sh := objstore.NewMem(), &shard{}
	st := faultstore.New(mem, puts(faultstore.Fault{At: 1, Action: faultstore.Ambiguous, Err: errs.ErrSync}))
	l := sh.claim(st, 1)
	_, err := add(t, l, 1)
	require.ErrorIs(t, err, errs.ErrPoisoned)
	require.ErrorIs(t, err, errs.ErrSync)
}

func TestFullDiskLeavesTheLogUsable(t *testing.T) {
	mem, sh := objstore.NewMem(), &shard{}
	st := faultstore.New(mem, puts(faultstore.Fault{At: 1, Action: faultstore.Fail, Err: errs.ErrNoSpace}))
	l := sh.claim(st, 1)
	_, err := add(t, l, 1)
	require.ErrorIs(t, err, errs.ErrNoSpace)
	require.NotErrorIs(t, err, errs.ErrPoisoned)
	p, err := add(t, l, 2)
	require.NoError(t, err)
	require.EqualValues(t, 1, p)
	ids, _ := replay(t, mem, 1)
	require.Equal(t, []int64{2}, ids)
}

// A full disk reported although the entry arrived is still an acknowledged entry, not a lost one.
func TestAmbiguousFullDisk(t *testing.T) {
	mem, sh := objstore.NewMem(), &shard{}
	st := faultstore.New(mem, puts(faultstore.Fault{At: 1, Action: faultstore.Ambiguous, Err: errs.ErrNoSpace}))
	l := sh.claim(st, 1)
	p, err := add(t, l, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, p)
}

func TestCancelledContext(t *testing.T) {
	st, sh := objstore.NewMem(), &shard{}
	l := sh.claim(st, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := testSchema()
	_, err := l.Append(ctx, s, 1, []arrow.RecordBatch{batch(t, s, row(1, "x"))})
	require.ErrorIs(t, err, context.Canceled)
	p, err := add(t, l, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, p)
}

// Crash at every operation: what was acknowledged is replayed, in order, and the next writer goes on.
func TestCrashAtEveryOperation(t *testing.T) {
	for n := int64(1); ; n++ {
		crashed := false
		for _, performed := range []bool{false, true} {
			mem, sh := objstore.NewMem(), &shard{}
			plan := faultstore.CrashAt(n, performed)
			plan.CountReads = true
			st := faultstore.New(mem, plan)
			l := sh.claim(st, 1)
			_, err := l.Fence(context.Background())
			var acked []int64
			for id := int64(0); err == nil && id < 4; id++ {
				if _, err = add(t, l, id); err == nil {
					acked = append(acked, id)
				}
			}
			if err == nil {
				err = errors.Join(st.Delete(context.Background(), wal.EntryName(dir, 1)), st.Delete(context.Background(), wal.EntryName(dir, 2)))
			}
			crashed = crashed || err != nil
			ids, tail := replay(t, mem, 3)
			require.GreaterOrEqual(t, len(ids)+1, len(acked))
			for i, id := range ids {
				require.EqualValues(t, i+1, id)
			}
			next := sh.claim(mem, tail+1)
			p, err := next.Fence(context.Background())
			require.NoError(t, err)
			require.Greater(t, p, tail-1)
		}
		if !crashed {
			return
		}
	}
}
