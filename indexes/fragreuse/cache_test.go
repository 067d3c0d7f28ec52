package fragreuse

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/lance/rowaddr"
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

// TestConcurrentUse: one history serves many readers, whose first reads load its steps and blocks.
func TestConcurrentUse(t *testing.T) {
	ctx := context.Background()
	dir := memDir()
	labels := make([]int32, 4000)
	for i := range labels {
		labels[i] = int32(i % 3)
	}
	p := writeMap(t, dir, 3, 64, labels...)
	content := contentOf(partition(p, digests(1, 4000, 0), digests(2, 1334, 0, 3, 1333, 0, 4, 1333, 0)))
	all := addrs(t, "")
	for _, at := range []struct{ id, rows uint32 }{{2, 1334}, {3, 1333}, {4, 1333}} {
		for o := range at.rows {
			all = append(all, rowaddr.New(at.id, o))
		}
	}
	content.Transitions = append(content.Transitions, ordered(treemap(t, all...), digests(2, 1334, 0, 3, 1333, 0, 4, 1333, 0), digests(5, 4000, 0)))
	h := New(decode(t, content), Options{Maps: In(dir), Blocks: store.NewCache(4000)})
	var wait sync.WaitGroup
	for w := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for k := range 20 {
				tr, err := h.Segment(ctx, k%3, bitmap(1, uint32(100+k%2)))
				if !assert.NoError(t, err) {
					return
				}
				list := []rowaddr.Addr{rowaddr.New(1, uint32(w*k)), rowaddr.New(1, 3999), rowaddr.New(9, 0)}
				kept, err := tr.Each(ctx, list)
				assert.NoError(t, err)
				assert.Equal(t, 2, kept)
				assert.Equal(t, rowaddr.New(5, 1333), list[1])
			}
		}()
	}
	wait.Wait()
}
