package inspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/inspect"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// makeTable writes a table of our own with 10 rows, 3 of them deleted, an index entry and a tag.
func makeTable(t testing.TB) objstore.Store {
	t.Helper()
	ctx := context.Background()
	st := objstore.NewMem()
	plain := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.MetadataFrom(map[string]string{schema.KeyPrimaryKey: "true", schema.KeyPrimaryKeyPosition: "1"})},
		{Name: "name\x1b[31m", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	s, err := schema.FromArrow(plain)
	require.NoError(t, err)
	d, err := table.Create(ctx, st, "t.lance", s, table.CreateOptions{TableMetadata: map[string]string{"note": "a\nb"}})
	require.NoError(t, err)
	var rows []arrowx.Row
	for i := range 10 {
		rows = append(rows, arrowx.Row{int64(i), strings.Repeat("x", i)})
	}
	rec, err := arrowx.FromRows(memory.DefaultAllocator, plain, rows)
	require.NoError(t, err)
	defer rec.Release()
	w, err := d.NewFragmentWriter(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	f, err := w.Finish(ctx)
	require.NoError(t, err)
	d, err = d.Commit(ctx, table.Append{Fragments: []*table.Fragment{f}})
	require.NoError(t, err)
	df, err := d.WriteDeletions(ctx, 0, roaring.BitmapOf(1, 5, 9))
	require.NoError(t, err)
	d, err = d.Commit(ctx, table.Delete{Updated: []*table.Fragment{d.Fragment(0).WithDeletion(df)}, Predicate: "id in (1, 5, 9)"})
	require.NoError(t, err)
	_, err = d.Commit(ctx, &table.CreateIndex{New: []table.IndexEntry{{
		Name: "id_idx", Fields: []int32{0}, DetailsType: "/lance.table.BTreeIndexDetails", Fragments: roaring.BitmapOf(0, 7),
		Files: []table.IndexFile{{Path: "page_data.lance", Size: 12}},
	}}})
	require.NoError(t, err)
	require.NoError(t, st.PutIfAbsent(ctx, "t.lance/_refs/tags/first.json", []byte(`{"version":2,"manifestSize":1}`)))
	return st
}

func look(st inspect.Store) *inspect.Report {
	r := inspect.NewReport("t.lance", inspect.KindDataset)
	r.InspectDataset(context.Background(), st, "t.lance")
	return r
}

func text(t testing.TB, r *inspect.Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b))
	return b.String()
}

func TestDataset(t *testing.T) {
	r := look(makeTable(t))
	require.NoError(t, r.Err())
	d := r.Dataset
	require.Equal(t, []uint64{1, 2, 3, 4}, d.Versions)
	require.EqualValues(t, 7, d.Rows)
	require.EqualValues(t, 10, d.PhysicalRows)
	require.Equal(t, []inspect.Ref{{Name: "first", Version: 2}}, d.Tags)
	require.Len(t, d.Indexes, 1)
	require.Equal(t, "BTree", d.Indexes[0].Kind)
	require.Equal(t, []uint64{0}, d.Indexes[0].Fragments)
	require.EqualValues(t, 1, d.Indexes[0].Gone)
	var kinds []string
	for _, x := range d.Transactions {
		kinds = append(kinds, x.Operation)
	}
	require.Equal(t, []string{"overwrite", "append", "delete", "create index"}, kinds)
	f := d.Fragments[0]
	require.EqualValues(t, 3, *f.Deletions.Stored)
	require.Equal(t, "array", f.Deletions.Encoding)
	require.EqualValues(t, 10, f.Files[0].Contents.Rows)
	require.Equal(t, "id", f.Files[0].Contents.Columns[0].Field)
	out := text(t, r)
	require.NotContains(t, out, "\x1b", "names are made safe for terminals")
	require.Contains(t, out, `"name\x1b[31m"`)
	require.Contains(t, out, `"a\nb"`)
	for line := range strings.Lines(out) {
		require.False(t, strings.HasSuffix(line, " \n"), "%q", line)
	}
}

// readOnly holds the objects of a store with some of them replaced.
type readOnly struct {
	objstore.Store
	instead map[string][]byte
}

func (s readOnly) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	if b, ok := s.instead[name]; ok {
		return b, nil
	}
	return s.Store.ReadAll(ctx, name, limit)
}

