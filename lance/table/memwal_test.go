package table

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
)

func TestMemWALBytes(t *testing.T) {
	b, err := marshal(testMemWAL().proto())
	require.NoError(t, err)
	want := "10013a1e0801121a0a06" + hex.EncodeToString([]byte("bucket")) + "1a09" + hex.EncodeToString([]byte("unsharded")) + "2a05" + hex.EncodeToString([]byte("int32"))
	require.Equal(t, want, hex.EncodeToString(b))
}

func TestMemWALRoundTrip(t *testing.T) {
	m := testMemWAL()
	m.SnapshotMillis, m.InlineSnapshots = 5, []byte{1, 2}
	m.MaintainedIndexes, m.MaintainAll = []string{"a"}, true
	m.WriterDefaults = map[string]string{"durable_write": "true"}
	m.Merged = []MergedGeneration{{Shard: uuid.New(), Generation: 4}}
	m.Catchup = []IndexCatchup{{Index: "a", CaughtUp: []MergedGeneration{{Shard: uuid.New(), Generation: 2}}}}
	m.Specs[0].Fields[0].Parameters = map[string]string{"num_buckets": "4"}
	m.Specs[0].Fields[0].SourceIDs = []int32{3}
	require.Equal(t, m, m.Clone())

	st := objstore.NewMem()
	create(t, st, CreateOptions{MemWAL: m})
	require.Equal(t, m, reopen(t, st).MemWAL())
}

func TestMemWALEntry(t *testing.T) {
	ctx := context.Background()
	at := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{Options: Options{Clock: at}})
	d = commit(t, d, InstallMemWAL(testMemWAL()))
	require.Equal(t, testMemWAL(), d.MemWAL())
	_, err := d.Commit(ctx, InstallMemWAL(testMemWAL()))
	require.ErrorIs(t, err, errs.ErrExists)

	e := d.state.indices[0]
	require.Equal(t, MemWALName, e.Name)
	require.Equal(t, "/lance.table.MemWalIndexDetails", e.IndexDetails.TypeUrl)
	require.True(t, e.IndexVersion != nil && *e.IndexVersion == 0)
	require.Equal(t, uint64(1_700_000_000_000), e.GetCreatedAt())
	require.True(t, len(e.Fields)+len(e.FragmentBitmap)+len(e.Files) == 0)
	require.Empty(t, d.FileNames().IndexFolders)
}

// Merged generations advance strictly and in the manifest of the rows they brought. Invariant I6.
func TestMergedGenerations(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{MemWAL: testMemWAL()})
	a, b := uuid.New(), uuid.New()
	merge := func(list ...MergedGeneration) Update {
		return Update{NewFragments: []*Fragment{fakeFragment(1)}, Merged: list}
	}
	first := d.state.indices[0].Uuid.Uuid
	d = commit(t, d, merge(MergedGeneration{a, 2}))
	require.NotEqual(t, first, d.state.indices[0].Uuid.Uuid, "a new identifier at every rewrite")
	commit(t, d, merge(MergedGeneration{b, 1}, MergedGeneration{a, 5}))
	d = reopen(t, st)
	require.Equal(t, []MergedGeneration{{a, 5}, {b, 1}}, d.MemWAL().Merged)
	require.Equal(t, uint64(5), d.MemWAL().MergedUpTo(a))
	require.Zero(t, d.MemWAL().MergedUpTo(uuid.New()))

	_, err := d.Commit(ctx, merge(MergedGeneration{a, 5}))
	require.ErrorIs(t, err, errs.ErrConflict)
	_, err = d.Commit(ctx, merge(MergedGeneration{a, 6}, MergedGeneration{a, 7}))
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.Equal(t, uint64(2), d.CountRows())

	// An upsert is never rebased over rows it has not looked at.
	commit(t, d, Append{Fragments: []*Fragment{fakeFragment(9)}})
	_, err = d.CommitRebasing(ctx, merge(MergedGeneration{a, 6}))
	require.ErrorIs(t, err, errs.ErrConflict)

	tx, err := d.Transaction(ctx)
	require.NoError(t, err)
	require.Equal(t, []MergedGeneration{{b, 1}, {a, 5}}, tx.Op.(Update).Merged)
}

func TestCatchupOfChangedIndexIsForgotten(t *testing.T) {
	m := testMemWAL()
	m.Catchup = []IndexCatchup{{Index: "x"}, {Index: "y"}}
	d := create(t, objstore.NewMem(), CreateOptions{MemWAL: m})
	e := IndexEntry{Name: "x", Fields: []int32{0}, Fragments: roaring.BitmapOf(0), DetailsType: "/lance.table.BTreeIndexDetails"}
	d = commit(t, d, CreateIndex{New: []IndexEntry{e}})
	require.Equal(t, []IndexCatchup{{Index: "y"}}, d.MemWAL().Catchup)
}

func TestShortShardIDIsCorrupt(t *testing.T) {
	value, err := proto.Marshal(&pb.MemWalIndexDetails{MergedGenerations: []*pb.MergedGeneration{{ShardId: &pb.UUID{Uuid: []byte{1}}}}})
	require.NoError(t, err)
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{MemWAL: testMemWAL()})
	rewriteManifest(t, st, d, func(_ *pb.Manifest, indices []*pb.IndexMetadata) { indices[0].IndexDetails.Value = value })
	_, err = Open(context.Background(), st, testRoot)
	require.ErrorIs(t, err, errs.ErrCorruption)
}
