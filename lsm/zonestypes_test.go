package lsm_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// plainTable is a table of any schema whose key is its first column, written without a journal.
type plainTable struct {
	t     testing.TB
	table *lsm.Table
	enc   *rowkey.Encoder
	seq   uint64
}

func newPlainTable(t testing.TB, st objstore.Store, s *arrow.Schema, z lsm.ZoneMapOptions, batch int) *plainTable {
	t.Helper()
	keys, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keys.Close()) })
	o := lsm.Options{Store: st, Keys: keys, ZoneMaps: z, BatchRows: batch, RowsPerFragment: 1 << 20}
	require.NoError(t, lsm.Create(t.Context(), o, "t.lance", s, nil))
	p := &plainTable{t: t}
	p.table, err = lsm.Open(t.Context(), o, "t.lance")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.table.Close(t.Context())) })
	p.enc, err = lsm.KeyEncoder(s, []int{0})
	require.NoError(t, err)
	return p
}

func (p *plainTable) write(rows []arrowx.Row) {
	ops := make([]lsm.Op, len(rows))
	for i, r := range rows {
		k, err := p.enc.Row(r, []int{0})
		require.NoError(p.t, err)
		ops[i] = lsm.Op{Key: k, Row: r}
	}
	st, err := p.table.Stage(p.t.Context(), ops)
	require.NoError(p.t, err)
	defer st.Release()
	_, err = st.Parts()
	require.NoError(p.t, err)
	p.table.Logged(st, p.seq+1)
	require.NoError(p.t, p.table.Apply(st, p.seq+1))
	p.seq++
}

func (p *plainTable) flush() {
	require.NoError(p.t, p.table.Freeze())
	require.NoError(p.t, p.table.Flush(p.t.Context()))
}

func (p *plainTable) merge() {
	low := func() uint64 { return p.seq }
	require.NoError(p.t, p.table.Merge(p.t.Context(), lsm.Hooks{LowWater: low, Advance: func() uint64 { p.seq++; return p.seq }}))
}

// rows reads columns with a filter and says what zone maps spared.
func (p *plainTable) rows(columns []int, e predicate.Expr) ([]arrowx.Row, lsm.Pruning) {
	snap, err := p.table.Snapshot(p.seq)
	require.NoError(p.t, err)
	defer snap.Release()
	r, err := snap.Scan(p.t.Context(), lsm.ScanSpec{Columns: columns, Filter: e}, nil)
	require.NoError(p.t, err)
	defer r.Close()
	planned, err := snap.Pruning(p.t.Context(), e)
	require.NoError(p.t, err)
	var out []arrowx.Row
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			require.Equal(p.t, planned, r.(lsm.Pruned).Pruning())
			return out, planned
		}
		require.NoError(p.t, err)
		for i := range int(rec.NumRows()) {
			out = append(out, arrowx.RowOf(rec, i))
		}
		rec.Release()
	}
}

