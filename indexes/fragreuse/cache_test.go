package fragreuse

import (
	"context"
	"errors"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lance/table"
)

// TestCache: versions with one history share it, whatever else changed.
func TestCache(t *testing.T) {
	ctx := context.Background()
	m := newTableModel(t, 1)
	m.add()
	m.add()
	c := NewCache(Options{})
	h, err := c.Open(ctx, m.d)
	require.NoError(t, err)
	require.Nil(t, h)
	e := table.IndexEntry{UUID: uuid.New(), Name: "i", Fields: []int32{1}, Fragments: roaring.BitmapOf(0, 1), DetailsType: modelBTree}
	m.commit(table.CreateIndex{New: []table.IndexEntry{e}})
	var last *History
	for i := range cachedHistories + 3 {
		all := m.d.Fragments()
		var rows int
		for _, f := range all {
			rows += int(f.LiveRows())
		}
		m.commit(table.Rewrite{DeferRemap: true, Groups: []table.RewriteGroup{{Old: all, New: []*table.Fragment{fake(rows)}}}})
		h, err := c.Open(ctx, m.d)
		require.NoError(t, err)
		require.NotSame(t, last, h)
		require.Len(t, h.Reuse().Steps, i+1)
		m.commit(table.UpdateConfig{Config: &table.MapUpdate{Set: map[string]string{"k": uuid.NewString()}}})
		again, err := c.Open(ctx, m.d)
		require.NoError(t, err)
		require.Same(t, h, again)
		last = h
	}
	require.Len(t, c.known, cachedHistories)
	require.Len(t, c.order, cachedHistories)
}

// TestBase: a row map with a base id is read where the caller says, and only there.
func TestBase(t *testing.T) {
	ctx := context.Background()
	elsewhere := store.NewDir(objstore.NewMem(), "base", nil)
	p := writeMap(t, elsewhere, 2, 4, 0, 1)
	id := uint32(7)
	p.BaseID = &id
	reuse := decode(t, contentOf(partition(p, digests(1, 2, 0), digests(2, 1, 0, 3, 1, 0))))
	asked := uint32(0)
	h := New(reuse, Options{Maps: func(id *uint32) (store.Dir, error) { asked = *id; return elsewhere, nil }})
	requireTranslates(t, h, "1:0 1:1", "2:0 3:0")
	require.Equal(t, id, asked)
	for _, o := range []Options{{}, {Maps: In(memDir())}, {Maps: func(*uint32) (store.Dir, error) { return store.Dir{}, errors.New("no such store") }}} {
		tr, err := New(reuse, o).For(ctx, bitmap(1, 5))
		require.NoError(t, err)
		require.Equal(t, []uint32{5}, tr.Coverage().ToArray())
		require.NoError(t, New(reuse, o).Maintainable(), "the mapping is known, its file is not at hand")
	}
}
