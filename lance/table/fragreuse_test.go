package table

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
)

// The vectors of docs/format/fri.md: fragments 0 and 1 of four rows, row 1 of each deleted, become fragment 3.
const (
	reuseSurvivors = "0200000000000000" + "00000000" + "3a300000010000000000020010000000000002000300" + "01000000" + "3a300000010000000000020010000000000002000300"
	reuseInline    = "0a58" + "0a56" + "0806" + "1a52" + "0a3c" + reuseSurvivors + "120410041801" + "1206080110041801" + "1a0408031006"
	reuseExternal  = "12110a0d64657461696c732e62696e7062" + "1858"
	reuseTagged    = "0a56" + "1254" + "0a0410041801" + "0a06080110041801" + "120408031006" + "1a3e0a3c" + reuseSurvivors
)

func unhexed(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// reuseTable has fragments 0 to 2 of four rows, deletions in the first two and an index on all of them, at version 6.
func reuseTable(t *testing.T, st objstore.Store, kinds ...string) *Dataset {
	t.Helper()
	d := create(t, st, CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(4), fakeFragment(4), fakeFragment(4)}})
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 1), deleteRows(t, d, 1, 1)}})
	if len(kinds) == 0 {
		kinds = []string{"/lance.table.BTreeIndexDetails"}
	}
	op := CreateIndex{}
	for _, kind := range kinds {
		name := strings.ToLower(strings.TrimSuffix(kind[strings.LastIndexByte(kind, '.')+1:], "IndexDetails"))
		op.New = append(op.New, IndexEntry{Name: name, Fields: []int32{0}, Fragments: roaring.BitmapOf(0, 1, 2), DetailsType: kind})
	}
	d = commit(t, d, op)
	d = commit(t, d, ReserveFragments{Count: 1}) // so that the next id is 4
	return commit(t, d, UpdateConfig{TableMetadata: &MapUpdate{Set: map[string]string{"a": "b"}}})
}

func rewriteGroup(d *Dataset, added uint64, ids ...uint64) RewriteGroup {
	g := RewriteGroup{}
	var rows uint64
	for _, id := range ids {
		f := d.Fragment(id)
		g.Old = append(g.Old, f)
		rows += f.LiveRows()
	}
	for rows > 0 {
		n := min(rows, added)
		g.New = append(g.New, fakeFragment(n))
		rows -= n
	}
	return g
}

func reuseEntry(t testing.TB, d *Dataset) *pb.IndexMetadata {
	t.Helper()
	i := slices.IndexFunc(d.state.indices, isFragmentReuse)
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, len(d.state.indices)-1, i, "the newest entry is the last")
	return d.state.indices[i]
}

