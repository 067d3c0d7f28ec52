package table

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
	"lancesql/lance/schema"
)

func TestCreateOnce(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	_, err := Open(ctx, st, testRoot)
	require.ErrorIs(t, err, errs.ErrNotFound)
	d := create(t, st, CreateOptions{Config: map[string]string{"a": "b"}})
	require.Equal(t, uint64(1), d.Version())
	require.Equal(t, map[string]string{"a": "b"}, d.Config())
	require.Nil(t, d.MemWAL())
	require.Equal(t, "id", d.Schema().PrimaryKey()[0].Name)
	_, err = Create(ctx, st, testRoot, testSchema(t), CreateOptions{})
	require.ErrorIs(t, err, errs.ErrExists)
	_, err = Create(ctx, st, "x.lance", testSchema(t), CreateOptions{DataVersion: "stable"})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	_, err = OpenVersion(ctx, st, testRoot, 2)
	require.ErrorIs(t, err, errs.ErrNotFound)
}

func TestFragmentIDs(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := create(t, st, CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10), fakeFragment(20)}})
	require.Equal(t, []uint64{0, 1}, fragmentIDs(d))
	d = commit(t, d, &Delete{DeletedIDs: []uint64{1}})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(5)}})
	require.Equal(t, []uint64{0, 2}, fragmentIDs(d), "an id is never used twice")
	d = commit(t, d, Overwrite{Schema: testSchema(t), Fragments: []*Fragment{fakeFragment(7)}})
	require.Equal(t, []uint64{3}, fragmentIDs(d))
	require.Equal(t, uint64(3), d.NewFragments()[0].ID)
	require.Equal(t, uint64(7), d.CountRows())
	old, err := d.At(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, uint64(30), old.CountRows())
	require.Equal(t, 5, int(d.Version()))
	require.Equal(t, 1, reopen(t, st).Stats().Fragments)
}

func TestUpdateMovesRows(t *testing.T) {
	d := create(t, objstore.NewMem(), CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10), fakeFragment(2), fakeFragment(4)}})
	all := deleteRows(t, d, 1, 0, 1)
	d = commit(t, d, Update{
		UpdatedFragments: []*Fragment{deleteRows(t, d, 0, 3, 4), all}, RemovedFragmentIDs: []uint64{2},
		NewFragments: []*Fragment{fakeFragment(8)}, FieldsForPreservingFragBitmap: []uint32{0, 1},
	})
	require.Equal(t, []uint64{0, 3}, fragmentIDs(d), "a fragment without live rows is removed")
	require.Equal(t, uint64(16), d.CountRows())
	tx, err := d.Transaction(context.Background())
	require.NoError(t, err)
	o := tx.Op.(Update)
	require.Equal(t, []uint64{2, 1}, o.RemovedFragmentIDs)
	require.Len(t, o.UpdatedFragments, 1)
	require.Zero(t, o.NewFragments[0].ID)
	require.Equal(t, []uint32{0, 1}, o.FieldsForPreservingFragBitmap)
}

