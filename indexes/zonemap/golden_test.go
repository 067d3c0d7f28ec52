package zonemap_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/store"
	"lancesql/indexes/zonemap"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files of version 1 anew")

// goldenCells are the columns of the table that testdata/oracle/indexes.py golden indexes.
func goldenCells(name string) (arrow.DataType, []any) {
	out := make([]any, 100)
	for i := range out {
		switch {
		case name == "d":
			out[i] = decimal128.FromI64(100 * int64(i*i-50))
		case name == "s" && i%7 != 3 && (i < 60 || i >= 80):
			out[i] = fmt.Sprintf("v%02d", i/3)
		case name == "f" && i%9 != 5:
			bits := math.Float64bits(float64(i))
			switch {
			case i < 10:
				bits = 0xfff8000000000001
			case i < 20:
				bits = 0x7ff8000000000000
			case i == 40:
				bits = 1 << 63
			}
			out[i] = math.Float64frombits(bits)
		}
	}
	types := map[string]arrow.DataType{"d": &arrow.Decimal128Type{Precision: 12, Scale: 2}, "s": arrow.BinaryTypes.String, "f": arrow.PrimitiveTypes.Float64}
	return types[name], out
}

func goldenLive(i int) bool {
	return !(i >= 3 && i < 7 || i == 9 || i >= 20 && i < 31 || i == 49 || i == 50)
}

// goldenParts are our statistics of a golden column.
func goldenParts(t testing.TB, name string) []zonemap.Part {
	typ, cells := goldenCells(name)
	b, err := zonemap.NewBuilder(typ, zonemap.Options{RowsPerZone: 10})
	require.NoError(t, err)
	var parts []zonemap.Part
	for f := range 2 {
		var live []any
		var offsets []uint32
		for i := range 50 {
			if goldenLive(50*f + i) {
				live, offsets = append(live, cells[50*f+i]), append(offsets, uint32(i))
			}
		}
		a := arrayOf(t, memory.DefaultAllocator, typ, live)
		require.NoError(t, b.AppendAt(a, offsets))
		a.Release()
		parts = append(parts, zonemap.Part{Fragment: uint32(f), Stats: b.Finish()})
	}
	return parts
}

func goldenPath(t testing.TB, name string) string {
	return filepath.Join(oracle.Root(t), "testdata", "golden", "indexes", name)
}

// openGolden opens a golden file.
func openGolden(t testing.TB, file string, typ arrow.DataType, version int32) *zonemap.Segment {
	b, err := os.ReadFile(goldenPath(t, file))
	require.NoError(t, err)
	return openBytes(t, b, typ, version)
}

func openBytes(t testing.TB, b []byte, typ arrow.DataType, version int32) *zonemap.Segment {
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(context.Background(), zonemap.FileName, b))
	s, err := zonemap.Open(context.Background(), store.NewDir(st, "", nil), zonemap.Spec{Version: version, Fragments: roaring.BitmapOf(0, 1), Type: typ})
	require.NoError(t, err)
	return s
}

// Files that Lance 14.0.2 wrote hold the statistics that we gather.
func TestGoldenVersion0(t *testing.T) {
	for _, name := range []string{"f", "s", "d"} {
		parts := goldenParts(t, name)
		s := openGolden(t, "zonemap_"+name+".lance", parts[0].Stats.Type(), 0)
		require.True(t, s.HasNullBitmap())
		require.EqualValues(t, 10, s.RowsPerZone())
		sameStatistics(t, s, parts)
	}
	s := openGolden(t, "zonemap_f.lance", arrow.PrimitiveTypes.Float64, 0)
	require.Equal(t, 9, s.Zones())
	// Only NaNs and NULLs among the live rows 0-2, 7, 8 and 10-14: no bounds, but deleted rows make them unknown.
	require.Equal(t, "{Fragment:0 Start:0 Length:15 Nulls:1 NaNs:9 Min:<nil> Max:<nil> Unknown:true MaxKnown:false}", print(s.At(0)))
	// NaNs hide the maximum 39: it may be anything.
	require.Equal(t, "{Fragment:0 Start:15 Length:21 Nulls:1 NaNs:5 Min:31 Max:+Inf Unknown:false MaxKnown:false}", print(s.At(1)))
	require.Equal(t, "{Fragment:0 Start:36 Length:10 Nulls:1 NaNs:0 Min:-0 Max:45 Unknown:false MaxKnown:true}", print(s.At(2)))
	require.Equal(t, "{Fragment:1 Start:1 Length:10 Nulls:1 NaNs:0 Min:51 Max:60 Unknown:false MaxKnown:true}", print(s.At(4)))
}

