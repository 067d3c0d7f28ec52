package btree_test

import (
	"context"
	"errors"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/indexes"
	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
)

// segmentBytes are the two files of a segment.
type segmentBytes struct{ data, lookup []byte }

func readSegment(t testing.TB, st objstore.Store, dir string) segmentBytes {
	t.Helper()
	data, err := st.ReadAll(t.Context(), dir+"/"+btree.DataFile, 1<<30)
	require.NoError(t, err)
	lookup, err := st.ReadAll(t.Context(), dir+"/"+btree.LookupFile, 1<<30)
	require.NoError(t, err)
	return segmentBytes{data, lookup}
}

// seeds are small segments: some of ours over all kinds of types, and the golden ones.
func seeds(t testing.TB) []segmentBytes {
	t.Helper()
	var out []segmentBytes
	for i, typ := range types() {
		if i%3 != 0 && typ.ID() != arrow.STRING && typ.ID() != arrow.FLOAT64 {
			continue
		}
		rng := rand.New(rand.NewSource(int64(i)))
		st := objstore.NewMem()
		s, err := btree.NewSorter(typ, 0, nil)
		require.NoError(t, err)
		require.NoError(t, s.Add(btree.Batch{Values: randomArray(t, typ, rng, 60, 10), IDs: counting(0, 60)}))
		_, err = btree.Build(t.Context(), store.NewDir(st, "x", nil), typ, s.Stream(), btree.Options{PageRows: 16})
		require.NoError(t, err)
		out = append(out, readSegment(t, st, "x"))
	}
	golden := filepath.Join(oracle.Root(t), "testdata", "golden")
	found, err := filepath.Glob(filepath.Join(golden, "generation", "*.lance", "_mem_wal", "*", "*", btree.PKDir))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(golden, "btree", "*.lance", "_indices", "*"))
	require.NoError(t, err)
	found = append(found, more...)
	require.NotEmpty(t, found)
	for _, dir := range found {
		data, err := os.ReadFile(filepath.Join(dir, btree.DataFile))
		require.NoError(t, err)
		lookup, err := os.ReadFile(filepath.Join(dir, btree.LookupFile))
		require.NoError(t, err)
		out = append(out, segmentBytes{data, lookup})
	}
	return out
}

func requireKnown(t testing.TB, err error) {
	t.Helper()
	for _, known := range []error{nil, errs.ErrCorruption, errs.ErrUnsupported, errs.ErrLimit, errs.ErrInvalid, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return
		}
	}
	t.Fatalf("an error of no documented kind: %v", err)
}

// useSegment opens a segment and does everything with it that reads. The answer does not matter.
func useSegment(t testing.TB, b segmentBytes) {
	t.Helper()
	ctx := context.Background()
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(ctx, "x/"+btree.DataFile, b.data))
	require.NoError(t, st.PutIfAbsent(ctx, "x/"+btree.LookupFile, b.lookup))
	x, err := btree.Open(ctx, store.NewDir(st, "x", nil), btree.OpenOptions{Cache: store.NewCache(1 << 20)})
	requireKnown(t, err)
	if err != nil || x.Rows() > 1<<16 {
		return
	}
	rng := rand.New(rand.NewSource(1))
	for _, q := range []indexes.Query{indexes.IsNull{}, indexes.NotNull{}, indexes.Equals(number(x.Type(), 3)),
		bounds(indexes.Bound{Value: cell(x.Type(), rng, 0)}, indexes.Bound{Value: number(x.Type(), 40)}).q,
		indexes.In{Values: []any{cell(x.Type(), rng, 0), number(x.Type(), 1)}}} {
		_, err := x.Search(ctx, q)
		requireKnown(t, err)
	}
	if keys, err := btree.NewKeys(randomArray(t, x.Type(), rng, 20, 0)); err == nil {
		_, err = x.Lookup(ctx, keys, nil)
		requireKnown(t, err)
		pk, err := btree.OpenPK(ctx, store.NewDir(st, "x", nil), x.Type(), x.Rows(), nil)
		requireKnown(t, err)
		_, err = pk.Last(ctx, keys, 50, nil)
		requireKnown(t, err)
	}
	s := x.Stream(nil)
	for {
		batch, err := s(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				requireKnown(t, err)
			}
			break
		}
		batch.Values.Release()
	}
}

