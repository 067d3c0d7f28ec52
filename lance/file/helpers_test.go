package file_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/lance/encoding"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// memSource is a file in memory. It counts what is read.
type memSource struct {
	data []byte

	mu    sync.Mutex
	reads int // under mu
	bytes int // under mu
}

func (m *memSource) ReadAt(_ context.Context, p []byte, off int64) error {
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return io.ErrUnexpectedEOF
	}
	copy(p, m.data[off:])
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	m.bytes += len(p)
	return nil
}

func (m *memSource) Size() int64  { return int64(len(m.data)) }
func (m *memSource) Name() string { return "test.lance" }

// column describes generated test data.
type column struct {
	typ     arrow.DataType
	nulls   string // none, some, half, all
	pattern string // constant, sequential, random, small, runs; strings: constant, short, lowcard, mid, long, huge
}

func (c column) name() string { return fmt.Sprintf("%s/%s/%s", c.typ, c.pattern, c.nulls) }

// generate builds rows of a column through raw buffers, so that it covers every type alike. Values under nulls are
// garbage on purpose.
func generate(c column, rows int, rng *rand.Rand) arrow.Array {
	t, err := encoding.TypeOf(c.typ)
	if err != nil {
		panic(err)
	}
	if t.Kind == encoding.KindNull {
		return array.NewNull(rows)
	}
	var valid *memory.Buffer
	nulls := 0
	if c.nulls != "none" {
		bits := make([]byte, (rows+7)/8)
		for i := range rows {
			null := c.nulls == "all" || c.nulls == "some" && rng.Intn(5) == 0 || c.nulls == "half" && i < rows/2
			bitutil.SetBitTo(bits, i, !null)
			if null {
				nulls++
			}
		}
		valid = memory.NewBufferBytes(bits)
	}
	if t.Variable() {
		offs, data := stringBytes(c.pattern, t.OffsetBits()/8, rows, rng)
		d := array.NewData(c.typ, rows, []*memory.Buffer{valid, memory.NewBufferBytes(offs), memory.NewBufferBytes(data)}, nil, nulls, 0)
		return array.MakeFromData(d)
	}
	items := rows * t.Items()
	values := fixedBytes(c.pattern, t.Bits, items, rng)
	if l, ok := c.typ.(*arrow.FixedSizeListType); ok {
		return generateList(l, rows, nulls, valid, values, c.nulls == "some", rng)
	}
	d := array.NewData(c.typ, rows, []*memory.Buffer{valid, memory.NewBufferBytes(values)}, nil, nulls, 0)
	return array.MakeFromData(d)
}

func generateList(l *arrow.FixedSizeListType, rows, nulls int, valid *memory.Buffer, values []byte, itemNulls bool, rng *rand.Rand) arrow.Array {
	n := rows * int(l.Len())
	var childValid *memory.Buffer
	childNulls := 0
	if itemNulls {
		bits := make([]byte, (n+7)/8)
		for i := range n {
			bitutil.SetBitTo(bits, i, rng.Intn(3) > 0)
		}
		childNulls = n - bitutil.CountSetBits(bits, 0, n)
		childValid = memory.NewBufferBytes(bits)
	}
	var child arrow.ArrayData
	if inner, ok := l.Elem().(*arrow.FixedSizeListType); ok {
		child = generateList(inner, n, childNulls, childValid, values, itemNulls, rng).Data()
	} else {
		child = array.NewData(l.Elem(), n, []*memory.Buffer{childValid, memory.NewBufferBytes(values)}, nil, childNulls, 0)
	}
	d := array.NewData(l, rows, []*memory.Buffer{valid}, []arrow.ArrayData{child}, nulls, 0)
	return array.MakeFromData(d)
}

func fixedBytes(pattern string, bits, n int, rng *rand.Rand) []byte {
	if bits == 1 {
		b := make([]byte, (n+7)/8)
		switch pattern {
		case "constant":
			bitutil.SetBitsTo(b, 0, int64(n), true)
		case "runs":
			bitutil.SetBitsTo(b, 0, int64(n/2), true)
		default:
			rng.Read(b)
		}
		return b
	}
	w := bits / 8
	b := make([]byte, n*w)
	one := make([]byte, w)
	for i := range n {
		switch pattern {
		case "sequential":
			put(one, uint64(i))
		case "random":
			rng.Read(one)
		case "small":
			put(one, uint64(rng.Intn(100)))
		case "lowcard":
			put(one, uint64(rng.Intn(20))*0x0123456789abcdef)
		case "runs":
			put(one, uint64(i/700)*0x9e3779b97f4a7c15)
		case "constant":
			put(one, 0x1122334455667788)
		default:
			put(one, uint64(i*i))
		}
		copy(b[i*w:], one)
	}
	return b
}

func put(dst []byte, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	copy(dst, b[:])
}

