package fragreuse

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/lance/table"
)

// compactThese rewrites the given fragments into one, in one deferred commit on d.
func (b *bench) compactThese(d *table.Dataset, ids ...uint64) error {
	b.t.Helper()
	ctx := context.Background()
	var group table.RewriteGroup
	var rows []int64
	for _, id := range ids {
		f := d.Fragment(id)
		group.Old = append(group.Old, f)
		rows = append(rows, b.idsOf(d, f)...)
	}
	w, err := d.NewFragmentWriter(ctx)
	require.NoError(b.t, err)
	require.NoError(b.t, w.Write(recordOf(b.t, d, rows)))
	f, err := w.Finish(ctx)
	require.NoError(b.t, err)
	group.New = []*table.Fragment{f}
	_, err = d.CommitRebasing(ctx, table.Rewrite{Groups: []table.RewriteGroup{group}, DeferRemap: true})
	return err
}

// TestRaces: of two compactions of different fragments at one time neither loses the history of the other.
func TestRaces(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"legacy", "tagged"} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			indexed(b, 40)
			first := 0
			if name == "tagged" {
				b.partition(4)
				first = 4
			}
			id := func(i int) uint64 { return uint64(first + i) }
			b.do("delete", args{"where": "id in (1, 11, 22, 35)"})
			steps := func() int {
				h, err := b.open().FragmentReuse(ctx)
				require.NoError(t, err)
				if h == nil {
					return 0
				}
				return len(h.Steps)
			}
			before := steps()
			// Ours comes between their writing and their commit.
			b.do("plan", args{"excluded": []uint64{id(2), id(3)}})
			require.NoError(t, b.compactThese(b.open(), id(2), id(3)))
			err := b.ask("finish", nil, nil)
			if name == "legacy" { // it demands the entry it has read
				require.ErrorContains(t, err, "a concurrent commit changed the fragment reuse history")
				b.do("plan", args{"excluded": b.describe().Fragments[2:]})
				err = b.ask("finish", nil, nil)
			}
			require.NoError(t, err)
			require.Equal(t, before+2, steps())
			b.covered()
			b.check(all(36))
			// Theirs comes between our reading and our commit.
			b.do("append", args{"first": 40, "last": 50})
			b.do("append", args{"first": 50, "last": 60})
			b.do("extend", nil)
			d := b.open()
			list := d.Fragments()
			b.do("plan", args{"excluded": []uint64{list[2].ID, list[3].ID}})
			require.NoError(t, b.ask("finish", nil, nil))
			require.NoError(t, b.compactThese(d, list[2].ID, list[3].ID))
			require.Equal(t, before+4, steps())
			b.covered()
			b.check(all(56))
		})
	}
}
