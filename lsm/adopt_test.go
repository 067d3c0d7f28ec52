package lsm_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// A key that an outsider brings a second time is refused to writers; reads go on.
func TestAdoptedDuplicateIsFlagged(t *testing.T) {
	m := newModel(t, 1)
	m.put(1, 10)
	m.put(2, 20)
	require.NoError(t, m.table.Freeze())
	require.NoError(t, m.table.Flush(t.Context()))
	require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	m.appendOutside(ds, 1, 11)

	adopted, err := m.table.Adopt(t.Context(), m.hooks())
	require.NoError(t, err)
	require.True(t, adopted)
	require.Equal(t, 1, m.table.Twice())
	_, err = m.table.Stage(t.Context(), []lsm.Op{{Key: m.key(1), Row: m.row(nil, 1, 12)}})
	require.ErrorIs(t, err, errs.ErrAmbiguousKey)
	_, err = m.table.Stage(t.Context(), []lsm.Op{{Key: m.key(1)}})
	require.ErrorIs(t, err, errs.ErrAmbiguousKey)
	m.put(2, 21)
	snap, err := m.table.Snapshot(m.visible)
	require.NoError(t, err)
	defer snap.Release()
	row, ok, err := snap.Row(t.Context(), m.key(2), []int{2})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, arrowx.Row{int32(21)}, row)
}

// An outside overwrite replaces what was committed before it; the table goes on being served.
func TestAdoptedOverwrite(t *testing.T) {
	m := newModel(t, 2) // in buckets
	for id := range int64(8) {
		m.put(id, 1)
	}
	require.NoError(t, m.table.Freeze())
	require.NoError(t, m.table.Flush(t.Context()))
	m.put(3, 2)
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	rec, err := arrowx.FromRows(memory.DefaultAllocator, m.schema, []arrowx.Row{m.row(cell(7), 100, 7)})
	require.NoError(t, err)
	defer rec.Release()
	w, err := ds.NewFragmentWriter(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	frag, err := w.Finish(t.Context())
	require.NoError(t, err)
	_, err = ds.Commit(t.Context(), table.Overwrite{Schema: ds.Schema(), Fragments: []*table.Fragment{frag}})
	require.NoError(t, err)

	_, err = m.table.Adopt(t.Context(), m.hooks())
	require.NoError(t, err)
	m.now = map[int64]int32{100: 7}
	m.check()
	m.put(3, 9)
	m.check()
	require.NoError(t, m.table.Freeze())
	require.NoError(t, m.table.Flush(t.Context()))
	require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	m.check()
	m.crash()
	m.check()
}
