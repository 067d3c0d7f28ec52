package lsm_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/predicate"
	"lancesql/lsm"
)

// Zone maps spare a scan the rows of flushed generations, after a restart as well; what the table does not keep is not used.
func TestGenerationZones(t *testing.T) {
	m := newModel(t, 0)
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 10, EveryRows: -1})
	for round := range int64(2) {
		var ops []lsm.Op
		next := maps.Clone(m.now)
		for i := range int64(100) {
			id := round*100 + i
			ops = append(ops, lsm.Op{Key: m.key(id), Row: m.row(cell(int32(i)), id, int32(i))})
			next[id] = int32(i)
		}
		m.write(ops)
		m.write([]lsm.Op{{Key: m.key(round * 100)}}) // a delete row, whose n is NULL
		delete(next, round*100)
		m.now = next
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
	}
	between := predicate.And{Terms: []predicate.Expr{
		predicate.Compare{Column: 2, Op: predicate.Ge, Value: int32(20)}, predicate.Compare{Column: 2, Op: predicate.Lt, Value: int32(30)}}}
	pruned := func() {
		t.Helper()
		st := m.reads(between, 20)
		require.EqualValues(t, 20, st.RowsRead, "the zones are cut at the tens")
		require.Equal(t, 2, st.ZonesKept)
		require.Equal(t, 2, st.SourcesKept)
		none := m.reads(isN(1000), 0)
		require.Zero(t, none.RowsRead)
		require.Zero(t, none.SourcesKept)
		both := m.reads(predicate.Or{Terms: []predicate.Expr{isN(5), isN(95)}}, 4)
		require.EqualValues(t, 40, both.RowsRead, "two runs of each generation")
		m.reads(predicate.IsNull{Column: 2}, 0)
		m.reads(predicate.IsNull{Column: 0}, 48)
	}
	pruned()
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 10, EveryRows: -1})
	pruned()
	m.check()
	m.reopen(lsm.ZoneMapOptions{Off: true})
	require.EqualValues(t, 202, m.reads(between, 20).RowsRead)
	m.mergeAll()
	m.check()
}
