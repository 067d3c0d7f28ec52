package fragreuse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/rowaddr"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// tableModel drives lance/table without data: rows have values in the model, index files are lists of (value, address).
type tableModel struct {
	t     testing.TB
	r     *rand.Rand
	st    objstore.Store
	dir   store.Dir
	d     *table.Dataset
	rows  map[uint32][]int // value of each physical row, by fragment
	files map[uuid.UUID]*indexFile
	next  int // value
	done  map[string]int
}

type indexFile struct {
	values []int
	addrs  []rowaddr.Addr
}

const (
	modelRoot   = "t.lance"
	modelBTree  = "/lance.table.BTreeIndexDetails"
	modelBitmap = "/lance.table.BitmapIndexDetails"
)

func newTableModel(t testing.TB, seed uint64) *tableModel {
	st := objstore.NewMem()
	m := &tableModel{t: t, r: rand.New(rand.NewPCG(seed, 2)), st: st, dir: store.NewDir(st, modelRoot, nil),
		rows: make(map[uint32][]int), files: make(map[uuid.UUID]*indexFile), done: make(map[string]int)}
	s := &schema.Schema{Fields: []*schema.Field{{ID: 0, Name: "id", LogicalType: "int64"}, {ID: 1, Name: "x", LogicalType: "int64", Nullable: true}}}
	d, err := table.Create(context.Background(), st, modelRoot, s, table.CreateOptions{})
	require.NoError(t, err)
	m.d = d
	return m
}

func (m *tableModel) commit(op table.Operation) {
	m.t.Helper()
	d, err := m.d.Commit(context.Background(), op)
	require.NoError(m.t, err)
	m.d = d
}

func fake(rows int) *table.Fragment {
	return &table.Fragment{PhysicalRows: uint64(rows), Files: []table.DataFile{{Path: uuid.NewString() + ".lance", Fields: []int32{0, 1}, Columns: []int32{0, 1}, Major: 2, Minor: 2, Size: 9}}}
}

func (m *tableModel) values(n int) []int {
	out := make([]int, n)
	for i := range out {
		m.next++
		out[i] = m.next
	}
	return out
}

func (m *tableModel) add() {
	n := 1 + m.r.IntN(9)
	m.commit(table.Append{Fragments: []*table.Fragment{fake(n)}})
	m.rows[uint32(m.d.NewFragments()[0].ID)] = m.values(n)
}

func (m *tableModel) deletions(f *table.Fragment) *roaring.Bitmap {
	b, err := m.d.Deletions(context.Background(), f)
	require.NoError(m.t, err)
	if b == nil {
		return roaring.New()
	}
	return b
}

func (m *tableModel) delete() {
	var op table.Delete
	for _, f := range m.d.Fragments() {
		gone := m.deletions(f).Clone()
		share := m.r.Float64() * 0.7
		if m.r.IntN(15) == 0 {
			share = 1
		}
		for o := range uint32(f.PhysicalRows) {
			if m.r.Float64() < share {
				gone.Add(o)
			}
		}
		if gone.GetCardinality() == f.DeletedRows {
			continue
		}
		df, err := m.d.WriteDeletions(context.Background(), f.ID, gone)
		require.NoError(m.t, err)
		op.Updated = append(op.Updated, f.WithDeletion(df))
	}
	if len(op.Updated) > 0 {
		m.commit(op)
	}
}

// live is the values of the live rows of fragments in order, with their addresses.
func (m *tableModel) live(list []*table.Fragment) (f indexFile) {
	for _, g := range list {
		gone := m.deletions(g)
		for o, v := range m.rows[uint32(g.ID)] {
			if !gone.Contains(uint32(o)) {
				f.values, f.addrs = append(f.values, v), append(f.addrs, rowaddr.New(uint32(g.ID), uint32(o)))
			}
		}
	}
	return f
}

