package lsm_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// An overwrite while nobody served the table drops the MemWAL entry; opening takes it in as a running table would: what
// was committed before is gone, in WAL entries and in the journal too.
func TestOverwrittenWhileClosed(t *testing.T) {
	m := newModel(t, 2)
	for id := range int64(8) {
		m.put(id, 1)
	}
	require.NoError(t, m.table.Freeze())
	require.NoError(t, m.table.Flush(t.Context()))
	m.put(3, 2)
	require.NoError(t, m.table.WriteBehind(t.Context()))
	m.put(4, 2) // in the journal only
	require.NoError(t, m.table.Close(t.Context()))
	ds, err := table.Open(t.Context(), m.store, "db/t.lance")
	require.NoError(t, err)
	rec, err := arrowx.FromRows(memory.DefaultAllocator, m.schema, []arrowx.Row{m.row(cell(7), 100, 7)})
	require.NoError(t, err)
	ds, err = ds.Overwrite(t.Context(), table.Records(m.schema, rec), table.WriteOptions{})
	require.NoError(t, err)
	require.Nil(t, ds.MemWAL(), "the premise: an overwrite drops the entry")
	m.now = map[int64]int32{100: 7}
	m.open()
	m.check()
	m.put(3, 9)
	m.crash()
	m.check()
}

// strangerIn is another writer of the model's table, with a claim of its own.
func strangerIn(t *testing.T, m *model) *lsm.Table {
	t.Helper()
	keys, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keys.Close()) })
	o := m.openWith(m.store)
	o.Keys, o.Journal = keys, nil
	s, err := lsm.Open(t.Context(), o, "db/t.lance")
	require.NoError(t, err)
	return s
}

// A shard that another writer made since the table was opened, and wrote to without a flush, is not taken for a new one:
// a flush of ours would pass over what is in its log.
func TestShardOfAnotherWriter(t *testing.T) {
	m := newModel(t, 2)
	s := strangerIn(t, m)
	st, err := s.Stage(t.Context(), []lsm.Op{{Key: m.key(1), Row: m.row(cell(5), 1, 5)}})
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), st))
	st.Release()
	require.NoError(t, s.Close(t.Context()))
	_, err = m.table.Stage(t.Context(), []lsm.Op{{Key: m.key(1), Row: m.row(cell(6), 1, 6)}})
	require.ErrorIs(t, err, errs.ErrPoisoned)
	require.NoError(t, m.table.Close(t.Context()))
	m.now = map[int64]int32{1: 5}
	m.open()
	m.check()
}

// A flush whose commit was reported as failed although it took effect is finished by the next attempt.
func TestFlushOfUnknownOutcome(t *testing.T) {
	st := faultstore.New(objstore.NewMem(), faultstore.Plan{})
	m := newModelOn(t, 0, st)
	for id := range int64(8) {
		m.put(id, 1)
	}
	m.put(3, 2)
	require.NoError(t, m.table.Freeze())
	require.NoError(t, m.table.WriteBehind(t.Context()))
	st.Reset(faultstore.Plan{Match: func(op faultstore.Op) bool {
		return op.Kind == faultstore.PutIfAbsent && strings.HasSuffix(op.Name, ".binpb")
	},
		Faults: []faultstore.Fault{{At: 1, Action: faultstore.Ambiguous}}})
	require.Error(t, m.table.Flush(t.Context()))
	require.EqualValues(t, 1, st.Count())
	m.check()
	require.NoError(t, m.table.Flush(t.Context()))
	m.check()
	require.EqualValues(t, 1, m.table.Pressure().Generations)
	require.Zero(t, m.table.Pressure().Frozen)
	m.put(4, 3)
	require.NoError(t, m.table.Freeze())
	require.NoError(t, m.table.Flush(t.Context()))
	require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	m.check()
	m.crash()
	m.check()
}
