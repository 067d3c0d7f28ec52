package sqlbackend

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
)

func decimal(t testing.TB, s string) *apd.Decimal {
	t.Helper()
	d, _, err := apd.NewFromString(s)
	require.NoError(t, err)
	return d
}

func date(s string) time.Time {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04:05.999999"} {
		if d, err := time.Parse(layout, s); err == nil {
			return d.UTC()
		}
	}
	return time.Time{}
}

// typeCases is every storable type with its Arrow type and values at its edges.
func typeCases(t testing.TB) []struct {
	text   string
	arrow  string
	values []any
} {
	d := func(s string) *apd.Decimal { return decimal(t, s) }
	return []struct {
		text   string
		arrow  string
		values []any
	}{
		{"tinyint", "int8", []any{int8(-128), int8(0), int8(127)}},
		{"tinyint(1)", "int8", []any{int8(0), int8(1), int8(-128)}},
		{"tinyint unsigned", "uint8", []any{uint8(0), uint8(255)}},
		{"smallint", "int16", []any{int16(-32768), int16(32767)}},
		{"smallint unsigned", "uint16", []any{uint16(0), uint16(65535)}},
		{"mediumint", "int32", []any{int32(-8388608), int32(8388607)}},
		{"mediumint unsigned", "uint32", []any{uint32(0), uint32(16777215)}},
		{"int", "int32", []any{int32(math.MinInt32), int32(math.MaxInt32)}},
		{"int unsigned", "uint32", []any{uint32(0), uint32(math.MaxUint32)}},
		{"bigint", "int64", []any{int64(math.MinInt64), int64(math.MaxInt64)}},
		{"bigint unsigned", "uint64", []any{uint64(0), uint64(math.MaxUint64)}},
		{"float", "float32", []any{float32(0), float32(-1.5), float32(math.MaxFloat32), float32(math.SmallestNonzeroFloat32)}},
		{"double", "float64", []any{0.0, -1.5, math.MaxFloat64, math.SmallestNonzeroFloat64}},
		{"decimal(5,2)", "decimal(5, 2)", []any{d("-999.99"), d("0.00"), d("999.99")}},
		{"decimal(38,0)", "decimal(38, 0)", []any{d("99999999999999999999999999999999999999"), d("-1")}},
		{"decimal(65,30)", "decimal256(65, 30)", []any{d("-99999999999999999999999999999999999.999999999999999999999999999999"), d("0.000000000000000000000000000001")}},
		{"date", "date32", []any{date("1000-01-01"), date("1969-12-31"), date("9999-12-31"), types.ZeroTime}},
		{"datetime", "timestamp[us]", []any{types.ZeroTime, date("1000-01-01 00:00:00"), date("9999-12-31 23:59:59")}},
		{"datetime(6)", "timestamp[us]", []any{date("1969-12-31 23:59:59.999999"), date("9999-12-31 23:59:59.499999")}},
		{"timestamp", "timestamp[us, tz=UTC]", []any{types.ZeroTime, date("1970-01-01 00:00:01"), date("2038-01-19 03:14:07")}},
		{"timestamp(3)", "timestamp[us, tz=UTC]", []any{date("2024-02-29 12:34:56.789")}},
		{"time(6)", "duration[us]", []any{types.Timespan(-3020399000000), types.Timespan(0), types.Timespan(3020399000000)}},
		{"year", "int16", []any{int16(0), int16(1901), int16(2155)}},
		{"char(3)", "utf8", []any{"", "abc", "äöü"}},
		{"varchar(10)", "utf8", []any{"", "a  ", "日本語"}},
		{"tinytext", "utf8", []any{"", "x"}},
		{"text", "utf8", []any{strings.Repeat("x", 65535)}},
		{"mediumtext", "utf8", []any{"x"}},
		{"longtext", "utf8", []any{"x"}},
		{"binary(4)", "binary", []any{[]byte{1, 0, 255, 0}}},
		{"varbinary(4)", "binary", []any{[]byte{}, []byte{0}, []byte{255, 254}}},
		{"tinyblob", "binary", []any{[]byte{}}},
		{"blob", "binary", []any{[]byte{0, 1, 2}}},
		{"mediumblob", "binary", []any{[]byte{0}}},
		{"longblob", "binary", []any{[]byte{0}}},
		{"enum('b','a','x y')", "utf8", []any{uint16(1), uint16(2), uint16(3)}},
		{"set('b','a','c')", "utf8", []any{uint64(0), uint64(1), uint64(5), uint64(7)}},
		{"bit(1)", "uint64", []any{uint64(0), uint64(1)}},
		{"bit(64)", "uint64", []any{uint64(0), uint64(math.MaxUint64)}},
	}
}

