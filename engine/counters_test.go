package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// autoWorld has table a with an AUTO_INCREMENT key.
func autoWorld(t *testing.T, fs vfs.FS) *Engine {
	t.Helper()
	e := openWorld(t, fs, nil)
	if namedTable(e, "a") == nil {
		if e.Catalog().Database("db") == nil {
			require.NoError(t, e.CreateDatabase(t.Context(), "db", nil))
		}
		def := testDef()
		def.AutoColumn, def.NextAuto = 0, 100
		_, err := e.CreateTable(t.Context(), "db", "a", def)
		require.NoError(t, err)
	}
	return e
}

// insertAuto inserts n rows with generated ids and returns the last.
func insertAuto(t *testing.T, e *Engine, name string, n int) uint64 {
	t.Helper()
	s, err := e.AutoIncrement(t.Context(), namedTable(e, name))
	require.NoError(t, err)
	var id uint64
	for range n {
		id = s.Next(0)
		require.NoError(t, put(int64(id), "row").runOn(t.Context(), e, name))
	}
	return id
}

func crashed(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))})
}

// TestAutoIncrementNeverGoesBack: MySQL 8 keeps the counter over a restart although the rows are gone.
func TestAutoIncrementNeverGoesBack(t *testing.T) {
	fs := vfs.NewCrashableMem()
	e := autoWorld(t, fs)
	ctx := t.Context()
	require.EqualValues(t, 109, insertAuto(t, e, "a", 10))
	require.NoError(t, write{drop: []int64{107, 108, 109}}.runOn(ctx, e, "a"))
	after := autoWorld(t, crashed(fs))
	require.EqualValues(t, 110, insertAuto(t, after, "a", 1), "after a crash")
	require.NoError(t, after.Close(ctx))

	require.NoError(t, e.RenameTable(ctx, "db", "a", "b"))
	require.EqualValues(t, 110, insertAuto(t, e, "b", 1), "after a rename")
	require.NoError(t, write{drop: []int64{110}}.runOn(ctx, e, "b"))
	require.NoError(t, e.FlushTables(ctx, nil))
	work(e)
	require.Equal(t, e.Journal().Start, e.Journal().Next-1, "only the start record is left")
	require.NoError(t, e.Close(ctx))
	for i := range uint64(3) {
		e = openWorld(t, fs, nil)
		require.Equal(t, 111+i, insertAuto(t, e, "b", 1), "after a clean close: the start record carries it")
		require.NoError(t, write{drop: []int64{int64(111 + i)}}.runOn(ctx, e, "b"))
		require.NoError(t, e.Close(ctx))
	}
	e = openWorld(t, fs, nil)
	require.NoError(t, e.SetAutoIncrement(ctx, namedTable(e, "b"), 50))
	s, err := e.AutoIncrement(ctx, namedTable(e, "b"))
	require.NoError(t, err)
	require.EqualValues(t, 50, s.Peek())
	after = openWorld(t, crashed(fs), nil)
	require.EqualValues(t, 107, insertAuto(t, after, "b", 1), "set back durably, but not below the rows that are there")
	require.NoError(t, after.Close(ctx))

	require.NoError(t, e.DropTable(ctx, "db", "b"))
	require.NoError(t, e.Close(ctx))
	e = autoWorld(t, fs)
	require.EqualValues(t, 100, insertAuto(t, e, "a", 1), "a new table has a new counter")
	require.NoError(t, e.Close(ctx))
}

func TestRowIDsNeverGoBack(t *testing.T) {
	fs := vfs.NewCrashableMem()
	e := worldOn(t, fs, nil)
	ctx := t.Context()
	for range 5 {
		x := e.Begin(TxnOptions{})
		id, err := x.NextRowID(ctx, testTable(e))
		require.NoError(t, err)
		require.NoError(t, x.Insert(ctx, testTable(e), testRow(id, "r")))
		require.NoError(t, x.Commit(ctx))
	}
	require.NoError(t, write{drop: []int64{4, 5}}.run(ctx, e))
	for range 2 {
		require.NoError(t, e.Close(ctx))
		e = openWorld(t, fs, nil)
		x := e.Begin(TxnOptions{})
		id, err := x.NextRowID(ctx, testTable(e))
		require.NoError(t, err)
		require.EqualValues(t, 6, id)
		x.Rollback()
	}
	require.NoError(t, e.Close(ctx))
}

func TestRebuildKeepsTheCounter(t *testing.T) {
	e := autoWorld(t, vfs.NewMem())
	ctx := t.Context()
	insertAuto(t, e, "a", 5)
	require.NoError(t, write{drop: []int64{103, 104}}.runOn(ctx, e, "a"))
	def := testDef()
	def.AutoColumn = 0
	a := e.Alter()
	r, err := a.Rebuild(ctx, namedTable(e, "a"), def)
	require.NoError(t, err)
	for id := int64(100); id < 103; id++ {
		require.NoError(t, r.Insert(ctx, testRow(id, "row")))
	}
	require.NoError(t, r.Commit(ctx))
	require.NoError(t, a.Commit(ctx))
	require.EqualValues(t, 105, insertAuto(t, e, "a", 1))
	require.NoError(t, e.Close(ctx))
}