func stringBytes(pattern string, w, rows int, rng *rand.Rand) (offs, data []byte) {
	letters := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(rng.Intn(26))
		}
		return b
	}
	words := []string{"red", "green", "blue", "a rather long colour name", ""}
	add := func() {
		if w == 4 {
			offs = binary.LittleEndian.AppendUint32(offs, uint32(len(data)))
		} else {
			offs = binary.LittleEndian.AppendUint64(offs, uint64(len(data)))
		}
	}
	add()
	for i := range rows {
		switch pattern {
		case "constant":
			data = append(data, "the same every time"...)
		case "sequential":
			data = fmt.Appendf(data, "row-%09d", i)
		case "lowcard":
			data = append(data, words[rng.Intn(len(words))]...)
		case "small":
			data = append(data, letters(rng.Intn(4))...)
		case "runs": // sentences
			for range 3 + rng.Intn(6) {
				data = append(append(data, words[rng.Intn(len(words))]...), ' ')
			}
		case "long":
			data = append(data, letters(rng.Intn(700))...)
		case "huge":
			data = append(data, letters(3000+rng.Intn(4000))...)
		default:
			data = append(data, letters(rng.Intn(60))...)
		}
		add()
	}
	return offs, data
}

var flatTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
	arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
	arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	&arrow.Decimal128Type{Precision: 20, Scale: 3}, &arrow.Decimal256Type{Precision: 60, Scale: 5},
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us, arrow.FixedWidthTypes.Time64us,
	arrow.FixedWidthTypes.Duration_us, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString,
	arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, &arrow.FixedSizeBinaryType{ByteWidth: 16},
	&arrow.FixedSizeBinaryType{ByteWidth: 300}, &arrow.FixedSizeBinaryType{ByteWidth: 5},
	arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float32), arrow.FixedSizeListOf(128, arrow.PrimitiveTypes.Float32),
	arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Boolean), arrow.FixedSizeListOf(2100, arrow.FixedWidthTypes.Boolean),
	arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16)), arrow.Null,
	arrow.FixedWidthTypes.Date64, arrow.FixedWidthTypes.Time32ms,
}

func patternsOf(t arrow.DataType) []string {
	patterns := []string{"constant", "sequential", "random", "small", "lowcard", "runs"}
	if pt, _ := encoding.TypeOf(t); pt.Variable() {
		patterns = append(patterns, "long", "huge")
	}
	return patterns
}

// write makes a file of one batch stream.
func write(t testing.TB, sc *arrow.Schema, o file.WriterOptions, recs ...arrow.RecordBatch) ([]byte, file.Summary) {
	t.Helper()
	s, err := schema.FromArrow(sc)
	require.NoError(t, err)
	var buf bytes.Buffer
	w, err := file.NewWriter(&buf, s, o)
	require.NoError(t, err)
	for _, rec := range recs {
		require.NoError(t, w.Write(rec))
	}
	sum, err := w.Finish()
	require.NoError(t, err)
	require.EqualValues(t, buf.Len(), sum.Size)
	return buf.Bytes(), sum
}

func open(t testing.TB, data []byte) (*file.Reader, *memSource) {
	t.Helper()
	src := &memSource{data: data}
	r, err := file.Open(context.Background(), src, file.ReaderOptions{})
	require.NoError(t, err)
	return r, src
}

// requireSame compares rows [from, to) of want with all of got: nullness, and the bytes of non-null values.
func requireSame(t testing.TB, want arrow.Array, from, to int, got arrow.Array) {
	t.Helper()
	require.Equal(t, to-from, got.Len())
	if !arrow.TypeEqual(want.DataType(), got.DataType()) {
		t.Fatalf("type %s, want %s", got.DataType(), want.DataType())
	}
	for i := from; i < to; i++ {
		if w, g := cell(want, i), cell(got, i-from); w != g {
			t.Fatalf("row %d: got %q, want %q", i, clip(g), clip(w))
		}
	}
}

func clip(s string) string { return s[:min(len(s), 80)] }

// cell renders a value so that equal values have equal strings.
func cell(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "NULL"
	}
	switch a := a.(type) {
	case *array.FixedSizeList:
		lo, hi := a.ValueOffsets(i)
		var out strings.Builder
		for j := lo; j < hi; j++ {
			out.WriteString(cell(a.ListValues(), int(j)))
			out.WriteByte(',')
		}
		return out.String()
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.Binary:
		return string(a.Value(i))
	case *array.LargeBinary:
		return string(a.Value(i))
	case *array.Boolean:
		if a.Value(i) {
			return "1"
		}
		return "0"
	case *array.Null:
		return "NULL"
	}
	w := a.DataType().(arrow.FixedWidthDataType).BitWidth() / 8
	at := (a.Data().Offset() + i) * w
	return string(a.Data().Buffers()[1].Bytes()[at : at+w])
}

func newRand(seed int64) *rand.Rand { return rand.New(rand.NewSource(seed)) }
