package zonemap_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/zonemap"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/testkit/indextable"
	"lancesql/lance/table"
)

// appendRows appends a fragment of random rows and leaves seeds for every indexed column; it returns the statistics.
func appendRows(t testing.TB, tb *indextable.Table, d *table.Dataset, n int, o zonemap.Options) (*table.Dataset, []*zonemap.Stats) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(9, 9))
	s, err := d.Schema().Arrow()
	require.NoError(t, err)
	rows := make([]arrowx.Row, n)
	for i := range rows {
		rows[i] = arrowx.Row{int64(1000 + i)}
		for _, c := range tb.Columns {
			var v any
			if len(c.Pool) > 0 && rng.IntN(4) > 0 {
				v = c.Pool[rng.IntN(len(c.Pool))]
				if i >= 64 { // one value, for text a long one
					v = c.Pool[5%len(c.Pool)]
				}
			}
			rows[i] = append(rows[i], v)
		}
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rows)
	require.NoError(t, err)
	defer rec.Release()
	w, err := d.NewFragmentWriter(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	var all []*zonemap.Stats
	for i, c := range tb.Columns {
		b, err := zonemap.NewBuilder(c.Type, o)
		require.NoError(t, err)
		require.NoError(t, b.Append(rec.Column(i+1), 0))
		stats := b.Finish()
		require.NoError(t, zonemap.AppendSeed(w, c.Name, stats))
		all = append(all, stats)
	}
	f, err := w.Finish(ctx)
	require.NoError(t, err)
	d, err = d.Commit(ctx, table.Append{Fragments: []*table.Fragment{f}})
	require.NoError(t, err)
	return d, all
}

func harvest(t testing.TB, tb *indextable.Table, d *table.Dataset, f *table.Fragment, c indextable.Column, rowsPerZone uint64) (*zonemap.Stats, bool) {
	r, err := d.FieldFile(context.Background(), f, tb.Field(c.Name))
	require.NoError(t, err)
	s, ok, err := zonemap.HarvestSeed(context.Background(), r, "data file", c.Name, tb.Field(c.Name), c.Type, rowsPerZone)
	require.NoError(t, err)
	return s, ok
}

// Seeds come back as the statistics they were made of.
func TestSeedRoundTrip(t *testing.T) {
	tb := indextable.New(t, 5)
	d, all := appendRows(t, tb, tb.D, 100, zonemap.Options{RowsPerZone: 16})
	f := d.NewFragments()[0]
	for i, c := range tb.Columns {
		got, ok := harvest(t, tb, d, f, c, 16)
		require.True(t, ok, c.Name)
		sameSegments(t, c.Type, []zonemap.Part{{Fragment: 3, Stats: all[i]}}, []zonemap.Part{{Fragment: 3, Stats: got}})
		_, ok = harvest(t, tb, d, f, c, 17)
		require.False(t, ok, "zones of another size")
		_, ok = harvest(t, tb, d, d.Fragments()[0], c, 16)
		require.False(t, ok, "a fragment without seeds")
	}
	r, err := d.FieldFile(context.Background(), f, tb.Field("int64"))
	require.NoError(t, err)
	_, ok, err := zonemap.HarvestSeed(context.Background(), r, "", "int64", tb.Field("int8"), arrow.PrimitiveTypes.Int64, 16)
	require.NoError(t, err)
	require.False(t, ok, "another field")
}

func sameSegments(t *testing.T, typ arrow.DataType, a, b []zonemap.Part) {
	x, y := segment(t, typ, a, 0), segment(t, typ, b, 0)
	require.Equal(t, x.Zones(), y.Zones())
	for i := range x.Zones() {
		require.Equal(t, print(x.At(i)), print(y.At(i)))
	}
}

