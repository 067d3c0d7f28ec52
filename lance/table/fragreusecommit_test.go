package table

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
)

const (
	typeBTree   = "/lance.table.BTreeIndexDetails"
	typeBitmap  = "/lance.table.BitmapIndexDetails"
	typeZoneMap = "/lance.table.ZoneMapIndexDetails"
	typeBloom   = "/lance.index.pb.BloomFilterIndexDetails"
	typeVector  = "/lance.index.pb.VectorIndexDetails"
)

func deferred(groups ...RewriteGroup) Rewrite { return Rewrite{Groups: groups, DeferRemap: true} }

func reuseOf(t *testing.T, d *Dataset) *FragmentReuse {
	t.Helper()
	h, err := d.FragmentReuse(context.Background())
	require.NoError(t, err)
	return h
}

// effective is what the first entry of that name covers after translation.
func effective(t *testing.T, d *Dataset, name string) []uint32 {
	t.Helper()
	return reuseOf(t, d).Coverage(roaring.BitmapOf(covered(t, d, name)...)).ToArray()
}

// chained is a table after two deferred compactions with deletions between: {0, 1} -> {4, 5} -> 6 and 2 -> 7.
func chained(t *testing.T) *Dataset {
	t.Helper()
	d := reuseTable(t, objstore.NewMem(), typeBTree, typeBitmap, typeZoneMap, typeBloom, typeVector)
	future := IndexEntry{Name: "future", Fields: []int32{0}, Fragments: roaring.BitmapOf(0, 1, 2), DetailsType: typeBTree, Version: 2}
	d = commit(t, d, CreateIndex{New: []IndexEntry{future}})
	d = commit(t, d, deferred(rewriteGroup(d, 4, 0, 1)))
	require.Equal(t, []uint64{2, 4, 5}, fragmentIDs(d))
	for _, name := range []string{"btree", "bitmap"} {
		require.Equal(t, []uint32{0, 1, 2}, covered(t, d, name))
		require.Equal(t, []uint32{2, 4, 5}, effective(t, d, name))
	}
	for _, name := range []string{"zonemap", "bloomfilter", "vector", "future"} {
		require.Equal(t, []uint32{2}, covered(t, d, name), name)
	}
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 4, 0, 2)}})
	return commit(t, d, deferred(rewriteGroup(d, 100, 4, 5), rewriteGroup(d, 100, 2)))
}

// TestDeferredRemap: what can be translated stays as it is, everything else loses the fragments.
func TestDeferredRemap(t *testing.T) {
	d := chained(t)
	tx, err := d.Transaction(context.Background())
	require.NoError(t, err)
	require.Equal(t, KindRewrite, tx.Op.Kind())
	before, err := d.At(context.Background(), d.Version()-1)
	require.NoError(t, err)
	h := reuseOf(t, d)
	require.NotEqual(t, reuseOf(t, before).UUID, h.UUID)
	require.Len(t, h.Steps, 3)
	require.Len(t, h.content.LegacyVersions, 2, "added to what was there")
	require.Equal(t, []uint32{6, 7}, effective(t, d, "btree"))
	require.Equal(t, []ReuseDigest{{4, 4, 2}, {5, 2, 0}}, h.Steps[1].Sources)
	require.Empty(t, covered(t, d, "zonemap"))
	made, err := decodeRoaring("x", reuseEntry(t, d).FragmentBitmap)
	require.NoError(t, err)
	require.Equal(t, []uint32{6, 7}, made.ToArray(), "the new fragments of this compaction")

	// Without deferring, everything that came from the fragment is uncovered; the history stays.
	plain := commit(t, d, Rewrite{Groups: []RewriteGroup{rewriteGroup(d, 100, 6)}})
	require.Equal(t, []uint32{7}, effective(t, plain, "btree"))
	require.Equal(t, []uint32{2}, covered(t, plain, "btree"))
	require.Equal(t, h.Steps, reuseOf(t, plain).Steps)

	// A column written in place leaves the index as well, under whatever name its bitmap has it.
	d = chained(t)
	d = commit(t, d, DataReplacement{Replacements: []Replacement{{FragmentID: 6, File: columnFile(0)}}})
	require.Equal(t, []uint32{7}, effective(t, d, "btree"))
	require.Equal(t, []uint32{7}, effective(t, d, "bitmap"))

	// Another writer has stored the mapped bitmap.
	d = remap(t, chained(t), "btree", 6, 7)
	require.Equal(t, []uint32{6, 7}, effective(t, d, "btree"))
	d = commit(t, d, DataReplacement{Replacements: []Replacement{{FragmentID: 6, File: columnFile(0)}}})
	require.Equal(t, []uint32{7}, effective(t, d, "btree"))
}

