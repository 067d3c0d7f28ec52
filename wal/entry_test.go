package wal_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/wal"
)

func meta(kv ...string) arrow.Metadata {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return arrow.MetadataFrom(m)
}

// testSchema is a shard schema: key, values of several types, tombstone.
func testSchema() *arrow.Schema {
	md := meta("comment", "of the table", "writer_epoch", "999")
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: meta("lance-schema:unenforced-primary-key", "true",
			"lance-schema:unenforced-primary-key:position", "1", "lance:field_id", "0")},
		{Name: "name", Type: arrow.BinaryTypes.String, Metadata: meta("lancesql:name", "Näme")},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}, Nullable: true},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true},
		{Name: "ok", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "raw", Type: arrow.BinaryTypes.LargeBinary, Nullable: true},
		{Name: "_tombstone", Type: arrow.FixedWidthTypes.Boolean},
	}, &md)
}

func row(id int64, name string) arrowx.Row {
	return arrowx.Row{id, name, decimal128.FromI64(id * 7), arrow.Timestamp(id), id%2 == 0, []byte{0, byte(id)}, false}
}

func tombstone(id int64) arrowx.Row { return arrowx.Row{id, nil, nil, nil, nil, nil, true} }

func batch(t testing.TB, schema *arrow.Schema, rows ...arrowx.Row) arrow.RecordBatch {
	rec, err := arrowx.FromRows(memory.DefaultAllocator, schema, rows)
	require.NoError(t, err)
	t.Cleanup(rec.Release)
	return rec
}

func rowsOf(batches []arrow.RecordBatch) []arrowx.Row {
	var out []arrowx.Row
	for _, b := range batches {
		for i := range int(b.NumRows()) {
			out = append(out, arrowx.RowOf(b, i))
		}
	}
	return out
}

func TestEntryRoundTrip(t *testing.T) {
	s := testSchema()
	rows := []arrowx.Row{row(1, "a"), row(2, "b"), tombstone(1)}
	data, err := wal.EncodeEntry(s, 7, 3, []arrow.RecordBatch{batch(t, s, rows[:2]...), batch(t, s), batch(t, s, rows[2])})
	require.NoError(t, err)
	e, err := wal.DecodeEntry("x", data)
	require.NoError(t, err)
	defer e.Release()
	require.Equal(t, wal.Epoch(7), e.Epoch)
	require.Equal(t, uint64(3), e.Generation)
	require.False(t, e.Sentinel)
	require.Len(t, e.Batches, 2, "empty batches are left out")
	require.Equal(t, rows, rowsOf(e.Batches))

	got := e.Batches[0].Schema()
	md := got.Metadata()
	for k, v := range map[string]string{"writer_epoch": "7", "generation": "3", "comment": "of the table"} {
		x, ok := md.GetValue(k)
		require.True(t, ok, k)
		require.Equal(t, v, x, k)
	}
	for i, f := range got.Fields() {
		require.Equal(t, s.Field(i).Name, f.Name)
		require.Equal(t, s.Field(i).Metadata.ToMap(), f.Metadata.ToMap())
		require.Equal(t, f.Name != "id" && f.Name != "_tombstone", f.Nullable, f.Name)
	}
}

func TestEntryIsAnOrdinaryStream(t *testing.T) {
	s := testSchema()
	data, err := wal.EncodeEntry(s, 7, 0, []arrow.RecordBatch{batch(t, s, row(1, "a"))})
	require.NoError(t, err)
	rd, err := ipc.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	defer rd.Release()
	md := rd.Schema().Metadata()
	require.Equal(t, -1, md.FindKey("generation"))
	require.True(t, rd.Next())
	require.EqualValues(t, 1, rd.RecordBatch().NumRows())
	require.False(t, rd.Next())
	require.NoError(t, rd.Err())
}

func TestSentinelForm(t *testing.T) {
	data, err := wal.EncodeSentinel(12)
	require.NoError(t, err)
	require.Less(t, len(data), 400)
	rd, err := ipc.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	defer rd.Release()
	require.Equal(t, 0, rd.Schema().NumFields())
	md := rd.Schema().Metadata()
	require.Equal(t, map[string]string{"fence_sentinel": "true", "writer_epoch": "12"}, md.ToMap())
	require.False(t, rd.Next())

	e, err := wal.DecodeEntry("x", data)
	require.NoError(t, err)
	require.Equal(t, wal.Entry{Epoch: 12, Sentinel: true}, e)
}

