package rowkey_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/internal/testkit/rows"
)

// The vectors come from files the reference implementation wrote.
func TestTupleVectors(t *testing.T) {
	e, err := rowkey.NewEncoder([]arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String})
	require.NoError(t, err)
	for _, c := range []struct {
		row  arrowx.Row
		want string
	}{
		{arrowx.Row{int32(-2), "y"}, "01 7ffffffffffffffe 01 79 0000"},
		{arrowx.Row{int32(1), "x"}, "01 8000000000000001 01 78 0000"},
		{arrowx.Row{int32(1), "w\x00z"}, "01 8000000000000001 01 77 00ff 7a 0000"},
		{arrowx.Row{nil, ""}, "00 01 0000"},
	} {
		got, err := e.Row(c.row, []int{0, 1})
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(c.want, " ", ""), hex.EncodeToString([]byte(got)))
	}
}

func TestScalarVectors(t *testing.T) {
	hexOf := func(b []byte) string { return hex.EncodeToString(b) }
	require.Equal(t, "00", hexOf(rowkey.AppendNull(nil)))
	require.Equal(t, "0101", hexOf(rowkey.AppendBool(nil, true)))
	require.Equal(t, "0100", hexOf(rowkey.AppendBool(nil, false)))
	require.Equal(t, "010000000000000005", hexOf(rowkey.AppendUint64(nil, 5)))
	require.Equal(t, "010000000000000000", hexOf(rowkey.AppendInt64(nil, math.MinInt64)))
	require.Equal(t, "01bff0000000000000", hexOf(rowkey.AppendFloat64(nil, 1)))
	require.Equal(t, "018000000000000000", hexOf(rowkey.AppendFloat64(nil, math.Copysign(0, -1))))
	require.Equal(t, "01"+strings.Repeat("f", 0)+"7fffffffffffffff"+"ffffffffffffffff", hexOf(rowkey.AppendDecimal128(nil, decimal128.FromI64(-1))))
	require.Equal(t, "01"+"8000000000000000"+strings.Repeat("0", 47)+"2", hexOf(rowkey.AppendDecimal256(nil, decimal256.FromI64(2))))
	require.Equal(t, rowkey.AppendBytes(nil, []byte("a\x00b")), rowkey.AppendString(nil, "a\x00b"))
}

// compare orders cells of one type; NULL first.
func compare(a, b any) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(btoi(a != nil), btoi(b != nil))
	}
	switch a := a.(type) {
	case bool:
		return cmp.Compare(btoi(a), btoi(b.(bool)))
	case int8:
		return cmp.Compare(a, b.(int8))
	case int16:
		return cmp.Compare(a, b.(int16))
	case int32:
		return cmp.Compare(a, b.(int32))
	case int64:
		return cmp.Compare(a, b.(int64))
	case uint8:
		return cmp.Compare(a, b.(uint8))
	case uint16:
		return cmp.Compare(a, b.(uint16))
	case uint32:
		return cmp.Compare(a, b.(uint32))
	case uint64:
		return cmp.Compare(a, b.(uint64))
	case arrow.Date32:
		return cmp.Compare(a, b.(arrow.Date32))
	case arrow.Date64:
		return cmp.Compare(a, b.(arrow.Date64))
	case float32:
		return compareFloats(float64(a), float64(b.(float32)))
	case float64:
		return compareFloats(a, b.(float64))
	case decimal128.Num:
		return a.Cmp(b.(decimal128.Num))
	case decimal256.Num:
		return a.Cmp(b.(decimal256.Num))
	case arrow.Timestamp:
		return cmp.Compare(a, b.(arrow.Timestamp))
	case arrow.Time64:
		return cmp.Compare(a, b.(arrow.Time64))
	case arrow.Duration:
		return cmp.Compare(a, b.(arrow.Duration))
	case string:
		return cmp.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	default:
		panic(fmt.Sprintf("%T", a))
	}
}