// remap sets the bitmap of an entry, which keeps its identifier.
func remap(t *testing.T, d *Dataset, name string, fragments ...uint32) *Dataset {
	t.Helper()
	e, err := d.IndexEntryByUUID(entryID(t, d, name))
	require.NoError(t, err)
	e.Fragments = roaring.BitmapOf(fragments...)
	return commit(t, d, CreateIndex{New: []IndexEntry{e}})
}

func TestDeferredRemapIsSkipped(t *testing.T) {
	st := objstore.NewMem()
	d := reuseTable(t, st, typeZoneMap)
	d = commit(t, d, deferred(rewriteGroup(d, 4, 0, 1)))
	require.Nil(t, reuseOf(t, d), "nobody follows")
	require.Equal(t, []uint32{2}, covered(t, d, "zonemap"))

	d = reuseTable(t, objstore.NewMem())
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(3), fakeFragment(3)}})
	d = commit(t, d, deferred(rewriteGroup(d, 4, 4, 5), rewriteGroup(d, 9, 0)))
	require.Len(t, reuseOf(t, d).Steps, 1, "only the covered group is recorded")
	require.Equal(t, uint32(0), reuseOf(t, d).Steps[0].Sources[0].ID)

	g := rewriteGroup(d, 100, 1, 2)
	slices.Reverse(g.Old)
	_, err := d.Commit(context.Background(), deferred(g))
	require.ErrorIs(t, err, errs.ErrInvalid, "readers of version 0 take sources ascending")
	// A group that straddles is recorded, and covered by nobody.
	d = commit(t, d, deferred(rewriteGroup(d, 100, 1, 6)))
	require.Equal(t, []uint32{2, 8}, effective(t, d, "btree"))
	// All rows deleted: the group has no new fragment.
	all := d.Fragment(2)
	df, err := d.WriteDeletions(context.Background(), 2, roaring.BitmapOf(0, 1, 2))
	require.NoError(t, err)
	d = commit(t, d, Delete{Updated: []*Fragment{all.WithDeletion(df)}})
	d = commit(t, d, deferred(rewriteGroup(d, 100, 2)))
	require.Equal(t, []uint32{8, 10}, effective(t, d, "btree"))
}

