package fragreuse

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// The vectors of docs/format/fri.md.

const survivorsVector = `0200000000000000 00000000 3a300000010000000000020010000000000002000300 01000000 3a300000010000000000020010000000000002000300`

func vectorContent(t testing.TB) *pb.FragmentReuseContent {
	return &pb.FragmentReuseContent{LegacyVersions: []*pb.FragmentReuseVersion{legacy(6, &pb.FragmentReuseGroup{
		ChangedRowAddrs: unhex(t, survivorsVector), OldFragments: digests(0, 4, 1, 1, 4, 1), NewFragments: digests(3, 6, 0),
	})}}
}

func TestVectorSurvivors(t *testing.T) {
	list := addrs(t, "0:0 0:2 0:3 1:0 1:2 1:3")
	require.Equal(t, unhex(t, survivorsVector), treemap(t, list...))
	sources := []table.ReuseDigest{{ID: 0, PhysicalRows: 4, DeletedRows: 1}, {ID: 1, PhysicalRows: 4, DeletedRows: 1}}
	r, err := decodeSurvivors("x", unhex(t, survivorsVector), sources)
	require.NoError(t, err)
	n, ok := r[1].rank(3)
	require.True(t, ok)
	require.Equal(t, uint32(2), n)
	_, ok = r[0].rank(1)
	require.False(t, ok)
}

func TestVectorLegacy(t *testing.T) {
	h := history(t, vectorContent(t))
	requireTranslates(t, h, "0:0 0:1 0:2 0:3 1:0 1:1 1:2 1:3 2:7 0:4", "3:0 - 3:1 3:2 3:3 - 3:4 3:5 2:7 0:4")
}

// The recorded order counts in a transition, the ascending one in a legacy group.
func TestVectorRecordedOrder(t *testing.T) {
	survivors := treemap(t, addrs(t, "2:0 2:2 1:0")...)
	sources, to := digests(2, 3, 1, 1, 1, 0), digests(3, 3, 0)
	h := history(t, &pb.FragmentReuseContent{Transitions: []*pb.FragmentReuseTransition{ordered(survivors, sources, to)}})
	requireTranslates(t, h, "2:0 2:1 2:2 1:0", "3:0 - 3:1 3:2")
	h = history(t, &pb.FragmentReuseContent{LegacyVersions: []*pb.FragmentReuseVersion{
		legacy(1, &pb.FragmentReuseGroup{ChangedRowAddrs: survivors, OldFragments: sources, NewFragments: to}),
	}})
	requireTranslates(t, h, "2:0 2:1 2:2 1:0", "3:1 - 3:2 3:0")
}

func chainContent(t testing.TB) *pb.FragmentReuseContent {
	first := &pb.FragmentReuseGroup{ChangedRowAddrs: treemap(t, addrs(t, "1:0 1:2 1:3")...), OldFragments: digests(1, 4, 1, 3, 2, 2), NewFragments: digests(10, 1, 0, 11, 2, 0)}
	second := &pb.FragmentReuseGroup{ChangedRowAddrs: treemap(t, addrs(t, "10:0 11:1")...), OldFragments: digests(10, 1, 0, 11, 2, 1), NewFragments: digests(20, 2, 0)}
	return &pb.FragmentReuseContent{LegacyVersions: []*pb.FragmentReuseVersion{legacy(4, first), legacy(7, second)}}
}

func TestVectorChain(t *testing.T) {
	content := chainContent(t)
	const from, to = "1:0 1:3 1:1 1:2 3:0 2:0 1:4", "20:0 20:1 - - - 2:0 1:4"
	requireTranslates(t, history(t, content), from, to)
	// The order of the list is not that of the steps.
	content.LegacyVersions[0], content.LegacyVersions[1] = content.LegacyVersions[1], content.LegacyVersions[0]
	requireTranslates(t, history(t, content), from, to)
	// Half of it as a transition: one history.
	g := content.LegacyVersions[0].Groups[0]
	mixed := &pb.FragmentReuseContent{LegacyVersions: content.LegacyVersions[1:], Transitions: []*pb.FragmentReuseTransition{
		ordered(g.ChangedRowAddrs, g.OldFragments, g.NewFragments),
	}}
	requireTranslates(t, history(t, mixed), from, to)
}

