package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/engine/lock"
	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/lsm"
)

// stranger is another writer of the test table: it claims the shard as a lancedb process would, and writes WAL entries
// that no journal knows.
func stranger(t *testing.T, e *Engine) *lsm.Table {
	t.Helper()
	tbl, err := lsm.Open(t.Context(), lsm.Options{Store: e.store, Keys: e.keys}, testTable(e).Path)
	require.NoError(t, err)
	return tbl
}

func strangerPuts(t *testing.T, e *Engine, s *lsm.Table, id int64, v string) {
	t.Helper()
	ot, err := e.openTable(t.Context(), testTable(e))
	require.NoError(t, err)
	key, err := ot.key(testRow(id, v))
	require.NoError(t, err)
	staged, err := s.Stage(t.Context(), []lsm.Op{{Key: key, Row: testRow(id, v)}})
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), staged))
	require.NoError(t, s.Apply(staged, 1))
	staged.Release()
}

// TestForeignClaim: another writer takes our shard over; nothing acknowledged is lost, and of equal keys ours win.
func TestForeignClaim(t *testing.T) {
	now := clock.NewManual(time.Unix(1000, 0))
	d, err := diskOn(vfs.NewMem())
	require.NoError(t, err)
	e, err := Open(t.Context(), smallConfig(), Components{Store: d.store, Journal: d.journal, Clock: now})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, createTestTable(ctx, e))
	mustRun(t, e, put(1, "ours"))
	work(e)
	mustRun(t, e, put(2, "ours, only in the journal"))

	s := stranger(t, e)
	strangerPuts(t, e, s, 2, "theirs")
	strangerPuts(t, e, s, 3, "theirs")
	mustRun(t, e, put(4, "ours, after the claim"))
	work(e) // write-behind meets the foreign epoch and opens the table again
	want := contents{1: "ours", 2: "ours, only in the journal", 3: "theirs", 4: "ours, after the claim"}
	require.Equal(t, want, mustDump(t, e))
	require.NoError(t, e.Failed())
	mustRun(t, e, put(5, "goes on"))
	work(e)
	want[5] = "goes on"
	require.NoError(t, s.Close(ctx))

	s = stranger(t, e) // once more, at once: the reopening waits
	mustRun(t, e, put(6, "late"))
	want[6] = "late"
	id := testTable(e).ID
	require.NoError(t, e.writeBehind(ctx, id), "the first repetition is reopened at once")
	require.NoError(t, s.Close(ctx))
	s = stranger(t, e)
	mustRun(t, e, put(7, "later"))
	want[7] = "later"
	err = e.writeBehind(ctx, id)
	require.ErrorIs(t, err, errs.ErrFenced)
	require.ErrorContains(t, err, "again and again")
	require.Equal(t, want, mustDump(t, e), "meanwhile the rows are served from memory and safe in the journal")
	now.Advance(time.Minute)
	require.NoError(t, e.writeBehind(ctx, id))
	require.NoError(t, s.Close(ctx))
	require.NoError(t, e.FlushTables(ctx, nil))
	require.Equal(t, want, mustDump(t, e))
	require.NoError(t, e.Close(ctx))
	e, err = d.open(ctx, planted{})
	require.NoError(t, err)
	require.Equal(t, want, mustDump(t, e))
	require.NoError(t, e.Close(ctx))
}

// TestForeignClaimDuringFlush: FLUSH TABLES drains although the shard was taken over.
func TestForeignClaimDuringFlush(t *testing.T) {
	e := worldOn(t, vfs.NewMem(), nil)
	ctx := t.Context()
	mustRun(t, e, put(1, "ours"))
	s := stranger(t, e)
	strangerPuts(t, e, s, 2, "theirs")
	require.NoError(t, s.Close(ctx))
	require.NoError(t, e.FlushTables(ctx, nil))
	lag, err := e.Lag(ctx, testTable(e))
	require.NoError(t, err)
	require.Zero(t, lag)
	require.Equal(t, contents{1: "ours", 2: "theirs"}, mustDump(t, e))
	require.NoError(t, e.Close(ctx))
}

