package table

import (
	"context"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
)

func trim(t *testing.T, d *Dataset, o TrimOptions) (*Dataset, int) {
	t.Helper()
	next, n, err := d.TrimFragmentReuse(context.Background(), o)
	require.NoError(t, err)
	return next, n
}

// rebuilt replaces an index by one that was built over all fragments of d.
func rebuilt(t *testing.T, d *Dataset, name string) *Dataset {
	t.Helper()
	e := indexOn(name, 0)
	for _, id := range fragmentIDs(d) {
		e.Fragments.Add(uint32(id))
	}
	return commit(t, d, CreateIndex{New: []IndexEntry{e}, Removed: []uuid.UUID{entryID(t, d, name)}})
}

// TestTrim: the history is kept as long as an index may need it, and goes with the last of them.
func TestTrim(t *testing.T) {
	d := chained(t)
	d, n := trim(t, d, TrimOptions{})
	require.Zero(t, n)
	v := d.Version()
	d = rebuilt(t, d, "btree")
	d, n = trim(t, d, TrimOptions{})
	require.Zero(t, n, "bitmap still needs it")
	require.Equal(t, v+1, d.Version(), "nothing to do, no commit")
	d = rebuilt(t, d, "bitmap")
	d, n = trim(t, d, TrimOptions{})
	require.Equal(t, 3, n)
	require.Nil(t, reuseOf(t, d))
	require.Equal(t, []uint32{6, 7}, covered(t, d, "btree"))
	tx, err := d.Transaction(context.Background())
	require.NoError(t, err)
	require.Equal(t, KindCreateIndex, tx.Op.Kind())
	_, n = trim(t, d, TrimOptions{})
	require.Zero(t, n, "no history")
}

// TestTrimPart: a later step stays without an earlier one, never the other way round.
func TestTrimPart(t *testing.T) {
	d := reuseTable(t, objstore.NewMem())
	d = commit(t, d, deferred(rewriteGroup(d, 100, 0, 1))) // -> 4
	d = rebuilt(t, d, "btree")
	d = commit(t, d, deferred(rewriteGroup(d, 100, 4))) // -> 5
	h := reuseOf(t, d)
	require.Len(t, h.Steps, 2)
	d, n := trim(t, d, TrimOptions{})
	require.Equal(t, 1, n)
	require.Equal(t, h.Steps[1:], reuseOf(t, d).Steps)
	require.Equal(t, []uint32{2, 5}, effective(t, d, "btree"))
	require.Equal(t, h.DatasetVersion, reuseOf(t, d).DatasetVersion)

	// An index over what was there before the first step holds the whole chain.
	d = reuseTable(t, objstore.NewMem())
	d = commit(t, d, CreateIndex{New: []IndexEntry{indexOn("narrow", 0, 2)}})
	d = commit(t, d, deferred(rewriteGroup(d, 100, 0, 1)))
	d = commit(t, d, deferred(rewriteGroup(d, 100, 4)))
	d = rebuilt(t, d, "btree")
	_, n = trim(t, d, TrimOptions{})
	require.Equal(t, 2, n, "an entry that covers other fragments needs nothing")
}

// TestTrimDoubts: what is not known to be finished is kept.
func TestTrimDoubts(t *testing.T) {
	ctx := context.Background()
	build := func() *Dataset {
		d := reuseTable(t, objstore.NewMem())
		return commit(t, d, deferred(rewriteGroup(d, 100, 0, 1))) // -> 4
	}
	// Another writer has stored the mapped bitmap: the files still hold the old addresses.
	d := remap(t, build(), "btree", 2, 4)
	d, n := trim(t, d, TrimOptions{})
	require.Zero(t, n)
	holds := func(fragments ...uint32) TrimOptions {
		return TrimOptions{Holds: func(context.Context, IndexEntry) (*roaring.Bitmap, bool, error) {
			return roaring.BitmapOf(fragments...), true, nil
		}}
	}
	_, n = trim(t, d, holds(0, 1, 2))
	require.Zero(t, n)
	_, n = trim(t, d, holds(2, 4))
	require.Equal(t, 1, n)

	// An entry of a version that is gone tells nothing.
	d = rebuilt(t, build(), "btree")
	for range 2 {
		d = commit(t, d, UpdateConfig{Config: &MapUpdate{Set: map[string]string{"k": uuid.NewString()}}})
	}
	_, err := Cleanup(ctx, d.env.st, testRoot, func(v uint64, _ time.Time) bool { return v > d.Version()-2 })
	require.NoError(t, err)
	d, n = trim(t, d, TrimOptions{})
	require.Zero(t, n)

	// A segment that was extended under an old dataset_version.
	d = build()
	e := indexOn("btree2", 0, 2, 4)
	e.DatasetVersion = 2
	d = commit(t, rebuilt(t, d, "btree"), CreateIndex{New: []IndexEntry{e}})
	_, n = trim(t, d, TrimOptions{})
	require.Zero(t, n)
	// A straddling group serves nobody.
	d = reuseTable(t, objstore.NewMem())
	d = remap(t, d, "btree", 0, 2)
	d = commit(t, d, deferred(rewriteGroup(d, 100, 0, 1)))
	require.Equal(t, []uint32{2}, effective(t, d, "btree"))
	d, n = trim(t, d, TrimOptions{})
	require.Equal(t, 1, n)
	require.Equal(t, []uint32{0, 2}, effective(t, d, "btree"))
}

