package fragreuse

import (
	"context"

	"os/exec"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/predicate"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/table"
)

// partition reclusters all rows into fragments by id modulo n, by a stable partition that is published.
func (b *bench) partition(n int64) *table.Dataset {
	b.t.Helper()
	ctx := context.Background()
	d := b.open()
	w, err := fragreuse.NewRowMapWriter(ctx, store.NewDir(b.st, root, nil), uuid.New(), int(n))
	require.NoError(b.t, err)
	parts := make([][]int64, n)
	group := table.RewriteGroup{Old: slices.Clone(d.Fragments())}
	slices.Reverse(group.Old) // the order is recorded, any will do
	for _, f := range group.Old {
		one, ids := d, b.idsOf(d, f)
		labels := make([]int32, f.PhysicalRows)
		gone, err := one.Deletions(ctx, f)
		require.NoError(b.t, err)
		for i := range labels {
			if gone != nil && gone.Contains(uint32(i)) {
				labels[i] = fragreuse.Deleted
				continue
			}
			labels[i] = int32(ids[0] % n)
			parts[ids[0]%n] = append(parts[ids[0]%n], ids[0])
			ids = ids[1:]
		}
		require.NoError(b.t, w.Append(labels))
	}
	group.Partition, _, err = w.Finish(ctx)
	require.NoError(b.t, err)
	for _, ids := range parts {
		fw, err := d.NewFragmentWriter(ctx)
		require.NoError(b.t, err)
		require.NoError(b.t, fw.Write(recordOf(b.t, d, ids)))
		f, err := fw.Finish(ctx)
		require.NoError(b.t, err)
		group.New = append(group.New, f)
	}
	d, err = d.Commit(ctx, table.Rewrite{Groups: []table.RewriteGroup{group}, DeferRemap: true})
	require.NoError(b.t, err)
	return d
}

// idsOf is the ids of the live rows of a fragment in order.
func (b *bench) idsOf(d *table.Dataset, f *table.Fragment) []int64 {
	b.t.Helper()
	addrs, _ := b.scanned(d, predicate.Const{Value: true})
	var out []int64
	rec, err := d.TakeAddresses(context.Background(), []string{"id"}, addrs)
	require.NoError(b.t, err)
	defer rec.Release()
	for i, id := range int64s(rec.Column(0)) {
		if uint64(addrs[i].Fragment()) == f.ID {
			out = append(out, id)
		}
	}
	return out
}

// TestTagged: what pylance 14.0.2 makes of a stable partition of ours. It reads it, answers through it, and goes on.
func TestTagged(t *testing.T) {
	ctx := context.Background()
	b := start(t)
	indexed(b, 40)
	b.do("delete", args{"where": "id in (1, 11, 35)"})
	b.compact(1000) // a legacy group before it
	d := b.partition(3)
	h, err := d.FragmentReuse(ctx)
	require.NoError(t, err)
	require.Equal(t, int32(1), h.IndexVersion)
	require.Len(t, h.Steps, 2)
	b.covered()
	b.check(all(37))

	b.do("delete", args{"where": "id % 5 = 2"})
	b.do("append", args{"first": 40, "last": 50})
	b.check(all(b.describe().Rows - 10))
	b.do("extend", nil)
	b.covered()
	b.check(all(b.describe().Rows))
	// Their ordered compaction is a transition of the same history.
	b.do("compact", args{"defer": true})
	d = b.open()
	h, err = d.FragmentReuse(ctx)
	require.NoError(t, err)
	require.Equal(t, int32(1), h.IndexVersion)
	require.Greater(t, len(h.Steps), 2)
	require.False(t, h.Steps[len(h.Steps)-1].Legacy)
	b.covered()
	b.check(all(b.describe().Rows))
	// So is ours, and a second partition.
	b.do("delete", args{"where": "id % 5 = 3"})
	b.partition(2)
	b.covered()
	b.check(all(b.describe().Rows))
	b.do("delete", args{"where": "id % 7 = 3"})
	b.compact(1000)
	b.covered()
	b.check(all(b.describe().Rows))
	// Without deferring it cannot.
	require.ErrorContains(t, b.ask("compact", args{"defer": false, "rows": 5}, nil), "tagged fragment reuse history requires defer_index_remap")

	require.Equal(t, 3, b.remapAll())
	b.covered()
	b.check(all(b.describe().Rows))
	_, n, err := b.open().TrimFragmentReuse(ctx, table.TrimOptions{})
	require.NoError(t, err)
	require.Greater(t, n, 4)
	h, err = b.open().FragmentReuse(ctx)
	require.NoError(t, err)
	require.Nil(t, h)
	b.covered()
	b.check(all(b.describe().Rows))
}

// TestTaggedShutsOut: Lance 12 refuses a table from the first transition on, by a message of its own.
func TestTaggedShutsOut(t *testing.T) {
	modules := oracle.NodeModules(t)
	b := start(t)
	indexed(b, 20)
	open := func() (string, error) {
		out, err := exec.Command(oracle.Program(t, "node"), oracle.Root(t)+"/testdata/oracle/dump_table.mjs", modules, b.dir, "t").CombinedOutput()
		return string(out), err
	}
	b.do("delete", args{"where": "id = 3"})
	b.compact(1000)
	text, err := open()
	require.NoError(t, err, "version 0 shuts nobody out: %s", text)
	b.partition(2)
	text, err = open()
	require.Error(t, err)
	require.Contains(t, text, "Please upgrade Lance to read this dataset")
	require.Contains(t, text, "1024")
}
