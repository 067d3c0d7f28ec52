package lsm_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/inspect"
	"lancesql/lsm"
	"lancesql/wal"
)

const (
	inspectedTable = "db/t.lance"
	inspectedShard = inspectedTable + "/_mem_wal/aa48498d-ac91-59e2-8452-69f46010ace2"
)

// inspectedStore holds a table that was opened twice: epoch 2, a fence sentinel as WAL entry 1.
func inspectedStore(t *testing.T) objstore.Store {
	t.Helper()
	st := objstore.NewMem()
	keys, err := pkstore.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, keys.Close()) }()
	o := lsm.Options{Store: st, Keys: keys}
	key := arrow.MetadataFrom(map[string]string{"lance-schema:unenforced-primary-key": "true", "lance-schema:unenforced-primary-key:position": "1"})
	s := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key}}, nil)
	require.NoError(t, lsm.Create(t.Context(), o, inspectedTable, s, nil))
	for range 2 {
		tbl, err := lsm.Open(t.Context(), o, inspectedTable)
		require.NoError(t, err)
		require.NoError(t, tbl.Close(t.Context()))
	}
	return st
}

// putEntry writes a WAL entry of that many rows.
func putEntry(t *testing.T, st objstore.Store, p wal.Position, generation uint64, rows int) {
	t.Helper()
	key := arrow.MetadataFrom(map[string]string{"lance-schema:unenforced-primary-key": "true", "lance-schema:unenforced-primary-key:position": "1"})
	s := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key}, {Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
	var list []arrowx.Row
	for i := range rows {
		list = append(list, arrowx.Row{int64(i), false})
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, list)
	require.NoError(t, err)
	defer rec.Release()
	b, err := wal.EncodeEntry(s, 2, generation, []arrow.RecordBatch{rec})
	require.NoError(t, err)
	require.NoError(t, st.PutIfAbsent(t.Context(), wal.EntryName(inspectedShard, p), b))
}

func inspectTable(st inspect.Store) *inspect.Report {
	r := inspect.NewReport("t.lance", inspect.KindDataset)
	r.InspectDataset(context.Background(), st, inspectedTable)
	lsm.InspectShards(context.Background(), st, inspectedTable, r)
	return r
}

func TestInspectShards(t *testing.T) {
	st := inspectedStore(t)
	putEntry(t, st, 2, 1, 3)
	putEntry(t, st, 3, 1, 4)
	r := inspectTable(st)
	require.NoError(t, r.Err())
	require.Len(t, r.Dataset.Shards, 1)
	s := r.Dataset.Shards[0]
	require.Equal(t, "active", s.Manifest.Status)
	require.EqualValues(t, 2, s.Manifest.Epoch)
	require.Equal(t, 2, s.Versions)
	require.Empty(t, s.Manifest.Generations)
	require.Len(t, s.WAL, 3)
	require.True(t, s.WAL[0].Sentinel)
	require.EqualValues(t, 2, s.WAL[1].Epoch)
	require.EqualValues(t, 1, s.WAL[1].Generation)
	require.EqualValues(t, 4, s.WAL[2].Rows)

	brief := inspect.NewReport("", "")
	require.Equal(t, []inspect.ShardSummary{{ID: s.ID, Epoch: 2, WALEntries: 3, WALBytes: s.WAL[0].Size + s.WAL[1].Size + s.WAL[2].Size}},
		lsm.SummarizeShards(t.Context(), st, inspectedTable, brief))
	require.NoError(t, brief.Err())
}

func TestInspectMissingWALEntry(t *testing.T) {
	st := inspectedStore(t)
	putEntry(t, st, 2, 1, 3)
	putEntry(t, st, 5, 1, 3)
	r := inspectTable(st)
	require.ErrorIs(t, r.Err(), errs.ErrCorruption)
	require.Equal(t, wal.EntryName(inspectedShard, 3), r.Problems[0].Object)
	require.Len(t, r.Dataset.Shards[0].WAL, 3, "what is there is shown")
}

// TestInspectTruncatedShardObjects cuts a WAL entry and a shard manifest everywhere.
func TestInspectTruncatedShardObjects(t *testing.T) {
	st := inspectedStore(t)
	putEntry(t, st, 2, 1, 3)
	entry := wal.EntryName(inspectedShard, 2)
	whole, err := st.ReadAll(t.Context(), entry, 1<<20)
	require.NoError(t, err)
	for n := range whole {
		cut := objstore.NewMem()
		require.NoError(t, cut.PutIfAbsent(t.Context(), entry, whole[:n]))
		r := inspect.NewReport("", inspect.KindWALEntry)
		lsm.InspectWALEntry(t.Context(), cut, entry, r)
		require.ErrorIs(t, r.Err(), errs.ErrCorruption)
		require.Equal(t, entry, r.Problems[0].Object)
	}
	manifest := inspectedShard + "/manifest/" + wal.BitReversed(2) + ".binpb"
	if whole, err = st.ReadAll(t.Context(), manifest, 1<<20); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		cut := objstore.NewMem()
		require.NoError(t, cut.PutIfAbsent(t.Context(), manifest, whole[:n]))
		r := inspect.NewReport("", inspect.KindShardManifest)
		lsm.InspectShardManifest(t.Context(), cut, manifest, r)
		require.ErrorIs(t, r.Err(), errs.ErrCorruption, "%d of %d bytes lack a shard id or a version", n, len(whole))
	}
}