func TestVectorPartition(t *testing.T) {
	ctx := context.Background()
	dir := memDir()
	p := writeMap(t, dir, 2, 4, 0, 1, Deleted, 1, 0, 1, 0)
	r, err := dir.Open(ctx, p.Object(), p.Size)
	require.NoError(t, err)
	raw, err := r.Buffer(ctx, 1, 1000)
	require.NoError(t, err)
	require.Equal(t, unhex(t, `4c535043 01000000 00000000 02000000 04000000 0700000000000000 01000000 02000000 03000000 03000000`), raw)
	key, _ := r.Metadata(countsKey)
	require.Equal(t, "1", key)

	content := &pb.FragmentReuseContent{Transitions: []*pb.FragmentReuseTransition{partition(p, digests(5, 4, 1, 6, 3, 0), digests(8, 3, 0, 7, 3, 0))}}
	h := New(decode(t, content), Options{Maps: In(dir)})
	const from, to = "5:0 5:1 5:2 5:3 6:0 6:1 6:2 4:0 8:1", "8:0 7:0 - 7:1 8:1 7:2 8:2 4:0 8:1"
	requireTranslates(t, h, from, to)
	requireTranslates(t, h, "6:2 6:2 5:0", "8:2 8:2 8:0")

	tr, err := h.For(ctx, bitmap(4, 5, 6))
	require.NoError(t, err)
	require.Equal(t, []uint32{4, 7, 8}, tr.Coverage().ToArray())
	sorted, err := tr.Sorted(ctx, addrs(t, "4:0 5:0 5:1 5:2 5:3 6:0 6:1 6:2"))
	require.NoError(t, err)
	require.Equal(t, "4:0 7:0 7:1 7:2 8:0 8:1 8:2", spell(sorted))
	set := rowaddr.NewTreemap()
	set.AddFragment(5)
	set.AddFragment(4)
	moved, err := tr.Treemap(ctx, set)
	require.NoError(t, err)
	var all []rowaddr.Addr
	for a := range moved.All() {
		all = append(all, a)
	}
	require.Equal(t, "7:0 7:1 8:0", spell(all))
	_, whole := moved.Offsets(4)
	require.True(t, whole)

	// Without a place to read the map from, the destinations are scanned and the rest is served.
	h = New(decode(t, content), Options{})
	tr, err = h.For(ctx, bitmap(4, 5, 6))
	require.NoError(t, err)
	require.Equal(t, []uint32{4}, tr.Coverage().ToArray())
	list := addrs(t, "4:0 5:0")
	kept, err := tr.Each(ctx, list)
	require.NoError(t, err)
	require.Equal(t, 1, kept)
	require.Equal(t, "4:0 -", spell(list))
	require.ErrorIs(t, h.Translate(ctx, list), errs.ErrUnsupported)
}

// TestCoverage: groups are all or nothing.
func TestCoverage(t *testing.T) {
	ctx := context.Background()
	h := history(t, chainContent(t))
	for _, c := range []struct{ from, to []uint32 }{
		{[]uint32{1, 3}, []uint32{20}},
		{[]uint32{1}, nil},
		{[]uint32{1, 2}, []uint32{2}},
		{[]uint32{10, 11}, []uint32{20}},
		{[]uint32{1, 3, 10}, []uint32{20}},
		{[]uint32{10}, nil},
		{[]uint32{20, 5}, []uint32{5, 20}},
		{nil, nil},
	} {
		tr, err := h.For(ctx, bitmap(c.from...))
		require.NoError(t, err)
		require.Equal(t, bitmap(c.to...).ToArray(), tr.Coverage().ToArray(), "%v", c.from)
		// A segment that covers part of a group leads nowhere with its addresses.
		list := addrs(t, "1:0 1:3 2:9 10:0 20:0")
		_, err = tr.Each(ctx, list)
		require.NoError(t, err)
		for _, a := range list {
			require.True(t, a == Gone || tr.Coverage().Contains(a.Fragment()))
		}
	}
	var none *History
	tr, err := none.For(ctx, bitmap(3, 1))
	require.NoError(t, err)
	list := addrs(t, "1:0 2:0 3:1")
	kept, err := tr.Each(ctx, list)
	require.NoError(t, err)
	require.Equal(t, 2, kept)
	require.Equal(t, "1:0 - 3:1", spell(list))
	require.Zero(t, tr.Steps())
	require.NoError(t, none.Maintainable())
	require.NoError(t, none.Translate(ctx, list))
	// Positions do not move: what was rewritten is lost.
	require.Equal(t, []uint32{2, 20}, h.Reuse().PositionalCoverage(bitmap(1, 2, 10, 20)).ToArray())
}

func TestSegmentIsKept(t *testing.T) {
	ctx := context.Background()
	h := history(t, chainContent(t))
	a, err := h.Segment(ctx, "s", bitmap(1, 3))
	require.NoError(t, err)
	b, err := h.Segment(ctx, "s", bitmap(1, 3))
	require.NoError(t, err)
	require.Same(t, a, b)
	c, err := h.Segment(ctx, "s", bitmap(1))
	require.NoError(t, err)
	require.NotSame(t, a, c)
	require.True(t, c.Coverage().IsEmpty())
}