func TestFreshness(t *testing.T) {
	now := clock.NewManual(time.Unix(1000, 0))
	d, err := diskOn(vfs.NewMem())
	require.NoError(t, err)
	e, err := Open(t.Context(), smallConfig(), Components{Store: d.store, Journal: d.journal, Clock: now,
		TableOptions: func(t *TableEntry) TableOptions {
			if t.Name == "u" {
				return TableOptions{Freshness: -1}
			}
			return TableOptions{}
		}})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, createTestTable(ctx, e))
	_, err = e.CreateTable(ctx, "db", "u", testDef())
	require.NoError(t, err)
	require.Equal(t, time.Minute, e.Freshness())
	require.NoError(t, put(1, "a").runOn(ctx, e, "t", "u"))
	now.Advance(20 * time.Second)
	mustRun(t, e, put(2, "b"))
	lag := func(table string) Lag {
		l, err := e.Lag(ctx, namedTable(e, table))
		require.NoError(t, err)
		return l
	}
	require.Equal(t, Lag{Rows: 2, Age: 20 * time.Second}, lag("t"))
	require.False(t, e.freshen(ctx), "nothing is due")
	now.Advance(40 * time.Second)
	require.True(t, e.freshen(ctx))
	require.Zero(t, lag("t"))
	require.Equal(t, Lag{Rows: 1, Age: time.Minute}, lag("u"), "its own bound is off")
	require.False(t, e.freshen(ctx), "quiet tables cost nothing")
	mustRun(t, e, put(3, "c"))
	now.Advance(time.Hour)
	e.SetFreshness(0)
	require.False(t, e.freshen(ctx), "off")
	e.SetFreshness(time.Hour)
	require.True(t, e.freshen(ctx), "what waits is queued when it is switched on")
	require.Zero(t, lag("t"))
	require.NoError(t, e.Close(ctx))
}

// A table under load is due once, and as old as its oldest row that no merge has taken: however often it was flushed and merged.
func TestFreshnessUnderLoad(t *testing.T) {
	now := clock.NewManual(time.Unix(1000, 0))
	d, err := diskOn(vfs.NewMem())
	require.NoError(t, err)
	e, err := Open(t.Context(), smallConfig(), Components{Store: d.store, Journal: d.journal, Clock: now})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, createTestTable(ctx, e))
	flush := func(id int64) *openTable {
		mustRun(t, e, put(id, "a"))
		now.Advance(10 * time.Second)
		ot := e.opened(testTable(e).ID)
		require.NoError(t, ot.table.Freeze())
		require.NoError(t, ot.flush(ctx))
		return ot
	}
	for id := range int64(5) {
		ot := flush(id)
		require.Equal(t, time.Duration(id+1)*10*time.Second, ot.lag().Age, "a flush is nothing for readers of the base")
		require.Len(t, e.fresh.queue, 1)
	}
	for range 3 {
		ot := flush(7)
		mustRun(t, e, put(8, "b"))
		require.NoError(t, ot.merge(ctx))
		now.Advance(time.Second)
		require.Equal(t, time.Second, ot.lag().Age)
		require.Len(t, e.fresh.queue, 1)
	}
	require.False(t, e.freshen(ctx), "nothing is due")
	now.Advance(time.Minute)
	require.True(t, e.freshen(ctx))
	require.Empty(t, e.fresh.queue)
	require.NoError(t, e.Close(ctx))
}

func TestFreshnessInTheBackground(t *testing.T) {
	e := worldOn(t, vfs.NewMem(), func(c *Config) { c.Workers, c.Freshness = 2, 30*time.Millisecond })
	ctx := t.Context()
	require.NoError(t, put(1, "a").runOn(ctx, e, "t", "u"))
	for _, table := range []string{"t", "u"} {
		require.Eventually(t, func() bool { l, err := e.Lag(ctx, namedTable(e, table)); return err == nil && l.Rows == 0 }, 20*time.Second, 5*time.Millisecond)
	}
	require.NoError(t, e.Close(ctx))
}