func (s readOnly) ReadAt(ctx context.Context, name string, p []byte, off int64) error {
	if b, ok := s.instead[name]; ok {
		if off < 0 || off+int64(len(p)) > int64(len(b)) {
			return errs.ErrInvalid
		}
		copy(p, b[off:])
		return nil
	}
	return s.Store.ReadAt(ctx, name, p, off)
}

func (s readOnly) Stat(ctx context.Context, name string) (objstore.Info, error) {
	i, err := s.Store.Stat(ctx, name)
	if b, ok := s.instead[name]; ok {
		i.Size = int64(len(b))
	}
	return i, err
}

func objects(t testing.TB, st objstore.Store) []string {
	var names []string
	require.NoError(t, objstore.Walk(context.Background(), st, "", func(i objstore.Info) error { names = append(names, i.Name); return nil }))
	slices.Sort(names)
	return names
}

// TestEveryTruncation cuts every object everywhere: the report names it, and the rest stays.
func TestEveryTruncation(t *testing.T) {
	st := makeTable(t)
	ctx := context.Background()
	for _, name := range objects(t, st) {
		if path.Ext(name) == ".json" && !strings.Contains(name, "_refs") || strings.Contains(name, "_versions/1844674407370955161") && !strings.Contains(name, "51611.") {
			continue // the hint is not read, nor are old versions
		}
		whole, err := st.ReadAll(ctx, name, 1<<20)
		require.NoError(t, err)
		for n := 0; n < len(whole); n += 1 + len(whole)/97 {
			r := look(readOnly{st, map[string][]byte{name: whole[:n]}})
			if path.Ext(name) == ".txn" && r.Err() == nil {
				continue // a protobuf message cut between fields is a message
			}
			require.ErrorIs(t, r.Err(), errs.ErrCorruption, "%s at %d", name, n)
			require.Equal(t, name, r.Problems[0].Object)
			require.NotNil(t, r.Dataset)
			require.NotEmpty(t, text(t, r))
		}
	}
}

func TestRandomDamage(t *testing.T) {
	st := makeTable(t)
	ctx := context.Background()
	names := objects(t, st)
	rng := rand.New(rand.NewSource(1))
	for range 1500 {
		name := names[rng.Intn(len(names))]
		b, err := st.ReadAll(ctx, name, 1<<20)
		require.NoError(t, err)
		b = slices.Clone(b)
		for range 1 + rng.Intn(4) {
			b[rng.Intn(len(b))] = byte(rng.Intn(256))
		}
		r := look(readOnly{st, map[string][]byte{name: b}})
		var out bytes.Buffer
		require.NoError(t, r.WriteJSON(&out))
		require.True(t, json.Valid(out.Bytes()))
		_ = text(t, r)
	}
}

// TestCorpus inspects what pylance and lancedb wrote.
func TestCorpus(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", "testdata", "golden", "corpus"))
	require.NoError(t, err)
	st, err := objstore.OpenDisk(root)
	require.NoError(t, err)
	defer st.Close()
	ctx := context.Background()
	seen := map[string]int{}
	require.NoError(t, objstore.Walk(ctx, st, "", func(i objstore.Info) error {
		if strings.HasPrefix(i.Name, "truth/") {
			return nil
		}
		kind, err := inspect.KindOfFile(ctx, st, i.Name)
		require.NoError(t, err)
		r := inspect.NewReport(path.Base(i.Name), kind)
		switch kind {
		case inspect.KindDataFile:
			r.InspectDataFile(ctx, st, i.Name)
		case inspect.KindManifest:
			r.InspectManifest(ctx, st, i.Name)
		case inspect.KindTransaction:
			r.InspectTransaction(ctx, st, i.Name)
		case inspect.KindDeletions:
			r.InspectDeletions(ctx, st, i.Name)
		default:
			return nil
		}
		seen[kind]++
		_ = text(t, r)
		if strings.Contains(i.Name, "legacy.lance/") && r.Err() != nil {
			require.ErrorIs(t, r.Err(), errs.ErrUnsupported, i.Name)
			return nil
		}
		require.NoError(t, r.Err(), i.Name)
		if base := path.Base(i.Name); kind == inspect.KindManifest {
			dir := path.Dir(path.Dir(i.Name))
			ok, err := inspect.IsDataset(ctx, st, dir)
			require.NoError(t, err)
			require.True(t, ok, base)
		}
		return nil
	}))
	for _, kind := range []string{inspect.KindDataFile, inspect.KindManifest, inspect.KindTransaction, inspect.KindDeletions} {
		require.NotZero(t, seen[kind], kind)
	}
}