// Files of version 1 are byte for byte those that were checked in, and say what version 0 hides.
func TestGoldenVersion1(t *testing.T) {
	for _, name := range []string{"f", "s"} {
		ctx := context.Background()
		st := objstore.NewMem()
		w, err := zonemap.Write(ctx, store.NewDir(st, "", nil), goldenParts(t, name), zonemap.WriteOptions{Version: 1})
		require.NoError(t, err)
		require.EqualValues(t, 1, w.Version)
		b, err := st.ReadAll(ctx, zonemap.FileName, 1<<20)
		require.NoError(t, err)
		file := "zonemap_v1_" + name + ".lance"
		if *rewrite {
			require.NoError(t, os.WriteFile(goldenPath(t, file), b, 0o600))
		}
		golden, err := os.ReadFile(goldenPath(t, file))
		require.NoError(t, err)
		require.True(t, bytes.Equal(golden, b), "%s: the bytes changed; -rewrite if that is meant", file)
	}
	s := openGolden(t, "zonemap_v1_f.lance", arrow.PrimitiveTypes.Float64, 1)
	require.Equal(t, "{Fragment:0 Start:15 Length:21 Nulls:1 NaNs:5 Min:31 Max:35 Unknown:false MaxKnown:true}", print(s.At(1)))
	// Negative NaNs count as below everything for readers that order totally: rows 0-8 are kept for x < 0.
	for _, c := range []struct {
		q    indexes.Query
		want []uint64 // starts of the zones of fragment 0 that are kept
	}{
		{indexes.Range{High: indexes.Bound{Value: 0.0, Exclusive: true}}, []uint64{0}},
		{indexes.Range{Low: indexes.Bound{Value: 100.0}}, []uint64{0, 15}},
		{indexes.Equals(math.NaN()), []uint64{0, 15}},
		{indexes.Equals(-5.0), []uint64{0}},
		{indexes.Equals(35.5), []uint64{0, 36}},
		{indexes.Equals(0.0), []uint64{0, 36}},
	} {
		res, err := s.Search(context.Background(), c.q)
		require.NoError(t, err)
		var kept []uint64
		for i := range s.Zones() {
			if z := s.At(i); z.Fragment == 0 {
				offsets, _ := res.Addrs.Offsets(0)
				if offsets != nil && offsets.Contains(uint32(z.Start)) {
					kept = append(kept, z.Start)
				}
			}
		}
		require.Equal(t, c.want, kept, "%+v", c.q)
	}
}

// Positive NaNs lie above everything: a closed upper bound of NaN has them, an open one does not.
func TestUpToNaN(t *testing.T) {
	b, err := zonemap.NewBuilder(arrow.PrimitiveTypes.Float32, zonemap.Options{RowsPerZone: 1})
	require.NoError(t, err)
	nan := float32(math.NaN())
	require.NoError(t, b.Append(arrayOf(t, memory.DefaultAllocator, arrow.PrimitiveTypes.Float32, []any{float32(1), nan}), 0))
	s := segment(t, arrow.PrimitiveTypes.Float32, []zonemap.Part{{Stats: b.Finish()}}, 1)
	for open, want := range map[bool]uint64{false: 2, true: 1} {
		res, err := s.Search(context.Background(), indexes.Range{High: indexes.Bound{Value: nan, Exclusive: open}})
		require.NoError(t, err)
		n, _ := res.Addrs.Count()
		require.Equal(t, want, n, "open %v", open)
	}
}

