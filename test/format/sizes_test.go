package format

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/lance/file"
)

const (
	sizeRows  = 100_000
	sizeBatch = 8192
	// sizeMax is how much larger our file may be than the reference's for the same rows.
	sizeMax = 1.10
	// sizeDrift allows for the reference's symbol tables, which differ from run to run.
	sizeDrift = 1.05
)

// shape is one column for the comparison of sizes.
type shape struct {
	name string
	typ  arrow.DataType
	rows int
	make func(rng *rand.Rand, n int) arrow.Array // of typ
}

// fixedOf makes a fixed-width column from the little-endian low bytes of value(i).
func fixedOf(typ arrow.DataType, rng *rand.Rand, n int, value func(i int) uint64) arrow.Array {
	width := typ.(arrow.FixedWidthDataType).BitWidth() / 8
	raw := make([]byte, n*width)
	var word [8]byte
	for i := range n {
		binary.LittleEndian.PutUint64(word[:], value(i))
		copy(raw[i*width:(i+1)*width], word[:])
	}
	return array.MakeFromData(array.NewData(typ, n, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0))
}

// textOf makes a string or binary column.
func textOf(typ arrow.DataType, n int, value func(i int) string) arrow.Array {
	b := array.NewBinaryBuilder(memory.DefaultAllocator, typ.(arrow.BinaryDataType))
	defer b.Release()
	for i := range n {
		b.AppendString(value(i))
	}
	return b.NewArray()
}

// holed makes about half of the values null.
func holed(a arrow.Array, rng *rand.Rand) arrow.Array {
	bits := make([]byte, (a.Len()+7)/8)
	for i := range a.Len() {
		bitutil.SetBitTo(bits, i, rng.IntN(2) == 0)
	}
	bufs := append([]*memory.Buffer{memory.NewBufferBytes(bits)}, a.Data().Buffers()[1:]...)
	return array.MakeFromData(array.NewData(a.DataType(), a.Len(), bufs, nil, array.UnknownNullCount, 0))
}

