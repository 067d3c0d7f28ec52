package fragreuse

import (
	"context"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/bitmap"
	"lancesql/indexes/btree"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/predicate"
	"lancesql/lance/table"
)

// compact is our compaction with a deferred remap, which must find something to do.
func (b *bench) compact(fragmentRows uint64) {
	b.t.Helper()
	_, done, err := b.open().Compact(context.Background(), table.CompactOptions{FragmentRows: fragmentRows, MaxDeletedFraction: 1e-9, DeferRemap: true})
	require.NoError(b.t, err)
	require.NotZero(b.t, done.Groups)
}

// remapAll rewrites every segment that needs the history, and returns how many.
func (b *bench) remapAll() (n int) {
	b.t.Helper()
	ctx := context.Background()
	entries, err := b.open().Indexes()
	require.NoError(b.t, err)
	for _, e := range entries {
		if info, ok := indexes.KindOf(e.DetailsType); !ok || !info.Remappable {
			continue
		}
		_, done, err := fragreuse.Remap(ctx, b.open(), e.UUID, fragreuse.Options{}, b.rewrite)
		require.NoError(b.t, err)
		if done {
			n++
		}
	}
	return n
}

func (b *bench) rewrite(ctx context.Context, e table.IndexEntry, t *fragreuse.Translation) (table.IndexEntry, error) {
	next := table.IndexEntry{UUID: uuid.New(), DetailsType: e.DetailsType, Details: e.Details}
	from := store.NewDir(b.st, indexes.SegmentDir(root, e.UUID), nil)
	to := store.NewDir(b.st, indexes.SegmentDir(root, next.UUID), nil)
	if info, _ := indexes.KindOf(e.DetailsType); info.Kind == indexes.BTree {
		x, err := btree.Open(ctx, from, btree.OpenOptions{})
		if err != nil {
			return next, err
		}
		defer x.Close()
		sum, err := btree.Build(ctx, to, x.Type(), x.Stream(t.IDs(ctx)), btree.Options{})
		for _, f := range sum.Files {
			next.Files = append(next.Files, table.IndexFile{Path: f.Name, Size: f.Size})
		}
		return next, err
	}
	s, err := bitmap.Open(ctx, from, bitmap.Spec{Version: e.Version, Fragments: t.Sources(), Type: arrow.PrimitiveTypes.Int32})
	if err != nil {
		return next, err
	}
	defer s.Close()
	w, err := bitmap.NewBuilder(to, arrow.PrimitiveTypes.Int32, bitmap.Options{})
	if err != nil {
		return next, err
	}
	if err := w.AddSegment(ctx, s, t.Set(ctx)); err != nil {
		return next, err
	}
	written, err := w.Finish(ctx)
	next.Files = []table.IndexFile{{Path: written.File.Name, Size: written.File.Size}}
	return next, err
}

// covered: pylance says that its indexes cover all rows.
func (b *bench) covered() {
	b.t.Helper()
	d := b.describe()
	for name, i := range d.Indexes {
		if name == table.FragmentReuseName {
			continue
		}
		require.Equal(b.t, d.Rows, i.Rows, "rows that index %s covers", name)
	}
}

// TestOurHistory: we compact over indexes that pylance built, and pylance answers through what we recorded.
func TestOurHistory(t *testing.T) {
	ctx := context.Background()
	b := start(t)
	indexed(b, 60)
	b.do("delete", args{"where": "id in (1, 11, 35)"})
	b.compact(25)
	b.covered()
	seen := b.check(all(57))
	require.Greater(t, seen.translated, 60)
	require.Len(t, b.describe().Indexes, 4, "the history is one of them")

	// Chains, by turns, with deletions between: of theirs over ours, of ours over theirs.
	b.do("touch", nil)
	b.do("delete", args{"where": "id % 5 = 2"})
	b.compact(1000)
	b.covered()
	b.check(all(b.describe().Rows))
	b.do("delete", args{"where": "id % 6 = 1"})
	b.do("compact", args{"defer": true})
	b.covered()
	b.check(all(b.describe().Rows))
	b.do("delete", args{"where": "id % 6 = 3"})
	b.compact(9)
	b.covered()
	b.check(all(b.describe().Rows))
	h, err := b.open().FragmentReuse(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(h.Steps), 4)
	require.False(t, h.External)

	// Our remap leaves segments that need no history, and the history goes.
	_, n, err := b.open().TrimFragmentReuse(ctx, table.TrimOptions{})
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, 3, b.remapAll())
	require.Zero(t, b.remapAll())
	b.covered()
	b.check(all(b.describe().Rows))
	_, n, err = b.open().TrimFragmentReuse(ctx, table.TrimOptions{})
	require.NoError(t, err)
	require.Equal(t, len(h.Steps), n)
	h, err = b.open().FragmentReuse(ctx)
	require.NoError(t, err)
	require.Nil(t, h)
	b.covered()
	b.check(all(b.describe().Rows))

	// And once more from the start, remapped by pylance this time.
	b.do("delete", args{"where": "id % 6 = 4"})
	b.compact(1000)
	b.covered()
	b.check(all(b.describe().Rows))
	b.do("append", args{"first": 60, "last": 71})
	b.do("extend", nil)
	b.covered()
	b.check(all(b.describe().Rows))
	b.do("delete", args{"where": "id % 6 = 5"})
	b.do("compact", args{"defer": false})
	b.covered()
	b.check(all(b.describe().Rows))
	b.compactAfterEager()
}