// compareFloats puts NaN above everything.
func compareFloats(a, b float64) int {
	if a != a || b != b {
		return cmp.Compare(btoi(a != a), btoi(b != b))
	}
	return cmp.Compare(a, b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func keyTypes() []arrow.DataType {
	types := []arrow.DataType{arrow.FixedWidthTypes.Date64}
	for _, f := range rows.Schema().Fields() {
		if rowkey.Encodable(f.Type) {
			types = append(types, f.Type)
		}
	}
	return types
}

// Random tuples of random types: bytewise order is tuple order, batches and rows encode alike, no key is a
// proper prefix of another, and a prefix of the columns bounds its range.
func TestOrderOfTuples(t *testing.T) {
	types := keyTypes()
	require.Len(t, types, 16)
	t.Run("keys", func(t *testing.T) { orderOfTuples(t, types, rowkey.NewEncoder) })
	types = []arrow.DataType{arrow.FixedWidthTypes.Date64}
	for _, f := range rows.Schema().Fields() {
		types = append(types, f.Type)
	}
	t.Run("order", func(t *testing.T) { orderOfTuples(t, types, rowkey.NewOrderEncoder) })
}

func orderOfTuples(t *testing.T, types []arrow.DataType, newEncoder func([]arrow.DataType) (*rowkey.Encoder, error)) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(3)
		cols, fields, kt := rng.Perm(n), make([]arrow.Field, n), make([]arrow.DataType, n)
		for i := range fields {
			fields[i] = arrow.Field{Name: fmt.Sprint(i), Type: types[rng.IntN(len(types))], Nullable: true}
		}
		for i, c := range cols {
			kt[i] = fields[c].Type
		}
		e, err := newEncoder(kt)
		require.NoError(t, err)
		s := arrow.NewSchema(fields, nil)
		rs := rows.Random(rng, s, 30, 0.1)
		rec, err := arrowx.FromRows(memory.DefaultAllocator, s, rs)
		require.NoError(t, err)
		part := rec.NewSlice(3, 30)
		keys, err := e.Batch(part, cols)
		require.NoError(t, err)
		part.Release()
		rec.Release()
		rs = rs[3:]
		for i, a := range rs {
			k, err := e.Row(a, cols)
			require.NoError(t, err)
			require.Equal(t, k, keys[i])
			cells := make([]any, n)
			for j, c := range cols {
				cells[j] = a[c]
			}
			tuple, err := e.Tuple(cells...)
			require.NoError(t, err)
			require.Equal(t, k, tuple)
			first, err := e.Tuple(cells[0])
			require.NoError(t, err)
			for j, b := range rs {
				want := 0
				for _, c := range cols {
					if want = compare(a[c], b[c]); want != 0 {
						break
					}
				}
				require.Equal(t, want, strings.Compare(string(keys[i]), string(keys[j])), "seed %d %v %v", seed, a, b)
				require.False(t, want != 0 && strings.HasPrefix(string(keys[j]), string(keys[i])))
				in := keys[j] >= first && (rowkey.After(first) == "" || keys[j] < rowkey.After(first))
				require.Equal(t, compare(a[cols[0]], b[cols[0]]) == 0, in)
			}
		}
	}
}

func TestAfter(t *testing.T) {
	require.Equal(t, rowkey.Key("b"), rowkey.After("a"))
	require.Equal(t, rowkey.Key("b"), rowkey.After("a\xff\xff"))
	require.Equal(t, rowkey.Key(""), rowkey.After("\xff"))
	require.Equal(t, rowkey.Key(""), rowkey.After(""))
}