// TestDamage changes and cuts both files of every seed in many places.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewSource(9))
	for _, s := range seeds(t) {
		useSegment(t, s)
		for i := range 60 {
			d := segmentBytes{append([]byte(nil), s.data...), append([]byte(nil), s.lookup...)}
			part := &d.data
			if i%2 == 0 {
				part = &d.lookup
			}
			switch at := rng.Intn(len(*part)); rng.Intn(3) {
			case 0:
				*part = (*part)[:at]
			case 1:
				(*part)[at] ^= 1 << rng.Intn(8)
			default:
				at = max(0, len(*part)-1-rng.Intn(500)) // metadata and footer
				(*part)[at] = byte(rng.Intn(256))
			}
			useSegment(t, d)
		}
	}
}

// TestWrongTable: files that are well-formed but do not belong together, or lie about each other, are corruption.
func TestWrongTable(t *testing.T) {
	typ := arrow.PrimitiveTypes.Int64
	write := func(values arrow.Array, page int) segmentBytes {
		st := objstore.NewMem()
		_, err := btree.Build(t.Context(), store.NewDir(st, "x", nil), typ, batches(btree.Batch{Values: values, IDs: counting(0, values.Len())}), btree.Options{PageRows: page})
		require.NoError(t, err)
		return readSegment(t, st, "x")
	}
	a := write(cellsOf(t, typ, nil, int64(1), int64(2), int64(3), int64(4)), 2)
	b := write(cellsOf(t, typ, nil, int64(1), int64(2), int64(3), int64(5)), 2)
	c := write(cellsOf(t, typ, int64(0), int64(1), int64(2), int64(3), int64(4)), 2)
	d := write(cellsOf(t, typ, nil, int64(1), int64(2), int64(3)), 2)
	for i, s := range []segmentBytes{{a.data, b.lookup}, {a.data, c.lookup}, {a.data, d.lookup}, {c.data, a.lookup}} {
		st := objstore.NewMem()
		require.NoError(t, st.PutIfAbsent(t.Context(), "x/"+btree.DataFile, s.data))
		require.NoError(t, st.PutIfAbsent(t.Context(), "x/"+btree.LookupFile, s.lookup))
		x, err := btree.Open(t.Context(), store.NewDir(st, "x", nil), btree.OpenOptions{})
		require.NoError(t, err)
		_, err = x.Search(t.Context(), indexes.In{Values: []any{int64(0), int64(1), int64(4), int64(5)}})
		require.ErrorIs(t, err, errs.ErrCorruption, "case %d", i)
		require.Contains(t, err.Error(), "x/page_")
	}
	st := objstore.NewMem()
	require.NoError(t, st.PutIfAbsent(t.Context(), "x/"+btree.DataFile, a.data))
	x, err := btree.Open(t.Context(), store.NewDir(st, "x", nil), btree.OpenOptions{})
	require.NoError(t, err)
	_, err = x.Search(t.Context(), indexes.IsNull{})
	require.ErrorIs(t, err, errs.ErrNotFound)
}

// TestRangePartitioned: a layout that is not known is refused, not guessed.
func TestRangePartitioned(t *testing.T) {
	st := objstore.NewMem()
	other := store.NewDir(st, "x", nil)
	w, err := other.Create(t.Context(), btree.DataFile, arrow.NewSchema([]arrow.Field{{Name: "values", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "ids", Type: arrow.PrimitiveTypes.Uint64}}, nil))
	require.NoError(t, err)
	_, err = w.Finish(t.Context())
	require.NoError(t, err)
	md := arrow.NewMetadata([]string{"range_partitioned"}, []string{"true"})
	w, err = other.Create(t.Context(), btree.LookupFile, arrow.NewSchema([]arrow.Field{{Name: "min", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, &md))
	require.NoError(t, err)
	_, err = w.Finish(t.Context())
	require.NoError(t, err)
	x, err := btree.Open(t.Context(), other, btree.OpenOptions{})
	require.NoError(t, err)
	_, err = x.Search(t.Context(), indexes.IsNull{})
	require.ErrorIs(t, err, errs.ErrUnsupported)
}

func FuzzSegment(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s.data, s.lookup)
	}
	f.Fuzz(func(t *testing.T, data, lookup []byte) { useSegment(t, segmentBytes{data, lookup}) })
}