func TestTaggedHistory(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := reuseTable(t, st)
	d = commit(t, d, deferred(rewriteGroup(d, 4, 0)))
	g := rewriteGroup(d, 4, 2, 1)
	g.Partition = &ReusePartition{MapID: uuid.New(), Size: 77}
	d = commit(t, d, deferred(g))
	both := flagFragmentReuse
	require.Equal(t, both, d.state.m.ReaderFeatureFlags&both)
	require.Equal(t, both, d.state.m.WriterFeatureFlags&both)
	h := reuseOf(t, d)
	require.Equal(t, int32(1), h.IndexVersion)
	require.Len(t, h.content.LegacyVersions, 1)
	require.Len(t, h.content.Transitions, 1)
	require.Equal(t, g.Partition, h.Steps[1].Partition)
	require.Equal(t, []uint32{4, 5, 6}, effective(t, d, "btree"))
	// An ordered compaction is a transition from then on.
	d = commit(t, d, deferred(rewriteGroup(d, 100, 4, 5)))
	require.Len(t, reuseOf(t, d).content.Transitions, 2)
	require.Len(t, reuseOf(t, d).content.LegacyVersions, 1)
	// The flags stay, whatever becomes of the entry.
	d = commit(t, d, CreateIndex{Removed: []uuid.UUID{reuseOf(t, d).UUID}})
	require.Nil(t, reuseOf(t, d))
	require.Equal(t, both, d.state.m.ReaderFeatureFlags&both)

	base := uint32(3)
	for _, p := range []*ReusePartition{{Size: 1}, {MapID: uuid.New()}, {MapID: uuid.New(), Size: 1, BaseID: &base}} {
		g := rewriteGroup(d, 4, 7)
		g.Partition = p
		e := indexOn("again", 0, 7)
		d = commit(t, d, CreateIndex{New: []IndexEntry{e}})
		g.Old[0] = d.Fragment(7)
		_, err := d.Commit(ctx, deferred(g))
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
	require.Equal(t, both, commit(t, d, Restore{Version: 2}).state.m.WriterFeatureFlags&both)
	// Without the flag a tagged entry is damage; in one word only the manifest is.
	tagged := reuseTable(t, objstore.NewMem())
	g = rewriteGroup(tagged, 4, 0)
	g.Partition = &ReusePartition{MapID: uuid.New(), Size: 77}
	tagged = commit(t, tagged, deferred(g))
	s := *tagged.state
	s.m = shallowCopy(s.m)
	s.m.ReaderFeatureFlags, s.m.WriterFeatureFlags = 0, 0
	_, err := (&Dataset{env: tagged.env, root: tagged.root, state: &s}).FragmentReuse(ctx)
	require.ErrorIs(t, err, errs.ErrCorruption)
}

// TestReuseUnknown: what is not understood is carried, and nothing is done that had to interpret it.
func TestReuseUnknown(t *testing.T) {
	ctx := context.Background()
	d := reuseTable(t, objstore.NewMem())
	d = commit(t, d, deferred(rewriteGroup(d, 100, 0, 1)))
	change := func(content []byte, details ...byte) *Dataset {
		s := *d.state
		s.indices = slices.Clone(s.indices)
		e := shallowCopy(reuseEntry(t, d))
		e.IndexDetails = shallowCopy(e.IndexDetails)
		raw, err := marshal(reuseOf(t, d).content)
		require.NoError(t, err)
		e.IndexDetails.Value = append(field(nil, 1, append(raw, content...)), details...)
		s.indices[len(s.indices)-1] = e
		return &Dataset{env: d.env, root: d.root, state: &s}
	}
	record := change(field(nil, 5, []byte("new")))
	_, err := record.FragmentReuse(ctx)
	require.ErrorIs(t, err, errs.ErrUnsupported)
	for _, op := range []Operation{
		Rewrite{Groups: []RewriteGroup{rewriteGroup(record, 100, 2)}}, deferred(rewriteGroup(record, 100, 2)),
		DataReplacement{Replacements: []Replacement{{FragmentID: 2, File: columnFile(0)}}},
	} {
		_, err = record.Commit(ctx, op)
		require.ErrorIs(t, err, errs.ErrUnsupported)
	}
	_, _, err = record.Compact(ctx, CompactOptions{DeferRemap: true})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	_, _, err = record.TrimFragmentReuse(ctx, TrimOptions{})
	require.ErrorIs(t, err, errs.ErrUnsupported)

	// Unknown metadata of the details and of the messages inside stay.
	note := field(nil, 6, []byte("note"))
	kept := change(nil, note...)
	require.NoError(t, kept.state.interpret())
	h, err := kept.FragmentReuse(ctx)
	require.NoError(t, err)
	setUnknown(h.content.LegacyVersions[0], note)
	b, err := newBuilder(kept.env, kept, nil)
	require.NoError(t, err)
	require.NoError(t, b.appendReuse(ctx, h, []recordedGroup{{rewriteGroup(kept, 100, 2), []*pb.DataFragment{{Id: 9, PhysicalRows: 4}}}}))
	details := &pb.FragmentReuseIndexDetails{}
	require.NoError(t, proto.Unmarshal(b.indices[len(b.indices)-1].IndexDetails.Value, details))
	require.Equal(t, note, unknownOf(details))
	require.Equal(t, note, unknownOf(details.GetInline().LegacyVersions[0]))
	require.Len(t, details.GetInline().LegacyVersions, 2)
}

// TestReuseLarge: above 200 KB the content is an object, which goes with the versions that name it.
func TestReuseLarge(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	const rows = 300_000
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(rows), fakeFragment(rows), fakeFragment(rows), fakeFragment(rows), fakeFragment(rows), fakeFragment(rows)}})
	odd := roaring.New()
	for o := uint32(1); o < rows; o += 2 {
		odd.Add(o)
	}
	op := Delete{}
	for _, f := range d.Fragments() {
		df, err := d.WriteDeletions(ctx, f.ID, odd)
		require.NoError(t, err)
		op.Updated = append(op.Updated, f.WithDeletion(df))
	}
	d = commit(t, d, op)
	d = commit(t, d, CreateIndex{New: []IndexEntry{indexOn("a", 0, 0, 1, 2, 3, 4, 5)}})
	external := []bool{}
	for id := range uint64(6) {
		d = commit(t, d, deferred(rewriteGroup(d, rows, id)))
		h := reuseOf(t, d)
		external = append(external, h.External)
		raw, err := marshal(h.content)
		require.NoError(t, err)
		require.Equal(t, len(raw) > 204800, h.External, "%d bytes", len(raw))
	}
	require.False(t, external[0])
	require.True(t, external[5])
	require.Len(t, reuseOf(t, d).Steps, 6)
	object := join(testRoot, indicesDir, reuseOf(t, d).UUID.String(), fragmentReuseFile)
	_, err := st.Stat(ctx, object)
	require.NoError(t, err)
	require.Equal(t, "details.binpb", fragmentReuseFile)

	old := d
	d = commit(t, d, CreateIndex{Removed: []uuid.UUID{reuseOf(t, d).UUID}})
	_, err = Cleanup(ctx, st, testRoot, func(uint64, time.Time) bool { return true })
	require.NoError(t, err)
	require.Len(t, reuseOf(t, old).Steps, 6)
	_, err = Cleanup(ctx, st, testRoot, keepNone)
	require.NoError(t, err)
	_, err = st.Stat(ctx, object)
	require.ErrorIs(t, err, errs.ErrNotFound)
	require.Nil(t, reuseOf(t, d))
}