func TestEncodeRefuses(t *testing.T) {
	s := testSchema()
	good := batch(t, s, row(1, "a"))
	noTomb := arrow.NewSchema(s.Fields()[:6], nil)
	nullKey := batch(t, s, arrowx.Row{nil, "a", nil, nil, nil, nil, false})
	dict := arrow.NewSchema([]arrow.Field{{Name: "d", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8,
		ValueType: arrow.BinaryTypes.String}}, s.Field(6)}, nil)
	for name, c := range map[string]struct {
		schema  *arrow.Schema
		batches []arrow.RecordBatch
		want    error
	}{
		"no rows":      {s, []arrow.RecordBatch{batch(t, s)}, errs.ErrInvalid},
		"no batches":   {s, nil, errs.ErrInvalid},
		"no tombstone": {noTomb, []arrow.RecordBatch{good}, errs.ErrInvalid},
		"null key":     {s, []arrow.RecordBatch{nullKey}, errs.ErrInvalid},
		"dictionary":   {dict, []arrow.RecordBatch{good}, errs.ErrUnsupported},
	} {
		_, err := wal.EncodeEntry(c.schema, 1, 1, c.batches)
		require.ErrorIs(t, err, c.want, name)
	}
}

// write is a foreign writer's entry: whatever schema and metadata are given.
func write(t testing.TB, s *arrow.Schema, recs ...arrow.RecordBatch) []byte {
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(s))
	for _, r := range recs {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func TestDecodeForeignEntry(t *testing.T) {
	md := meta("writer_epoch", "2")
	s := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}}, &md)
	data := write(t, s, batch(t, s, arrowx.Row{int32(5)}), batch(t, s, arrowx.Row{int32(6)}))
	e, err := wal.DecodeEntry("x", data)
	require.NoError(t, err)
	defer e.Release()
	require.Equal(t, []arrowx.Row{{int32(5)}, {int32(6)}}, rowsOf(e.Batches))
	require.Zero(t, e.Generation)
}

// goldenEntry is an entry that lancedb 0.39 wrote: rows (1, "ref 1") and (2, "ref 2").
func goldenEntry(t testing.TB) []byte {
	data, err := os.ReadFile("testdata/lancedb_0_39_entry.arrow")
	require.NoError(t, err)
	return data
}

func TestDecodeGolden(t *testing.T) {
	e, err := wal.DecodeEntry("x", goldenEntry(t))
	require.NoError(t, err)
	defer e.Release()
	require.Equal(t, wal.Epoch(1), e.Epoch)
	require.Zero(t, e.Generation)
	require.Equal(t, []arrowx.Row{{int64(1), "ref 1", false}, {int64(2), "ref 2", false}}, rowsOf(e.Batches))
}

func TestDecodeRefuses(t *testing.T) {
	s := testSchema()
	good, err := wal.EncodeEntry(s, 7, 3, []arrow.RecordBatch{batch(t, s, row(1, "a"))})
	require.NoError(t, err)
	sentinel := meta("writer_epoch", "1", "fence_sentinel", "true")
	one := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}}
	withRows := arrow.NewSchema(one, &sentinel)
	bare := arrow.NewSchema(one, nil)
	bad := meta("writer_epoch", "-1")
	for name, data := range map[string][]byte{
		"empty":                 nil,
		"text":                  []byte("not an arrow stream at all"),
		"no epoch":              write(t, bare),
		"bad epoch":             write(t, arrow.NewSchema(one, &bad)),
		"sentinel with batches": write(t, withRows, batch(t, withRows, arrowx.Row{int32(1)})),
		"trailing bytes":        append(append([]byte{}, good...), 0),
		"no end marker":         good[:len(good)-8],
	} {
		_, err := wal.DecodeEntry("dir/wal/x.arrow", data)
		require.ErrorIs(t, err, errs.ErrCorruption, name)
		require.ErrorContains(t, err, "dir/wal/x.arrow", name)
	}
	for n := range good {
		_, err := wal.DecodeEntry("x", good[:n])
		require.ErrorIs(t, err, errs.ErrCorruption, "cut at %d", n)
	}
}

