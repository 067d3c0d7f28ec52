package table

import (
	"context"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/lance/schema"
)

func names(d *Dataset) []string {
	out := []string{}
	for _, f := range d.Schema().Fields {
		out = append(out, f.Name)
	}
	return out
}

func indexNames(t *testing.T, d *Dataset) []string {
	t.Helper()
	entries, err := d.Indexes()
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out
}

// covered is the bitmap of the first entry of that name.
func covered(t *testing.T, d *Dataset, name string) []uint32 {
	t.Helper()
	entries, err := d.Indexes()
	require.NoError(t, err)
	i := slices.IndexFunc(entries, func(e IndexEntry) bool { return e.Name == name })
	return entries[i].Fragments.ToArray()
}

// withColumn is a Merge that adds a field with data.
func withColumn(d *Dataset, f schema.Field) Merge {
	op := Merge{Schema: plus(f)(d)}
	for _, g := range d.Fragments() {
		h := *g
		h.Files = append(slices.Clone(g.Files), columnFile(op.Schema.MaxID()))
		op.Fragments = append(op.Fragments, &h)
	}
	return op
}

func TestProject(t *testing.T) {
	ctx := context.Background()
	_, d := conflictTable(t)
	d = commit(t, d, withColumn(d, schema.Field{Name: "y", LogicalType: "int32", Nullable: true}))
	require.Len(t, d.Fragment(0).Files, 2)
	d = commit(t, d, Project{Schema: without("y")(d)})
	require.Len(t, d.Fragment(0).Files, 1, "a file without live fields goes")
	require.Equal(t, int32(3), d.NextFieldID(), "nothing shows that 3 was used")
	tx, err := d.Transaction(ctx)
	require.NoError(t, err)
	require.True(t, tx.Op.(Project).PreservesNullability)
	require.Equal(t, []string{"id", "name", "x"}, names(d))

	d = commit(t, d, Project{Schema: without("x")(d)})
	require.Equal(t, []string{"a"}, indexNames(t, d), "the index goes with its column")
	require.Equal(t, int32(3), d.NextFieldID(), "x is still in the files")
	d = commit(t, d, &Project{Schema: changed("name", func(f *schema.Field) { f.Name, f.Nullable = "n", false })(d)})
	tx, err = d.Transaction(ctx)
	require.NoError(t, err)
	require.False(t, tx.Op.(Project).PreservesNullability)
	require.Equal(t, "n", tx.Op.(Project).Schema.Fields[1].Name)

	// Columns without data in a fragment.
	d = commit(t, d, Merge{Schema: plus(schema.Field{Name: "z", LogicalType: "int32", Nullable: true})(d), Fragments: d.Fragments()})
	_, err = d.Commit(ctx, Project{Schema: changed("z", func(f *schema.Field) { f.Nullable = false })(d)})
	require.ErrorIs(t, err, errs.ErrInvalid)
	d = commit(t, d, Project{Schema: edited(d, func(f []*schema.Field) []*schema.Field { return f[2:] })})
	require.Len(t, d.Fragment(0).Files, 1, "a fragment keeps a file")
	require.Equal(t, uint64(30), d.CountRows())

	for name, s := range map[string]*schema.Schema{
		"no schema":  nil,
		"no columns": {},
		"new id":     plus(schema.Field{Name: "q", LogicalType: "int32", Nullable: true})(d),
		"new type":   changed("z", func(f *schema.Field) { f.LogicalType = "int64" })(d),
		"same name":  edited(d, func(f []*schema.Field) []*schema.Field { return append(f, f[0]) }),
	} {
		_, err := d.Commit(ctx, Project{Schema: s})
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
}

func TestMerge(t *testing.T) {
	ctx := context.Background()
	_, d := conflictTable(t)
	good := withColumn(d, schema.Field{Name: "y", LogicalType: "int32"})
	alter := func(change func(m *Merge)) Merge {
		m := Merge{Schema: good.Schema, Fragments: slices.Clone(good.Fragments)}
		change(&m)
		return m
	}
	for name, op := range map[string]Operation{
		"fragment missing": alter(func(m *Merge) { m.Fragments = m.Fragments[:2] }),
		"fragment absent":  alter(func(m *Merge) { m.Fragments[0] = nil }),
		"deletions": alter(func(m *Merge) {
			m.Fragments[0] = m.Fragments[0].WithDeletion(&DeletionFile{Rows: 1})
		}),
		"rows":     alter(func(m *Merge) { f := *m.Fragments[0]; f.PhysicalRows = 9; m.Fragments[0] = &f }),
		"no files": alter(func(m *Merge) { f := *m.Fragments[0]; f.Files = nil; m.Fragments[0] = &f }),
		"required": alter(func(m *Merge) { m.Fragments[0] = d.Fragment(0) }),
		"order": alter(func(m *Merge) {
			m.Fragments = append([]*Fragment{wideFragment(1)}, m.Fragments...)
			m.Fragments[0].ID = 7
		}),
		"used id":       alter(func(m *Merge) { m.Schema = changed("x", func(f *schema.Field) { f.ID = 1 })(d) }),
		"new, required": alter(func(m *Merge) { m.Fragments = append(m.Fragments, wideFragment(1)) }),
		"file path": alter(func(m *Merge) {
			f := *m.Fragments[0]
			f.Files = append(slices.Clone(f.Files), DataFile{Path: "a/b", Fields: []int32{3}, Columns: []int32{0}, Major: 2, Minor: 2})
			m.Fragments[0] = &f
		}),
	} {
		_, err := d.Commit(ctx, op)
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
	full := wideFragment(4)
	full.Files = append(full.Files, columnFile(3))
	d = commit(t, d, alter(func(m *Merge) { m.Fragments = append(m.Fragments, full) }))
	require.Equal(t, []uint64{0, 1, 2, 3}, fragmentIDs(d))
	require.Equal(t, uint64(34), d.CountRows())
	require.Equal(t, []string{"a", "b"}, indexNames(t, d))
	tx, err := d.Transaction(ctx)
	require.NoError(t, err)
	require.False(t, tx.Op.(Merge).PreservesNullability)
	require.Len(t, tx.Op.(Merge).Fragments, 4)

	// A cast: the field gets a new id, its index goes.
	cast := Merge{Schema: changed("x", func(f *schema.Field) { f.ID, f.LogicalType = 4, "int64" })(d)}
	for _, f := range d.Fragments() {
		g := *f
		g.Files = append(slices.Clone(f.Files), columnFile(4))
		cast.Fragments = append(cast.Fragments, &g)
	}
	d = commit(t, d, cast)
	require.Equal(t, []string{"a"}, indexNames(t, d))
	require.Equal(t, []string{"id", "name", "x", "y"}, names(d))
}

func TestRewrite(t *testing.T) {
	ctx := context.Background()
	_, d := conflictTable(t)
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 1, 0, 1)}})
	group := func(rows uint64, old ...uint64) RewriteGroup {
		g := RewriteGroup{New: []*Fragment{wideFragment(rows)}}
		for _, id := range old {
			g.Old = append(g.Old, d.Fragment(id))
		}
		return g
	}
	stale := *d.Fragment(1)
	reserved := group(10, 0)
	reserved.New[0].ID = 9
	for name, op := range map[string]Operation{
		"nothing":       Rewrite{},
		"no old":        Rewrite{Groups: []RewriteGroup{{New: []*Fragment{wideFragment(1)}}}},
		"rows":          Rewrite{Groups: []RewriteGroup{group(19, 0, 1)}},
		"twice":         Rewrite{Groups: []RewriteGroup{group(10, 0), group(10, 0)}},
		"not reserved":  Rewrite{Groups: []RewriteGroup{reserved}},
		"other state":   Rewrite{Groups: []RewriteGroup{{Old: []*Fragment{stale.WithDeletion(nil)}, New: []*Fragment{wideFragment(10)}}}},
		"no fragment":   Rewrite{Groups: []RewriteGroup{{Old: []*Fragment{{ID: 77}}, New: []*Fragment{wideFragment(10)}}}},
		"absent":        Rewrite{Groups: []RewriteGroup{{Old: []*Fragment{d.Fragment(0)}, New: []*Fragment{nil}}}},
		"no ids at all": ReserveFragments{},
	} {
		_, err := d.Commit(ctx, op)
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
	before := d
	d = commit(t, d, ReserveFragments{Count: 4})
	require.Equal(t, uint32(6), *d.state.m.MaxFragmentId)
	g := group(18, 0, 1)
	g.New[0].ID = 5
	d = commit(t, d, &Rewrite{Groups: []RewriteGroup{g}})
	require.Equal(t, []uint64{2, 5}, fragmentIDs(d))
	require.Equal(t, uint64(28), d.CountRows())
	require.Empty(t, covered(t, d, "a"), "the moved rows are scanned")
	d = commit(t, d, Append{Fragments: []*Fragment{wideFragment(1)}})
	require.Equal(t, []uint64{2, 5, 7}, fragmentIDs(d))

	// All rows of a group may be gone; an id is given where none is reserved.
	d = commit(t, d, CreateIndex{New: []IndexEntry{indexOn("c", 0, 2, 5)}})
	d = commit(t, d, Rewrite{Groups: []RewriteGroup{{Old: []*Fragment{d.Fragment(2)}, New: []*Fragment{wideFragment(4), wideFragment(6)}}}})
	require.Equal(t, []uint64{5, 7, 8, 9}, fragmentIDs(d))
	require.Equal(t, []uint32{5}, covered(t, d, "c"))
	tx, err := d.Transaction(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(9), tx.Op.(Rewrite).Groups[0].New[1].ID)

	reuse := IndexEntry{Name: fragmentReuseName, DetailsType: "/lance.table.FragmentReuseIndexDetails", Fragments: roaring.New()}
	moved := commit(t, d, CreateIndex{New: []IndexEntry{reuse}})
	_, err = moved.Commit(ctx, Rewrite{Groups: []RewriteGroup{{Old: []*Fragment{moved.Fragment(8)}, New: []*Fragment{wideFragment(4)}}}})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	require.Equal(t, uint64(28), before.CountRows())
}