func keyedFields(rest ...arrow.Field) *arrow.Schema {
	key := arrow.NewMetadata(
		[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"}, []string{"true", "1"})
	return arrow.NewSchema(append([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key}}, rest...), nil)
}

// typedCells are generators of cells near n, with what indexes get wrong among them.
func typedCells() ([]arrow.Field, []func(rng *rand.Rand, n int) any) {
	odd := func(rng *rand.Rand) bool { return rng.IntN(12) == 0 }
	var fields []arrow.Field
	var cells []func(rng *rand.Rand, n int) any
	add := func(t arrow.DataType, cell func(rng *rand.Rand, n int) any) {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", len(fields)), Type: t, Nullable: true})
		cells = append(cells, cell)
	}
	floats := []float64{math.NaN(), math.Copysign(math.NaN(), -1), 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1)}
	add(arrow.PrimitiveTypes.Float64, func(rng *rand.Rand, n int) any {
		if odd(rng) {
			return floats[rng.IntN(len(floats))]
		}
		return float64(n-20) / 4
	})
	add(arrow.PrimitiveTypes.Float32, func(rng *rand.Rand, n int) any {
		if odd(rng) {
			return float32(floats[rng.IntN(len(floats))])
		}
		return float32(n - 20)
	})
	add(&arrow.Decimal128Type{Precision: 20, Scale: 3}, func(_ *rand.Rand, n int) any { return decimal128.FromI64(int64(n-20) * 999) })
	add(arrow.BinaryTypes.String, func(rng *rand.Rand, n int) any {
		if odd(rng) {
			return []string{"", strings.Repeat("\u00ff", 900), strings.Repeat("\U0010ffff", 300) + "x"}[rng.IntN(3)]
		}
		return fmt.Sprintf("%03d", n)
	})
	add(arrow.BinaryTypes.Binary, func(rng *rand.Rand, n int) any {
		if odd(rng) {
			return []byte(strings.Repeat("\xff", 1000+rng.IntN(100)))
		}
		return []byte{byte(n), 0, byte(n)}
	})
	add(arrow.PrimitiveTypes.Uint64, func(_ *rand.Rand, n int) any { return uint64(n)<<58 | uint64(n) })
	add(arrow.PrimitiveTypes.Date32, func(_ *rand.Rand, n int) any { return arrow.Date32(n - 20) })
	add(&arrow.TimestampType{Unit: arrow.Microsecond}, func(_ *rand.Rand, n int) any { return arrow.Timestamp(int64(n-20) << 40) })
	add(arrow.FixedWidthTypes.Boolean, func(_ *rand.Rand, n int) any { return n%32 < 16 })
	add(&arrow.FixedSizeBinaryType{ByteWidth: 4}, func(_ *rand.Rand, n int) any { return []byte{byte(n), 1, 2, 3} }) // has no zone map
	for i, cell := range cells {
		cells[i] = func(rng *rand.Rand, n int) any {
			if rng.IntN(7) == 0 || n/8%5 == 1 { // a run of NULLs as well
				return nil
			}
			return cell(rng, n)
		}
	}
	return fields, cells
}

// Full scans that use zone maps give what evaluation row by row gives, for every type and random filters.
func TestPrunedScansEqualEvaluation(t *testing.T) {
	fields, cells := typedCells()
	rng := rand.New(rand.NewPCG(5, 6))
	p := newPlainTable(t, objstore.NewMem(), keyedFields(fields...), lsm.ZoneMapOptions{RowsPerZone: 5, EveryRows: -1}, 7)
	columns := make([]int, len(fields)+1)
	for i := range columns {
		columns[i] = i
	}
	row := func(id int) arrowx.Row {
		r := arrowx.Row{int64(id)}
		for _, cell := range cells {
			r = append(r, cell(rng, id%60))
		}
		return r
	}
	value := func(c int) any {
		for {
			if v := cells[c](rng, rng.IntN(60)); v != nil {
				return v
			}
		}
	}
	var filter func(depth int) predicate.Expr
	filter = func(depth int) predicate.Expr {
		if depth > 0 && rng.IntN(2) == 0 {
			terms := []predicate.Expr{filter(depth - 1), filter(depth - 1)}
			return []predicate.Expr{predicate.And{Terms: terms}, predicate.Or{Terms: terms}, predicate.Not{Term: predicate.Or{Terms: terms}}}[rng.IntN(3)]
		}
		c := rng.IntN(len(cells))
		switch rng.IntN(6) {
		case 0:
			return predicate.IsNull{Column: c + 1}
		case 1:
			return predicate.In{Column: c + 1, Values: []any{value(c), value(c)}}
		}
		return predicate.Compare{Column: c + 1, Op: predicate.Op(1 + rng.IntN(int(predicate.NullSafeEq))), Value: value(c)}
	}
	var spared sparedRows
	for round := range 6 {
		var rows []arrowx.Row
		for i := range 130 {
			if id := round*100 + i; rng.IntN(10) > 0 { // the last rows come again, replaced
				rows = append(rows, row(id))
			}
		}
		p.write(rows)
		p.flush()
		if round%3 != 1 {
			p.merge()
		}
		all, _ := p.rows(columns, nil)
		for range 150 {
			e := filter(2)
			var want, got []int64
			for _, r := range all {
				pass, err := predicate.EvalRow(e, r)
				require.NoError(t, err)
				if pass {
					want = append(want, r[0].(int64))
				}
			}
			found, pruning := p.rows([]int{0}, e)
			for _, r := range found {
				got = append(got, r[0].(int64))
			}
			spared.add(sparedRows{pruning})
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got, "%#v", e)
		}
	}
	t.Logf("%+v", spared)
	require.Greater(t, spared.RowsPruned, spared.Rows/5)
	require.Positive(t, spared.FragmentsPruned)
}
