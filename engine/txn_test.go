package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

func newWorld(t *testing.T) *Engine {
	t.Helper()
	e := mustOpen(t, objstore.NewMem())
	require.NoError(t, createTestTable(t.Context(), e))
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

func mustRun(t *testing.T, e *Engine, w write) {
	t.Helper()
	require.NoError(t, w.run(t.Context(), e))
}

func (t *Txn) mustRead(tb *testing.T, k ReadKind) contents {
	tb.Helper()
	c, err := read(tb.Context(), t, k, lsm.ScanSpec{})
	require.NoError(tb, err)
	return c
}

func TestRepeatableReadKeepsItsView(t *testing.T) {
	e := newWorld(t)
	mustRun(t, e, write{put: contents{1: "a", 2: "b"}})
	old := e.Begin(TxnOptions{})
	defer old.Rollback()
	old.BeginStatement()
	require.Equal(t, contents{1: "a", 2: "b"}, old.mustRead(t, Consistent))
	for i := range 5 {
		mustRun(t, e, write{put: contents{1: fmt.Sprint("new", i), int64(10 + i): "x"}, drop: nil})
		require.NoError(t, e.FlushTables(t.Context(), nil))
		work(e)
		old.BeginStatement()
		require.Equal(t, contents{1: "a", 2: "b"}, old.mustRead(t, Consistent), "after %d merges", i+1)
	}
	require.Len(t, old.mustRead(t, Current), 7, "a current read sees what is newest")
	committed := e.Begin(TxnOptions{Isolation: ReadCommitted})
	defer committed.Rollback()
	committed.BeginStatement()
	require.Len(t, committed.mustRead(t, Consistent), 7)
	mustRun(t, e, write{drop: []int64{2}})
	committed.BeginStatement()
	require.Len(t, committed.mustRead(t, Consistent), 6)
}

func TestOwnWritesAndSavepoints(t *testing.T) {
	e := newWorld(t)
	mustRun(t, e, write{put: contents{1: "a", 2: "b"}})
	tbl := testTable(e)
	x := e.Begin(TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	require.NoError(t, x.Insert(t.Context(), tbl, testRow(3, "c")))
	require.Equal(t, contents{1: "a", 2: "b"}, x.mustRead(t, Consistent), "a statement does not meet its own writes")
	x.Savepoint("s1")
	x.BeginStatement()
	require.Equal(t, contents{1: "a", 2: "b", 3: "c"}, x.mustRead(t, Consistent))
	require.NoError(t, x.Delete(t.Context(), tbl, testRow(1, "a")))
	require.NoError(t, x.Update(t.Context(), tbl, testRow(2, "b"), testRow(4, "moved")))
	x.BeginStatement()
	require.Equal(t, contents{3: "c", 4: "moved"}, x.mustRead(t, Consistent))
	err := x.Insert(t.Context(), tbl, testRow(4, "again"))
	require.ErrorIs(t, err, errs.ErrDuplicateKey)
	var dup *DuplicateKeyError
	require.True(t, errors.As(err, &dup))
	require.Equal(t, testRow(4, "moved"), dup.Existing)
	require.ErrorIs(t, x.RollbackToSavepoint("none"), errs.ErrNotFound)
	require.NoError(t, x.RollbackToSavepoint("s1"))
	x.BeginStatement()
	require.Equal(t, contents{1: "a", 2: "b", 3: "c"}, x.mustRead(t, Consistent))
	require.NoError(t, x.ReleaseSavepoint("s1"))
	require.ErrorIs(t, x.RollbackToSavepoint("s1"), errs.ErrNotFound)
	require.NoError(t, x.Commit(t.Context()))
	require.Equal(t, contents{1: "a", 2: "b", 3: "c"}, mustDump(t, e))
	require.ErrorIs(t, x.Commit(t.Context()), errs.ErrClosed)
}

func TestWriteConflictAsksForARerun(t *testing.T) {
	e := newWorld(t)
	mustRun(t, e, write{put: contents{1: "a"}})
	tbl := testTable(e)
	x := e.Begin(TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	require.Equal(t, contents{1: "a"}, x.mustRead(t, Current))
	mustRun(t, e, write{put: contents{1: "b"}})
	mark := x.Mark()
	require.ErrorIs(t, x.Update(t.Context(), tbl, testRow(1, "a"), testRow(1, "a+")), errs.ErrWriteConflict)
	x.RollbackTo(mark)
	x.RefreshStatement()
	require.Equal(t, contents{1: "b"}, x.mustRead(t, Current))
	require.NoError(t, x.Update(t.Context(), tbl, testRow(1, "b"), testRow(1, "b+")))
	require.NoError(t, x.Commit(t.Context()))
	require.Equal(t, contents{1: "b+"}, mustDump(t, e))
}

func TestLocksAreHeldToTheEnd(t *testing.T) {
	e := newWorld(t)
	tbl := testTable(e)
	x := e.Begin(TxnOptions{})
	x.BeginStatement()
	require.NoError(t, x.Insert(t.Context(), tbl, testRow(1, "x")))
	y := e.Begin(TxnOptions{LockWait: 10 * time.Millisecond})
	defer y.Rollback()
	y.BeginStatement()
	require.ErrorIs(t, y.Insert(t.Context(), tbl, testRow(1, "y")), errs.ErrLockTimeout)
	require.False(t, y.Done(), "a timeout fails the statement only")
	x.Rollback()
	require.NoError(t, y.Insert(t.Context(), tbl, testRow(1, "y")))
	require.NoError(t, y.Commit(t.Context()))
	require.Equal(t, contents{1: "y"}, mustDump(t, e))
}

func TestDeadlockVictimIsRolledBack(t *testing.T) {
	e := newWorld(t)
	tbl := testTable(e)
	old, young := e.Begin(TxnOptions{}), e.Begin(TxnOptions{})
	defer old.Rollback()
	old.BeginStatement()
	young.BeginStatement()
	require.NoError(t, old.Insert(t.Context(), tbl, testRow(1, "old")))
	require.NoError(t, young.Insert(t.Context(), tbl, testRow(2, "young")))
	got := make(chan error, 1)
	go func() { got <- old.Insert(context.Background(), tbl, testRow(2, "old")) }()
	require.ErrorIs(t, young.Insert(t.Context(), tbl, testRow(1, "young")), errs.ErrDeadlock)
	require.True(t, young.Done())
	require.NoError(t, <-got)
	require.NoError(t, old.Commit(t.Context()))
	require.Equal(t, contents{1: "old", 2: "old"}, mustDump(t, e))
}

func TestCommitOverTwoTables(t *testing.T) {
	e := newWorld(t)
	other, err := e.CreateTable(t.Context(), "db", "u", TableDef{Schema: testSchema(), Shape: []byte(`{}`), AutoColumn: -1})
	require.NoError(t, err)
	x := e.Begin(TxnOptions{})
	x.BeginStatement()
	require.NoError(t, x.Insert(t.Context(), testTable(e), testRow(1, "a")))
	require.NoError(t, x.Insert(t.Context(), other, testRow(1, "a")))
	require.NoError(t, x.Commit(t.Context()))
	require.True(t, x.Done())
	for _, table := range []string{"t", "u"} {
		got, err := dumpOf(t.Context(), e, table)
		require.NoError(t, err)
		require.Equal(t, contents{1: "a"}, got)
	}
}

// TestConcurrentIncrements adds 1 to one row from many transactions: no update is lost.
func TestConcurrentIncrements(t *testing.T) {
	e := newWorld(t)
	mustRun(t, e, write{put: contents{1: ""}})
	const writers, rounds = 8, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				for {
					err := appendX(t.Context(), e)
					if err == nil {
						break
					}
					if !errors.Is(err, errs.ErrWriteConflict) && !errors.Is(err, errs.ErrDeadlock) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	upkeep := make(chan struct{})
	go func() {
		defer close(upkeep)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := e.FlushTables(context.Background(), nil); err != nil {
				t.Error(err)
			}
			work(e)
		}
	}()
	wg.Wait()
	close(stop)
	<-upkeep
	require.Len(t, mustDump(t, e)[1], writers*rounds)
}

func appendX(ctx context.Context, e *Engine) error {
	x := e.Begin(TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	c, err := read(ctx, x, Current, lsm.ScanSpec{})
	if err != nil {
		return err
	}
	if err := x.Update(ctx, testTable(e), testRow(1, c[1]), testRow(1, c[1]+"x")); err != nil {
		return err
	}
	return x.Commit(ctx)
}