// compactAfterEager: a history that is no longer needed does no harm to what comes after it.
func (b *bench) compactAfterEager() {
	b.do("delete", args{"where": "id = 0"})
	b.compact(1000)
	b.covered()
	b.check(all(b.describe().Rows))
}

// TestPositions: zone maps and bloom filters never go through a history; the rewriting manifest takes them back.
func TestPositions(t *testing.T) {
	b := start(t)
	b.do("create", args{"first": 0, "last": 40, "fragment_rows": 10})
	b.do("index", args{"column": "id", "kind": "ZONEMAP", "name": "z"})
	b.do("index", args{"column": "s", "kind": "BLOOMFILTER", "name": "f"})
	b.do("index", args{"column": "c", "kind": "BITMAP", "name": "m"})
	b.do("delete", args{"where": "id in (1, 11)"})
	b.compact(1000)
	d := b.describe()
	require.Empty(t, d.Indexes["z"].Covers)
	require.Empty(t, d.Indexes["f"].Covers)
	require.Equal(t, d.Rows, d.Indexes["m"].Rows)
	b.check(map[string]uint64{"c": d.Rows})
	b.do("extend", nil)
	b.check(map[string]uint64{"c": d.Rows})
}

// TestExternal: a history of more than 200 KB, by either side, is read by the other.
func TestExternal(t *testing.T) {
	ctx := context.Background()
	b := start(t)
	const rows = 1_800_000
	b.do("create", args{"first": 0, "last": rows, "fragment_rows": rows / 2})
	b.do("index", args{"column": "id", "kind": "BTREE", "name": "b"})
	b.do("delete", args{"where": "id % 2 = 1 and id > 100"})
	for _, step := range []func(){
		func() { b.compact(rows) },
		func() { b.do("delete", args{"where": "id % 4 = 2 and id > 100"}); b.do("compact", args{"defer": true}) },
	} {
		step()
		d := b.open()
		h, err := d.FragmentReuse(ctx)
		require.NoError(t, err)
		require.True(t, h.External)
		b.covered()
		r, err := fragreuse.Open(ctx, d, fragreuse.Options{})
		require.NoError(t, err)
		b.sameTranslation(d, r)
		q := compare("id", 0, predicate.Ge, int64(rows-9), indexes.Range{Low: indexes.Bound{Value: int64(rows - 9)}}, "id >= 1799991")
		want, ids := b.scanned(d, q.expr)
		list := b.segments(d, r, q, arrow.PrimitiveTypes.Int64)
		require.Len(t, list, 1)
		got, err := list[0].Search(ctx, q.query)
		require.NoError(t, err)
		require.Equal(t, want, slices.Collect(got.Addrs.All()))
		var answers []struct {
			Index   string  `json:"index"`
			ByIndex []int64 `json:"by_index"`
		}
		require.NoError(t, b.ask("query", args{"filters": []string{q.sql}}, &answers))
		require.Equal(t, "b", answers[0].Index)
		require.Equal(t, ids, answers[0].ByIndex)
	}
}

// TestStraddle: a group of covered and uncovered fragments loses the covered ones, for both readers.
func TestStraddle(t *testing.T) {
	ctx := context.Background()
	b := start(t)
	indexed(b, 40)
	b.do("append", args{"first": 40, "last": 47})
	b.do("delete", args{"where": "id in (12, 32, 41)"})
	d := b.open()
	group := table.RewriteGroup{Old: []*table.Fragment{d.Fragment(3), d.Fragment(4)}}
	var ids []int64
	for _, f := range group.Old {
		ids = append(ids, b.idsOf(d, f)...)
	}
	w, err := d.NewFragmentWriter(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Write(recordOf(t, d, ids)))
	f, err := w.Finish(ctx)
	require.NoError(t, err)
	group.New = []*table.Fragment{f}
	_, err = d.Commit(ctx, table.Rewrite{Groups: []table.RewriteGroup{group}, DeferRemap: true})
	require.NoError(t, err)
	b.check(all(29))
	require.Equal(t, []uint32{0, 1, 2}, b.describe().Indexes["b"].Covers)
	b.do("touch", nil)
	b.check(all(29))
	b.do("extend", nil)
	b.check(all(b.describe().Rows))
	b.covered()
}