// Seeds that pylance left say what the rows say.
func TestHarvestsReference(t *testing.T) {
	tb := indextable.New(t, 6)
	var builds []indextable.Build
	for _, c := range tb.Columns {
		builds = append(builds, indextable.Build{Column: c.Name, Kind: "zonemap", Name: "z_" + c.Name, Params: map[string]any{"rows_per_zone": zoneRows, "use_seeds": true}})
	}
	require.Empty(t, tb.ReferenceBuild(t, builds))
	tb.ReferenceRun(t, "append", map[string]int{"rows": 100}, new(map[string]any))
	d := tb.Latest(t)
	tb.D = d
	f := d.Fragments()[len(d.Fragments())-1]
	for _, c := range tb.Columns {
		got, ok := harvest(t, tb, d, f, c, zoneRows)
		require.True(t, ok, c.Name)
		parts := stats(t, tb, c, zoneRows)
		last := parts[len(parts)-1]
		require.EqualValues(t, f.ID, last.Fragment)
		sameSegments(t, c.Type, []zonemap.Part{last}, []zonemap.Part{{Fragment: last.Fragment, Stats: got}})
	}
}

// pylance takes over seeds that we left: bounds that we shortened end up in the index it writes.
func TestReferenceHarvests(t *testing.T) {
	tb := indextable.New(t, 7)
	var builds []indextable.Build
	for _, c := range tb.Columns {
		builds = append(builds, indextable.Build{Column: c.Name, Kind: "zonemap", Name: "z_" + c.Name, Params: map[string]any{"rows_per_zone": zoneRows, "use_seeds": true}})
	}
	require.Empty(t, tb.ReferenceBuild(t, builds))
	d, all := appendRows(t, tb, tb.Latest(t), 100, zonemap.Options{RowsPerZone: zoneRows, BoundBytesMax: 9})
	id := uint32(d.NewFragments()[0].ID)
	tb.ReferenceRun(t, "optimize", map[string]int{}, new(map[string]any))
	d = tb.Latest(t)
	shortened := 0
	for i, c := range tb.Columns {
		var theirs *zonemap.Stats
		for _, e := range tb.Entries(t, d, "z_"+c.Name) {
			if s, ok := openEntry(t, tb, e, c).Stats(id); ok {
				theirs = s
			}
		}
		require.NotNil(t, theirs, "%s: optimize left the fragment out", c.Name)
		ours := []zonemap.Part{{Fragment: id, Stats: all[i]}}
		sameSegments(t, c.Type, ours, []zonemap.Part{{Fragment: id, Stats: theirs}})
		s := segment(t, c.Type, ours, 0)
		for z := range s.Zones() {
			if s.At(z).Max == "långlåo" {
				shortened++
			}
		}
	}
	require.Positive(t, shortened, "no bound that only a seed has")
	filters := []indextable.Filter{}
	for i := range tb.Columns {
		filters = append(filters, indextable.Sample(indextable.Filters(i), 12, i)...)
	}
	for k, a := range tb.ReferenceQuery(t, filters) {
		require.Equal(t, a.Scanned, a.Indexed, filters[k].SQL)
	}
}

