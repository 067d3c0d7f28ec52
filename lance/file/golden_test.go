package file_test

import (
	"flag"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew with pylance")

// goldenCase is a set of columns that pylance wrote; VERSION-NAME[-HINT].lance beside NAME.arrow, the truth.
type goldenCase struct {
	name  string
	rows  int
	cols  []column
	hints []string
}

func goldenCases() []goldenCase {
	i32, i64, f64, str := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String
	return []goldenCase{
		{name: "ints", rows: 1100, cols: []column{{i32, "some", "small"}, {i64, "none", "sequential"}, {i64, "half", "runs"},
			{i64, "some", "lowcard"}, {arrow.PrimitiveTypes.Uint8, "none", "random"}, {i32, "none", "constant"},
			{i32, "some", "constant"}, {i32, "all", "random"}, {arrow.FixedWidthTypes.Boolean, "some", "random"}}},
		{name: "strings", rows: 800, cols: []column{{str, "some", "runs"}, {str, "none", "lowcard"}, {str, "some", "small"},
			{arrow.BinaryTypes.LargeBinary, "some", "small"}, {str, "none", "constant"}}},
		{name: "wide", rows: 14, cols: []column{{str, "some", "long"}, {&arrow.FixedSizeBinaryType{ByteWidth: 300}, "some", "random"},
			{arrow.FixedSizeListOf(100, arrow.PrimitiveTypes.Float32), "some", "small"}}},
		{name: "mixed", rows: 5, cols: []column{{arrow.FixedWidthTypes.Timestamp_us, "some", "random"}, {&arrow.Decimal128Type{Precision: 20, Scale: 3}, "some", "random"},
			{arrow.FixedWidthTypes.Date32, "none", "small"}, {arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Boolean), "some", "random"}, {str, "some", "small"}}},
		{name: "bss", rows: 1100, cols: []column{{f64, "some", "small"}, {arrow.PrimitiveTypes.Float32, "none", "sequential"}},
			hints: []string{"lance-encoding:compression=lz4", "lance-encoding:bss=on"}},
		{name: "zstd", rows: 400, cols: []column{{str, "some", "runs"}, {i64, "none", "random"}},
			hints: []string{"lance-encoding:compression=zstd"}},
	}
}

func goldenVersions() []string { return []string{"2.0", "2.1", "2.2"} }

// TestGolden reads files that pylance wrote, without pylance.
func TestGolden(t *testing.T) {
	dir := filepath.Join(oracle.Root(t), "testdata", "golden", "file")
	if *rewrite {
		rewriteGolden(t, dir)
	}
	for _, g := range goldenCases() {
		sc, cols := readIPC(t, filepath.Join(dir, g.name+".arrow"))
		for _, v := range goldenVersions() {
			if v == "2.0" && (g.hints != nil || g.name == "strings" || g.name == "wide") {
				continue // version 2.0 has no such encodings
			}
			t.Run(v+"-"+g.name, func(t *testing.T) {
				data, err := os.ReadFile(filepath.Join(dir, v+"-"+g.name+".lance"))
				require.NoError(t, err)
				checkFile(t, data, sc, cols, rand.New(rand.NewSource(1)))
			})
		}
	}
}

func readIPC(t *testing.T, path string) (*arrow.Schema, []arrow.Array) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	require.NoError(t, err)
	defer r.Close()
	rec, err := r.RecordBatchAt(0)
	require.NoError(t, err)
	return r.Schema(), rec.Columns()
}

func rewriteGolden(t *testing.T, dir string) {
	t.Helper()
	for _, g := range goldenCases() {
		rng := rand.New(rand.NewSource(int64(g.rows)))
		var fields []arrow.Field
		var cols []arrow.Array
		for _, c := range g.cols {
			fields = append(fields, arrow.Field{Name: c.name(), Type: c.typ, Nullable: c.nulls != "none"})
			cols = append(cols, generate(c, g.rows, rng))
		}
		sc := arrow.NewSchema(fields, nil)
		f, err := os.Create(filepath.Join(dir, g.name+".arrow"))
		require.NoError(t, err)
		w, err := ipc.NewFileWriter(f, ipc.WithSchema(sc), ipc.WithZstd())
		require.NoError(t, err)
		require.NoError(t, w.Write(array.NewRecordBatch(sc, cols, int64(g.rows))))
		require.NoError(t, w.Close())
		require.NoError(t, f.Close())
		for _, v := range goldenVersions() {
			if v == "2.0" && (g.hints != nil || g.name == "strings" || g.name == "wide") {
				continue
			}
			tmp := t.TempDir()
			writeIPC(t, filepath.Join(tmp, g.name+".arrow"), oracleCase{sc: sc, cols: cols})
			answer := runOracle(t, append([]string{"write", tmp, v}, g.hints...)...)
			require.Equal(t, "ok", answer[g.name])
			data, err := os.ReadFile(filepath.Join(tmp, g.name+".lance"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, v+"-"+g.name+".lance"), data, 0o644))
		}
	}
}