func TestInvalidOperations(t *testing.T) {
	ctx := context.Background()
	d := create(t, objstore.NewMem(), CreateOptions{})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10), fakeFragment(5)}})
	noRequired, wrongVersion, noRows := fakeFragment(3), fakeFragment(3), fakeFragment(0)
	noRequired.Files[0].Fields = []int32{-2, 1}
	wrongVersion.Files[0].Minor = 1
	moved := *d.Fragment(0)
	moved.PhysicalRows = 11
	wrongCount := *d.Fragment(0)
	wrongCount.DeletedRows = 2
	for name, op := range map[string]Operation{
		"nothing appended":       Append{},
		"required field missing": Append{Fragments: []*Fragment{noRequired}},
		"file version":           Append{Fragments: []*Fragment{wrongVersion}},
		"no rows":                Append{Fragments: []*Fragment{noRows}},
		"id given":               Append{Fragments: []*Fragment{d.Fragment(1)}},
		"unknown fragment":       Delete{DeletedIDs: []uint64{7}},
		"twice":                  Update{RemovedFragmentIDs: []uint64{0}, UpdatedFragments: []*Fragment{d.Fragment(0)}},
		"rows changed":           Update{UpdatedFragments: []*Fragment{&moved}},
		"count without file":     Update{UpdatedFragments: []*Fragment{&wrongCount}},
		"no MemWAL entry":        Update{NewFragments: []*Fragment{fakeFragment(1)}, Merged: []MergedGeneration{{Generation: 1}}},
		"no schema":              Overwrite{},
		"no merged generation":   UpdateMemWALState{},
		"no place":               UpdateBases{New: []BasePath{{Name: "x"}}},
		"one place twice":        UpdateBases{New: []BasePath{{Path: "/p"}, {Path: "/p"}}},
		"unknown field":          UpdateConfig{FieldMetadata: map[int32]*MapUpdate{9: {}}},
		"primary key changed": UpdateConfig{FieldMetadata: map[int32]*MapUpdate{
			1: {Set: map[string]string{schema.KeyPrimaryKeyPosition: "2"}}}},
	} {
		_, err := d.Commit(ctx, op)
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}
	_, err := d.Commit(ctx, Other{Which: KindClone})
	require.ErrorIs(t, err, errs.ErrUnsupported)
	latest, err := d.Latest(ctx)
	require.NoError(t, err)
	require.Same(t, d, latest, "nothing was committed")
}

func TestUpdateConfig(t *testing.T) {
	d := create(t, objstore.NewMem(), CreateOptions{TableMetadata: map[string]string{"a": "1", "b": "2"}})
	d = commit(t, d, UpdateConfig{
		TableMetadata:  &MapUpdate{Set: map[string]string{"c": "3"}, Delete: []string{"a"}},
		SchemaMetadata: &MapUpdate{Set: map[string]string{"s": "t"}},
		FieldMetadata:  map[int32]*MapUpdate{0: {Set: map[string]string{"note": "x"}}},
	})
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, d.TableMetadata())
	require.Equal(t, map[string]string{"s": "t"}, d.Schema().Metadata)
	require.Equal(t, "x", d.Schema().Fields[0].Metadata["note"])
	require.Equal(t, uint32(1), d.Schema().Fields[0].PKPosition)
	require.True(t, d.state.m.Fields[0].UnenforcedPrimaryKey)
	d = commit(t, d, UpdateConfig{TableMetadata: &MapUpdate{Replace: true, Set: map[string]string{"only": ""}}})
	require.Equal(t, map[string]string{"only": ""}, d.TableMetadata())
	tx, err := d.Transaction(context.Background())
	require.NoError(t, err)
	require.Equal(t, &MapUpdate{Replace: true, Set: map[string]string{"only": ""}}, tx.Op.(UpdateConfig).TableMetadata)
}

func TestCreateIndexEntries(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	d := commit(t, create(t, st, CreateOptions{}), Append{Fragments: []*Fragment{fakeFragment(10)}})
	d = commit(t, d, &CreateIndex{New: []IndexEntry{{Name: "id_idx", Fields: []int32{0}, Fragments: roaring.BitmapOf(0),
		DetailsType: "/lance.table.BTreeIndexDetails", Files: []IndexFile{{Path: "page_data.lance", Size: 5}}}}})
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10)}})
	entries, err := reopen(t, st).Indexes()
	require.NoError(t, err)
	require.Len(t, entries, 1, "carried forward")
	e := entries[0]
	require.Equal(t, uint64(2), e.DatasetVersion)
	require.True(t, e.Fragments.Equals(roaring.BitmapOf(0)), "an append does not extend it")
	require.Equal(t, []IndexFile{{Path: "page_data.lance", Size: 5}}, e.Files)
	require.Equal(t, testRoot+"/_indices/"+e.UUID.String(), d.FileNames().IndexFolders[0])

	d = commit(t, d, CreateIndex{New: []IndexEntry{e}})
	entries, err = d.Indexes()
	require.NoError(t, err)
	require.Len(t, entries, 1, "the same identifier replaces")
	d = commit(t, d, CreateIndex{Removed: []uuid.UUID{e.UUID}})
	entries, err = d.Indexes()
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = d.Commit(ctx, CreateIndex{Removed: []uuid.UUID{e.UUID}})
	require.ErrorIs(t, err, errs.ErrNotFound)
}