// words makes text of at least least bytes from a small vocabulary.
func words(rng *rand.Rand, least int) string {
	vocabulary := strings.Fields("the database keeps every row of a table in fragments and each fragment in files that hold columns " +
		"as pages with chunks which a reader decodes one after another without looking at what it does not need")
	var b strings.Builder
	for b.Len() < least {
		b.WriteString(vocabulary[rng.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}

func random(rng *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// shapes is the table of docs/benchmarks.md.
func shapes() []shape {
	i64, i32, f64 := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64
	utf8, bin := arrow.BinaryTypes.String, arrow.BinaryTypes.Binary
	timestamp, dec := &arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.Decimal128Type{Precision: 20, Scale: 2}
	vector := arrow.FixedSizeListOf(128, arrow.PrimitiveTypes.Float32)
	fixed := func(typ arrow.DataType, value func(rng *rand.Rand, i int) uint64) func(*rand.Rand, int) arrow.Array {
		return func(rng *rand.Rand, n int) arrow.Array {
			return fixedOf(typ, rng, n, func(i int) uint64 { return value(rng, i) })
		}
	}
	text := func(typ arrow.DataType, value func(rng *rand.Rand, i int) string) func(*rand.Rand, int) arrow.Array {
		return func(rng *rand.Rand, n int) arrow.Array {
			return textOf(typ, n, func(i int) string { return value(rng, i) })
		}
	}
	cities := strings.Fields("Amsterdam Berlin Copenhagen Dublin Edinburgh Frankfurt Geneva Hamburg Istanbul Johannesburg")
	return []shape{
		{"int64 sequential", i64, sizeRows, fixed(i64, func(_ *rand.Rand, i int) uint64 { return uint64(i) })},
		{"int64 random below 1000", i64, sizeRows, fixed(i64, func(rng *rand.Rand, _ int) uint64 { return rng.Uint64N(1000) })},
		{"int64 random", i64, sizeRows, fixed(i64, func(rng *rand.Rand, _ int) uint64 { return rng.Uint64() })},
		{"int64 of 50 wide values", i64, sizeRows, fixed(i64, func(rng *rand.Rand, _ int) uint64 { return rng.Uint64N(50) * 0x9e3779b97f4a7c15 })},
		{"int64 constant", i64, sizeRows, fixed(i64, func(*rand.Rand, int) uint64 { return 7 })},
		{"int32 of 7 values", i32, sizeRows, fixed(i32, func(rng *rand.Rand, _ int) uint64 { return 1_000_000 * (1 + rng.Uint64N(7)) })},
		{"int32 in runs", i32, sizeRows, fixed(i32, func(_ *rand.Rand, i int) uint64 { return uint64(i/500) * 77_777 })},
		{"float64 random", f64, sizeRows, fixed(f64, func(rng *rand.Rand, _ int) uint64 { return math.Float64bits(rng.NormFloat64()) })},
		{"float64 of 20 values", f64, sizeRows, fixed(f64, func(rng *rand.Rand, _ int) uint64 { return math.Float64bits(float64(rng.IntN(20)) * 1.1) })},
		{"bool", arrow.FixedWidthTypes.Boolean, sizeRows, func(rng *rand.Rand, n int) arrow.Array {
			raw := make([]byte, (n+7)/8)
			for i := range raw {
				raw[i] = byte(rng.Uint32())
			}
			return array.MakeFromData(array.NewData(arrow.FixedWidthTypes.Boolean, n, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0))
		}},
		{"timestamp sorted", timestamp, sizeRows, func(rng *rand.Rand, n int) arrow.Array {
			at := uint64(1_700_000_000_000_000)
			return fixedOf(timestamp, rng, n, func(int) uint64 { at += rng.Uint64N(2_000_000); return at })
		}},
		{"strings short random", utf8, sizeRows, text(utf8, func(rng *rand.Rand, _ int) string { return random(rng, letters, 4+rng.IntN(12)) })},
		{"strings of 10 values", utf8, sizeRows, text(utf8, func(rng *rand.Rand, _ int) string { return cities[rng.IntN(len(cities))] })},
		{"strings like URLs", utf8, sizeRows, text(utf8, func(rng *rand.Rand, i int) string {
			return fmt.Sprintf("https://www.example.org/%s/%d/%s.html?ref=%d", cities[rng.IntN(10)], rng.IntN(1000), random(rng, letters[:26], 6), i%90)
		})},
		{"text of 300 to 2000 bytes", utf8, 10_000, text(utf8, func(rng *rand.Rand, _ int) string { return words(rng, 300+rng.IntN(1700)) })},
		{"int64 half null", i64, sizeRows, func(rng *rand.Rand, n int) arrow.Array {
			return holed(fixedOf(i64, rng, n, func(int) uint64 { return rng.Uint64N(100_000) }), rng)
		}},
		{"strings half null", utf8, sizeRows, func(rng *rand.Rand, n int) arrow.Array {
			return holed(textOf(utf8, n, func(int) string { return random(rng, letters, rng.IntN(10)) }), rng)
		}},
		{"decimal128 below a million", dec, sizeRows, fixed(dec, func(rng *rand.Rand, _ int) uint64 { return rng.Uint64N(1_000_000) })},
		{"decimal128 of 30 values", dec, sizeRows, fixed(dec, func(rng *rand.Rand, _ int) uint64 { return rng.Uint64N(30) * 99 })},
		{"vectors of 128 float32", vector, 10_000, func(rng *rand.Rand, n int) arrow.Array {
			items := fixedOf(arrow.PrimitiveTypes.Float32, rng, 128*n, func(int) uint64 { return uint64(math.Float32bits(float32(rng.NormFloat64()))) })
			return array.MakeFromData(array.NewData(vector, n, []*memory.Buffer{nil}, []arrow.ArrayData{items.Data()}, 0, 0))
		}},
		{"binary random", bin, sizeRows, text(bin, func(rng *rand.Rand, _ int) string {
			raw := make([]byte, 8+rng.IntN(40))
			for i := range raw {
				raw[i] = byte(rng.Uint32())
			}
			return string(raw)
		})},
	}
}

// record makes the column of a shape; equal names give equal rows.
func (s shape) record() arrow.RecordBatch {
	a := s.make(seeded(s.name), s.rows)
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: s.typ, Nullable: a.NullN() > 0}}, nil)
	return array.NewRecordBatch(schema, []arrow.Array{a}, int64(s.rows))
}

// TestSizes compares the sizes of our files with those of the reference for the same rows in the same batches.
func TestSizes(t *testing.T) {
	oracle.Python(t)
	dir := t.TempDir()
	for _, v := range written() {
		ours := map[string]int{}
		var tasks []task
		for i, s := range shapes() {
			rec := s.record()
			data, err := writeFile(rec, file.WriterOptions{Version: v}, sizeBatch)
			require.NoError(t, err, s.name)
			require.NoError(t, readBack(data, rec), s.name)
			ours[s.name] = len(data)
			truth := filepath.Join(dir, fmt.Sprintf("%d.arrow", i))
			require.NoError(t, writeIPC(truth, rec.Schema(), []arrow.RecordBatch{rec}))
			tasks = append(tasks, task{Name: s.name, Kind: "size", Path: filepath.Join(dir, "reference.lance"), Truth: truth, Version: v.String()})
			rec.Release()
		}
		compareSizes(t, v, ours, ask[int](t, dir, tasks))
	}
}

func compareSizes(t *testing.T, v file.Version, ours, theirs map[string]int) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "version %s\n%-28s %12s %12s %7s\n", v, "column", "ours", "reference", "ratio")
	known := knownLarger(v)
	for _, s := range shapes() {
		ratio := float64(ours[s.name]) / float64(theirs[s.name])
		fmt.Fprintf(&b, "%-28s %12d %12d %7.3f\n", s.name, ours[s.name], theirs[s.name], ratio)
		limit, larger := known[s.name]
		delete(known, s.name)
		switch {
		case !larger && ratio > sizeMax:
			t.Errorf("version %s, %s: %.3f times the reference's size, at most %.2f", v, s.name, ratio, sizeMax)
		case larger && ratio > limit*sizeDrift:
			t.Errorf("version %s, %s: %.3f times the reference's size, was %.3f", v, s.name, ratio, limit)
		case larger && ratio <= sizeMax:
			t.Errorf("version %s, %s: %.3f times the reference's size: remove it from the known", v, s.name, ratio)
		}
	}
	for name := range known {
		t.Errorf("known larger: no shape %q", name)
	}
	t.Log(b.String())
}
