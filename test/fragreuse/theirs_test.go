package fragreuse

import (
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonemap"
	"lancesql/lance/table"
)

// indexed makes a table of fragments of ten rows with a BTREE on id and s and a BITMAP on c.
func indexed(b *bench, rows int) {
	b.do("create", args{"first": 0, "last": rows, "fragment_rows": 10})
	b.do("index", args{"column": "id", "kind": "BTREE", "name": "b"})
	b.do("index", args{"column": "c", "kind": "BITMAP", "name": "m"})
	b.do("index", args{"column": "s", "kind": "BTREE", "name": "bs"})
}

func all(rows uint64) map[string]uint64 {
	return map[string]uint64{"id": rows, "c": rows, "s": rows}
}

// TestTheirHistory: pylance compacts with a deferred remap, and we answer through what it recorded.
func TestTheirHistory(t *testing.T) {
	b := start(t)
	indexed(b, 40)
	b.do("delete", args{"where": "id in (1, 11, 35)"})
	require.Zero(t, b.check(all(37)).translated)
	b.do("compact", args{"defer": true})
	h, err := b.open().FragmentReuse(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Steps, 1)
	require.Equal(t, int32(0), h.IndexVersion)
	seen := b.check(all(37))
	require.Greater(t, seen.translated, 40)
	require.Greater(t, seen.rows, 50)

	// A commit of theirs stores the mapped bitmaps while the files hold the old addresses.
	b.do("touch", nil)
	entries, err := b.open().Indexes()
	require.NoError(t, err)
	require.Equal(t, []uint32{4}, entries[0].Fragments.ToArray())
	b.check(all(37))

	// Chains with deletions between, and rows nobody indexed.
	b.do("delete", args{"where": "id % 5 = 2"})
	b.do("append", args{"first": 40, "last": 47})
	b.check(all(29))
	b.do("compact", args{"defer": true, "rows": 15})
	b.check(nil)
	b.do("delete", args{"where": "id % 5 = 3"})
	b.do("compact", args{"defer": true})
	h, err = b.open().FragmentReuse(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(h.Steps), 3)
	b.check(nil)
	// Extended and remapped by pylance.
	b.do("extend", nil)
	b.check(all(b.describe().Rows))
	b.do("delete", args{"where": "id % 9 = 4"})
	b.do("compact", args{"defer": false})
	b.check(all(b.describe().Rows))
}

// TestTheirPositions: pylance maps the bitmaps of zone maps, whose files then say nothing of the fragments they name.
func TestTheirPositions(t *testing.T) {
	ctx := t.Context()
	b := start(t)
	b.do("create", args{"first": 0, "last": 40, "fragment_rows": 10})
	b.do("index", args{"column": "id", "kind": "ZONEMAP", "name": "z"})
	b.do("delete", args{"where": "id in (1, 11)"})
	b.do("compact", args{"defer": true})
	search := func(want ...uint32) {
		d := b.open()
		h, err := d.FragmentReuse(ctx)
		require.NoError(t, err)
		entries, err := d.Indexes()
		require.NoError(t, err)
		i := slices.IndexFunc(entries, func(e table.IndexEntry) bool { return e.Name == "z" })
		e := entries[i]
		s, err := zonemap.Open(ctx, store.NewDir(b.st, indexes.SegmentDir(root, e.UUID), nil),
			zonemap.Spec{Version: e.Version, Fragments: h.PositionalCoverage(e.Fragments), Type: arrow.PrimitiveTypes.Int64})
		require.NoError(t, err)
		defer s.Close()
		r, err := s.Search(ctx, indexes.Equals(int64(12)))
		require.NoError(t, err)
		covered := r.Fragments.ToArray()
		require.Equal(t, roaring.BitmapOf(want...).ToArray(), covered)
	}
	search()
	b.do("touch", nil)
	entries, err := b.open().Indexes()
	require.NoError(t, err)
	require.Equal(t, []uint32{4}, entries[0].Fragments.ToArray(), "the entry claims what the file does not have")
	search()
	b.check(nil)
}