func TestRestore(t *testing.T) {
	ctx := context.Background()
	st, d := conflictTable(t)
	d = commit(t, d, Project{Schema: without("x")(d)})
	d = commit(t, d, Append{Fragments: []*Fragment{wideFragment(5)}})
	for _, v := range []uint64{0, d.Version() + 1} {
		_, err := d.Commit(ctx, Restore{Version: v})
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
	back := commit(t, d, Restore{Version: 2})
	require.Equal(t, d.Version()+1, back.Version())
	require.Equal(t, uint64(20), back.CountRows())
	require.Equal(t, []string{"id", "name", "x"}, names(back))
	require.Empty(t, indexNames(t, back))
	require.Empty(t, back.Config(), "the old configuration as well")
	back = commit(t, back, Append{Fragments: []*Fragment{wideFragment(1)}})
	require.Equal(t, []uint64{0, 1, 4}, fragmentIDs(back), "ids that were used meanwhile are not used again")
	_, err := Cleanup(ctx, st, testRoot, keepNone)
	require.NoError(t, err)
	_, err = back.Commit(ctx, Restore{Version: 2})
	require.ErrorIs(t, err, errs.ErrNotFound)

	// A MemWAL entry must not be taken back.
	d = commit(t, back, InstallMemWAL(testMemWAL()))
	v := d.Version()
	d = commit(t, d, Update{NewFragments: []*Fragment{wideFragment(1)}, Merged: []MergedGeneration{{Shard: uuid.New(), Generation: 1}}})
	_, err = d.Commit(ctx, Restore{Version: v})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	require.NotNil(t, commit(t, d, Restore{Version: d.Version()}).MemWAL())
}

func TestDataReplacement(t *testing.T) {
	ctx := context.Background()
	_, d := conflictTable(t)
	replace := func(fragment uint64, file DataFile) DataReplacement {
		return DataReplacement{Replacements: []Replacement{{FragmentID: fragment, File: file}}}
	}
	wrongVersion := columnFile(2)
	wrongVersion.Minor = 0
	for name, op := range map[string]Operation{
		"nothing":      DataReplacement{},
		"no fragment":  replace(9, columnFile(2)),
		"no field":     replace(0, columnFile(7)),
		"file version": replace(0, wrongVersion),
	} {
		_, err := d.Commit(ctx, op)
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
	first, second := columnFile(2), columnFile(2)
	d = commit(t, d, replace(0, first))
	require.Equal(t, []int32{0, 1, tombstone}, d.Fragment(0).Files[0].Fields)
	require.Equal(t, first.Path, d.Fragment(0).Files[1].Path)
	require.Equal(t, []uint32{1}, covered(t, d, "b"))
	require.Equal(t, []uint32{0, 1}, covered(t, d, "a"))
	d = commit(t, d, replace(0, second))
	require.Len(t, d.Fragment(0).Files, 2)
	require.Equal(t, second.Path, d.Fragment(0).Files[1].Path, "swapped")
	all := wideFragment(10).Files[0]
	d = commit(t, d, &DataReplacement{Replacements: []Replacement{{FragmentID: 0, File: all}, {FragmentID: 1, File: columnFile(0)}}})
	require.Len(t, d.Fragment(0).Files, 1, "files without a live field go")
	require.Empty(t, covered(t, d, "a"))
	tx, err := d.Transaction(ctx)
	require.NoError(t, err)
	require.Len(t, tx.Op.(DataReplacement).Replacements, 2)
}
