package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// insertRow commits one row in a transaction of its own.
func insertRow(ctx context.Context, e *Engine, tbl *TableEntry, id int64, v string) error {
	txn := e.Begin(TxnOptions{})
	defer txn.Rollback()
	txn.BeginStatement()
	if err := txn.Insert(ctx, tbl, testRow(id, v)); err != nil {
		return err
	}
	return txn.Commit(ctx)
}

func rowOf(ctx context.Context, t *testing.T, e *Engine, tbl *TableEntry, id int64) (string, bool) {
	t.Helper()
	txn := e.Begin(TxnOptions{ReadOnly: true})
	defer txn.Rollback()
	txn.BeginStatement()
	ot, err := e.openTable(ctx, tbl)
	require.NoError(t, err)
	key, err := ot.key(testRow(id, ""))
	require.NoError(t, err)
	row, found, err := txn.Get(ctx, tbl, key, []int{1})
	require.NoError(t, err)
	if !found {
		return "", false
	}
	return row[0].(string), true
}

// TestDDLOnRealTables runs the statements over real datasets: rows follow a rename, dropped ones do not come back
// under the old name, and a restart agrees.
func TestDDLOnRealTables(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	e := mustOpen(t, st)
	require.NoError(t, createTestTable(ctx, e))
	first := testTable(e)
	require.NoError(t, insertRow(ctx, e, first, 1, "one"))
	require.NoError(t, e.FlushTables(ctx, nil))
	require.NoError(t, insertRow(ctx, e, first, 2, "two"))

	require.NoError(t, e.CreateDatabase(ctx, "other", nil))
	require.NoError(t, e.MoveTable(ctx, "db", "t", "other", "moved"))
	moved := e.Catalog().TableByID(first.ID)
	require.Equal(t, "other/moved.lance", moved.Path)
	for _, entry := range []*TableEntry{first, moved} { // an entry of before the rename still leads to the table
		for id, want := range map[int64]string{1: "one", 2: "two"} {
			got, found := rowOf(ctx, t, e, entry, id)
			require.True(t, found)
			require.Equal(t, want, got)
		}
	}
	require.NoError(t, insertRow(ctx, e, first, 3, "three"))

	_, err := e.CreateTable(ctx, "db", "t", TableDef{Schema: testSchema(), AutoColumn: -1})
	require.NoError(t, err)
	_, found := rowOf(ctx, t, e, testTable(e), 1)
	require.False(t, found, "a new table of an old name is empty")
	require.NoError(t, insertRow(ctx, e, testTable(e), 7, "seven"))
	require.NoError(t, e.Close(ctx))

	e = mustOpen(t, st)
	moved = e.Catalog().Database("other").Table("moved")
	got, found := rowOf(ctx, t, e, moved, 3)
	require.True(t, found)
	require.Equal(t, "three", got)
	open := e.Begin(TxnOptions{})
	open.BeginStatement()
	require.NoError(t, open.Insert(ctx, moved, testRow(9, "lost")))
	require.NoError(t, e.DropTable(ctx, "other", "moved"))
	require.ErrorIs(t, open.Commit(ctx), errs.ErrNotFound, "a transaction on a dropped table cannot commit")
	_, err = e.openTable(ctx, moved)
	require.ErrorIs(t, err, errs.ErrNotFound)
	require.NoError(t, e.DropDatabase(ctx, "other"))
	require.NoError(t, e.DropDatabase(ctx, "db"))
	require.Empty(t, tree(t, st), "nothing is left")
	require.NoError(t, e.Close(ctx))
	require.ErrorIs(t, e.CreateDatabase(ctx, "x", nil), errs.ErrClosed)
	require.Empty(t, mustOpen(t, st).Catalog().Databases())
}

// TestDDLBesideTraffic renames and drops tables while other connections write to them: a write succeeds or fails
// with a known error, and whatever was acknowledged is there.
func TestDDLBesideTraffic(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st := objstore.NewMem()
	cfg := smallConfig()
	cfg.Workers = 2
	e, err := Open(ctx, cfg, Components{Store: st})
	require.NoError(t, err)
	require.NoError(t, createTestTable(ctx, e))
	id := testTable(e).ID
	var wg sync.WaitGroup
	stop := make(chan struct{})
	acked := make([]map[int64]string, 4)
	var total atomic.Int64
	for g := range acked {
		acked[g] = map[int64]string{}
		wg.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				tbl := e.Catalog().Database("db").Tables()[0]
				key := int64(g)<<32 | i
				switch err := insertRow(ctx, e, tbl, key, "v"); {
				case err == nil:
					acked[g][key] = "v"
					total.Add(1)
				case !isOneOf(err, errs.ErrNotFound, errs.ErrClosed, errs.ErrSchemaChanged):
					t.Errorf("insert: %v", err)
					return
				}
			}
		})
	}
	name := "t"
	for i := range 20 {
		next := []string{"u", "T2", "t"}[i%3]
		require.NoError(t, e.RenameTable(ctx, "db", name, next))
		name = next
		for before := total.Load(); total.Load() < before+3 && ctx.Err() == nil && !t.Failed(); {
			runtime.Gosched() // until the renamed table has been written
		}
		require.NoError(t, e.FlushTables(ctx, nil))
	}
	close(stop)
	wg.Wait()
	require.NoError(t, e.Close(ctx))
	e = mustOpen(t, st)
	tbl := e.Catalog().TableByID(id)
	require.Equal(t, name, tbl.Name)
	for _, rows := range acked {
		for key, want := range rows {
			got, found := rowOf(ctx, t, e, tbl, key)
			require.True(t, found, "acknowledged row %d is lost", key)
			require.Equal(t, want, got)
		}
	}
	require.GreaterOrEqual(t, total.Load(), int64(60))
	require.NoError(t, e.Close(ctx))
}

func isOneOf(err error, list ...error) bool {
	for _, want := range list {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// TestDropBesideTraffic drops and recreates a table under the same name while others write, flush and merge it: no
// job of the dropped table may bring its directory back.
func TestDropBesideTraffic(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st := objstore.NewMem()
	cfg := smallConfig()
	cfg.Workers = 2
	e, err := Open(ctx, cfg, Components{Store: st})
	require.NoError(t, err)
	require.NoError(t, createTestTable(ctx, e))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := range 3 {
		wg.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				tbl := testTable(e)
				if tbl == nil {
					continue
				}
				err := insertRow(ctx, e, tbl, int64(g)<<32|i, "v")
				if err != nil && !isOneOf(err, errs.ErrNotFound, errs.ErrClosed, errs.ErrSchemaChanged) {
					t.Errorf("insert: %v", err)
					return
				}
			}
		})
	}
	for i := range 60 {
		if i%3 == 0 {
			err := e.FlushTables(ctx, nil)
			require.True(t, err == nil || isOneOf(err, errs.ErrClosed, errs.ErrNotFound), "flush: %v", err)
		}
		require.NoError(t, e.DropTable(ctx, "db", "t"))
		_, err := e.CreateTable(ctx, "db", "t", TableDef{Schema: testSchema(), AutoColumn: -1})
		require.NoError(t, err, "round %d", i)
	}
	close(stop)
	wg.Wait()
	require.NoError(t, e.DropDatabase(ctx, "db"))
	require.NoError(t, e.jobs.Drain(ctx))
	require.Empty(t, tree(t, st))
	require.NoError(t, e.Close(ctx))
}