// Every flipped bit either shows, or leaves the decoded entry as it was (padding of the schema message).
func TestFlippedBitsShow(t *testing.T) {
	s := testSchema()
	rec := batch(t, s, row(1, "a"), tombstone(2), row(3, "ccc"))
	good, err := wal.EncodeEntry(s, 7, 3, []arrow.RecordBatch{rec})
	require.NoError(t, err)
	want := describe(t, good)
	silent := 0
	for i := range good {
		for bit := range 8 {
			data := bytes.Clone(good)
			data[i] ^= 1 << bit
			e, err := wal.DecodeEntry("x", data)
			if err != nil {
				require.ErrorIs(t, err, errs.ErrCorruption)
				continue
			}
			e.Release()
			// A type may have changed its look; the shard's schema is the judge of that.
			c, err := conformed(data, s)
			if err != nil {
				continue
			}
			require.Equal(t, want, c, "byte %d bit %d", i, bit)
			silent++
		}
	}
	t.Logf("%d of %d flips are harmless", silent, 8*len(good))
}

func describe(t testing.TB, data []byte) string {
	s, err := conformed(data, testSchema())
	require.NoError(t, err)
	return s
}

func conformed(data []byte, s *arrow.Schema) (string, error) {
	e, err := wal.DecodeEntry("x", data)
	if err != nil {
		return "", err
	}
	defer e.Release()
	out := fmt.Sprint(e.Epoch, e.Generation, e.Sentinel)
	for _, b := range e.Batches {
		c, err := wal.Conform(b, s, []int{0})
		if err != nil {
			return "", err
		}
		out += fmt.Sprint(rowsOf([]arrow.RecordBatch{c}))
		c.Release()
	}
	return out, nil
}

func TestConform(t *testing.T) {
	s := testSchema()
	old := arrow.NewSchema([]arrow.Field{
		{Name: "renamed", Type: arrow.PrimitiveTypes.Int64, Metadata: meta("lance:field_id", "0")},
		{Name: "gone", Type: arrow.PrimitiveTypes.Int64},
		{Name: "name", Type: arrow.BinaryTypes.String},
	}, nil)
	c, err := wal.Conform(batch(t, old, arrowx.Row{int64(4), int64(9), "x"}), s, []int{0})
	require.NoError(t, err)
	defer c.Release()
	require.True(t, c.Schema().Equal(s))
	require.Equal(t, []arrowx.Row{{int64(4), "x", nil, nil, nil, nil, false}}, rowsOf([]arrow.RecordBatch{c}))

	noKey := arrow.NewSchema([]arrow.Field{{Name: "name", Type: arrow.BinaryTypes.String}}, nil)
	_, err = wal.Conform(batch(t, noKey, arrowx.Row{"x"}), s, []int{0})
	require.ErrorIs(t, err, errs.ErrInvalid)
	other := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}}, nil)
	_, err = wal.Conform(batch(t, other, arrowx.Row{int32(1)}), s, []int{0})
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func FuzzDecodeEntry(f *testing.F) {
	s := testSchema()
	data, err := wal.EncodeEntry(s, 7, 3, []arrow.RecordBatch{batch(f, s, row(1, "a"), tombstone(2)), batch(f, s, row(3, "c"))})
	require.NoError(f, err)
	f.Add(data)
	sentinel, err := wal.EncodeSentinel(3)
	require.NoError(f, err)
	f.Add(sentinel)
	f.Add(goldenEntry(f))
	md := meta("writer_epoch", "2")
	nested := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "v", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int16}), Nullable: true},
	}, &md)
	b := array.NewRecordBuilder(memory.DefaultAllocator, nested)
	b.Field(0).AppendValueFromString("5")
	for _, c := range b.Fields()[1:] {
		c.AppendNull()
	}
	rec := b.NewRecordBatch()
	f.Add(write(f, nested, rec))
	rec.Release()
	b.Release()
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := wal.DecodeEntry("x", data)
		if err != nil {
			require.ErrorIs(t, err, errs.ErrCorruption)
			return
		}
		defer e.Release()
		for _, b := range e.Batches { // every cell can be read
			for i := range min(int(b.NumRows()), 1000) {
				arrowx.RowOf(b, i)
				for _, c := range b.Columns() {
					c.GetOneForMarshal(i)
				}
			}
		}
	})
}
