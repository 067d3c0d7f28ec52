package bloom_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/bloom"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
)

// requireSameFilters compares the filter of every generation below root with ours over the same rows, byte by byte.
func requireSameFilters(t *testing.T, root string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "*.lance", "_mem_wal", "*", "*_gen_*"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	st, err := objstore.OpenLocal(vfs.Default, root)
	require.NoError(t, err)
	for _, full := range found {
		dir, err := filepath.Rel(root, full)
		require.NoError(t, err)
		d, err := table.Open(t.Context(), st, dir)
		require.NoError(t, err)
		f := d.Fragment(0)
		scan, err := d.ScanFragment(t.Context(), f, []int32{d.Schema().FieldByName("key").ID}, 0, f.PhysicalRows, int(f.PhysicalRows))
		require.NoError(t, err)
		_, rec, err := scan.Next()
		require.NoError(t, err)
		p := bloom.NewPK()
		require.NoError(t, p.AddBatch(rec, []int{0}))
		hashes, err := bloom.Hashes(rec, []int{0})
		require.NoError(t, err)
		for _, h := range hashes {
			require.True(t, p.MayHold(h))
		}
		theirs, err := os.ReadFile(filepath.Join(full, bloom.PKFile))
		require.NoError(t, err)
		require.True(t, bytes.Equal(theirs, p.Bytes()), "%s", dir)
		require.NoError(t, scan.Close())
	}
}

func TestFiltersOfLancedb(t *testing.T) {
	root := t.TempDir()
	oracle.RunNode(t, "lsm_generation.mjs", "make", root, "3000")
	requireSameFilters(t, root)
}

// TestGoldenFilters: the generations checked in, for all four key types.
func TestGoldenFilters(t *testing.T) {
	requireSameFilters(t, filepath.Join(oracle.Root(t), "testdata", "golden", "generation"))
}