// TestTrimRaces: what is trimmed is judged on the version the commit lands on.
func TestTrimRaces(t *testing.T) {
	ctx := context.Background()
	d := reuseTable(t, objstore.NewMem())
	d = commit(t, d, deferred(rewriteGroup(d, 100, 0, 1))) // -> 4
	d = rebuilt(t, d, "btree")
	other := commit(t, d, deferred(rewriteGroup(d, 100, 2))) // -> 5, appended meanwhile
	next, err := d.CommitRebasing(ctx, trimReuse{})
	require.NoError(t, err)
	require.Equal(t, other.Version()+1, next.Version())
	require.Len(t, reuseOf(t, next).Steps, 1)
	require.Equal(t, uint32(2), reuseOf(t, next).Steps[0].Sources[0].ID)
	require.Equal(t, []uint32{4, 5}, effective(t, next, "btree"))
}

// TestCleanupOfRowMaps: a row map goes with the last version whose history names it.
func TestCleanupOfRowMaps(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := reuseTable(t, st)
	put := func(id uuid.UUID) string {
		name := join(testRoot, (&ReusePartition{MapID: id}).Object())
		require.NoError(t, st.PutIfAbsent(ctx, name, []byte("labels")))
		return name
	}
	there := func(name string) bool {
		_, err := st.Stat(ctx, name)
		return err == nil
	}
	id := uuid.New()
	name, orphan := put(id), put(uuid.New())
	g := rewriteGroup(d, 100, 0, 1)
	g.Partition = &ReusePartition{MapID: id, Size: 6}
	d = commit(t, d, deferred(g))
	// The FRI metadata is rewritten, the map is not.
	d = commit(t, d, deferred(rewriteGroup(d, 100, 2)))
	_, err := Cleanup(ctx, st, testRoot, keepNone)
	require.NoError(t, err)
	require.True(t, there(name))
	require.True(t, there(orphan), "it may belong to a commit in flight")
	d = rebuilt(t, d, "btree")
	d, n := trim(t, d, TrimOptions{})
	require.Equal(t, 2, n)
	_, err = Cleanup(ctx, st, testRoot, func(v uint64, _ time.Time) bool { return v >= d.Version()-1 })
	require.NoError(t, err)
	require.True(t, there(name), "a retained version names it")
	_, err = Cleanup(ctx, st, testRoot, keepNone)
	require.NoError(t, err)
	require.False(t, there(name))
	require.NotZero(t, d.state.m.ReaderFeatureFlags&flagFragmentReuse)
}

// TestCompactLooksThroughTheHistory: fragments are joined with those that the same indexes cover today.
func TestCompactLooksThroughTheHistory(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	for i := range 4 {
		d = commit(t, d, Append{Fragments: []*Fragment{fragment(t, d, rowsOf(t, "a", 10*i, 10*i+10))}})
	}
	d = commit(t, d, CreateIndex{New: []IndexEntry{indexOn("a", 0, 0, 1, 2, 3)}})
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 1, 3, 4)}})
	rows := scan(t, d, 0, 1)
	next, done, err := d.Compact(ctx, CompactOptions{FragmentRows: 18, DeferRemap: true})
	require.NoError(t, err)
	require.Equal(t, 2, done.Groups)
	require.Equal(t, rows, scan(t, next, 0, 1))
	require.Equal(t, []uint32{4, 5, 6}, effective(t, next, "a"))
	d = commit(t, next, Append{Fragments: []*Fragment{fragment(t, next, rowsOf(t, "a", 40, 45)), fragment(t, next, rowsOf(t, "a", 45, 50))}})
	rows = scan(t, d, 0, 1)
	next, done, err = d.Compact(ctx, CompactOptions{DeferRemap: true})
	require.NoError(t, err)
	require.Equal(t, 2, done.Groups, "the covered ones and the others")
	require.Equal(t, rows, scan(t, next, 0, 1))
	h := reuseOf(t, next)
	require.Len(t, h.content.LegacyVersions, 2)
	require.Len(t, h.content.LegacyVersions[1].Groups, 1, "nobody follows the others")
	require.Len(t, effective(t, next, "a"), 1)
	again, done, err := next.Compact(ctx, CompactOptions{KeepIndexed: true, DeferRemap: true})
	require.NoError(t, err)
	require.Zero(t, done.Groups)
	require.Same(t, next, again)
}
