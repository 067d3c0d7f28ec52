package lsm_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// besideStore calls a function, once, before the next data file of the base is created.
type besideStore struct {
	objstore.Store
	beside func()
}

func (s *besideStore) Create(ctx context.Context, name string) (objstore.Writer, error) {
	if f := s.beside; f != nil && strings.HasPrefix(name, "db/t.lance/data/") {
		s.beside = nil
		f()
	}
	return s.Store.Create(ctx, name)
}

// mergeBeside lets commits, and a merge of them, happen while a compaction copies rows.
func (m *model) mergeBeside() {
	for range 1 + m.rng.IntN(3) {
		m.commit()
	}
	m.views[m.visible] = maps.Clone(m.now)
	require.NoError(m.t, m.table.Freeze())
	require.NoError(m.t, m.table.Flush(m.t.Context()))
	require.NoError(m.t, m.table.Merge(m.t.Context(), m.hooks()))
	for range m.rng.IntN(3) {
		m.commit()
	}
	m.counts["merged beside a compaction"]++
}

// A merge goes on while fragments are copied; what it deletes in them is deleted in the copies.
func TestMergeBesideACompaction(t *testing.T) {
	m := newModel(t, 1)
	m.fill(0, 4)
	m.fill(100, 4)
	view := m.visible
	m.views[view] = maps.Clone(m.now)
	var inside lsm.BaseInfo
	m.store.(*besideStore).beside = func() {
		m.write([]lsm.Op{{Key: m.key(101)}, {Key: m.key(2), Row: m.row(cell(77), 2, 77)}})
		m.now = maps.Clone(m.now)
		delete(m.now, 101)
		m.now[2] = 77
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
		inside = m.table.Base()
		m.put(3, 78) // kills a copied row as well, and is merged later
	}
	done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{Groups: 1})
	require.NoError(t, err)
	require.Equal(t, uint64(2), inside.Deleted)
	require.Equal(t, 1, done.Groups)
	require.Equal(t, inside.Version+2, m.table.Base().Version, "ids reserved, fragments rewritten")
	require.Equal(t, uint64(2), m.table.Base().Deleted)
	require.Zero(t, m.table.Base().Unindexed)
	m.check()
	_, found := checkTable(t, m.store, lsm.CheckOptions{Deep: true, MemoryBytes: 1 << 20})
	require.Empty(t, faults(found, lsm.Error))
	require.NoError(t, m.table.Close(t.Context()))
	clear(m.views)
	m.open()
	m.check()
	m.fill(200, 1)
	m.check()
}

// A compaction all of whose copies a merge deletes meanwhile begins again and holds merges off.
func TestMergeDeletesAllThatIsCopied(t *testing.T) {
	m := newModel(t, 0)
	m.fill(0, 5)
	m.fill(100, 4)
	m.fill(200, 5)
	m.fill(300, 8)
	m.store.(*besideStore).beside = func() {
		var ops []lsm.Op
		m.now = maps.Clone(m.now)
		for _, id := range []int64{0, 1, 2, 3, 4, 100, 101, 102, 103} {
			ops = append(ops, lsm.Op{Key: m.key(id)})
			delete(m.now, id)
		}
		m.write(ops)
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	}
	before := m.table.Base().Version
	done, err := m.table.Compact(t.Context(), m.hooks(), lsm.Compaction{})
	require.NoError(t, err)
	require.Nil(t, m.store.(*besideStore).beside)
	require.Equal(t, 1, done.Groups)
	require.Equal(t, before+2, m.table.Base().Version, "the merge, the compaction")
	require.Equal(t, 2, m.table.Base().Fragments)
	m.check()
	_, found := checkTable(t, m.store, lsm.CheckOptions{Deep: true, MemoryBytes: 1 << 20})
	require.Empty(t, faults(found, lsm.Error))
}