func TestReuseVectors(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := reuseTable(t, st)
	require.Equal(t, uint64(6), d.Version())
	g := rewriteGroup(d, 100, 0, 1)
	g.New[0].ID = 3
	d = commit(t, d, Rewrite{Groups: []RewriteGroup{g}, DeferRemap: true})
	e := reuseEntry(t, d)
	require.Equal(t, unhexed(t, reuseInline), e.IndexDetails.Value)
	require.Equal(t, "/lance.table.FragmentReuseIndexDetails", e.IndexDetails.TypeUrl)
	require.Equal(t, "__lance_frag_reuse", e.Name)
	require.Equal(t, uint64(6), e.DatasetVersion)
	require.Equal(t, unhexed(t, "3a3000000100000000000000100000000300"), e.FragmentBitmap)
	require.Equal(t, int32(0), *e.IndexVersion)
	require.Empty(t, e.Fields)
	require.Equal(t, []uint32{0, 1, 2}, covered(t, d, "btree"), "entries stay as they are on disk")
	require.Zero(t, d.state.m.ReaderFeatureFlags&flagFragmentReuse, "version 0 needs no flag")

	h, err := d.FragmentReuse(ctx)
	require.NoError(t, err)
	require.Equal(t, []ReuseDigest{{0, 4, 1}, {1, 4, 1}}, h.Steps[0].Sources)
	require.Equal(t, []ReuseDigest{{3, 6, 0}}, h.Steps[0].Destinations)
	require.Equal(t, unhexed(t, reuseSurvivors), h.Steps[0].Ordered.Survivors)
	require.Equal(t, uint64(6), h.Steps[0].DatasetVersion)
	require.Equal(t, []uint32{2, 3}, h.Coverage(roaring.BitmapOf(0, 1, 2)).ToArray())

	// The same outside the manifest.
	raw := unhexed(t, reuseInline)[2:]
	id := uuid.New()
	require.NoError(t, st.PutIfAbsent(ctx, join(testRoot, indicesDir, id.String(), "details.binpb"), raw))
	external := func(change func(x *pb.ExternalFile)) *Dataset {
		details := &pb.FragmentReuseIndexDetails{}
		require.NoError(t, proto.Unmarshal(unhexed(t, reuseExternal), details))
		change(details.GetExternal())
		value, err := marshal(details)
		require.NoError(t, err)
		s := *d.state
		s.indices = slices.Clone(s.indices)
		moved := shallowCopy(e)
		moved.Uuid = uuidProto(id)
		moved.IndexDetails = shallowCopy(e.IndexDetails)
		moved.IndexDetails.Value = value
		s.indices[len(s.indices)-1] = moved
		return &Dataset{env: d.env, root: d.root, state: &s}
	}
	h2, err := external(func(*pb.ExternalFile) {}).FragmentReuse(ctx)
	require.NoError(t, err)
	require.True(t, h2.External)
	require.Equal(t, h.Steps, h2.Steps)
	for _, change := range []func(x *pb.ExternalFile){
		func(x *pb.ExternalFile) { x.Size++ }, func(x *pb.ExternalFile) { x.Size-- }, func(x *pb.ExternalFile) { x.Offset = 1 },
		func(x *pb.ExternalFile) { x.Path = "../x" }, func(x *pb.ExternalFile) { x.Path = "" },
	} {
		_, err := external(change).FragmentReuse(ctx)
		require.ErrorIs(t, err, errs.ErrCorruption)
	}
	_, err = external(func(x *pb.ExternalFile) { x.Path = "other" }).FragmentReuse(ctx)
	require.ErrorIs(t, err, errs.ErrNotFound)
	_, err = external(func(x *pb.ExternalFile) { x.Size = 1 << 40 }).FragmentReuse(ctx)
	require.ErrorIs(t, err, errs.ErrLimit)

	tagged := unhexed(t, reuseTagged)
	h, err = DecodeFragmentReuse("x", tagged[2:], 1)
	require.NoError(t, err)
	require.Equal(t, unhexed(t, reuseSurvivors), h.Steps[0].Ordered.Survivors)
	require.False(t, h.Steps[0].Legacy)
	_, err = DecodeFragmentReuse("x", tagged[2:], 0)
	require.ErrorIs(t, err, errs.ErrCorruption, "version 0 has no transitions")
	_, err = DecodeFragmentReuse("x", tagged[2:], 2)
	require.ErrorIs(t, err, errs.ErrUnsupported)
}

