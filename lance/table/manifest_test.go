package table

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
)

func TestManifestNames(t *testing.T) {
	require.Equal(t, "18446744073709551614.manifest", namingV2.manifestName(1))
	require.Equal(t, "1.manifest", namingV1.manifestName(1))
	for _, c := range []struct {
		base string
		v    uint64
		n    naming
		ok   bool
	}{
		{"18446744073709551614.manifest", 1, namingV2, true},
		{"7.manifest", 7, namingV1, true},
		{"d9223372036854775809.manifest", 0, 0, false},
		{"18446744073709551614.manifest#1", 0, 0, false},
		{"readme.txt", 0, 0, false},
		{".manifest", 0, 0, false},
		{"-1.manifest", 0, 0, false},
		{"99999999999999999999.manifest", 0, 0, false},
	} {
		v, n, ok := parseManifestName(c.base)
		require.Equal(t, c.ok, ok, c.base)
		if ok {
			require.Equal(t, c.v, v, c.base)
			require.Equal(t, c.n, n, c.base)
		}
	}
	id := uuid.MustParse("80ff0144-5566-4778-899a-abbccddeeff0")
	require.Equal(t, "100000001111111100000001"+"4455664778899aabbccddeeff0"+".lance", dataFileName(id))
	require.Len(t, dataFileName(id), 50+len(dataSuffix))
}

// The layout of docs/format/manifest.md: index section, transaction, manifest, footer.
func TestManifestLayout(t *testing.T) {
	st := objstore.NewMem()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	d := create(t, st, CreateOptions{Options: Options{Clock: clock.NewManual(at)}, MemWAL: testMemWAL(), TableMetadata: map[string]string{"k": "v"}})
	b, err := st.ReadAll(context.Background(), testRoot+"/_versions/18446744073709551614.manifest", 1<<20)
	require.NoError(t, err)
	foot := b[len(b)-16:]
	require.Equal(t, "00000200"+hex.EncodeToString([]byte("LANC")), hex.EncodeToString(foot[8:]))
	body := binary.LittleEndian.Uint64(foot)
	require.Equal(t, uint64(len(b)-16-4)-body, uint64(binary.LittleEndian.Uint32(b[body:])))
	m := d.state.m
	require.Zero(t, *m.IndexSection, "the first section, present though zero")
	require.Equal(t, *m.TransactionSection, *m.TransactionSectionV14)
	require.Equal(t, uint64(binary.LittleEndian.Uint32(b))+4, *m.TransactionSection)
	require.Nil(t, m.MaxFragmentId)
	require.True(t, d.Timestamp().Equal(at))
	require.Equal(t, map[string]string{"k": "v"}, d.TableMetadata())

	txn, err := st.ReadAll(context.Background(), testRoot+"/_transactions/"+m.TransactionFile, 1<<20)
	require.NoError(t, err)
	require.Equal(t, txn, d.state.inlineTxn)
	hint, err := st.ReadAll(context.Background(), testRoot+"/_versions/latest_version_hint.json", 100)
	require.NoError(t, err)
	require.Equal(t, `{"version":1}`, string(hint))
}

func TestManifestRefusesDamage(t *testing.T) {
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{MemWAL: testMemWAL()})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10), fakeFragment(3)}})
	b, err := st.ReadAll(context.Background(), d.state.object, 1<<20)
	require.NoError(t, err)
	for n := range b {
		_, err := decodeManifest("x", b[:n])
		require.Error(t, err, "cut at %d", n)
		require.True(t, errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrUnsupported), "cut at %d: %v", n, err)
	}
	for i := range b { // any single damaged byte is an error or another readable version, never a panic
		c := append([]byte(nil), b...)
		c[i] ^= 0xff
		_, _ = decodeManifest("x", c)
	}
}

func FuzzManifest(f *testing.F) {
	st := objstore.NewMem()
	d := create(f, st, CreateOptions{MemWAL: testMemWAL()})
	d = commit(f, d, Append{Fragments: []*Fragment{fakeFragment(10)}})
	b, err := st.ReadAll(context.Background(), d.state.object, 1<<20)
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeManifest("fuzz", data)
		if err != nil {
			require.True(t, errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrLimit), "%v", err)
			return
		}
		s.fileNames("r")
		for _, e := range s.indices {
			_, _ = indexEntryFrom("fuzz", e)
		}
	})
}

