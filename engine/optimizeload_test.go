package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lsm"
)

// TestOptimizeUnderLoad: while writers move amounts between rows and a view is held, compactions, reclusters, merges and checks go on:
// every read sees the same rows, the view stays what it was, and all indexes end up right.
func TestOptimizeUnderLoad(t *testing.T) {
	ctx := context.Background()
	e := openWorld(t, vfs.NewMem(), func(c *Config) {
		c.Workers, c.MergeAfterGenerations, c.MemTableRows, c.Freshness = 2, 1, 24, 20*time.Millisecond
	})
	def := testDef()
	def.Indexes = []IndexDef{{Name: "by_v", Column: 1}}
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	tbl, err := e.CreateTable(ctx, "db", "t", def)
	require.NoError(t, err)
	const rows, writers = 40, 3
	first := contents{}
	for id := range int64(rows) {
		first[id] = "0"
	}
	require.NoError(t, write{put: first}.run(ctx, e))
	old := e.Begin(TxnOptions{})
	defer old.Rollback()
	old.BeginStatement()
	_, err = read(ctx, old, Consistent, lsm.ScanSpec{})
	require.NoError(t, err)

	length := 1500 * time.Millisecond
	if soak() {
		length = 30 * time.Second
	}
	stop := time.Now().Add(length)
	latest := stop.Add(time.Minute)
	var wg sync.WaitGroup
	var commits, groups, reclustered atomic.Int64
	failed := make(chan error, writers+2)
	running := func() bool { // until everything has been met, also on a slow machine
		now := time.Now()
		return now.Before(stop) || now.Before(latest) && !t.Failed() && len(failed) == 0 &&
			(commits.Load() <= 20 || groups.Load() == 0 || reclustered.Load() == 0)
	}
	run := func(f func(i int64) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := int64(0); running(); i++ {
				if err := f(i); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for n := range int64(writers) { // each has rows of its own, so that none waits for another
		run(func(i int64) error {
			w := write{put: contents{}}
			for k := range int64(3) {
				w.put[(n+writers*(i+k))%(rows/writers*writers)/writers*writers+n] = fmt.Sprint(i)
			}
			err := w.run(ctx, e)
			if errors.Is(err, errs.ErrWriteConflict) {
				return nil // a merge has folded what the statement began with; SQL runs it again
			}
			commits.Add(1)
			return err
		})
	}
	run(func(i int64) error {
		if i%3 == 1 {
			done, err := e.Recluster(ctx, tbl.ID, lsm.Recluster{Columns: []int{1}, Buckets: 3, Publish: i%9 == 4})
			if errors.Is(err, errs.ErrConflict) {
				return nil // all rows of a fragment died again and again
			}
			reclustered.Add(int64(done.FragmentsAdded))
			return err
		}
		done, err := e.Optimize(ctx, tbl.ID)
		groups.Add(int64(done.Groups))
		return err
	})
	run(func(i int64) error {
		if i%5 == 0 {
			_, err := e.CheckTable(ctx, tbl, true, func(what string) { t.Error(what) })
			return err
		}
		now, err := dump(ctx, e)
		if err == nil && len(now) != rows {
			err = errors.New("rows came or went")
		}
		return err
	})
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	again, err := read(ctx, old, Consistent, lsm.ScanSpec{})
	require.NoError(t, err)
	require.Equal(t, first, again)
	old.Rollback()
	require.Greater(t, commits.Load(), int64(20))
	require.Positive(t, groups.Load())
	require.Positive(t, reclustered.Load())
	n, err := e.CheckTable(ctx, tbl, true, func(what string) { t.Error(what) })
	require.NoError(t, err)
	require.Equal(t, uint64(rows), n)
	t.Logf("%d commits, %d groups, %d fragments of reclusters", commits.Load(), groups.Load(), reclustered.Load())
}