// field appends a length-delimited field.
func field(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func TestReuseIsChecked(t *testing.T) {
	decode := func(b []byte) error {
		version := int32(1)
		_, err := DecodeFragmentReuse("x", b, version)
		return err
	}
	content := func(transition []byte) []byte { return field(nil, 2, transition) }
	digest := func(id, rows, deleted uint64) []byte {
		b, err := proto.Marshal(&pb.FragmentReuseDigest{Id: id, PhysicalRows: rows, NumDeletedRows: deleted})
		require.NoError(t, err)
		return b
	}
	base := field(field(nil, 1, digest(0, 4, 1)), 2, digest(3, 3, 0))
	orderedMapping := field(nil, 3, field(nil, 1, []byte("any")))
	with := func(parts ...[]byte) []byte { return content(slices.Concat(append([][]byte{base}, parts...)...)) }
	partition := func(id string, size uint64, more ...byte) []byte {
		b := field(nil, 1, []byte(id))
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), size)
		return field(nil, 4, append(b, more...))
	}
	const mapID = "a7e1d1f0-0000-4000-8000-000000000001"
	require.NoError(t, decode(with(orderedMapping)), "survivors are decoded when they are needed")
	require.NoError(t, decode(with(partition(mapID, 1))))
	require.NoError(t, decode(nil))
	for name, b := range map[string][]byte{
		"cut":             with(orderedMapping)[:10],
		"no mapping":      content(base),
		"two mappings":    with(orderedMapping, partition(mapID, 1)),
		"same twice":      with(partition(mapID, 1), partition(mapID, 1)),
		"map id":          with(partition("x", 1)),
		"map size":        with(partition(mapID, 0)),
		"base id type":    with(partition(mapID, 1, field(nil, 3, []byte("1"))...)),
		"no sources":      content(slices.Concat(field(nil, 2, digest(3, 0, 0)), orderedMapping)),
		"rows":            content(slices.Concat(field(field(nil, 1, digest(0, 4, 0)), 2, digest(3, 3, 0)), orderedMapping)),
		"deleted":         content(slices.Concat(field(field(nil, 1, digest(0, 4, 5)), 2, digest(3, 3, 0)), orderedMapping)),
		"deleted to":      content(slices.Concat(field(field(nil, 1, digest(0, 4, 1)), 2, digest(3, 3, 1)), orderedMapping)),
		"id":              content(slices.Concat(field(field(nil, 1, digest(1<<32-1, 4, 1)), 2, digest(3, 3, 0)), orderedMapping)),
		"many rows":       content(slices.Concat(field(field(nil, 1, digest(0, 1<<32, 1<<32-3)), 2, digest(3, 3, 0)), orderedMapping)),
		"source twice":    with(field(nil, 1, digest(0, 0, 0)), orderedMapping),
		"dest twice":      with(field(nil, 2, digest(3, 0, 0)), orderedMapping),
		"consumed twice":  append(with(orderedMapping), content(slices.Concat(field(field(nil, 1, digest(0, 4, 1)), 2, digest(5, 3, 0)), orderedMapping))...),
		"produced twice":  append(with(orderedMapping), content(slices.Concat(field(field(nil, 1, digest(9, 3, 0)), 2, digest(3, 3, 0)), orderedMapping))...),
		"rows change":     append(with(orderedMapping), content(slices.Concat(field(field(nil, 1, digest(3, 4, 0)), 2, digest(5, 4, 0)), orderedMapping))...),
		"circle":          append(with(orderedMapping), content(slices.Concat(field(field(nil, 1, digest(3, 3, 0)), 2, digest(0, 3, 0)), orderedMapping))...),
		"itself":          content(slices.Concat(field(field(nil, 1, digest(3, 3, 0)), 2, digest(3, 3, 0)), orderedMapping)),
		"versions varint": protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7),
	} {
		require.ErrorIs(t, decode(b), errs.ErrCorruption, name)
	}
	require.ErrorIs(t, decode(append(with(orderedMapping), field(nil, 3, []byte("new"))...)), errs.ErrUnsupported, "a record of an unknown kind")

	// A mapping of an unknown kind: what lies behind it is not covered, and nothing is maintained.
	unknown := with(field(nil, 9, []byte("new")))
	h, err := DecodeFragmentReuse("x", unknown, 1)
	require.NoError(t, err)
	require.ErrorIs(t, h.Maintainable(), errs.ErrUnsupported)
	require.Equal(t, []uint32{7}, h.Coverage(roaring.BitmapOf(0, 3, 7)).ToArray())
	// Beside a known mapping it is metadata.
	h, err = DecodeFragmentReuse("x", with(orderedMapping, field(nil, 9, []byte("new"))), 1)
	require.NoError(t, err)
	require.NoError(t, h.Maintainable())

	details := func(parts ...[]byte) error {
		_, err := decodeReuseDetails("x", slices.Concat(parts...))
		return err
	}
	require.NoError(t, details(field(nil, 1, nil)))
	require.NoError(t, details(field(nil, 2, nil), field(nil, 7, []byte("new"))))
	for _, parts := range [][][]byte{{nil}, {field(nil, 1, nil), field(nil, 2, nil)}, {field(nil, 1, nil), field(nil, 1, nil)}, {[]byte{0x0a}},
		{protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)}} {
		require.ErrorIs(t, details(parts...), errs.ErrCorruption)
	}
}

func FuzzFragmentReuse(f *testing.F) {
	f.Add(unhexed(f, reuseInline)[2:], int32(0))
	f.Add(unhexed(f, reuseTagged)[2:], int32(1))
	f.Fuzz(func(t *testing.T, b []byte, version int32) {
		_, err := decodeReuseDetails("x", b)
		require.True(t, err == nil || errors.Is(err, errs.ErrCorruption), "%v", err)
		h, err := DecodeFragmentReuse("x", b, version)
		if err != nil {
			require.True(t, errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrLimit), "%v", err)
			return
		}
		made := make(map[uint32]bool)
		for _, s := range h.Steps { // made before used
			for _, d := range s.Destinations {
				made[d.ID] = true
			}
			for _, d := range s.Sources {
				for _, later := range h.Steps {
					for _, x := range later.Destinations {
						require.False(t, x.ID == d.ID && !made[x.ID])
					}
				}
			}
		}
		again, err := marshal(h.content)
		require.NoError(t, err)
		h2, err := DecodeFragmentReuse("x", again, version)
		require.NoError(t, err)
		require.Equal(t, len(h.Steps), len(h2.Steps))
	})
}
