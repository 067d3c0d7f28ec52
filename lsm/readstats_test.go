package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/internal/rowkey"
	"lancesql/lsm"
)

// countingStore counts what it serves.
type countingStore struct {
	objstore.Store
	reads, bytes atomic.Int64
}

func (c *countingStore) ReadAt(ctx context.Context, name string, p []byte, off int64) error {
	err := c.Store.ReadAt(ctx, name, p, off)
	if err == nil {
		c.reads.Add(1)
		c.bytes.Add(int64(len(p)))
	}
	return err
}

func (c *countingStore) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	b, err := c.Store.ReadAll(ctx, name, limit)
	if err == nil {
		c.reads.Add(1)
		c.bytes.Add(int64(len(b)))
	}
	return b, err
}

// countedTable is four merged fragments of 4,000 rows (id, n = id/10, v = text, big), and 50 rows in a MemTable.
func countedTable(t *testing.T) (*plainTable, *countingStore) {
	st := &countingStore{Store: objstore.NewMem()}
	keys, err := pkstore.Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keys.Close()) })
	s := keyedFields(
		arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32},
		arrow.Field{Name: "v", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "big", Type: arrow.BinaryTypes.String})
	o := lsm.Options{Store: st, Keys: keys, RowsPerFragment: 4000, ZoneMaps: lsm.ZoneMapOptions{RowsPerZone: 500, EveryRows: -1},
		Indexes: []lsm.IndexDef{{Name: "by_n", Column: 1}, {Name: "by_v", Column: 2}}}
	require.NoError(t, lsm.Create(t.Context(), o, "t.lance", s, nil))
	p := &plainTable{t: t}
	p.enc, err = lsm.KeyEncoder(s, []int{0})
	require.NoError(t, err)
	p.table, err = lsm.Open(t.Context(), o, "t.lance")
	require.NoError(t, err)
	row := func(id int) arrowx.Row {
		return arrowx.Row{int64(id), int32(id / 10), fmt.Sprint("v", id%7), fmt.Sprintf("%0200d", id*7919)}
	}
	for from := 0; from < 16000; from += 4000 {
		var rows []arrowx.Row
		for id := from; id < from+4000; id++ {
			rows = append(rows, row(id))
		}
		p.write(rows)
		p.flush()
		p.merge()
	}
	var rows []arrowx.Row
	for id := 20000; id < 20050; id++ {
		rows = append(rows, row(id))
	}
	p.write(rows)
	require.NoError(t, p.table.Close(t.Context()))
	o.Floor = p.seq
	p.table, err = lsm.Open(t.Context(), o, "t.lance")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.table.Close(t.Context())) })
	p.write(rows) // Why again: there is no journal, so the open lost them
	return p, st
}

func (p *plainTable) read(spec lsm.ScanSpec) int {
	snap, err := p.table.Snapshot(p.seq)
	require.NoError(p.t, err)
	defer snap.Release()
	r, err := snap.Scan(p.t.Context(), spec, nil)
	require.NoError(p.t, err)
	n := 0
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			require.NoError(p.t, r.Close())
			return n
		}
		require.NoError(p.t, err)
		n += int(rec.NumRows())
		rec.Release()
	}
}