func mustType(t testing.TB, text string) sql.Type {
	t.Helper()
	typ, err := parseType(sql.NewEmptyContext(), text, "utf8mb4_0900_ai_ci")
	require.NoError(t, err, text)
	return typ
}

func TestTypesRoundTrip(t *testing.T) {
	ctx := context.Background()
	for _, c := range typeCases(t) {
		t.Run(c.text, func(t *testing.T) {
			typ := mustType(t, c.text)
			k, err := newCodec(typ)
			require.NoError(t, err)
			require.Equal(t, c.arrow, k.arrow.String())
			field := arrow.Field{Name: "c", Type: k.arrow, Nullable: true}
			var rows []arrowx.Row
			for _, v := range c.values {
				converted, in, err := typ.Convert(ctx, v)
				require.NoError(t, err)
				require.Equal(t, sql.InRange, in)
				cell, err := k.encode(ctx, converted)
				require.NoError(t, err)
				rows = append(rows, arrowx.Row{cell})
			}
			rec, err := arrowx.FromRows(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{field}, nil), rows)
			require.NoError(t, err)
			defer rec.Release()
			for i, v := range c.values {
				cell := arrowx.Value(rec.Column(0), i)
				got := cell
				if k.decode != nil {
					got, err = k.decode(cell)
					require.NoError(t, err)
				}
				require.IsType(t, v, got)
				n, err := typ.Compare(ctx, v, got)
				require.NoError(t, err)
				require.Zero(t, n, "%v came back as %v", v, got)
				if a, ok := v.(*apd.Decimal); ok {
					require.Equal(t, a.Text('f'), got.(*apd.Decimal).Text('f'))
				}
			}
		})
	}
}

func TestTypeTextRoundTrip(t *testing.T) {
	ctx := sql.NewEmptyContext()
	for _, c := range typeCases(t) {
		for _, collation := range []string{"utf8mb4_0900_ai_ci", "utf8mb4_0900_bin", "utf8mb4_general_ci", "latin1_swedish_ci"} {
			typ, err := parseType(ctx, c.text, collation)
			require.NoError(t, err, c.text)
			text, name := typeText(typ)
			back, err := parseType(ctx, text, name)
			require.NoError(t, err)
			require.True(t, back.Equals(typ), "%s under %s came back as %s under %s", c.text, collation, text, name)
		}
	}
}

func TestUnsupportedTypes(t *testing.T) {
	_, err := newCodec(types.VectorType{}) // of any length, as functions return it
	var e *mysql.SQLError
	require.ErrorAs(t, err, &e)
	require.Equal(t, 1235, e.Num)
}

func TestValuesRefused(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		text  string
		value any
	}{
		{"double", math.NaN()}, {"double", math.Inf(1)},
		{"varchar(10)", "\xff"}, {"tinyint", int64(300)}, {"decimal(3,1)", "100"},
	} {
		k, err := newCodec(mustType(t, c.text))
		require.NoError(t, err)
		_, err = k.encode(ctx, c.value)
		require.Error(t, err, "%s %v", c.text, c.value)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	ctx := context.Background()
	k := jsonCodec()
	for _, text := range []string{`{"a": [1, 2.5, null, "x"], "b": true}`, `12345678901234567890`, `"ä"`, `null`, `[]`} {
		v, _, err := types.JSON.Convert(ctx, text)
		require.NoError(t, err)
		cell, err := k.encode(ctx, v)
		require.NoError(t, err)
		back, err := k.decode(cell)
		require.NoError(t, err)
		n, err := types.JSON.Compare(ctx, v, back)
		require.NoError(t, err)
		require.Zero(t, n, text)
	}
}

func TestDiskNames(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "a b": "a b", "a.b": "a%2Eb", "50%": "50%25", "_rowid": "%5Frowid", "_ROWADDR": "%5FROWADDR",
		"_x": "_x", "__lancesql_key": "%5F_lancesql_key", "ä": "ä", "a\tb": "a%09b",
	} {
		require.Equal(t, want, diskName(name))
	}
}