// FuzzManifestBody varies the messages inside a well-formed file.
func FuzzManifestBody(f *testing.F) {
	d := create(f, objstore.NewMem(), CreateOptions{MemWAL: testMemWAL()})
	d = commit(f, d, Append{Fragments: []*Fragment{fakeFragment(10)}})
	indices, err := proto.Marshal(&pb.IndexSection{Indices: d.state.indices})
	require.NoError(f, err)
	m := shallowCopy(d.state.m)
	m.TransactionSection, m.TransactionSectionV14 = nil, nil
	body, err := proto.Marshal(m)
	require.NoError(f, err)
	f.Add(indices, body)
	f.Fuzz(func(t *testing.T, indices, body []byte) {
		b := appendSection(nil, indices)
		at := uint64(len(b))
		b = binary.LittleEndian.AppendUint64(appendSection(b, body), at)
		b = append(b, 0, 0, 2, 0, 'L', 'A', 'N', 'C')
		s, err := decodeManifest("fuzz", b)
		if err != nil {
			require.True(t, errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrLimit), "%v", err)
			return
		}
		s.fileNames("r")
		for _, e := range s.indices {
			_, _ = indexEntryFrom("fuzz", e)
		}
	})
}

func FuzzTransaction(f *testing.F) {
	d := create(f, objstore.NewMem(), CreateOptions{MemWAL: testMemWAL()})
	f.Add(d.state.inlineTxn)
	f.Add(commit(f, d, Append{Fragments: []*Fragment{fakeFragment(10)}}).state.inlineTxn)
	f.Fuzz(func(t *testing.T, data []byte) {
		tx, err := decodeTransaction("fuzz", data)
		if err != nil {
			require.True(t, errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrLimit), "%v", err)
			return
		}
		_ = judge(Append{}, d.state, tx)
		_ = judge(&Update{}, d.state, tx)
		_ = judge(Delete{}, d.state, tx)
		_ = judge(CreateIndex{}, d.state, tx)
		_ = judge(UpdateConfig{}, d.state, tx)
		_ = judge(Project{}, d.state, tx)
		_ = judge(Merge{}, d.state, tx)
		_ = judge(Rewrite{}, d.state, tx)
		_ = judge(DataReplacement{}, d.state, tx)
	})
}

// rewriteManifest changes the newest manifest in place, as a writer of another kind would have written it.
func rewriteManifest(t *testing.T, st objstore.Store, d *Dataset, change func(*pb.Manifest, []*pb.IndexMetadata)) {
	t.Helper()
	m := proto.Clone(d.state.m).(*pb.Manifest)
	indices := append([]*pb.IndexMetadata(nil), d.state.indices...)
	change(m, indices)
	b, err := encodeManifest(m, indices, d.state.inlineTxn)
	require.NoError(t, err)
	require.NoError(t, st.Put(context.Background(), d.state.object, b))
}

func TestUnknownFlagsAreRefused(t *testing.T) {
	ctx := context.Background()
	for bit := range 64 {
		flag := uint64(1) << bit
		st := objstore.NewMem()
		d := create(t, st, CreateOptions{})
		rewriteManifest(t, st, d, func(m *pb.Manifest, _ []*pb.IndexMetadata) { m.ReaderFeatureFlags, m.WriterFeatureFlags = flag, flag })
		_, err := Open(ctx, st, testRoot)
		if flag&knownReaderFlags == 0 {
			require.ErrorIs(t, err, errs.ErrUnsupported, "bit %d", bit)
		} else {
			require.NoError(t, err, "bit %d", bit)
		}
		rewriteManifest(t, st, d, func(m *pb.Manifest, _ []*pb.IndexMetadata) { m.WriterFeatureFlags = flag })
		opened, err := Open(ctx, st, testRoot)
		if flag&pairedFlags != 0 {
			require.ErrorIs(t, err, errs.ErrCorruption, "one-sided")
			continue
		}
		require.NoError(t, err, "a writer flag does not stop readers")
		_, err = opened.Commit(ctx, UpdateConfig{Config: &MapUpdate{Set: map[string]string{"a": "b"}}})
		if flag&knownWriterFlags == 0 {
			require.ErrorIs(t, err, errs.ErrUnsupported, "bit %d", bit)
		} else {
			require.NoError(t, err, "bit %d", bit)
		}
	}
}

