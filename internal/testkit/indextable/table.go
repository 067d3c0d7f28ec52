package indextable

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"lancesql/internal/arrowx"
	"lancesql/internal/objstore"
	"lancesql/internal/predicate"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// Fragments and FragmentRows say how the table is cut; the last fragment has a few rows less.
const (
	Fragments    = 3
	FragmentRows = 128
)

// Column is a column of the table, with the values it is made of.
type Column struct {
	Name string
	Type arrow.DataType
	Pool []any // distinct, ascending
}

// Columns lists the indexed columns; column 0 of the table is the Int64 id before them.
func Columns() []Column {
	long := strings.Repeat("lång", 500)
	// Go's own NaN has another payload than Rust's, which makes it greater in the total order.
	nan := math.Float64frombits(0x7ff8000000000000)
	wide := func(words ...uint64) any { return decimal256.New(words[0], 0, 0, words[1]) }
	stamps := func(f func(int64) any) []any {
		var out []any
		for _, v := range []int64{-62135596800000000, -86400000000, -1, 0, 1, 1000000, 1577836800000000, 4102444800000000} {
			out = append(out, f(v))
		}
		return out
	}
	cols := []Column{
		{Name: "bool", Type: arrow.FixedWidthTypes.Boolean, Pool: []any{false, true}},
		{Name: "int8", Type: arrow.PrimitiveTypes.Int8, Pool: []any{int8(-128), int8(-1), int8(0), int8(1), int8(5), int8(127)}},
		{Name: "int16", Type: arrow.PrimitiveTypes.Int16, Pool: []any{int16(math.MinInt16), int16(-1), int16(0), int16(300), int16(math.MaxInt16)}},
		{Name: "int32", Type: arrow.PrimitiveTypes.Int32, Pool: []any{int32(math.MinInt32), int32(-7), int32(0), int32(7), int32(math.MaxInt32)}},
		{Name: "int64", Type: arrow.PrimitiveTypes.Int64, Pool: []any{int64(math.MinInt64), int64(-7), int64(0), int64(7), int64(8), int64(math.MaxInt64)}},
		{Name: "uint8", Type: arrow.PrimitiveTypes.Uint8, Pool: []any{uint8(0), uint8(1), uint8(128), uint8(255)}},
		{Name: "uint16", Type: arrow.PrimitiveTypes.Uint16, Pool: []any{uint16(0), uint16(1), uint16(math.MaxUint16)}},
		{Name: "uint32", Type: arrow.PrimitiveTypes.Uint32, Pool: []any{uint32(0), uint32(1), uint32(math.MaxUint32)}},
		{Name: "uint64", Type: arrow.PrimitiveTypes.Uint64, Pool: []any{uint64(0), uint64(1), uint64(1 << 63), uint64(math.MaxUint64)}},
		{Name: "float32", Type: arrow.PrimitiveTypes.Float32, Pool: []any{float32(math.Inf(-1)), float32(-1.5), float32(math.Copysign(0, -1)), float32(0), float32(0.25), float32(math.Inf(1)), float32(math.NaN())}},
		{Name: "float64", Type: arrow.PrimitiveTypes.Float64, Pool: []any{math.Inf(-1), -1.5, math.Copysign(0, -1), 0.0, 1e300, math.Inf(1), nan}},
		{Name: "utf8", Type: arrow.BinaryTypes.String, Pool: []any{"", "a", "ab", "abc", "b", long, long + "x", "é", "\U0010ffff"}},
		{Name: "large_utf8", Type: arrow.BinaryTypes.LargeString, Pool: []any{"", "a", "ab", "b", long, "é"}},
		{Name: "binary", Type: arrow.BinaryTypes.Binary, Pool: []any{[]byte{}, []byte{0}, []byte{0, 1}, []byte("a"), []byte(long), []byte{0xff}, []byte{0xff, 0xff}}},
		{Name: "large_binary", Type: arrow.BinaryTypes.LargeBinary, Pool: []any{[]byte{}, []byte{0}, []byte("a"), []byte{0xff, 0xff}}},
		{Name: "fixed", Type: &arrow.FixedSizeBinaryType{ByteWidth: 3}, Pool: []any{[]byte{0, 0, 0}, []byte("abc"), []byte{0xff, 0xff, 0xff}}},
		{Name: "date32", Type: arrow.FixedWidthTypes.Date32, Pool: []any{arrow.Date32(-700000), arrow.Date32(-1), arrow.Date32(0), arrow.Date32(18262), arrow.Date32(20000)}},
		{Name: "time64", Type: arrow.FixedWidthTypes.Time64us, Pool: []any{arrow.Time64(0), arrow.Time64(1), arrow.Time64(86399999999)}},
		{Name: "timestamp", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Pool: stamps(func(v int64) any { return arrow.Timestamp(v) })},
		{Name: "instant", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Pool: stamps(func(v int64) any { return arrow.Timestamp(v) })},
		{Name: "duration", Type: arrow.FixedWidthTypes.Duration_us, Pool: []any{arrow.Duration(-3020399000000), arrow.Duration(-1), arrow.Duration(0), arrow.Duration(3020399000000)}},
		{Name: "decimal128", Type: &arrow.Decimal128Type{Precision: 20, Scale: 4}, Pool: []any{decimal128.FromI64(-99999999), decimal128.FromI64(-1), decimal128.FromI64(0), decimal128.FromI64(12345), decimal128.New(1, 5)}},
		{Name: "decimal256", Type: &arrow.Decimal256Type{Precision: 60, Scale: 10}, Pool: []any{decimal256.FromI64(-5), decimal256.FromI64(0), decimal256.FromI64(77), wide(1, 3)}},
		{Name: "nothing", Type: arrow.PrimitiveTypes.Int32},
	}
	return cols
}

