package lsm_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/predicate"
	"lancesql/lance/table"
	"lancesql/lsm"
)

// recluster rewrites the base by random columns while commits, merges and other writers go on.
func (m *model) recluster() {
	o := lsm.Recluster{Columns: [][]int{{2}, {0}, {0, 2}, {1}}[m.rng.IntN(4)], Buckets: 1 + m.rng.IntN(6), Publish: m.rng.IntN(4) == 0}
	busy := m.rng.IntN(3)
	o.Progress = func(n, of uint64) {
		require.LessOrEqual(m.t, n, of)
		if busy == 0 {
			return
		}
		busy--
		m.counts["while reclustering"]++
		for range m.rng.IntN(4) {
			m.commit()
		}
		switch m.rng.IntN(6) {
		case 0:
			m.outside()
		case 1:
			require.NoError(m.t, m.table.Freeze())
		default:
			require.NoError(m.t, m.table.Freeze())
			require.NoError(m.t, m.table.Flush(m.t.Context()))
			require.NoError(m.t, m.table.Merge(m.t.Context(), m.hooks()))
		}
	}
	done, err := m.table.Recluster(m.t.Context(), m.hooks(), o)
	require.NoError(m.t, err)
	if done.FragmentsAdded > 0 {
		m.counts["reclustered"]++
		if o.Publish {
			m.counts["published"]++
		}
	}
}

// TestReclusterOften: histories in which reclusters and compactions are the most frequent operations.
func TestReclusterOften(t *testing.T) {
	total := map[string]int{}
	for seed := range uint64(4) {
		m := newModel(t, 200+seed)
		for i := range 24 {
			for range 1 + m.rng.IntN(4) {
				m.commit()
			}
			if i%3 == 0 {
				m.views[m.visible] = maps.Clone(m.now)
			}
			if m.rng.IntN(5) == 0 {
				m.outside()
			}
			require.NoError(t, m.table.Freeze())
			require.NoError(t, m.table.Flush(t.Context()))
			if m.rng.IntN(4) > 0 {
				require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
			}
			switch m.rng.IntN(3) {
			case 0:
				m.compact()
			case 1:
				m.recluster()
			}
			m.check()
			if m.rng.IntN(8) == 0 {
				clear(m.views)
				require.NoError(t, m.table.Cleanup(t.Context(), m.lowWater()))
				m.crash()
				m.check()
			}
		}
		for k, n := range m.counts {
			total[k] += n
		}
		require.NoError(t, m.table.Close(t.Context()))
	}
	t.Log(total)
	for _, k := range []string{"compacted", "reclustered", "published", "while reclustering"} {
		require.Greater(t, total[k], 3, "%s: %v", k, total)
	}
}

// ordered is a table of 400 rows whose column n has nothing to do with their order, with some deleted, in many fragments.
func ordered(t *testing.T, seed uint64) *model { return orderedOn(t, newModel(t, seed), 0) }

func orderedOn(t *testing.T, m *model, fragmentRows int64) *model {
	m.reopen(lsm.ZoneMapOptions{RowsPerZone: 4, EveryRows: -1})
	if fragmentRows > 0 {
		m.table.Tune(lsm.Tuning{ZoneMaps: m.zones, FragmentRows: fragmentRows})
	}
	for round := range int64(8) {
		var ops []lsm.Op
		next := maps.Clone(m.now)
		for i := range int64(50) {
			id := round*50 + i
			n := int32(id * 7919 % 1000)
			ops = append(ops, lsm.Op{Key: m.key(id), Row: []any{cell(n), id, n}})
			next[id] = n
		}
		m.write(ops)
		m.write([]lsm.Op{{Key: m.key(round * 40)}})
		delete(next, round*40)
		m.now = next
		require.NoError(t, m.table.Freeze())
		require.NoError(t, m.table.Flush(t.Context()))
		require.NoError(t, m.table.Merge(t.Context(), m.hooks()))
	}
	return m
}

// spares is how many of the base's rows a range of one percent on n leaves to read.
func (m *model) spares() (left, rows uint64) {
	snap, err := m.table.Snapshot(m.visible)
	require.NoError(m.t, err)
	defer snap.Release()
	p, err := snap.Pruning(m.t.Context(), predicate.And{Terms: []predicate.Expr{
		predicate.Compare{Column: 2, Op: predicate.Ge, Value: int32(500)}, predicate.Compare{Column: 2, Op: predicate.Lt, Value: int32(510)}}})
	require.NoError(m.t, err)
	return p.Rows - p.RowsPruned, p.Rows
}

// TestRecluster: a range on the column reads little afterwards, indexes cover everything, and nothing is left to follow.
func TestRecluster(t *testing.T) {
	for _, publish := range []bool{false, true} {
		m := ordered(t, 0)
		left, rows := m.spares()
		require.Greater(t, left*3, rows)
		old := m.visible
		m.views[old] = maps.Clone(m.now)
		visible := m.visible
		done, err := m.table.Recluster(t.Context(), m.hooks(), lsm.Recluster{Columns: []int{2}, Buckets: 50, Publish: publish})
		require.NoError(t, err)
		require.Equal(t, visible, m.visible, "the Floor stays")
		require.EqualValues(t, len(m.now), done.Rows)
		m.check()
		left, rows = m.spares()
		require.Less(t, left*20, rows)
		require.EqualValues(t, len(m.now), rows)
		ds, err := table.Open(t.Context(), m.store, "db/t.lance")
		require.NoError(t, err)
		_, history := ds.FragmentReuseUUID()
		require.Equal(t, publish, history)
		require.Equal(t, !publish, done.Segments > 0)
		if publish {
			require.GreaterOrEqual(t, len(ds.Fragments()), 50) // a bucket is a fragment
		} else {
			require.Less(t, len(ds.Fragments()), 60) // of nine rows
		}
		_, covered, fragments := m.zoneEntries()
		for _, name := range zoneNames() {
			require.Equal(t, fragments, covered[name], name)
		}
		m.reopen(m.zones)
		clear(m.views)
		m.check()
		for range 3 {
			m.fill(5000, 20)
			m.compact()
			m.check()
		}
	}
}

// TestReclusterRefuses: what makes no sense, and columns that are not there.
func TestReclusterRefuses(t *testing.T) {
	m := ordered(t, 0)
	for _, o := range []lsm.Recluster{{Buckets: 3}, {Columns: []int{1}}, {Columns: []int{1}, Buckets: lsm.BucketsMax + 1}} {
		_, err := m.table.Recluster(t.Context(), m.hooks(), o)
		require.ErrorContains(t, err, "recluster by")
	}
	m.check()
}