func TestEncoderErrors(t *testing.T) {
	for _, dt := range []arrow.DataType{arrow.PrimitiveTypes.Float64, &arrow.Decimal128Type{Precision: 5}, arrow.FixedWidthTypes.Timestamp_us, arrow.FixedWidthTypes.Time64us} {
		_, err := rowkey.NewEncoder([]arrow.DataType{dt})
		require.ErrorIs(t, err, errs.ErrUnsupported)
	}
	_, err := rowkey.NewOrderEncoder([]arrow.DataType{arrow.ListOf(arrow.PrimitiveTypes.Int8)})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	_, err = rowkey.NewEncoder(nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
	for _, dt := range keyTypes() {
		e, err := rowkey.NewEncoder([]arrow.DataType{dt})
		require.NoError(t, err)
		for _, r := range []arrowx.Row{{struct{}{}}, {}} {
			_, err = e.Row(r, []int{0})
			require.ErrorIs(t, err, errs.ErrInvalid)
		}
		_, err = e.Row(arrowx.Row{nil, nil}, []int{0, 1})
		require.ErrorIs(t, err, errs.ErrInvalid)
		_, err = e.Tuple(nil, nil)
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
	e, err := rowkey.NewEncoder([]arrow.DataType{arrow.PrimitiveTypes.Int64})
	require.NoError(t, err)
	s := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}}, nil)
	rec, err := arrowx.FromRows(memory.DefaultAllocator, s, []arrowx.Row{{int32(1)}})
	require.NoError(t, err)
	defer rec.Release()
	for _, cols := range [][]int{{0}, {1}, {0, 0}, nil} {
		_, err = e.Batch(rec, cols)
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
}

func FuzzOrder(f *testing.F) {
	f.Add(int64(0), 0.5, []byte("a"), int64(-1), math.Copysign(0, -1), []byte("a\x00"))
	f.Add(int64(1), math.Inf(1), []byte{0, 0xff}, int64(1), math.MaxFloat64, []byte{0})
	f.Fuzz(func(t *testing.T, i int64, x float64, b []byte, j int64, y float64, c []byte) {
		check := func(name string, a, b []byte, want int) {
			if got := bytes.Compare(a, b); got != want {
				t.Errorf("%s: %d, want %d (%x %x)", name, got, want, a, b)
			}
		}
		rank := func(v float64) float64 { // NaN last, -0 = 0
			if v != v {
				return math.Inf(1)
			}
			return v
		}
		floats := cmp.Compare(rank(x), rank(y))
		if floats == 0 {
			floats = btoi(x != x) - btoi(y != y)
		}
		check("int", rowkey.AppendInt64(nil, i), rowkey.AppendInt64(nil, j), cmp.Compare(i, j))
		check("uint", rowkey.AppendUint64(nil, uint64(i)), rowkey.AppendUint64(nil, uint64(j)), cmp.Compare(uint64(i), uint64(j)))
		check("timestamp", rowkey.AppendTimestamp(nil, i), rowkey.AppendTimestamp(nil, j), cmp.Compare(i, j))
		check("float", rowkey.AppendFloat64(nil, x), rowkey.AppendFloat64(nil, y), floats)
		check("bytes", rowkey.AppendBytes(nil, b), rowkey.AppendBytes(nil, c), bytes.Compare(b, c))
		check("tuple", rowkey.AppendInt64(rowkey.AppendBytes(nil, b), i), rowkey.AppendInt64(rowkey.AppendBytes(nil, c), j),
			cmp.Or(bytes.Compare(b, c), cmp.Compare(i, j)))
		d, e := decimal128.New(i, uint64(j)), decimal128.New(j, uint64(i))
		check("decimal128", rowkey.AppendDecimal128(nil, d), rowkey.AppendDecimal128(nil, e), d.Cmp(e))
		g, h := decimal256.New(uint64(i), uint64(j), 0, uint64(i)), decimal256.New(uint64(j), uint64(i), 1, 0)
		check("decimal256", rowkey.AppendDecimal256(nil, g), rowkey.AppendDecimal256(nil, h), g.Cmp(h))
	})
}

func ExampleEncoder_Tuple() {
	e, _ := rowkey.NewEncoder([]arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String})
	lo, _ := e.Tuple(int64(1)) // every key whose first column is 1
	fmt.Printf("%x\n%x\n", string(lo), string(rowkey.After(lo)))
	// Output:
	// 018000000000000001
	// 018000000000000002
}
