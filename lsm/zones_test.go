package lsm_test

import (
	"maps"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// sparedRows adds up what zone maps spared scans.
type sparedRows struct{ lsm.Pruning }

func (s *sparedRows) add(o sparedRows) {
	s.Zones += o.Zones
	s.ZonesKept += o.ZonesKept
	s.Fragments += o.Fragments
	s.FragmentsPruned += o.FragmentsPruned
	s.Rows += o.Rows
	s.RowsPruned += o.RowsPruned
}

// countSpared counts a scan that was read to its end.
func (m *model) countSpared(r arrowx.BatchReader) {
	if p, ok := r.(lsm.Pruned); ok {
		m.spared.add(sparedRows{p.Pruning()})
	}
}

// checkFilters compares full scans with a random filter, with and without own writes, with the model.
func (m *model) checkFilters(snap *lsm.Snapshot, want map[int64]int32) {
	e := m.filter(2)
	rows := maps.Clone(want)
	maps.DeleteFunc(rows, func(id int64, n int32) bool {
		pass, err := predicate.EvalRow(e, arrowx.Row{cell(n), id, n})
		require.NoError(m.t, err)
		return !pass
	})
	spec := lsm.ScanSpec{Columns: []int{1, 2, 0}, Filter: e, Within: m.within(e)}
	require.Equal(m.t, rows, m.scan(snap, spec, nil), "filter %#v", e)
	hidden := m.rng.Int64N(40)
	delete(rows, hidden)
	own := &lsm.Overlay{Keys: []rowkey.Key{m.key(hidden)}, Rows: []arrowx.Row{nil}}
	require.Equal(m.t, rows, m.scan(snap, spec, own), "filter %#v without %d", e, hidden)
}

// within is what a filter says about the indexed columns.
func (m *model) within(e predicate.Expr) []lsm.IndexRanges {
	var out []lsm.IndexRanges
	for i, d := range append(m.openWith(nil).Indexes, lsm.IndexDef{Column: 1}) {
		if i == len(m.openWith(nil).Indexes) {
			i = lsm.PrimaryKey
		}
		enc, err := rowkey.NewEncoder([]arrow.DataType{tableSchema().Field(d.Column).Type})
		require.NoError(m.t, err)
		cells, _ := predicate.Bounds(e, d.Column)
		if cells.Null || m.noIndexes || m.rng.IntN(2) == 0 {
			continue
		}
		ranges, err := lsm.RangesOf(cells, func(cell any) (rowkey.Key, error) {
			if id, ok := cell.(int64); ok && i == lsm.PrimaryKey {
				return m.key(id), nil
			}
			return enc.Tuple(cell)
		})
		require.NoError(m.t, err)
		out = append(out, lsm.IndexRanges{Index: i, Ranges: ranges})
	}
	return out
}

// filter is a random filter over the columns of tableSchema.
func (m *model) filter(depth int) predicate.Expr {
	if depth > 0 && m.rng.IntN(2) == 0 {
		a, b := m.filter(depth-1), m.filter(depth-1)
		switch m.rng.IntN(3) {
		case 0:
			return predicate.And{Terms: []predicate.Expr{a, b}}
		case 1:
			return predicate.Or{Terms: []predicate.Expr{a, b}}
		default:
			return predicate.Not{Term: predicate.And{Terms: []predicate.Expr{a, b}}}
		}
	}
	op := predicate.Op(1 + m.rng.IntN(int(predicate.NullSafeEq)))
	n := m.rng.Int32N(1000)
	switch m.rng.IntN(6) {
	case 0:
		return predicate.IsNull{Column: 0}
	case 1:
		return predicate.In{Column: 2, Values: []any{n, n + 1, n + 200}}
	case 2:
		return predicate.Compare{Column: 0, Op: op, Value: cell(n | 1)}
	case 3:
		return predicate.Compare{Column: 1, Op: op, Value: m.rng.Int64N(40)}
	default:
		return predicate.Compare{Column: 2, Op: op, Value: n}
	}
}