// TestCountersAreWhatTheStoreServed: reads and bytes of every kind of scan, cold and warm, are those of the store beneath,
// and what zone maps and indexes leave is what must be read.
func TestCountersAreWhatTheStoreServed(t *testing.T) {
	p, st := countedTable(t)
	key := func(id int64) rowkey.Key {
		k, err := p.enc.Tuple(id)
		require.NoError(t, err)
		return k
	}
	tuple := func(typ arrow.DataType, v any) rowkey.Key {
		enc, err := rowkey.NewEncoder([]arrow.DataType{typ})
		require.NoError(t, err)
		k, err := enc.Tuple(v)
		require.NoError(t, err)
		return k
	}
	between := func(column int, lo, hi any) predicate.Expr {
		return predicate.And{Terms: []predicate.Expr{
			predicate.Compare{Column: column, Op: predicate.Ge, Value: lo}, predicate.Compare{Column: column, Op: predicate.Lt, Value: hi}}}
	}
	nRange := func(lo, hi int32) lsm.KeyRange {
		return lsm.KeyRange{Lo: tuple(arrow.PrimitiveTypes.Int32, lo), Hi: tuple(arrow.PrimitiveTypes.Int32, hi)}
	}
	all := []int{0, 1, 2, 3}
	v3 := lsm.KeyRange{Lo: tuple(arrow.BinaryTypes.String, "v3"), Hi: rowkey.After(tuple(arrow.BinaryTypes.String, "v3"))}
	full := int64(0)
	for _, c := range []struct {
		name  string
		spec  lsm.ScanSpec
		rows  int
		check func(s *lsm.ReadStats)
	}{
		{"everything", lsm.ScanSpec{Columns: all}, 16050, func(s *lsm.ReadStats) {
			require.Equal(t, []int{2, 2, 4, 4}, []int{s.Sources, s.SourcesKept, s.Fragments, s.FragmentsKept})
			full = s.Store.Bytes()
		}},
		{"a zone", lsm.ScanSpec{Columns: all, Filter: between(0, int64(5000), int64(5100))}, 100, func(s *lsm.ReadStats) {
			require.Equal(t, []int{1, 32, 1}, []int{s.FragmentsKept, s.Zones, s.ZonesKept})
			require.Less(t, s.Store.Bytes(), full/10)
			require.EqualValues(t, 500+50, s.RowsRead)
		}},
		{"nothing", lsm.ScanSpec{Columns: all, Filter: predicate.Compare{Column: 0, Op: predicate.Lt, Value: int64(0)}}, 0, func(s *lsm.ReadStats) {
			require.Zero(t, s.FragmentsKept+s.ZonesKept)
			require.Equal(t, 1, s.SourcesKept)
		}},
		{"no columns", lsm.ScanSpec{}, 16050, func(s *lsm.ReadStats) { require.Zero(t, s.Store.Bytes()) }},
		{"by key", lsm.ScanSpec{Columns: all, Keys: []rowkey.Key{key(7), key(15000), key(99999)}}, 2, func(s *lsm.ReadStats) {
			require.Equal(t, []int{2, 2}, []int{s.FragmentsKept, s.Segments})
			require.EqualValues(t, 2, s.RowsRead)
		}},
		{"by key, covered", lsm.ScanSpec{Columns: []int{0}, Range: &lsm.KeyRange{Lo: key(100), Hi: key(200)}}, 100, func(s *lsm.ReadStats) {
			require.EqualValues(t, 100, s.Covered)
			require.Zero(t, s.RowsRead)
		}},
		{"by index", lsm.ScanSpec{Columns: all, Index: &lsm.IndexRange{Index: 0, Range: nRange(3, 5)}}, 20, func(s *lsm.ReadStats) {
			require.Equal(t, []int{1, 2}, []int{s.FragmentsKept, s.Segments})
			require.EqualValues(t, 20, s.RowsRead)
		}},
		{"by two indexes", lsm.ScanSpec{Columns: all, Filter: predicate.And{Terms: []predicate.Expr{
			between(1, int32(3), int32(20)), predicate.Compare{Column: 2, Op: predicate.Eq, Value: "v3"}}},
			Within: []lsm.IndexRanges{{Index: 0, Ranges: []lsm.KeyRange{nRange(3, 20)}}, {Index: 1, Ranges: []lsm.KeyRange{v3}}}}, 25, func(s *lsm.ReadStats) {
			require.Equal(t, []int{1, 4}, []int{s.FragmentsKept, s.Segments})
			require.EqualValues(t, 25, s.RowsRead)
		}},
		{"filter first", lsm.ScanSpec{Columns: all, Filter: predicate.In{Column: 2, Values: []any{"v1x", "v3x"}}}, 0, func(s *lsm.ReadStats) {
			require.Less(t, s.Store.Bytes(), full/5)
		}},
	} {
		for _, when := range []string{"cold", "warm"} {
			s := &lsm.ReadStats{}
			c.spec.Stats = s
			reads, bytes := st.reads.Load(), st.bytes.Load()
			require.Equal(t, c.rows, p.read(c.spec), c.name)
			require.Equal(t, st.reads.Load()-reads, s.Store.Reads(), "%s, %s", c.name, when)
			require.Equal(t, st.bytes.Load()-bytes, s.Store.Bytes(), "%s, %s", c.name, when)
			require.EqualValues(t, c.rows, s.RowsReturned, c.name)
			t.Log(c.name, when, s, s.ReadString())
			c.check(s)
		}
	}
}
