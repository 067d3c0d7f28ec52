package btree_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
)

// keyBatch has the key columns of rows that repeat keys.
func keyBatch(t testing.TB, types []arrow.DataType, rng *rand.Rand, rows int) arrow.RecordBatch {
	t.Helper()
	var fields []arrow.Field
	var cols []arrow.Array
	for i, typ := range types {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("k", i), Type: typ})
		cells := make([]any, rows)
		for r := range cells {
			if cells[r] = cell(typ, rng, 0); len(types) > 1 {
				cells[r] = number(typ, rng.Intn(12))
			}
		}
		cols = append(cols, cellsOf(t, typ, cells...))
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(rows))
}

// writePK writes the sidecar of the rows of rec.
func writePK(t testing.TB, rec arrow.RecordBatch, cols []int) (store.Dir, arrow.DataType) {
	t.Helper()
	var types []arrow.DataType
	for _, c := range cols {
		types = append(types, rec.Column(c).DataType())
	}
	typ, err := btree.PKType(types)
	require.NoError(t, err)
	s, err := btree.NewSorter(typ, 0, nil)
	require.NoError(t, err)
	values, err := btree.PKValues(nil, rec, cols)
	require.NoError(t, err)
	defer values.Release()
	require.NoError(t, s.Add(btree.Batch{Values: values, IDs: counting(0, values.Len())}))
	dir := store.NewDir(objstore.NewMem(), "g/"+btree.PKDir, nil)
	_, err = btree.BuildPK(t.Context(), dir, typ, s.Stream())
	require.NoError(t, err)
	return dir, typ
}

// TestPKModel: the greatest offset of a key below a bound, for all types of single keys and for composite ones, with
// keys from arrays and from tuples.
func TestPKModel(t *testing.T) {
	var cases [][]arrow.DataType
	for _, typ := range types() {
		if rowkey.Encodable(typ) {
			cases = append(cases, []arrow.DataType{typ})
		}
	}
	cases = append(cases, []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String},
		[]arrow.DataType{arrow.BinaryTypes.Binary, arrow.PrimitiveTypes.Uint16, arrow.FixedWidthTypes.Boolean})
	for i, columns := range cases {
		rng := rand.New(rand.NewSource(int64(i)))
		rows := []int{1, 500, 20_000}[i%3] // more than one page
		rec := keyBatch(t, columns, rng, rows)
		cols := make([]int, len(columns))
		for c := range cols {
			cols[c] = c
		}
		dir, typ := writePK(t, rec, cols)
		pk, err := btree.OpenPK(t.Context(), dir, typ, uint64(rows), nil)
		require.NoError(t, err)
		enc, err := rowkey.NewEncoder(columns)
		require.NoError(t, err)
		stored, err := enc.Batch(rec, cols)
		require.NoError(t, err)

		asked := keyBatch(t, columns, rng, 150)
		tuples, err := enc.Batch(asked, cols)
		require.NoError(t, err)
		values, err := btree.PKValues(nil, asked, cols)
		require.NoError(t, err)
		fromValues, err := btree.NewKeys(values)
		require.NoError(t, err)
		fromTuples, err := btree.KeysOfTuples(typ, len(cols) > 1, tuples)
		require.NoError(t, err)
		for _, bound := range []uint64{0, 1, uint64(rows) / 2, uint64(rows), 1 << 40} {
			expect := map[int32]uint64{}
			for r, tuple := range tuples {
				for o := min(int(bound), rows) - 1; o >= 0; o-- {
					if stored[o] == tuple {
						expect[int32(r)] = uint64(o)
						break
					}
				}
			}
			for _, keys := range []*btree.Keys{fromValues, fromTuples} {
				hits, err := pk.Last(t.Context(), keys, bound, nil)
				require.NoError(t, err)
				got := map[int32]uint64{}
				for _, h := range hits {
					_, twice := got[h.Row]
					require.False(t, twice)
					got[h.Row] = h.ID
				}
				require.Equal(t, expect, got, "%v below %d", columns, bound)
			}
		}
		hits, err := pk.Rows(t.Context(), fromTuples, nil)
		require.NoError(t, err)
		for _, h := range hits {
			require.Equal(t, tuples[h.Row], stored[h.ID])
		}
		seen := 0
		require.NoError(t, pk.Index().Tuples(t.Context(), len(cols) > 1, "", "", func(k rowkey.Key, id uint64) (bool, error) {
			require.Equal(t, stored[id], k)
			seen++
			return true, nil
		}))
		require.Equal(t, rows, seen)
		require.NoError(t, pk.Close())
	}
}

