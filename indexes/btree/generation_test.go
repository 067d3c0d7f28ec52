package btree_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
)

// generations lists the directories of flushed generations below a root, relative to it.
func generations(t testing.TB, root string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "*.lance", "_mem_wal", "*", "*_gen_*"))
	require.NoError(t, err)
	for i, dir := range found {
		found[i], err = filepath.Rel(root, dir)
		require.NoError(t, err)
	}
	return found
}

// keyColumn reads the key of all physical rows of a generation.
func keyColumn(t testing.TB, st objstore.Store, dir string) arrow.Array {
	t.Helper()
	d, err := table.Open(t.Context(), st, dir)
	require.NoError(t, err)
	f := d.Fragment(0)
	scan, err := d.ScanFragment(t.Context(), f, []int32{d.Schema().FieldByName("key").ID}, 0, f.PhysicalRows, int(f.PhysicalRows))
	require.NoError(t, err)
	defer scan.Close()
	_, rec, err := scan.Next()
	require.NoError(t, err)
	require.EqualValues(t, f.PhysicalRows, rec.NumRows())
	return rec.Column(0)
}

// buildOurs writes our sidecar over a key column.
func buildOurs(t testing.TB, dir store.Dir, keys arrow.Array) {
	t.Helper()
	s, err := btree.NewSorter(keys.DataType(), 0, nil)
	require.NoError(t, err)
	require.NoError(t, s.Add(btree.Batch{Values: keys, IDs: counting(0, keys.Len())}))
	_, err = btree.BuildPK(t.Context(), dir, keys.DataType(), s.Stream())
	require.NoError(t, err)
}

// requireSamePK compares a sidecar with one of ours over the same rows: equal in every row, and in every answer.
func requireSamePK(t testing.TB, theirs store.Dir, keys arrow.Array) {
	t.Helper()
	a, err := btree.OpenPK(t.Context(), theirs, keys.DataType(), uint64(keys.Len()), nil)
	require.NoError(t, err)
	ours := memDir()
	buildOurs(t, ours, keys)
	b, err := btree.OpenPK(t.Context(), ours, keys.DataType(), uint64(keys.Len()), nil)
	require.NoError(t, err)
	valuesA, idsA := all(t, keys.DataType(), a.Index().Stream(nil))
	valuesB, idsB := all(t, keys.DataType(), b.Index().Stream(nil))
	require.True(t, array.Equal(valuesA, valuesB))
	require.Equal(t, idsB, idsA)

	wanted, err := btree.NewKeys(keys)
	require.NoError(t, err)
	for _, bound := range []uint64{uint64(keys.Len()), uint64(keys.Len()) * 3 / 4} {
		hitsA, err := a.Last(t.Context(), wanted, bound, nil)
		require.NoError(t, err)
		hitsB, err := b.Last(t.Context(), wanted, bound, nil)
		require.NoError(t, err)
		require.NotEmpty(t, hitsA)
		require.Equal(t, hitsB, hitsA)
	}
}

// TestGenerationsOfLancedb: its sidecars are equal to ours over the same rows; with ours in their place it finds the same.
func TestGenerationsOfLancedb(t *testing.T) {
	const rows = "20000"
	root := t.TempDir()
	oracle.RunNode(t, "lsm_generation.mjs", "make", root, rows)
	before := oracle.RunNode(t, "lsm_generation.mjs", "read", root, rows)
	var seen map[string][]any
	require.NoError(t, json.Unmarshal(before, &seen))
	require.Equal(t, []any{20000.0, 4199990000.0, 1.0, 1000005.0}, seen["binary"])

	st := localStore(t, root)
	found := generations(t, root)
	require.Len(t, found, 8)
	for _, g := range found {
		keys := keyColumn(t, st, g)
		dir := store.NewDir(st, path.Join(g, btree.PKDir), nil)
		requireSamePK(t, dir, keys)
		require.NoError(t, os.RemoveAll(filepath.Join(root, g, btree.PKDir)))
		buildOurs(t, dir, keys)
	}
	require.Equal(t, string(before), string(oracle.RunNode(t, "lsm_generation.mjs", "read", root, rows)))
}

// TestGoldenGenerations: first generations of lsm_generation.mjs with 300 rows, without what no reader of ours needs.
func TestGoldenGenerations(t *testing.T) {
	root := filepath.Join(oracle.Root(t), "testdata", "golden", "generation")
	st := localStore(t, root)
	found := generations(t, root)
	require.NotEmpty(t, found)
	for _, g := range found {
		if !strings.HasSuffix(g, "_gen_1") {
			continue
		}
		requireSamePK(t, store.NewDir(st, path.Join(g, btree.PKDir), nil), keyColumn(t, st, g))
	}
}