// TestUndecidedCommitKeepsItsLocks: nobody builds on rows of which only recovery can say whether they are there.
func TestUndecidedCommitKeepsItsLocks(t *testing.T) {
	e := newWorld(t)
	ctx := t.Context()
	mustRun(t, e, put(1, "a"))
	x := e.Begin(TxnOptions{})
	x.BeginStatement()
	require.NoError(t, x.Update(ctx, testTable(e), testRow(1, "a"), testRow(1, "b")))
	e.planted.failJournal = errs.ErrSync
	require.ErrorIs(t, x.Commit(ctx), errUndecided)
	other := e.Begin(TxnOptions{LockWait: 10 * time.Millisecond})
	defer other.Rollback()
	key, err := e.opened(testTable(e).ID).key(testRow(1, ""))
	require.NoError(t, err)
	require.ErrorIs(t, other.LockKey(ctx, testTable(e), key, lock.S, false), errs.ErrLockTimeout)
}

// TestTransfersOverTwoTables moves amounts between two tables from many goroutines, under flushes, merges and
// reopenings; every view of both tables adds up.
func TestTransfersOverTwoTables(t *testing.T) {
	e := worldOn(t, vfs.NewMem(), func(c *Config) { c.Workers, c.WriteBehindDelay = 2, 5*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const accounts, movers, each = 6, 4, 40
	start := write{put: contents{}}
	for id := range int64(accounts) {
		start.put[id] = "10"
	}
	require.NoError(t, start.runOn(ctx, e, "t", "u"))
	total := func() (int, error) {
		x := e.Begin(TxnOptions{})
		defer x.Rollback()
		x.BeginStatement()
		sum := 0
		for _, table := range []string{"t", "u"} {
			c, err := readFrom(ctx, x, namedTable(e, table), Consistent, lsm.ScanSpec{})
			if err != nil {
				return 0, err
			}
			for _, v := range c {
				n := 0
				if _, err := fmt.Sscan(v, &n); err != nil {
					return 0, err
				}
				sum += n
			}
		}
		return sum, nil
	}
	var writers, others sync.WaitGroup
	for m := range movers {
		writers.Go(func() {
			for i := range each {
				for {
					err := transfer(ctx, e, int64((m+i)%accounts), int64((m*3+i)%accounts), i%2 == 0)
					if err == nil {
						break
					}
					if !errors.Is(err, errs.ErrWriteConflict) && !errors.Is(err, errs.ErrDeadlock) && !errors.Is(err, errs.ErrClosed) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := e.FlushTables(ctx, nil); err != nil {
				t.Error(err)
			}
			if n, err := total(); err != nil && !errors.Is(err, errs.ErrSchemaChanged) || err == nil && n != 20*accounts {
				t.Error("total", n, err)
			}
		}
	})
	writers.Wait()
	close(stop)
	others.Wait()
	n, err := total()
	require.NoError(t, err)
	require.Equal(t, 20*accounts, n)
	require.NoError(t, e.Close(ctx))
}

// transfer moves 1 from an account of one table to an account of the other.
func transfer(ctx context.Context, e *Engine, from, to int64, swap bool) error {
	tables := []string{"t", "u"}
	if swap {
		tables = []string{"u", "t"}
	}
	x := e.Begin(TxnOptions{})
	defer x.Rollback()
	x.BeginStatement()
	for i, id := range []int64{from, to} {
		tbl := namedTable(e, tables[i])
		r, err := x.Scan(ctx, tbl, Current, lsm.ScanSpec{Columns: []int{0, 1, 2}})
		if err != nil {
			return err
		}
		c := contents{}
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				_ = r.Close()
				return err
			}
			for row := range int(rec.NumRows()) {
				c[rec.Column(0).(interface{ Value(int) int64 }).Value(row)] = rec.Column(1).ValueStr(row)
			}
			rec.Release()
		}
		_ = r.Close()
		n := 0
		if _, err := fmt.Sscan(c[id], &n); err != nil {
			return err
		}
		if err := x.Update(ctx, tbl, testRow(id, c[id]), testRow(id, fmt.Sprint(n+1-2*(1-i)))); err != nil {
			return err
		}
	}
	return x.Commit(ctx)
}