// A file of one version must not be read as the other: version 0 where 1 is said lacks a column.
func TestVersionsAreToldApart(t *testing.T) {
	ctx := context.Background()
	b, err := os.ReadFile(goldenPath(t, "zonemap_f.lance"))
	require.NoError(t, err)
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(ctx, zonemap.FileName, b))
	_, err = zonemap.Open(ctx, store.NewDir(st, "", nil), zonemap.Spec{Version: 1, Fragments: roaring.BitmapOf(0), Type: arrow.PrimitiveTypes.Float64})
	require.Error(t, err)
	_, err = zonemap.Open(ctx, store.NewDir(st, "", nil), zonemap.Spec{Version: 2, Fragments: roaring.BitmapOf(0), Type: arrow.PrimitiveTypes.Float64})
	require.Error(t, err)
	// The other way round an extra column is passed over, and maxima that are no NaN count as bounds.
	v1 := openGolden(t, "zonemap_v1_f.lance", arrow.PrimitiveTypes.Float64, 0)
	require.Equal(t, 9, v1.Zones())
}

// Damage is an error or other statistics, never a panic or endless memory.
func TestDamagedFiles(t *testing.T) {
	for _, file := range []string{"zonemap_f.lance", "zonemap_s.lance", "zonemap_v1_f.lance"} {
		b, err := os.ReadFile(goldenPath(t, file))
		require.NoError(t, err)
		for i := 0; i < len(b); i += damageStep() {
			c := slices.Clone(b)
			c[i] ^= 1 << (i % 8)
			openAny(c)
			if i%5 == 0 {
				openAny(b[:i])
			}
		}
	}
}

// openAny opens bytes as every kind of segment and asks a question.
func openAny(b []byte) {
	ctx := context.Background()
	st := objstore.NewMem()
	_ = st.PutIfAbsent(ctx, zonemap.FileName, b)
	for version := range int32(2) {
		for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String, &arrow.Decimal128Type{Precision: 12, Scale: 2}} {
			s, err := zonemap.Open(ctx, store.NewDir(st, "", nil), zonemap.Spec{Version: version, Fragments: roaring.BitmapOf(0, 1), Type: typ})
			if err != nil {
				continue
			}
			_, _ = s.Search(ctx, indexes.NotNull{})
			_, _ = s.Search(ctx, indexes.IsNull{})
			for i := range s.Zones() {
				_ = s.At(i)
			}
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, file := range []string{"zonemap_f.lance", "zonemap_s.lance", "zonemap_d.lance", "zonemap_v1_f.lance"} {
		b, err := os.ReadFile(goldenPath(f, file))
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) { openAny(b) })
}

func FuzzDetails(f *testing.F) {
	f.Add([]byte{0x08, 0x80, 0x40, 0x10, 0x01, 0x18, 0x01}) // as Lance 14.0.2 writes it
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := zonemap.DecodeDetails("fuzz", b)
		if err != nil {
			return
		}
		again, err := zonemap.DecodeDetails("fuzz", d.Encode())
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}

func TestDetails(t *testing.T) {
	rows, on := uint64(8192), true
	d := zonemap.Details{RowsPerZone: &rows, UseSeeds: &on, HasNullBitmap: true}
	require.Equal(t, []byte{0x08, 0x80, 0x40, 0x10, 0x01, 0x18, 0x01}, d.Encode())
	n, ok := d.Seeds()
	require.True(t, ok)
	require.EqualValues(t, 8192, n)
	for _, b := range [][]byte{nil, {0x08, 0x80, 0x40}, {0x08, 0x80, 0x40, 0x10, 0x00}} {
		d, err := zonemap.DecodeDetails("x", b)
		require.NoError(t, err)
		_, ok := d.Seeds()
		require.False(t, ok)
		require.False(t, d.HasNullBitmap)
	}
	d, err := zonemap.DecodeDetails("x", []byte{0x22, 0x01, 0x00, 0x18, 0x01}) // a field of a newer version
	require.NoError(t, err)
	require.True(t, d.HasNullBitmap)
	_, err = zonemap.DecodeDetails("x", []byte{0x08})
	require.Error(t, err)
	require.True(t, zonemap.SeedsByDefault(arrow.BinaryTypes.String) && zonemap.SeedsByDefault(&arrow.Decimal128Type{Precision: 12}) &&
		!zonemap.SeedsByDefault(arrow.PrimitiveTypes.Float64) && !zonemap.SeedsByDefault(arrow.FixedWidthTypes.Boolean))
}

// damageStep is the distance of the bytes that are damaged.
func damageStep() int {
	if os.Getenv("LANCESQL_SOAK") != "" {
		return 1
	}
	return 3
}