func TestFlagsFollowContent(t *testing.T) {
	d := create(t, objstore.NewMem(), CreateOptions{})
	require.Zero(t, d.state.m.ReaderFeatureFlags|d.state.m.WriterFeatureFlags)
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10)}})
	d = commit(t, d, UpdateConfig{Config: &MapUpdate{Set: map[string]string{"a": "b"}}})
	require.Zero(t, d.state.m.ReaderFeatureFlags)
	require.Equal(t, flagTableConfig, d.state.m.WriterFeatureFlags)
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 3)}})
	require.Equal(t, flagDeletionFiles, d.state.m.ReaderFeatureFlags)
	require.Equal(t, flagDeletionFiles|flagTableConfig, d.state.m.WriterFeatureFlags)
	d = commit(t, d, Delete{DeletedIDs: []uint64{0}})
	require.Zero(t, d.state.m.ReaderFeatureFlags)
}

// What a newer writer stored and we do not know survives our commits. Invariant I5.
func TestUnknownFieldsAreCarried(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{MemWAL: testMemWAL()})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10), fakeFragment(10)}})
	strange := protowire.AppendTag(nil, 9999, protowire.VarintType)
	strange = protowire.AppendVarint(strange, 42)
	rewriteManifest(t, st, d, func(m *pb.Manifest, indices []*pb.IndexMetadata) {
		m.ProtoReflect().SetUnknown(strange)
		for _, f := range m.Fragments {
			f.ProtoReflect().SetUnknown(strange)
			f.Files[0].ProtoReflect().SetUnknown(strange)
		}
		indices[0] = proto.Clone(indices[0]).(*pb.IndexMetadata)
		indices[0].ProtoReflect().SetUnknown(strange)
		indices[0].IndexDetails.Value = append(indices[0].IndexDetails.Value, strange...)
	})
	d = reopen(t, st)
	d = commit(t, d, Update{UpdatedFragments: []*Fragment{deleteRows(t, d, 0, 3)}, NewFragments: []*Fragment{fakeFragment(1)},
		Merged: []MergedGeneration{{Shard: uuid.New(), Generation: 1}}})
	d, err := OpenVersion(ctx, st, testRoot, d.Version())
	require.NoError(t, err)
	require.Equal(t, strange, unknownOf(d.state.m))
	require.Equal(t, strange, unknownOf(d.state.m.Fragments[0]))
	require.Equal(t, strange, unknownOf(d.state.m.Fragments[0].Files[0]))
	require.Equal(t, strange, unknownOf(d.state.m.Fragments[1]))
	require.Nil(t, unknownOf(d.state.m.Fragments[2]))
	require.Equal(t, strange, unknownOf(d.state.indices[0]))
	require.Equal(t, strange, d.MemWAL().unknown)
}

func TestMixedNamingIsRefused(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	b, err := st.ReadAll(ctx, d.state.object, 1<<20)
	require.NoError(t, err)
	require.NoError(t, st.Put(ctx, testRoot+"/_versions/1.manifest", b))
	_, err = Open(ctx, st, testRoot)
	require.ErrorIs(t, err, errs.ErrCorruption)

	require.NoError(t, st.Delete(ctx, d.state.object)) // now a V1 table, which we continue as one
	d = commit(t, reopen(t, st), Append{Fragments: []*Fragment{fakeFragment(10)}})
	_, err = st.Stat(ctx, testRoot+"/_versions/2.manifest")
	require.NoError(t, err)
	old, err := OpenVersion(ctx, st, testRoot, 1)
	require.NoError(t, err)
	require.Zero(t, old.CountRows())
	require.Equal(t, uint64(10), d.CountRows())
}
