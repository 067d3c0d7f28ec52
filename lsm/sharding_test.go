package lsm

import (
	"context"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/pkstore"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/rowkey"
	"lancesql/lance/table"
	"lancesql/wal"
)

// The vectors of memwal.md §6, most of them read from files of the reference.
func TestBucketHashVectors(t *testing.T) {
	for _, c := range []struct {
		typ  arrow.DataType
		v    any
		hash uint32
		n8   int
		n1k  int
	}{
		{arrow.PrimitiveTypes.Int32, int64(1), 0xfbf1402a, 2, 42},
		{arrow.PrimitiveTypes.Int32, int64(2), 0x40b23b7f, 7, 895},
		{arrow.PrimitiveTypes.Int32, int64(3), 0x32850971, 1, 369},
		{arrow.PrimitiveTypes.Int32, int64(-1), 0x76293b50, 0, 848},
		{arrow.PrimitiveTypes.Int64, int64(0), 0x63852afc, 4, 764},
		{arrow.PrimitiveTypes.Int64, int64(1), 0x53075d44, 4, 324},
		{arrow.PrimitiveTypes.Int64, int64(10), 0xeeb72d3c, 4, 316},
		{arrow.PrimitiveTypes.Int64, int64(11), 0x4911f057, 7, 87},
		{arrow.PrimitiveTypes.Int64, int64(-1), 0x627564e8, 0, 232},
		{arrow.PrimitiveTypes.Uint64, ^uint64(0), 0x627564e8, 0, 232},
		{arrow.PrimitiveTypes.Int64, int64(1 << 40), 0xa9f62f22, 2, 802},
		{arrow.PrimitiveTypes.Uint8, uint64(255), 0xec306c59, 1, 89},
		{arrow.FixedWidthTypes.Boolean, true, 0xfbf1402a, 2, 42},
		{arrow.FixedWidthTypes.Boolean, false, 0x2362f9de, 6, 478},
		{arrow.BinaryTypes.String, []byte(""), 0, 0, 0},
		{arrow.BinaryTypes.String, []byte("a"), 0x2b038801, 1, 1},
		{arrow.BinaryTypes.String, []byte("b"), 0xce94ae25, 5, 549},
		{arrow.BinaryTypes.String, []byte("abcd"), 0x43ed676a, 2, 874},
		{arrow.BinaryTypes.String, []byte("abcde"), 0x94015d5c, 4, 348},
		{arrow.BinaryTypes.LargeString, []byte("é"), 0xf6d63f31, 1, 817},
		{arrow.BinaryTypes.String, []byte("hello world"), 0xaff10c58, 0, 88},
		{arrow.PrimitiveTypes.Int32, nil, 0, 0, 0},
	} {
		h := (&sharder{typ: c.typ}).hash(c.v)
		require.Equal(t, c.hash, h, "%v of %s", c.v, c.typ)
		require.Equal(t, c.n8, bucketOf(h, 8))
		require.Equal(t, c.n1k, bucketOf(h, 1024))
	}
}

// The shard ids of memwal.md §5.2, which lancedb derives the same way.
func TestShardIDVectors(t *testing.T) {
	for name, want := range map[string]string{
		"unsharded":         "aa48498d-ac91-59e2-8452-69f46010ace2",
		"bucket-0":          "4a388480-a25b-59a8-b058-24217f980256",
		"bucket-1":          "8e131bde-8368-54ff-89d9-c2e1cc781b29",
		"bucket-2":          "e00299e4-8c4b-50fc-bbdd-ce8179135761",
		"identity-tenant-a": "365413e3-64c5-5850-a22d-73d798b9867a",
	} {
		require.Equal(t, want, shardID(name).String(), name)
	}
}

func TestShardOfKey(t *testing.T) {
	types := []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32}
	enc, err := rowkey.NewEncoder(types)
	require.NoError(t, err)
	k, err := enc.Tuple("tenant-a", int32(-2))
	require.NoError(t, err)

	row := arrowx.Row{"tenant-a", int32(-2)}
	for _, op := range []Op{{Key: k}, {Row: row}} { // the second: a table without a key
		if op.Row != nil {
			enc = nil
		}
		sh := &sharder{transform: transformIdentity, typ: types[0], encoder: enc}
		v, err := sh.value(op)
		require.NoError(t, err)
		id, err := sh.shard(v)
		require.NoError(t, err)
		require.Equal(t, "365413e3-64c5-5850-a22d-73d798b9867a", id.String())
		sh = &sharder{transform: transformIdentity, column: 1, typ: types[1], encoder: enc}
		v, err = sh.value(op)
		require.NoError(t, err)
		entry, err := sh.entry(v)
		require.NoError(t, err)
		require.Equal(t, []byte{0xfe, 0xff, 0xff, 0xff}, entry)
	}
}