// Table is the table on disk.
type Table struct {
	Dir     string // of the table, below a temporary directory
	Store   objstore.Store
	Root    string // name of the table in the store
	Columns []Column
	D       *table.Dataset // a version after the last row was deleted
}

// Sample is every n-th filter, beginning at a place that depends on shift: a test that asks the reference takes turns
// over the columns. With LANCESQL_SOAK it is all of them.
func Sample(filters []Filter, n, shift int) []Filter {
	if os.Getenv("LANCESQL_SOAK") != "" {
		return filters
	}
	var out []Filter
	for i := shift % n; i < len(filters); i += n {
		out = append(out, filters[i])
	}
	return out
}

// New writes the table: fragment 0 ascending without NULLs (but one column of NULLs only), fragment 1 at random,
// fragment 2 in runs of one value with a run of NULLs; about a tenth of the rows are deleted, a whole zone among them.
func New(t testing.TB, seed uint64) *Table {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	st, err := objstore.OpenDisk(dir)
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	tb := &Table{Dir: filepath.Join(dir, "t.lance"), Store: st, Root: "t.lance", Columns: Columns()}
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}
	for _, c := range tb.Columns {
		fields = append(fields, arrow.Field{Name: c.Name, Type: c.Type, Nullable: true})
	}
	s := arrow.NewSchema(fields, nil)
	sc, err := schema.FromArrow(s)
	must(t, err)
	tb.D, err = table.Create(ctx, st, tb.Root, sc, table.CreateOptions{})
	must(t, err)
	rng := rand.New(rand.NewPCG(seed, 4))
	for f := range Fragments {
		n := FragmentRows
		if f == Fragments-1 {
			n -= 5
		}
		rows := make([]arrowx.Row, n)
		for i := range rows {
			rows[i] = append(arrowx.Row{int64(f*FragmentRows + i)}, make(arrowx.Row, len(tb.Columns))...)
		}
		for c, col := range tb.Columns {
			for i, v := range cells(rng, col, f, n) {
				rows[i][c+1] = v
			}
		}
		rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rows)
		must(t, err)
		tb.D, err = tb.D.Append(ctx, table.Records(s, rec), table.WriteOptions{})
		rec.Release()
		must(t, err)
	}
	var gone []any
	for i := range Fragments * FragmentRows {
		if rng.IntN(12) == 0 || i >= 64 && i < 90 {
			gone = append(gone, int64(i))
		}
	}
	tb.D, _, err = tb.D.DeleteWhere(ctx, predicate.In{Column: 0, Values: gone})
	must(t, err)
	return tb
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cells makes the cells of a column in fragment f.
func cells(rng *rand.Rand, c Column, f, n int) []any {
	out := make([]any, n)
	for i := range out {
		switch {
		case len(c.Pool) == 0:
		case f == 0:
			out[i] = c.Pool[i*len(c.Pool)/n]
		case f == 1 && rng.IntN(5) > 0:
			out[i] = c.Pool[rng.IntN(len(c.Pool))]
		case f == 2 && (i < 40 || i >= 60):
			out[i] = c.Pool[i/20%len(c.Pool)]
		}
	}
	return out
}

// Latest opens the newest version, which the reference may have made.
func (tb *Table) Latest(t testing.TB) *table.Dataset {
	t.Helper()
	d, err := table.Open(context.Background(), tb.Store, tb.Root)
	must(t, err)
	return d
}

// Entries returns the segments of the index of that name, which must exist.
func (tb *Table) Entries(t testing.TB, d *table.Dataset, name string) []table.IndexEntry {
	t.Helper()
	all, err := d.Indexes()
	must(t, err)
	all = slices.DeleteFunc(all, func(e table.IndexEntry) bool { return e.Name != name })
	if len(all) == 0 {
		t.Fatalf("no index %s", name)
	}
	return all
}

// Field returns the field id of a column.
func (tb *Table) Field(name string) int32 { return tb.D.Schema().FieldByName(name).ID }

// Matches evaluates a filter over the live rows of a version and returns the ids and addresses of those it is true for.
func (tb *Table) Matches(t testing.TB, d *table.Dataset, e predicate.Expr) (ids []int64, addrs []rowaddr.Addr) {
	t.Helper()
	rd, err := d.Rows(context.Background(), table.ScanOptions{Columns: []string{"id"}, Filter: e, RowAddress: true})
	must(t, err)
	defer rd.Close()
	for {
		rec, err := rd.Next()
		if err != nil {
			return ids, addrs
		}
		for i := range int(rec.NumRows()) {
			r := arrowx.RowOf(rec, i)
			ids, addrs = append(ids, r[0].(int64)), append(addrs, rowaddr.Addr(r[1].(uint64)))
		}
		rec.Release()
	}
}
