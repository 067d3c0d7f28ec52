package sqlbackend_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// foreign does what another Lance writer does to the store of a script:
//
//	\dataset PATH NAME TYPE [notnull] [key=N], …   makes a dataset with rows 1 and 2
//	\append PATH N                                 appends row N
//
// Row n has n in numbers, r{n} in texts, NULL in nullable columns if n is 2.
func (w *world) foreign(t *testing.T, stmt string) {
	command, rest, _ := strings.Cut(stmt, " ")
	path, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	switch command {
	case `\dataset`:
		var fields []arrow.Field
		for _, text := range strings.Split(rest, ",") {
			fields = append(fields, foreignField(t, strings.Fields(text)))
		}
		s := arrow.NewSchema(fields, nil)
		ls, err := schema.FromArrow(s)
		require.NoError(t, err)
		ds, err := table.Create(t.Context(), w.store, path, ls, table.CreateOptions{})
		require.NoError(t, err)
		w.append(t, ds, s, 1, 2)
	case `\append`:
		ds, err := table.Open(t.Context(), w.store, path)
		require.NoError(t, err)
		s, err := ds.Schema().Arrow()
		require.NoError(t, err)
		n, err := strconv.Atoi(rest)
		require.NoError(t, err)
		w.append(t, ds, s, n)
	default:
		t.Fatalf("unknown command %s", command)
	}
}

func (w *world) append(t *testing.T, ds *table.Dataset, s *arrow.Schema, numbers ...int) {
	columns := make([]arrow.Array, s.NumFields())
	for i, f := range s.Fields() {
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		defer b.Release()
		for _, n := range numbers {
			switch text := strconv.Itoa(n); {
			case f.Nullable && n == 2:
				b.AppendNull()
			case f.Type.ID() == arrow.BINARY:
				b.(*array.BinaryBuilder).AppendString("r" + text)
			case f.Type.ID() == arrow.STRING || f.Type.ID() == arrow.LARGE_STRING:
				require.NoError(t, b.AppendValueFromString("r"+text))
			case f.Type.ID() == arrow.FIXED_SIZE_LIST:
				require.NoError(t, b.AppendValueFromString(fmt.Sprintf("[%d,%d]", n, n)))
			case f.Type.ID() == arrow.BOOL:
				require.NoError(t, b.AppendValueFromString("true"))
			case f.Type.ID() == arrow.DATE32:
				require.NoError(t, b.AppendValueFromString("2026-01-0"+text))
			case f.Type.ID() == arrow.TIMESTAMP:
				const day = 86400e6 // of January 1970
				b.(*array.TimestampBuilder).Append(arrow.Timestamp(n*day + 1))
			case f.Type.ID() == arrow.DURATION:
				b.(*array.DurationBuilder).Append(arrow.Duration(n * 1_000_000))
			default:
				require.NoError(t, b.AppendValueFromString(text))
			}
		}
		columns[i] = b.NewArray()
		defer columns[i].Release()
	}
	rec := array.NewRecordBatch(s, columns, int64(len(numbers)))
	defer rec.Release()
	_, err := ds.Append(t.Context(), table.Records(s, rec), table.WriteOptions{})
	require.NoError(t, err)
}

func foreignField(t *testing.T, words []string) arrow.Field {
	kinds := map[string]arrow.DataType{
		"int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16, "int32": arrow.PrimitiveTypes.Int32, "int64": arrow.PrimitiveTypes.Int64,
		"uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16, "uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64,
		"float": arrow.PrimitiveTypes.Float32, "double": arrow.PrimitiveTypes.Float64, "utf8": arrow.BinaryTypes.String, "binary": arrow.BinaryTypes.Binary,
		"decimal": &arrow.Decimal128Type{Precision: 10, Scale: 2}, "decimal256": &arrow.Decimal256Type{Precision: 50, Scale: 3},
		"date": arrow.FixedWidthTypes.Date32, "datetime": &arrow.TimestampType{Unit: arrow.Microsecond}, "duration": arrow.FixedWidthTypes.Duration_us,
		"timestamp": &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, "nanoseconds": &arrow.TimestampType{Unit: arrow.Nanosecond},
		"bool": arrow.FixedWidthTypes.Boolean, "largeutf8": arrow.BinaryTypes.LargeString, "vector": arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32),
	}
	require.GreaterOrEqual(t, len(words), 2)
	f := arrow.Field{Name: words[0], Type: kinds[words[1]], Nullable: true}
	require.NotNil(t, f.Type, words[1])
	for _, w := range words[2:] {
		if n, ok := strings.CutPrefix(w, "key="); ok {
			f.Metadata = arrow.MetadataFrom(map[string]string{"lance-schema:unenforced-primary-key": "true", "lance-schema:unenforced-primary-key:position": n})
		} else {
			require.Equal(t, "notnull", w)
			f.Nullable = false
		}
	}
	return f
}