func TestCommitConflict(t *testing.T) {
	ctx := context.Background()
	st := objstore.NewMem()
	base := create(t, st, CreateOptions{})
	d := commit(t, base, Append{Fragments: []*Fragment{fakeFragment(10)}})
	_, err := base.Commit(ctx, Append{Fragments: []*Fragment{fakeFragment(1)}})
	require.ErrorIs(t, err, errs.ErrConflict)
	require.Equal(t, uint64(10), reopen(t, st).CountRows())

	// The loser's version was made and removed since: its number must not be given out again.
	d = commit(t, d, Append{Fragments: []*Fragment{fakeFragment(10)}})
	_, err = Cleanup(ctx, st, testRoot, keepNone)
	require.NoError(t, err)
	_, err = base.Commit(ctx, Append{Fragments: []*Fragment{fakeFragment(1)}})
	require.ErrorIs(t, err, errs.ErrConflict)
	require.Equal(t, d.Version(), reopen(t, st).Version())
}

// An attempt whose outcome is unclear is decided by what is there.
func TestAmbiguousPut(t *testing.T) {
	ctx := context.Background()
	onManifest := func(op faultstore.Op) bool {
		return op.Kind == faultstore.PutIfAbsent && strings.HasSuffix(op.Name, manifestSuffix)
	}
	for _, c := range []struct {
		fault faultstore.Fault
		want  error // nil: committed
	}{
		{faultstore.Fault{At: 1, Action: faultstore.Ambiguous}, nil},
		{faultstore.Fault{At: 1, Action: faultstore.Ambiguous, Err: errs.ErrExists}, nil},
		{faultstore.Fault{At: 1, Action: faultstore.Fail}, faultstore.ErrInjected},
		{faultstore.Fault{At: 1, Action: faultstore.Ambiguous, Err: errs.ErrSync}, errs.ErrSync},
	} {
		inner := objstore.NewMem()
		create(t, inner, CreateOptions{})
		st := faultstore.New(inner, faultstore.Plan{Match: onManifest, Faults: []faultstore.Fault{c.fault}})
		d, err := Open(ctx, st, testRoot)
		require.NoError(t, err)
		next, err := d.Commit(ctx, Append{Fragments: []*Fragment{fakeFragment(4)}})
		if c.want != nil {
			require.ErrorIs(t, err, c.want)
			require.False(t, errors.Is(err, errs.ErrConflict))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, uint64(4), next.CountRows())
		require.Equal(t, uint64(4), reopen(t, inner).CountRows())
	}
}

// Whatever operation of a commit fails or crashes, the table is at the old or at the new version. Invariant I2.
func TestCommitCrashes(t *testing.T) {
	ctx := context.Background()
	for n := int64(1); ; n++ {
		for _, performed := range []bool{false, true} {
			inner := objstore.NewMem()
			d := commit(t, create(t, inner, CreateOptions{}), Append{Fragments: []*Fragment{fakeFragment(10)}})
			st := faultstore.New(inner, faultstore.CrashAt(n, performed))
			d, err := Open(ctx, st, testRoot)
			require.NoError(t, err)
			err = func() error {
				df, err := d.WriteDeletions(ctx, 0, roaring.BitmapOf(1, 2))
				if err != nil {
					return err
				}
				_, err = d.Commit(ctx, Update{UpdatedFragments: []*Fragment{d.Fragment(0).WithDeletion(df)}, NewFragments: []*Fragment{fakeFragment(3)}})
				return err
			}()
			after := reopen(t, inner)
			if !st.Crashed() {
				require.NoError(t, err)
				return
			}
			switch after.CountRows() {
			case 10:
				require.Error(t, err)
			case 11:
				set, err := after.Deletions(ctx, after.Fragment(0))
				require.NoError(t, err)
				require.Equal(t, uint64(2), set.GetCardinality())
			default:
				t.Fatalf("operation %d: %d rows", n, after.CountRows())
			}
			names := after.FileNames()
			require.NotEmpty(t, path.Base(names.Transaction))
			_, err = inner.Stat(ctx, names.Transaction)
			require.NoError(t, err)
		}
	}
}

func keepNone(uint64, time.Time) bool { return false }
