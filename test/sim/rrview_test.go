package sim

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/engine"
	"lancesql/internal/arrowx"
	"lancesql/lsm"
)

// TestViewUnderUpserts holds a REPEATABLE READ view open while writers replace every row of a table again and again: memory
// stays bounded, the view goes on seeing what it saw, and no writer is held up for long by anything but the disk.
func TestViewUnderUpserts(t *testing.T) {
	length := 5 * time.Second
	switch {
	case soak():
		length = time.Minute
	case testing.Short():
		length = time.Second
	}
	const keys, writers, memory = 2000, 4, 64 << 20
	ctx := t.Context()
	e, err := engine.Open(ctx, engine.Config{DataDir: t.TempDir() + "/data", MemTableRows: 4000, MemoryBytes: memory, Freshness: time.Second}, engine.Components{})
	require.NoError(t, err)
	require.NoError(t, e.CreateDatabase(ctx, "db", nil))
	entry, err := e.CreateTable(ctx, "db", "plain", simDef("plain", 1))
	require.NoError(t, err)
	enc, err := lsm.KeyEncoder(simSchema(), []int{colID})
	require.NoError(t, err)
	key := func(id int64) (arrowx.Row, error) {
		k, err := enc.Row(arrowx.Row{id, nil, nil}, []int{colID})
		if err != nil {
			return nil, err
		}
		x := e.Begin(engine.TxnOptions{})
		defer x.Rollback()
		row, _, err := x.Get(ctx, entry, k, []int{colID, colV, colN})
		return row, err
	}
	upsert := func(from, n int64, v string) error {
		x := e.Begin(engine.TxnOptions{})
		defer x.Rollback()
		for id := from; id < from+n; id++ {
			x.BeginStatement()
			old, err := key(id)
			if err != nil {
				return err
			}
			row := cell{v: v, n: int32(id), has: true}.row(id)
			if old == nil {
				err = x.Insert(ctx, entry, row)
			} else {
				err = x.Update(ctx, entry, old, row)
			}
			if err != nil {
				return err
			}
		}
		return x.Commit(ctx)
	}
	want := rows{}
	for id := int64(0); id < keys; id += 500 {
		require.NoError(t, upsert(id, 500, "first"))
	}
	for id := range int64(keys) {
		want[id] = cell{v: "first", n: int32(id), has: true}
	}
	v := e.Begin(engine.TxnOptions{ReadOnly: true})
	defer v.Rollback()
	v.TakeView()
	v.BeginStatement()
	look := func() {
		r, err := v.Scan(ctx, entry, engine.Consistent, lsm.ScanSpec{Columns: []int{colID, colV, colN}})
		require.NoError(t, err)
		got, err := collect(r)
		require.NoError(t, err)
		require.True(t, maps.Equal(want, got), "the view changed")
	}
	look()

	until, stop := context.WithTimeout(ctx, length)
	defer stop()
	var upserts atomic.Int64
	ended := make(chan error, writers)
	for w := range int64(writers) {
		go func() {
			for i := 0; until.Err() == nil; i++ {
				from := w*(keys/writers) + int64(i%(keys/writers/20))*20
				if err := upsert(from, 20, fmt.Sprint("later ", i)); err != nil {
					ended <- err
					return
				}
				upserts.Add(20)
			}
			ended <- nil
		}()
	}
	most, longest := int64(0), time.Duration(0)
	reason := ""
	for n := 0; until.Err() == nil; n++ {
		time.Sleep(10 * time.Millisecond)
		most = max(most, e.Memory().Total())
		for _, s := range e.Stalls() {
			if d := time.Since(s.Since); d > longest {
				longest, reason = d, s.Reason
			}
		}
		if n%50 == 0 {
			look()
		}
	}
	for range writers {
		require.NoError(t, <-ended)
	}
	look()
	t.Logf("%d rows replaced, at most %d KiB in the memory account, longest stall %s %s", upserts.Load(), most>>10, longest, reason)
	require.Greater(t, upserts.Load(), int64(keys), "nothing was replaced twice")
	require.Less(t, most, int64(memory))
	require.Less(t, longest, time.Second, reason)
	v.Rollback()
	require.NoError(t, e.FlushTables(ctx, nil))
	require.NoError(t, e.Close(ctx))
}