// TestPKHotKey: a key with more rows than fit a page.
func TestPKHotKey(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int64
	b := array.NewInt64Builder(alloc())
	for i := range 50_000 {
		b.Append(int64(i % 2)) // two keys
	}
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "k", Type: typ}}, nil), []arrow.Array{b.NewArray()}, 50_000)
	dir, _ := writePK(t, rec, []int{0})
	pk, err := btree.OpenPK(t.Context(), dir, typ, 50_000, nil)
	require.NoError(t, err)
	keys, err := btree.NewKeys(cellsOf(t, typ, int64(1), int64(0), int64(1), nil))
	require.NoError(t, err)
	require.Equal(t, 3, keys.Len())
	for _, bound := range []uint64{2, 16_384, 16_385, 40_001, 50_000} {
		hits, err := pk.Last(t.Context(), keys, bound, nil)
		require.NoError(t, err)
		even, odd := (bound-1)/2*2, bound/2*2-1
		require.Equal(t, []btree.Hit{{1, even}, {0, odd}, {2, odd}}, hits, "below %d", bound)
	}
	only, err := keys.Only([]int32{2})
	require.NoError(t, err)
	hits, err := pk.Last(t.Context(), only, 10, nil)
	require.NoError(t, err)
	require.Equal(t, []btree.Hit{{2, 9}}, hits)
}

// TestPKForeignOrder: a sidecar whose offsets are not in order inside a key is read all the same.
func TestPKForeignOrder(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int64
	dir := memDir()
	_, err := btree.Build(t.Context(), dir, typ, batches(btree.Batch{Values: cellsOf(t, typ, int64(7), int64(7), int64(7)), IDs: []uint64{2, 0, 1}}), btree.Options{})
	require.NoError(t, err)
	pk, err := btree.OpenPK(t.Context(), dir, typ, 3, nil)
	require.NoError(t, err)
	keys, err := btree.NewKeys(cellsOf(t, typ, int64(7)))
	require.NoError(t, err)
	for bound, expect := range [][]btree.Hit{nil, {{0, 0}}, {{0, 1}}, {{0, 2}}} {
		hits, err := pk.Last(t.Context(), keys, uint64(bound), nil)
		require.NoError(t, err)
		require.Equal(t, expect, hits)
	}
}

func TestPKRefuses(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int32
	dir := memDir()
	same := btree.Batch{Values: cellsOf(t, typ, int32(1), int32(1)), IDs: []uint64{1, 0}}
	_, err := btree.BuildPK(t.Context(), dir, typ, batches(same))
	require.ErrorIs(t, err, errs.ErrInvalid, "offsets out of order")
	_, err = btree.PKType([]arrow.DataType{arrow.PrimitiveTypes.Float64})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	_, err = btree.BuildPK(t.Context(), dir, typ, batches(btree.Batch{Values: cellsOf(t, typ, int32(1), int32(2)), IDs: []uint64{0, 9}}))
	require.NoError(t, err)
	_, err = btree.OpenPK(t.Context(), dir, typ, 3, nil)
	require.ErrorIs(t, err, errs.ErrCorruption)
	_, err = btree.OpenPK(t.Context(), dir, arrow.BinaryTypes.Binary, 2, nil)
	require.ErrorIs(t, err, errs.ErrCorruption)
	pk, err := btree.OpenPK(t.Context(), dir, typ, 2, nil)
	require.NoError(t, err)
	keys, err := btree.KeysOfTuples(typ, false, []rowkey.Key{rowkey.Key(rowkey.AppendInt64(nil, 2)), rowkey.Key(rowkey.AppendNull(nil))})
	require.NoError(t, err)
	require.Equal(t, 1, keys.Len())
	_, err = pk.Last(t.Context(), keys, 100, nil)
	require.ErrorIs(t, err, errs.ErrCorruption, "an offset beyond the rows")
	for _, bad := range []rowkey.Key{"", "\x02", "\x00\x00", "\x01", "\x01abc", "\x01123456789"} {
		_, err = btree.KeysOfTuples(typ, false, []rowkey.Key{bad})
		require.ErrorIs(t, err, errs.ErrInvalid, "%x", string(bad))
	}
	for _, bad := range []rowkey.Key{"\x01", "\x01abc", "\x01a\x00", "\x01a\x00\x01", "\x01a\x00\x00b"} {
		_, err = btree.KeysOfTuples(arrow.BinaryTypes.String, false, []rowkey.Key{bad})
		require.ErrorIs(t, err, errs.ErrInvalid, "%x", string(bad))
	}
	_, err = btree.KeysOfTuples(typ, true, nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
}

// TestKeysOrder: keys are looked up by value whatever their order, and Row says where they came from.
func TestKeysOrder(t *testing.T) {
	typ := arrow.BinaryTypes.String
	x := build(t, cellsOf(t, typ, "a", "b", "c", "d", "b"), btree.Options{PageRows: 2})
	keys, err := btree.NewKeys(cellsOf(t, typ, "d", nil, "b", "x", "b", "a"))
	require.NoError(t, err)
	hits, err := x.Lookup(t.Context(), keys, nil)
	require.NoError(t, err)
	require.Equal(t, []btree.Hit{{5, 0}, {2, 1}, {2, 4}, {4, 1}, {4, 4}, {0, 3}}, hits)
}
