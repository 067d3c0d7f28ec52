package wal_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/wal"
)

// lancedb and we take turns as writers of one shard: each replays what the other wrote, tombstones included.
func TestLancedbSharesTheLog(t *testing.T) {
	root := t.TempDir()
	oracle.RunNode(t, "lsm_writer.mjs", "create", root, "1")
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	ctx := context.Background()
	dir := "t.lance/_mem_wal/aa48498d-ac91-59e2-8452-69f46010ace2"

	s := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: meta("lance-schema:unenforced-primary-key:position", "1")},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
	type entry struct {
		epoch    wal.Epoch
		sentinel bool
		rows     []arrowx.Row
	}
	read := func() (log []entry) {
		tail, err := wal.Read(ctx, st, dir, 1, 0, func(e wal.Entry) error {
			x := entry{epoch: e.Epoch, sentinel: e.Sentinel}
			for _, b := range e.Batches {
				c, err := wal.Conform(b, s, []int{0})
				require.NoError(t, err)
				x.rows = append(x.rows, rowsOf([]arrow.RecordBatch{c})...)
				c.Release()
			}
			log = append(log, x)
			return nil
		})
		require.NoError(t, err)
		require.EqualValues(t, len(log), tail)
		return log
	}
	theirs := entry{1, false, []arrowx.Row{{int64(1), "ref 1", false}, {int64(2), "ref 2", false}}}
	require.Equal(t, []entry{theirs}, read())

	// Our entry goes on where they stopped, under their epoch: lancedb does not know of this claim.
	l := wal.Open(st, dir, 1, 2, func(context.Context) (wal.Epoch, error) { return 1, nil })
	ours := entry{1, false, []arrowx.Row{{int64(1), nil, true}, {int64(10), "ours", false}}}
	_, err = l.Append(ctx, s, 1, []arrow.RecordBatch{batch(t, s, ours.rows...)})
	require.NoError(t, err)

	var rows [][2]any
	require.NoError(t, json.Unmarshal(oracle.RunNode(t, "lsm_writer.mjs", "replay", root, "20"), &rows))
	require.Equal(t, [][2]any{{2.0, "ref 2"}, {10.0, "ours"}, {20.0, "ref 20"}, {21.0, "ref 21"}}, rows)
	require.Equal(t, []entry{theirs, ours, {2, true, nil},
		{2, false, []arrowx.Row{{int64(20), "ref 20", false}, {int64(21), "ref 21", false}}}}, read())
}