// Cells of rows decide about the shard as the vectors say, in the types that no key can have too.
func TestShardOfRow(t *testing.T) {
	for _, c := range []struct {
		typ  arrow.DataType
		cell any
		hash uint32
	}{
		{arrow.PrimitiveTypes.Int32, int32(-1), 0x76293b50},
		{arrow.PrimitiveTypes.Int64, int64(1) << 40, 0xa9f62f22},
		{arrow.PrimitiveTypes.Uint8, uint8(255), 0xec306c59},
		{arrow.BinaryTypes.String, "é", 0xf6d63f31},
		{arrow.FixedWidthTypes.Date32, arrow.Date32(1), 0xfbf1402a},
		{arrow.FixedWidthTypes.Timestamp_us, arrow.Timestamp(1000), 0xa8875d0c},
		{arrow.PrimitiveTypes.Float32, float32(1.25), 0x61b31248},
		{arrow.PrimitiveTypes.Float64, 1.25, 0x312bdf78},
		{arrow.PrimitiveTypes.Float32, float32(math.NaN()), 0x72e0cd53},
		{arrow.PrimitiveTypes.Float64, math.NaN(), 0x5529940d},
		{arrow.PrimitiveTypes.Float64, math.Copysign(0, -1), 0x63852afc}, // the bits of zero: i64 0
		{arrow.PrimitiveTypes.Float64, nil, 0},
	} {
		sh := &sharder{transform: transformBucket, typ: c.typ}
		require.NoError(t, sh.checkType(), c.typ)
		v, err := sh.value(Op{Row: arrowx.Row{c.cell}})
		require.NoError(t, err)
		require.Equal(t, c.hash, sh.hash(v), "%v of %s", c.cell, c.typ)
	}
	require.ErrorIs(t, (&sharder{transform: transformIdentity, typ: arrow.PrimitiveTypes.Float64}).checkType(), errs.ErrUnsupported)
	_, err := (&sharder{transform: transformBucket, column: 1}).value(Op{Row: arrowx.Row{nil}})
	require.ErrorIs(t, err, errs.ErrInvalid)
	id := &sharder{transform: transformIdentity, typ: arrow.PrimitiveTypes.Int32}
	_, err = id.shard(nil)
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func keyedSchema() *arrow.Schema {
	key := arrow.NewMetadata(
		[]string{"lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"}, []string{"true", "1"})
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: key}, {Name: "d", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
}

func TestShardingIsChecked(t *testing.T) {
	o := Options{Store: objstore.NewMem()}
	create := func(sh Sharding) error {
		return CreateSharded(t.Context(), o, "t.lance", keyedSchema(), nil, sh)
	}
	require.ErrorIs(t, create(Sharding{Column: "x", Buckets: 2}), errs.ErrNotFound)
	require.ErrorIs(t, create(Sharding{Column: "d", Buckets: 2}), errs.ErrUnsupported)
	require.ErrorIs(t, create(Sharding{Column: "id", Buckets: 1025}), errs.ErrInvalid)
	require.NoError(t, create(Sharding{Column: "id", Buckets: 1024}))
	ds, err := table.Open(t.Context(), o.Store, "t.lance")
	require.NoError(t, err)
	require.EqualValues(t, 1024, ds.MemWAL().NumShards)
	require.Equal(t, []table.ShardingField{{FieldID: "bucket", SourceIDs: []int32{0}, Transform: "bucket", ResultType: "int32",
		Parameters: map[string]string{"num_buckets": "1024"}}}, ds.MemWAL().Specs[0].Fields)
}

// The removal of entries waits for the journal and never takes a sentinel.
func TestRemoveWAL(t *testing.T) {
	ctx := context.Background()
	keys, err := pkstore.Open()
	require.NoError(t, err)
	defer keys.Close()
	o := Options{Store: objstore.NewMem(), Keys: keys}
	require.NoError(t, Create(ctx, o, "t.lance", keyedSchema(), nil))
	var tb *Table
	for range 2 { // the second claim leaves a sentinel at position 1
		tb, err = Open(ctx, o, "t.lance")
		require.NoError(t, err)
	}
	dir := "t.lance/_mem_wal/" + unshardedID().String()
	for j := uint64(1); j <= 3; j++ {
		k, err := tb.encoder.Row(arrowx.Row{int64(j), nil}, []int{0})
		require.NoError(t, err)
		s, err := tb.Stage(ctx, []Op{{Key: k, Row: arrowx.Row{int64(j), 0.5}}})
		require.NoError(t, err)
		parts, err := s.Parts()
		require.NoError(t, err)
		require.Len(t, parts, 1)
		tb.Logged(s, j)
		require.NoError(t, tb.Apply(s, j))
		s.Release()
		first, _, waits := tb.Behind()
		require.True(t, waits)
		require.Equal(t, j, first)
		require.NoError(t, tb.WriteBehind(ctx))
	}
	present := func() (out []wal.Position) {
		for p := wal.Position(1); p <= 4; p++ {
			if _, err := o.Store.Stat(ctx, wal.EntryName(dir, p)); err == nil {
				out = append(out, p)
			}
		}
		return out
	}
	require.NoError(t, tb.RemoveWAL(ctx, 100))
	require.Equal(t, []wal.Position{1, 2, 3, 4}, present(), "nothing is flushed yet")
	require.NoError(t, tb.Freeze())
	require.NoError(t, tb.Flush(ctx))
	require.Equal(t, []wal.Position{1, 2, 3, 4}, present(), "the journal still has the records")
	require.NoError(t, tb.RemoveWAL(ctx, 3))
	require.Equal(t, []wal.Position{1, 4}, present())
	require.NoError(t, tb.Close(ctx))
	tb, err = Open(ctx, o, "t.lance")
	require.NoError(t, err)
	require.EqualValues(t, 3, tb.Evidence(), "of an entry behind the cursor")
	require.NoError(t, tb.RemoveWAL(ctx, 4))
	require.Equal(t, []wal.Position{1}, present()[:1])
	require.NotContains(t, present(), wal.Position(4))
}