func (m *tableModel) some() []*table.Fragment {
	var out []*table.Fragment
	for _, f := range m.d.Fragments() {
		if m.r.IntN(3) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func (m *tableModel) index() {
	list := m.some()
	file := m.live(list)
	e := table.IndexEntry{UUID: uuid.New(), Name: fmt.Sprint("i", m.next), Fields: []int32{1}, Fragments: roaring.New(), DetailsType: modelBTree}
	if m.r.IntN(2) == 0 {
		e.DetailsType = modelBitmap
	}
	for _, f := range list {
		e.Fragments.Add(uint32(f.ID))
	}
	m.files[e.UUID] = &file
	m.commit(table.CreateIndex{New: []table.IndexEntry{e}})
}

// rewrite compacts or partitions one or two groups of fragments, with or without deferring.
func (m *tableModel) rewrite(deferRemap bool) {
	ctx := context.Background()
	list := slices.Clone(m.d.Fragments())
	m.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	op := table.Rewrite{DeferRemap: deferRemap}
	var made [][]int
	for len(list) > 0 && len(op.Groups) < 2 {
		n := 1 + m.r.IntN(min(3, len(list)))
		g := table.RewriteGroup{Old: list[:n:n]}
		list = list[n:]
		slices.SortFunc(g.Old, func(a, b *table.Fragment) int { return int(a.ID) - int(b.ID) })
		values := m.live(g.Old).values
		var parts [][]int
		if deferRemap && len(values) > 0 && m.r.IntN(3) == 0 {
			parts = m.partition(ctx, &g)
			m.done["partition"]++
		} else {
			for len(values) > 0 {
				k := 1 + m.r.IntN(len(values))
				parts, values = append(parts, values[:k]), values[k:]
			}
		}
		for _, p := range parts {
			g.New = append(g.New, fake(len(p)))
			made = append(made, p)
		}
		op.Groups = append(op.Groups, g)
	}
	if len(op.Groups) == 0 {
		return
	}
	m.commit(op)
	for i, f := range m.d.NewFragments() {
		m.rows[uint32(f.ID)] = made[i]
	}
}

// partition distributes the rows over fragments, none of them empty: the table has no fragments without rows.
func (m *tableModel) partition(ctx context.Context, g *table.RewriteGroup) [][]int {
	m.r.Shuffle(len(g.Old), func(i, j int) { g.Old[i], g.Old[j] = g.Old[j], g.Old[i] })
	live := m.live(g.Old)
	n := 1 + m.r.IntN(min(3, len(live.values)))
	label := make(map[rowaddr.Addr]int32)
	parts := make([][]int, n)
	for i, a := range live.addrs {
		l := m.r.IntN(n)
		if i < n {
			l = i
		}
		label[a] = int32(l)
		parts[l] = append(parts[l], live.values[i])
	}
	w, err := newRowMapWriter(ctx, m.dir, uuid.New(), n, uint64(1+m.r.IntN(5)))
	require.NoError(m.t, err)
	for _, f := range g.Old {
		for o := range uint32(f.PhysicalRows) {
			l, ok := label[rowaddr.New(uint32(f.ID), o)]
			if !ok {
				l = Deleted
			}
			require.NoError(m.t, w.Append([]int32{l}))
		}
	}
	g.Partition, _, err = w.Finish(ctx)
	require.NoError(m.t, err)
	return parts
}

// replace writes the indexed column of a fragment in place.
func (m *tableModel) replace() {
	list := m.d.Fragments()
	if len(list) == 0 {
		return
	}
	f := list[m.r.IntN(len(list))]
	file := table.DataFile{Path: uuid.NewString() + ".lance", Fields: []int32{1}, Columns: []int32{0}, Major: 2, Minor: 2, Size: 9}
	m.commit(table.DataReplacement{Replacements: []table.Replacement{{FragmentID: f.ID, File: file}}})
	m.rows[uint32(f.ID)] = m.values(int(f.PhysicalRows))
}

func (m *tableModel) entries() []table.IndexEntry {
	list, err := m.d.Indexes()
	require.NoError(m.t, err)
	return slices.DeleteFunc(list, func(e table.IndexEntry) bool { return e.Name == table.FragmentReuseName })
}

// mapBitmaps does what pylance does at any commit: the bitmaps of all entries are stored as mapped.
func (m *tableModel) mapBitmaps() {
	h, err := m.d.FragmentReuse(context.Background())
	require.NoError(m.t, err)
	op := table.CreateIndex{}
	for _, e := range m.entries() {
		e.Fragments = h.Coverage(e.Fragments)
		op.New = append(op.New, e)
	}
	if len(op.New) > 0 {
		m.commit(op)
	}
}

// extend does what the reference's optimize does: a new file over what is covered and more, under the old dataset_version.
func (m *tableModel) extend() {
	list := m.entries()
	if len(list) == 0 {
		return
	}
	e := list[m.r.IntN(len(list))]
	old := e.UUID
	file := m.live(m.d.Fragments())
	e.UUID, e.Fragments = uuid.New(), roaring.New()
	for _, f := range m.d.Fragments() {
		e.Fragments.Add(uint32(f.ID))
	}
	m.files[e.UUID] = &file
	m.commit(table.CreateIndex{New: []table.IndexEntry{e}, Removed: []uuid.UUID{old}})
}

func (m *tableModel) remap() {
	list := m.entries()
	if len(list) == 0 {
		return
	}
	rewrite := func(ctx context.Context, e table.IndexEntry, t *Translation) (table.IndexEntry, error) {
		old, file := m.files[e.UUID], &indexFile{}
		addrs := slices.Clone(old.addrs)
		if _, err := t.Each(ctx, addrs); err != nil {
			return e, err
		}
		for i, a := range addrs {
			if a != Gone {
				file.values, file.addrs = append(file.values, old.values[i]), append(file.addrs, a)
			}
		}
		e.UUID = uuid.New()
		m.files[e.UUID] = file
		return e, nil
	}
	next, done, err := Remap(context.Background(), m.d, list[m.r.IntN(len(list))].UUID, Options{}, rewrite)
	require.NoError(m.t, err)
	if m.d = next; done {
		m.done["remapped"]++
	}
}

func (m *tableModel) trim() {
	next, n, err := m.d.TrimFragmentReuse(context.Background(), table.TrimOptions{})
	require.NoError(m.t, err)
	m.d = next
	m.done["steps trimmed"] += n
}

func (m *tableModel) cleanup() {
	keep := func(v uint64, _ time.Time) bool { return v+uint64(m.r.IntN(6)) > m.d.Version() }
	_, err := table.Cleanup(context.Background(), m.st, modelRoot, keep)
	require.NoError(m.t, err)
}

// check: what an index says about the fragments it covers is what they hold.
func (m *tableModel) check() {
	ctx := context.Background()
	d, err := table.Open(ctx, m.st, modelRoot)
	require.NoError(m.t, err)
	h, err := Open(ctx, d, Options{})
	require.NoError(m.t, err)
	for _, e := range m.entries() {
		t, err := h.Segment(ctx, e.UUID, e.Fragments)
		require.NoError(m.t, err)
		file := m.files[e.UUID]
		addrs := slices.Clone(file.addrs)
		_, err = t.Each(ctx, addrs)
		require.NoError(m.t, err)
		got := make(map[rowaddr.Addr]int)
		for i, a := range addrs {
			if a != Gone && d.Fragment(uint64(a.Fragment())) != nil {
				got[a] = file.values[i]
			}
		}
		var covered []*table.Fragment
		for _, f := range d.Fragments() {
			if t.Coverage().Contains(uint32(f.ID)) {
				covered = append(covered, f)
			}
		}
		live := m.live(covered)
		for i, a := range live.addrs {
			v, ok := got[a]
			require.True(m.t, ok && v == live.values[i], "index %s: row %s holds %d, the index says %d (%v)", e.Name, a, live.values[i], v, ok)
			delete(got, a)
		}
		for a := range got { // the rest is deleted rows
			require.True(m.t, m.deletions(d.Fragment(uint64(a.Fragment()))).Contains(a.Offset()), "%s", a)
		}
		m.done["rows proved"] += len(live.addrs)
	}
}

// TestRandomTables: random histories of whole tables; every index agrees with its rows after every step.
func TestRandomTables(t *testing.T) {
	seeds := make([]uint64, histories(400, 5000))
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	if s := os.Getenv("LANCESQL_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seeds = []uint64{n}
	}
	done := make(map[string]int)
	for _, seed := range seeds {
		m := newTableModel(t, seed)
		steps := []struct {
			name   string
			weight int
			do     func()
		}{
			{"add", 3, m.add}, {"delete", 4, m.delete}, {"index", 3, m.index}, {"defer", 6, func() { m.rewrite(true) }}, {"rewrite", 1, func() { m.rewrite(false) }},
			{"replace", 1, m.replace}, {"map", 2, m.mapBitmaps}, {"extend", 1, m.extend}, {"remap", 2, m.remap}, {"trim", 2, m.trim}, {"cleanup", 1, m.cleanup},
		}
		ok := t.Run(fmt.Sprintf("LANCESQL_SEED=%d", seed), func(t *testing.T) {
			m.t = t
			m.add()
			m.add()
			for range 12 + m.r.IntN(20) {
				k := m.r.IntN(26)
				for _, s := range steps {
					if k -= s.weight; k < 0 {
						s.do()
						m.done[s.name]++
						break
					}
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
		for _, k := range slices.Sorted(maps.Keys(done)) {
			require.Greater(t, done[k], 50, k)
		}
	}
}

// TestRemapConflicts: a segment that was replaced, or whose fragments were rewritten meanwhile, is not put back.
func TestRemapConflicts(t *testing.T) {
	ctx := context.Background()
	m := newTableModel(t, 1)
	m.add()
	m.add()
	file := m.live(m.d.Fragments())
	e := table.IndexEntry{UUID: uuid.New(), Name: "i", Fields: []int32{1}, Fragments: roaring.BitmapOf(0, 1), DetailsType: modelBTree}
	m.files[e.UUID] = &file
	m.commit(table.CreateIndex{New: []table.IndexEntry{e}})
	compact := func(d *table.Dataset) *table.Dataset {
		g := table.RewriteGroup{Old: slices.Clone(d.Fragments()), New: []*table.Fragment{fake(len(file.addrs))}}
		next, err := d.Commit(ctx, table.Rewrite{Groups: []table.RewriteGroup{g}, DeferRemap: true})
		require.NoError(t, err)
		return next
	}
	m.d = compact(m.d)
	renewed := func(_ context.Context, e table.IndexEntry, _ *Translation) (table.IndexEntry, error) {
		e.UUID = uuid.New()
		return e, nil
	}
	old := m.d
	latest := compact(m.d)
	_, _, err := Remap(ctx, old, e.UUID, Options{}, renewed)
	require.ErrorIs(t, err, errs.ErrConflict, "its fragments were rewritten")
	first, done, err := Remap(ctx, latest, e.UUID, Options{}, renewed)
	require.NoError(t, err)
	require.True(t, done)
	_, _, err = Remap(ctx, latest, e.UUID, Options{}, renewed)
	require.ErrorIs(t, err, errs.ErrConflict, "it was replaced")
	_, _, err = Remap(ctx, first, e.UUID, Options{}, renewed)
	require.ErrorIs(t, err, errs.ErrNotFound)
	broken := errors.New("broken")
	_, _, err = Remap(ctx, latest, e.UUID, Options{}, func(context.Context, table.IndexEntry, *Translation) (table.IndexEntry, error) {
		return table.IndexEntry{}, broken
	})
	require.ErrorIs(t, err, broken)
}
