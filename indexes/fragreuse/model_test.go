package fragreuse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/store"
	"lancesql/lance/pb"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// model is a table whose rows have identities. It says where each is; the history under test is only told what was done.
type model struct {
	t         testing.TB
	r         *rand.Rand
	dir       store.Dir
	fragments map[uint32]*modelFragment // those of the newest version
	nextID    uint32
	nextRow   int
	version   uint64
	content   *pb.FragmentReuseContent
	segments  []*modelSegment
	done      map[string]int // operations, by kind
}

type modelFragment struct {
	rows    []int // identities
	deleted map[int]bool
}

// modelSegment is an index segment: the addresses in its files, whose they are, and the bitmap of its entry.
type modelSegment struct {
	addrs  []rowaddr.Addr
	rows   []int
	stored *roaring.Bitmap
	covers map[uint32]bool // by the rules, without the code under test
}

func newModel(t testing.TB, seed uint64, dir store.Dir) *model {
	return &model{t: t, r: rand.New(rand.NewPCG(seed, 1)), dir: dir, fragments: make(map[uint32]*modelFragment), nextID: 1, version: 1,
		content: &pb.FragmentReuseContent{}, done: make(map[string]int)}
}

func (m *model) ids() []uint32 {
	var out []uint32
	for id := range m.fragments {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (m *model) add() {
	f := &modelFragment{deleted: make(map[int]bool)}
	for range m.r.IntN(12) {
		f.rows = append(f.rows, m.nextRow)
		m.nextRow++
	}
	m.fragments[m.nextID] = f
	m.nextID++
}

func (m *model) delete() {
	for _, f := range m.fragments {
		share := m.r.Float64() * m.r.Float64()
		if m.r.IntN(12) == 0 {
			share = 1
		}
		for i := range f.rows {
			if m.r.Float64() < share {
				f.deleted[i] = true
			}
		}
	}
}

// segment builds an index segment over some fragments. Its files may know more fragments than the entry covers.
func (m *model) segment() {
	s := &modelSegment{stored: roaring.New(), covers: make(map[uint32]bool)}
	for _, id := range m.ids() {
		known, covered := m.r.IntN(4) > 0, m.r.IntN(8) > 0
		if !known {
			continue
		}
		for i, row := range m.fragments[id].rows {
			s.addrs, s.rows = append(s.addrs, rowaddr.New(id, uint32(i))), append(s.rows, row)
		}
		if covered {
			s.stored.Add(id)
			s.covers[id] = true
		}
	}
	m.segments = append(m.segments, s)
}

// rewrite replaces some fragments. kind is legacy, ordered or partition.
func (m *model) rewrite(kind string) {
	ids := m.ids()
	m.r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ids = ids[:1+m.r.IntN(min(4, len(ids)))]
	if kind == "legacy" {
		slices.Sort(ids)
	}
	var survivors []rowaddr.Addr
	var sources []*pb.FragmentReuseDigest
	var stream []int
	var labels []int32
	destinations := 1 + m.r.IntN(3)
	for _, id := range ids {
		f := m.fragments[id]
		sources = append(sources, digests(uint64(id), uint64(len(f.rows)), uint64(len(f.deleted)))...)
		for i, row := range f.rows {
			if f.deleted[i] {
				labels = append(labels, Deleted)
				continue
			}
			survivors = append(survivors, rowaddr.New(id, uint32(i)))
			stream = append(stream, row)
			labels = append(labels, int32(m.r.IntN(destinations)))
		}
		delete(m.fragments, id)
	}
	made := make([]*modelFragment, destinations)
	for i := range made {
		made[i] = &modelFragment{deleted: make(map[int]bool)}
	}
	if kind == "partition" {
		k := 0
		for _, l := range labels {
			if l != Deleted {
				made[l].rows = append(made[l].rows, stream[k])
				k++
			}
		}
	} else {
		if len(stream) == 0 && m.r.IntN(2) == 0 {
			made = nil // nothing survived: no fragment either
		}
		for i := range made {
			n := len(stream)
			if i < len(made)-1 {
				n = m.r.IntN(n + 1)
			}
			made[i].rows, stream = stream[:n:n], stream[n:]
		}
	}
	var to []*pb.FragmentReuseDigest
	var toIDs []uint32
	for _, f := range made {
		to = append(to, digests(uint64(m.nextID), uint64(len(f.rows)), 0)...)
		toIDs = append(toIDs, m.nextID)
		m.fragments[m.nextID] = f
		m.nextID++
	}
	switch kind {
	case "legacy":
		m.content.LegacyVersions = append(m.content.LegacyVersions, legacy(m.version, &pb.FragmentReuseGroup{ChangedRowAddrs: treemap(m.t, survivors...), OldFragments: sources, NewFragments: to}))
	case "ordered":
		m.content.Transitions = append(m.content.Transitions, ordered(treemap(m.t, survivors...), sources, to))
	case "partition":
		p := m.writeMap(destinations, labels)
		m.content.Transitions = append(m.content.Transitions, partition(&p, sources, to))
	}
	for _, s := range m.segments {
		s.follow(ids, toIDs)
	}
	m.done[kind]++
}

func (m *model) writeMap(destinations int, labels []int32) (p table.ReusePartition) {
	w, err := newRowMapWriter(context.Background(), m.dir, uuid.New(), destinations, uint64(1+m.r.IntN(9)))
	require.NoError(m.t, err)
	for len(labels) > 0 {
		n := 1 + m.r.IntN(len(labels))
		require.NoError(m.t, w.Append(labels[:n]))
		labels = labels[n:]
	}
	named, _, err := w.Finish(context.Background())
	require.NoError(m.t, err)
	return *named
}

// follow is the rule of coverage: all or nothing.
func (s *modelSegment) follow(sources, destinations []uint32) {
	have := 0
	for _, id := range sources {
		if s.covers[id] {
			have++
		}
		delete(s.covers, id)
	}
	if have == len(sources) {
		for _, id := range destinations {
			s.covers[id] = true
		}
	}
}

// check compares every segment with what the model knows.
func (m *model) check() {
	ctx := context.Background()
	if len(m.content.LegacyVersions)+len(m.content.Transitions) == 0 {
		return
	}
	shuffled := &pb.FragmentReuseContent{LegacyVersions: slices.Clone(m.content.LegacyVersions), Transitions: slices.Clone(m.content.Transitions)}
	m.r.Shuffle(len(shuffled.Transitions), func(i, j int) {
		shuffled.Transitions[i], shuffled.Transitions[j] = shuffled.Transitions[j], shuffled.Transitions[i]
	})
	h := New(decode(m.t, shuffled), Options{Maps: In(m.dir)})
	where := make(map[int]rowaddr.Addr)
	for id, f := range m.fragments {
		for i, row := range f.rows {
			where[row] = rowaddr.New(id, uint32(i))
		}
	}
	for n, s := range m.segments {
		tr, err := h.Segment(ctx, n, s.stored)
		require.NoError(m.t, err)
		var covers []uint32
		for id := range s.covers {
			covers = append(covers, id)
		}
		slices.Sort(covers)
		require.True(m.t, slices.Equal(covers, tr.Coverage().ToArray()), "coverage of %v: %v, want %v", s.stored.ToArray(), tr.Coverage().ToArray(), covers)

		want := make([]rowaddr.Addr, len(s.rows))
		var sortedWant []rowaddr.Addr
		for i, row := range s.rows {
			a, ok := where[row]
			if !ok || !s.covers[a.Fragment()] {
				want[i] = Gone
				continue
			}
			want[i] = a
			sortedWant = append(sortedWant, a)
		}
		slices.Sort(sortedWant)
		// As a list of any order.
		order := m.r.Perm(len(s.addrs))
		list, expected := make([]rowaddr.Addr, len(order)), make([]rowaddr.Addr, len(order))
		for i, k := range order {
			list[i], expected[i] = s.addrs[k], want[k]
		}
		kept, err := tr.Each(ctx, list)
		require.NoError(m.t, err)
		require.Equal(m.t, spell(expected), spell(list))
		require.Equal(m.t, len(sortedWant), kept)
		// As a sorted list and as a set.
		sorted, err := tr.Sorted(ctx, slices.Clone(s.addrs))
		require.NoError(m.t, err)
		require.Equal(m.t, spell(sortedWant), spell(sorted))
		set := rowaddr.NewTreemap()
		set.AddMany(s.addrs)
		moved, err := tr.Treemap(ctx, set)
		require.NoError(m.t, err)
		require.Equal(m.t, spell(sortedWant), spell(slices.Collect(moved.All())))
		if m.r.IntN(3) == 0 { // another writer stores the mapped bitmap at its next commit
			s.stored = tr.Coverage().Clone()
			m.done["mapped"]++
		}
		// I1, the other half: every live row of a covered fragment is there, if the segment had it.
		for id := range s.covers {
			f := m.fragments[id]
			if f == nil {
				continue
			}
			for i := range f.rows {
				require.True(m.t, moved.Contains(rowaddr.New(id, uint32(i))), "row %d:%d is covered and missing", id, i)
			}
		}
	}
}

func histories(short, long int) int {
	if os.Getenv("LANCESQL_SOAK") == "1" {
		return long
	}
	return short
}

// TestRandomHistories: chains of compactions and partitions with deletions between, against the model.
func TestRandomHistories(t *testing.T) {
	seeds := []uint64{}
	if s := os.Getenv("LANCESQL_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seeds = append(seeds, n)
	} else {
		for i := range histories(1000, 10000) {
			seeds = append(seeds, uint64(i))
		}
	}
	done := make(map[string]int)
	for _, seed := range seeds {
		m := newModel(t, seed, memDir())
		ok := t.Run(fmt.Sprintf("LANCESQL_SEED=%d", seed), func(t *testing.T) {
			m.t = t
			tagged := seed%2 == 1
			for range 3 + m.r.IntN(3) {
				m.add()
			}
			for range 4 + m.r.IntN(10) {
				m.version++
				switch k := m.r.IntN(6); {
				case k == 0 || len(m.fragments) == 0:
					m.add()
					m.done["add"]++
				case k == 1:
					m.delete()
					m.done["delete"]++
				case k == 2:
					m.segment()
					m.done["segment"]++
				case tagged && len(m.content.Transitions)+m.r.IntN(3) > 0 && m.r.IntN(2) == 0:
					m.rewrite("partition")
				case tagged && len(m.content.Transitions) > 0:
					m.rewrite("ordered")
				default:
					m.rewrite("legacy")
				}
				m.check()
			}
		})
		for k, n := range m.done {
			done[k] += n
		}
		if !ok {
			break
		}
	}
	t.Log(done)
	if len(seeds) > 1 {
		for _, kind := range []string{"add", "delete", "segment", "legacy", "ordered", "partition", "mapped"} {
			require.Greater(t, done[kind], 100, kind)
		}
	}
}
