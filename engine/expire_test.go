package engine

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/objstore"
	"lancesql/lance/table"
)

// Procedure L07: a tagged version, then rewrites and compactions, then old versions expire. What is left is what retained
// versions name, the tagged one reads as it was, and a second clean-up finds nothing.
func TestExpiredVersionsLeaveNothing(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	e := mustOpen(t, st)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	require.NoError(t, createTestTable(ctx, e))
	fill := func(text string) {
		put := contents{}
		for id := range int64(20) {
			put[id] = fmt.Sprint(text, id)
		}
		require.NoError(t, write{put: put}.run(ctx, e))
		require.NoError(t, e.FlushTables(ctx, nil))
	}
	fill("tagged")
	root := testTable(e).Path
	ds, err := table.Open(ctx, st, root)
	require.NoError(t, err)
	require.NoError(t, ds.CreateTag(ctx, "keep", ds.Version()))
	for round := range 5 {
		fill(fmt.Sprint("round", round))
		_, err := e.Optimize(ctx, testTable(e).ID)
		require.NoError(t, err)
	}
	work(e)
	_, err = e.Cleanup(ctx, testTable(e).ID, false)
	require.NoError(t, err)

	list := func() map[string]bool {
		out := map[string]bool{}
		for _, dir := range []string{"data", "_deletions", "_indices", "_transactions", "_versions"} {
			require.NoError(t, objstore.Walk(ctx, st, root+"/"+dir, func(i objstore.Info) error { out[i.Name] = true; return nil }))
		}
		return out
	}
	ds, err = table.Open(ctx, st, root)
	require.NoError(t, err)
	versions, err := ds.Versions(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, len(versions), 3, "the tagged version, the newest and what it was made from")
	named := map[string]bool{}
	for _, v := range versions {
		of, err := ds.At(ctx, v.Version)
		require.NoError(t, err)
		n := of.FileNames()
		for _, name := range slices.Concat([]string{n.Manifest, n.Transaction}, n.Data, n.Deletions) {
			named[name] = true
		}
		for _, folder := range n.IndexFolders {
			named[folder] = true
		}
	}
	left := list()
	for name := range left {
		folder := path.Dir(name)
		if !named[name] && !named[folder] && !strings.HasSuffix(name, "_hint.json") {
			t.Errorf("no retained version names %s", name)
		}
	}
	for name := range named {
		if strings.Contains(name, "/data/") || strings.Contains(name, "/_versions/") {
			require.True(t, left[name], "%s is missing", name)
		}
	}
	_, err = e.Cleanup(ctx, testTable(e).ID, false)
	require.NoError(t, err)
	require.Equal(t, slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(list())))

	old, err := ds.OpenTag(ctx, "keep")
	require.NoError(t, err)
	r, err := old.Rows(ctx, table.ScanOptions{Columns: []string{"v"}})
	require.NoError(t, err)
	defer r.Close()
	rows := 0
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		rows += int(b.NumRows())
		b.Release()
	}
	require.Equal(t, 20, rows)
}
