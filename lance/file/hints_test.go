package file_test

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/lance/file"
)

// hintColumns are columns of rows rows by name: each kind of values that a hint may concern.
func hintColumns(rows int) map[string]arrow.Array {
	rng := rand.New(rand.NewSource(5))
	longs, floats, runs := array.NewInt64Builder(memory.DefaultAllocator), array.NewFloat64Builder(memory.DefaultAllocator), array.NewInt32Builder(memory.DefaultAllocator)
	texts, huge, noise := array.NewStringBuilder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator), array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	words := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range rows {
		longs.Append(int64(i)*1000 + rng.Int63n(1000))
		floats.Append(float64(i) / 4)
		runs.Append(int32(i / 3))
		texts.Append(fmt.Sprintf("https://www.example.org/users/%d/profile", rng.Intn(1e6)))
		words.Append([]string{"red", "green", "blue"}[rng.Intn(3)])
		random := make([]byte, 40)
		rng.Read(random)
		noise.Append(random)
		if i%7 == 3 {
			huge.AppendNull()
		} else {
			huge.Append(strings.Repeat(fmt.Sprintf("line %d of a long text\n", i), 2000*min(1, i%5)))
		}
	}
	return map[string]arrow.Array{"longs": longs.NewArray(), "floats": floats.NewArray(), "runs": runs.NewArray(), "texts": texts.NewArray(),
		"words": words.NewArray(), "noise": noise.NewArray(), "huge": huge.NewArray()}
}

// TestHints: what the metadata of a field asks for is written if it shrinks the page, and read back.
func TestHints(t *testing.T) {
	const rows = 3000
	all := hintColumns(rows)
	for _, c := range []struct {
		column, hints, want string
	}{
		{"longs", "", "inline-bitpacked(64)"},
		{"longs", "compression=lz4", "lz4(byte-stream-split(flat(64)))"},
		{"longs", "compression=zstd compression-level=7 bss=off", "inline-bitpacked(64)"},
		{"longs", "compression=none", "flat(64)"},
		{"longs", "structural-encoding=fullzip", "full-zip"},
		{"floats", "compression=zstd", "zstd(byte-stream-split(flat(64)))"},
		{"floats", "compression=lz4 bss=off", "lz4(flat(64))"},
		{"noise", "compression=zstd", "variable(flat(32))"},
		{"runs", "", "inline-bitpacked(32)"},
		{"runs", "rle-threshold=0.5", "rle(flat(32), flat(8))"},
		{"runs", "rle-threshold=0.2", "inline-bitpacked(32)"},
		{"texts", "", "fsst(variable(flat(32)))"},
		{"texts", "compression=none", "variable(flat(32))"},
		{"texts", "compression=zstd", "zstd(variable(flat(32)))"},
		{"texts", "compression=unheard-of structural-encoding=sparse dict-divisor=x", "fsst(variable(flat(32)))"},
		{"texts", "structural-encoding=fullzip compression=none", "full-zip"},
		{"words", "dict-divisor=2000", "variable(flat(32))"},
		{"words", "dict-size-ratio=0.01", "variable(flat(32))"},
		{"words", "dict-values-compression=none", "dictionary variable(flat(32))"},
		{"longs", "dict-divisor=1 dict-size-ratio=1", "inline-bitpacked(64)"},
		{"huge", "", "zstd(variable(flat(32)))"},
		{"huge", "compression=lz4", "lz4(variable(flat(32)))"},
		{"huge", "compression=none", "variable(flat(32))"},
	} {
		for _, version := range []file.Version{file.V22(), file.V21()} {
			name := fmt.Sprintf("%s %s %s", c.column, c.hints, version)
			metadata := map[string]string{}
			for pair := range strings.FieldsSeq(c.hints) {
				k, v, _ := strings.Cut(pair, "=")
				metadata["lance-encoding:"+k] = v
			}
			col := all[c.column]
			n := rows
			if c.column == "huge" {
				n = 40
			}
			col = array.NewSlice(col, 0, int64(n))
			sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: col.DataType(), Nullable: true, Metadata: arrow.MetadataFrom(metadata)}}, nil)
			data, _ := write(t, sc, file.WriterOptions{Version: version}, array.NewRecordBatch(sc, []arrow.Array{col}, int64(n)))
			src := &memSource{data: data}
			d, problems := file.Describe(context.Background(), src)
			require.Empty(t, problems, name)
			p := d.Columns[0].Pages[0]
			text := fmt.Sprint(p.Layout, " ", p.Encodings)
			require.Contains(t, text, c.want, name)
			if !strings.Contains(c.want, "zstd") && !strings.Contains(c.want, "lz4") {
				require.NotContains(t, text, "zstd(", name)
				require.NotContains(t, text, "lz4(", name)
			}
			r, _ := open(t, data)
			rec, err := r.Take(context.Background(), r.Schema().Fields, nil, []uint64{0, uint64(n) / 2, uint64(n) - 1})
			require.NoError(t, err, name)
			for i, row := range []int{0, n / 2, n - 1} {
				requireSame(t, col, row, row+1, array.NewSlice(rec.Column(0), int64(i), int64(i)+1))
			}
			rec.Release()
			rd, err := r.Scan(context.Background(), r.Schema().Fields, nil, 0, r.Rows(), n)
			require.NoError(t, err, name)
			rec, err = rd.Next()
			require.NoError(t, err, name)
			requireSame(t, col, 0, n, rec.Column(0))
			rec.Release()
			require.NoError(t, rd.Close())
		}
	}
}
