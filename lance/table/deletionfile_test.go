package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func TestDeletionEncodings(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := commit(t, create(t, st, CreateOptions{}), Append{Fragments: []*Fragment{fakeFragment(20000)}})
	for _, c := range []struct {
		rows uint64
		kind DeletionKind
		ext  string
	}{{1, DeletionArrow, ".arrow"}, {5000, DeletionArrow, ".arrow"}, {5001, DeletionBitmap, ".bin"}} {
		set := roaring.New()
		set.AddRange(7, 7+c.rows)
		df, err := d.WriteDeletions(ctx, 0, set)
		require.NoError(t, err)
		require.Equal(t, c.kind, df.Kind)
		require.Equal(t, c.rows, df.Rows)
		require.Equal(t, d.Version(), df.ReadVersion)
		require.True(t, strings.HasSuffix(deletionName(0, df), c.ext))

		next := commit(t, d, Delete{Updated: []*Fragment{d.Fragment(0).WithDeletion(df)}})
		require.Equal(t, 20000-c.rows, next.CountRows())
		got, err := reopen(t, st).Deletions(ctx, next.Fragment(0))
		require.NoError(t, err)
		require.True(t, got.Equals(set))
		d = next
	}
}

func TestDeletionsMustGrow(t *testing.T) {
	ctx := context.Background()
	d := commit(t, create(t, objstore.NewMem(), CreateOptions{}), Append{Fragments: []*Fragment{fakeFragment(10)}})
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 1, 2)}})

	_, err := d.WriteDeletions(ctx, 0, roaring.BitmapOf(1, 3))
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, err = d.WriteDeletions(ctx, 0, roaring.BitmapOf(1, 2, 10))
	require.ErrorIs(t, err, errs.ErrInvalid, "offset beyond the fragment")
	_, err = d.WriteDeletions(ctx, 9, roaring.BitmapOf(1))
	require.ErrorIs(t, err, errs.ErrInvalid, "no such fragment")
	_, err = d.Commit(ctx, Delete{Updated: []*Fragment{d.Fragment(0).WithDeletion(nil)}})
	require.ErrorIs(t, err, errs.ErrInvalid)
}

// A deletion file that disagrees with the manifest is corruption, not a different answer.
func TestDeletionFileMustAgree(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := commit(t, create(t, st, CreateOptions{}), Append{Fragments: []*Fragment{fakeFragment(10)}})
	f := deleteRows(t, d, 0, 1, 2)
	d = commit(t, d, Delete{Updated: []*Fragment{f}})
	name := join(testRoot, deletionsDir, deletionName(0, f.Deletion))
	three, err := encodeDeletionArrow(roaring.BitmapOf(1, 2, 3))
	require.NoError(t, err)
	require.NoError(t, st.Put(ctx, name, three))
	_, err = reopen(t, st).Deletions(ctx, d.Fragment(0))
	require.ErrorIs(t, err, errs.ErrCorruption)
	require.NoError(t, st.Put(ctx, name, three[:len(three)/2]))
	_, err = reopen(t, st).Deletions(ctx, d.Fragment(0))
	require.ErrorIs(t, err, errs.ErrCorruption)
}

// A compressed buffer that claims to be larger than memory is corruption, not an allocation.
func TestDeletionArrowHugeBuffer(t *testing.T) {
	all := roaring.New()
	all.AddRange(0, 4000)
	s := arrow.NewSchema([]arrow.Field{{Name: deletionColumn, Type: arrow.PrimitiveTypes.Uint32}}, nil)
	build := array.NewUint32Builder(memory.DefaultAllocator)
	build.AppendValues(all.ToArray(), nil)
	rec := array.NewRecordBatch(s, []arrow.Array{build.NewArray()}, 4000)
	var out bytes.Buffer
	for _, codec := range []ipc.Option{ipc.WithLZ4(), ipc.WithZstd()} {
		out.Reset()
		w, err := ipc.NewFileWriter(&out, ipc.WithSchema(s), codec)
		require.NoError(t, err)
		require.NoError(t, w.Write(rec))
		require.NoError(t, w.Close())
		got, err := decodeDeletionArrow("x", out.Bytes())
		require.NoError(t, err)
		require.True(t, got.Equals(all))
	}

	size := binary.LittleEndian.AppendUint64(nil, 16000)
	at := bytes.Index(out.Bytes(), size)
	require.Positive(t, at)
	binary.LittleEndian.PutUint64(out.Bytes()[at:], 1<<40)
	_, err := decodeDeletionArrow("x", out.Bytes())
	require.ErrorIs(t, err, errs.ErrCorruption)
}

func TestDeletionArrowRefusesOthers(t *testing.T) {
	field := func(name string, typ arrow.DataType) []arrow.Field { return []arrow.Field{{Name: name, Type: typ}} }
	one := field(deletionColumn, arrow.PrimitiveTypes.Uint32)
	for name, c := range map[string]struct {
		fields  []arrow.Field
		batches int
	}{
		"int32":       {field(deletionColumn, arrow.PrimitiveTypes.Int32), 1},
		"uint64":      {field(deletionColumn, arrow.PrimitiveTypes.Uint64), 1},
		"other name":  {field("rowid", arrow.PrimitiveTypes.Uint32), 1},
		"two batches": {one, 2},
		"no batch":    {one, 0},
		"two columns": {append(field("x", arrow.PrimitiveTypes.Uint32), one...), 1},
	} {
		s := arrow.NewSchema(c.fields, nil)
		var out bytes.Buffer
		w, err := ipc.NewFileWriter(&out, ipc.WithSchema(s))
		require.NoError(t, err)
		for range c.batches {
			b := array.NewRecordBuilder(memory.DefaultAllocator, s)
			for i := range s.NumFields() {
				b.Field(i).AppendEmptyValue()
			}
			require.NoError(t, w.Write(b.NewRecordBatch()))
		}
		require.NoError(t, w.Close())
		_, err = decodeDeletionArrow("x", out.Bytes())
		require.ErrorIs(t, err, errs.ErrCorruption, name)
	}
}

func FuzzDeletionArrow(f *testing.F) {
	for _, b := range []*roaring.Bitmap{roaring.New(), roaring.BitmapOf(0, 5, 9)} {
		data, err := encodeDeletionArrow(b)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := decodeDeletionArrow("fuzz", data); err != nil {
			require.ErrorIs(t, err, errs.ErrCorruption)
		}
	})
}