// TestReuseAndConcurrency: what others commit meanwhile is in the history and in the entries.
func TestReuseAndConcurrency(t *testing.T) {
	ctx := context.Background()
	d := reuseTable(t, objstore.NewMem())
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(3)}}) // fragment 4
	a := commit(t, d, deferred(rewriteGroup(d, 100, 0)))
	b, err := d.CommitRebasing(ctx, deferred(rewriteGroup(d, 100, 1, 2)))
	require.NoError(t, err)
	require.Len(t, reuseOf(t, b).Steps, 2, "both")
	require.Equal(t, []uint32{5, 6}, effective(t, b, "btree"))
	require.Equal(t, a.Version()+1, b.Version())

	// An index made meanwhile over fragments that are rewritten: it is followed, because the remap is deferred.
	c := commit(t, b, CreateIndex{New: []IndexEntry{indexOn("late", 0, 4, 5, 6)}})
	next, err := b.CommitRebasing(ctx, deferred(rewriteGroup(b, 100, 4)))
	require.NoError(t, err)
	require.Equal(t, []uint32{5, 6, 7}, effective(t, next, "late"))
	require.Equal(t, c.Version()+1, next.Version())
	_, err = b.CommitRebasing(ctx, Rewrite{Groups: []RewriteGroup{rewriteGroup(b, 100, 4)}})
	require.ErrorIs(t, err, errs.ErrConflict)
}

// TestRewriteWithRemappedIndex: constraint indexes travel in the manifest of the rewrite.
func TestRewriteWithRemappedIndex(t *testing.T) {
	ctx := context.Background()
	d := reuseTable(t, objstore.NewMem(), typeBTree, typeZoneMap)
	g := rewriteGroup(d, 100, 0, 1)
	g.New[0].ID = 3
	old := entryID(t, d, "btree")
	renewed := IndexEntry{UUID: uuid.New(), Fragments: roaring.BitmapOf(2, 3), DetailsType: typeBTree, Files: []IndexFile{{Path: "page_data.lance", Size: 9}}}
	zones := IndexEntry{Name: "zonemap", Fields: []int32{0}, Fragments: roaring.BitmapOf(3), DetailsType: typeZoneMap}
	op := Rewrite{Groups: []RewriteGroup{g}, DeferRemap: true, Remapped: []RemappedIndex{{Old: old, New: renewed}}, Added: []IndexEntry{zones}}
	next := commit(t, d, op)
	require.Nil(t, reuseOf(t, next), "nobody is left to follow")
	require.Equal(t, []uint32{2, 3}, covered(t, next, "btree"))
	entries, err := next.Indexes()
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.Equal(t, renewed.UUID, entries[0].UUID)
	require.Equal(t, []uint32{2}, entries[1].Fragments.ToArray())
	require.Equal(t, []uint32{3}, entries[2].Fragments.ToArray())
	_, err = next.Commit(ctx, Rewrite{Groups: []RewriteGroup{rewriteGroup(next, 9, 2)}, Remapped: []RemappedIndex{{Old: old, New: renewed}}})
	require.ErrorIs(t, err, errs.ErrConflict, "replaced meanwhile")
	renewed.UUID = uuid.Nil
	_, err = next.Commit(ctx, Rewrite{Groups: []RewriteGroup{rewriteGroup(next, 9, 2)}, Remapped: []RemappedIndex{{Old: entries[0].UUID, New: renewed}}})
	require.ErrorIs(t, err, errs.ErrInvalid)
}
