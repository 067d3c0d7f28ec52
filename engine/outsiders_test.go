package engine

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lsm"
)

// TestForeignShard: another writer makes a shard of a sharded table and writes to it; a commit to the same shard takes the
// table over as a write-behind would, and both writers' rows are there.
func TestForeignShard(t *testing.T) {
	e := worldOn(t, vfs.NewMem(), nil)
	ctx := t.Context()
	_, err := e.CreateTable(ctx, "db", "b", shardedDef())
	require.NoError(t, err)
	s, err := lsm.Open(ctx, lsm.Options{Store: e.store, Keys: e.keys}, namedTable(e, "b").Path)
	require.NoError(t, err)
	_, err = dumpOf(ctx, e, "b") // which opens it
	require.NoError(t, err)
	want := contents{}
	for id := range int64(4) {
		ot, err := e.openTable(ctx, namedTable(e, "b"))
		require.NoError(t, err)
		key, err := ot.key(testRow(id, ""))
		require.NoError(t, err)
		staged, err := s.Stage(ctx, []lsm.Op{{Key: key, Row: testRow(id, "theirs")}})
		require.NoError(t, err)
		require.NoError(t, s.Append(ctx, staged))
		staged.Release()
		want[id] = "theirs"
	}
	require.NoError(t, s.Close(ctx))
	require.NoError(t, put(10, "ours").runOn(ctx, e, "b"))
	want[10] = "ours"
	got, err := dumpOf(ctx, e, "b")
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, e.FlushTables(ctx, nil))
	got, err = dumpOf(ctx, e, "b")
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, e.Close(ctx))
}

// TestViewsAndForeignRows: a view that ends with the last commit does not see what another writer brought afterwards, and a
// view that is older than the first use of a table since the start reads it.
func TestViewsAndForeignRows(t *testing.T) {
	fs := vfs.NewMem()
	e := worldOn(t, fs, nil)
	ctx := t.Context()
	require.NoError(t, put(1, "ours").runOn(ctx, e, "t", "u"))
	require.NoError(t, e.Close(ctx))
	d, err := diskOn(fs)
	require.NoError(t, err)
	e, err = d.open(ctx, planted{})
	require.NoError(t, err)
	old := e.Begin(TxnOptions{})
	old.TakeView()
	mustRun(t, e, put(2, "later"))
	got, err := readFrom(ctx, old, namedTable(e, "u"), Consistent, lsm.ScanSpec{})
	require.NoError(t, err, "the first use of a table is no change of it")
	require.Equal(t, contents{1: "ours"}, got)
	old.Rollback()
	work(e)

	v := e.Begin(TxnOptions{})
	v.TakeView()
	s := stranger(t, e)
	strangerPuts(t, e, s, 3, "theirs")
	require.NoError(t, s.Close(ctx))
	require.NoError(t, e.reclaim(ctx, e.opened(testTable(e).ID), errs.ErrFenced))
	_, err = read(ctx, v, Consistent, lsm.ScanSpec{})
	require.ErrorIs(t, err, errs.ErrSchemaChanged)
	v.Rollback()
	require.Equal(t, contents{1: "ours", 2: "later", 3: "theirs"}, mustDump(t, e))
	require.NoError(t, e.Close(ctx))
}