// What cannot stand for a scan is passed over; what is damaged is an error.
func TestSeedForms(t *testing.T) {
	b, err := zonemap.NewBuilder(arrow.PrimitiveTypes.Float64, zonemap.Options{RowsPerZone: 4})
	require.NoError(t, err)
	a := arrayOf(t, memory.DefaultAllocator, arrow.PrimitiveTypes.Float64, []any{1.0, nil, math.NaN(), 2.0, nil, -3.0})
	require.NoError(t, b.Append(a, 0))
	seed, err := b.Finish().EncodeSeed()
	require.NoError(t, err)
	s, ok, err := zonemap.DecodeSeed("x", seed, arrow.PrimitiveTypes.Float64, 4)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 2, s.Zones())
	_, ok, err = zonemap.DecodeSeed("x", seed, arrow.PrimitiveTypes.Float32, 4)
	require.NoError(t, err)
	require.False(t, ok, "another type")
	_, _, err = zonemap.DecodeSeed("x", seed, arrow.PrimitiveTypes.Float64, 3)
	require.ErrorIs(t, err, errs.ErrCorruption)
	for n := 0; n < len(seed); n += 3 {
		_, ok, err := zonemap.DecodeSeed("x", seed[:n], arrow.PrimitiveTypes.Float64, 4)
		require.False(t, ok)
		require.ErrorIs(t, err, errs.ErrCorruption, "cut at %d", n)
	}
	_, ok, err = zonemap.DecodeSeed("x", compress(t, seed), arrow.PrimitiveTypes.Float64, 4)
	require.NoError(t, err)
	require.False(t, ok, "compressed")
	// Statistics that are not of a whole file cannot be a seed.
	require.NoError(t, b.AppendAt(a, []uint32{0, 1, 2, 5, 6, 7}))
	_, err = b.Finish().EncodeSeed()
	require.ErrorIs(t, err, errs.ErrInvalid)
	// Neither can those that do not know where NULLs are.
	b, err = zonemap.NewBuilder(arrow.PrimitiveTypes.Float64, zonemap.Options{NoNullBitmap: true})
	require.NoError(t, err)
	_, err = b.Finish().EncodeSeed()
	require.ErrorIs(t, err, errs.ErrInvalid)
}

// A seed hides maxima, hence cannot become version 1; without NaN it can.
func TestSeedsAndVersionOne(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		cells []any
		ok    bool
	}{{[]any{1.0, math.NaN()}, false}, {[]any{1.0, nil}, true}} {
		b, err := zonemap.NewBuilder(arrow.PrimitiveTypes.Float64, zonemap.Options{})
		require.NoError(t, err)
		require.NoError(t, b.Append(arrayOf(t, memory.DefaultAllocator, arrow.PrimitiveTypes.Float64, c.cells), 0))
		seed, err := b.Finish().EncodeSeed()
		require.NoError(t, err)
		s, ok, err := zonemap.DecodeSeed("x", seed, arrow.PrimitiveTypes.Float64, zonemap.RowsPerZoneDefault)
		require.NoError(t, err)
		require.True(t, ok)
		_, err = zonemap.Write(ctx, memDir(), []zonemap.Part{{Stats: s}}, zonemap.WriteOptions{Version: 1})
		require.Equal(t, c.ok, err == nil, "%v", err)
		_, err = zonemap.Write(ctx, memDir(), []zonemap.Part{{Stats: s}}, zonemap.WriteOptions{})
		require.NoError(t, err)
	}
}

// compress writes the batch of an Arrow file again, with compressed buffers.
func compress(t testing.TB, b []byte) []byte {
	rd, err := ipc.NewFileReader(bytes.NewReader(b))
	require.NoError(t, err)
	rec, err := rd.RecordBatchAt(0)
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(rd.Schema()), ipc.WithZstd())
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())
	return out.Bytes()
}

func FuzzSeed(f *testing.F) {
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String} {
		b, err := zonemap.NewBuilder(typ, zonemap.Options{RowsPerZone: 2})
		require.NoError(f, err)
		cells := []any{"a", nil, "b"}
		if typ.ID() == arrow.FLOAT64 {
			cells = []any{1.0, math.NaN(), nil}
		}
		require.NoError(f, b.Append(arrayOf(f, memory.DefaultAllocator, typ, cells), 0))
		seed, err := b.Finish().EncodeSeed()
		require.NoError(f, err)
		f.Add(seed, typ.ID() == arrow.FLOAT64)
	}
	f.Fuzz(func(t *testing.T, data []byte, number bool) {
		var typ arrow.DataType = arrow.BinaryTypes.String
		if number {
			typ = arrow.PrimitiveTypes.Float64
		}
		s, ok, err := zonemap.DecodeSeed("fuzz", data, typ, 2)
		if err != nil {
			require.ErrorIs(t, err, errs.ErrCorruption)
			return
		}
		if ok {
			_, err := s.EncodeSeed()
			if err != nil {
				require.ErrorIs(t, err, errs.ErrInvalid)
			}
		}
	})
}
