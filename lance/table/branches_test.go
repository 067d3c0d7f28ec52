package table

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/testkit/oracle"
	"lancesql/lance/pb"
)

// clone puts a version that names every object of d through base path 0, as a shallow clone does.
func clone(t *testing.T, st objstore.Store, d *Dataset, root, branch, recorded string) {
	t.Helper()
	b, err := newBuilder(d.env, d, nil)
	require.NoError(t, err)
	b.m.Version = d.Version()
	b.m.BasePaths = []*pb.BasePath{{IsDatasetRoot: true, Path: recorded}}
	if branch != "" {
		b.m.Branch = &branch
	}
	for i, f := range b.fragments {
		g := *f
		g.Files = append([]DataFile(nil), f.Files...)
		for k := range g.Files {
			g.Files[k].BaseID = proto.Uint32(0)
		}
		if f.Deletion != nil {
			del := *f.Deletion
			del.BaseID = proto.Uint32(0)
			g.Deletion = &del
		}
		b.fragments[i] = &g
	}
	b.txn.Operation = &pb.Transaction_Clone{Clone: &pb.CloneOperation{IsShallow: true, RefVersion: d.Version()}}
	manifest, _, err := b.finish("")
	require.NoError(t, err)
	require.NoError(t, st.PutIfAbsent(ctxOf(t), join(root, versionsDir, namingV2.manifestName(d.Version())), manifest))
}

func putText(t *testing.T, st objstore.Store, name, text string) {
	t.Helper()
	require.NoError(t, st.PutIfAbsent(ctxOf(t), name, []byte(text)))
}

// branched is a table of three versions with a branch from the second, which has one version of its own.
func branched(t *testing.T) (st objstore.Store, main, dev *Dataset) {
	st = objstore.NewMem()
	main = create(t, st, CreateOptions{})
	main = commit(t, main, Append{Fragments: []*Fragment{fragment(t, main, rowsOf(t, "a", 0, 10))}})
	main = commit(t, main, Delete{Updated: []*Fragment{deleteRows(t, main, 0, 3)}})
	clone(t, st, main, testRoot+"/tree/dev", "dev", "/elsewhere/"+testRoot)
	putText(t, st, testRoot+"/_refs/branches/dev.json", `{"parentBranch": null, "identifier": {"version_mapping": [[3, "00"]]}, "parentVersion": 3, "createAt": 1796030453, "manifestSize": 1, "metadata": {}}`)
	dev, err := main.OpenBranch(ctxOf(t), "dev")
	require.NoError(t, err)
	require.Equal(t, "dev", dev.Branch())
	dev = commit(t, dev, Append{Fragments: []*Fragment{fragment(t, dev, rowsOf(t, "b", 10, 15))}})
	dev = commit(t, dev, Delete{Updated: []*Fragment{deleteRows(t, dev, 0, 3, 4), deleteRows(t, dev, 1, 0)}})
	main = commit(t, main, Append{Fragments: []*Fragment{fragment(t, main, rowsOf(t, "c", 20, 21))}})
	return st, main, dev
}

func TestBranches(t *testing.T) {
	ctx := ctxOf(t)
	st, main, dev := branched(t)
	require.Equal(t, []string{"0", "1", "2", "5", "6", "7", "8", "9", "11", "12", "13", "14"}, scan(t, dev, 0))
	require.Len(t, scan(t, main, 0), 10)
	list, err := dev.ListBranches(ctx)
	require.NoError(t, err)
	require.Equal(t, []Branch{{Name: "dev", Version: 3, Created: time.Unix(1796030453, 0).UTC()}}, list)
	back, err := dev.OpenBranch(ctx, "")
	require.NoError(t, err)
	require.Equal(t, main.Version(), back.Version())
	require.Empty(t, back.Branch())
	_, err = main.OpenBranch(ctx, "other")
	require.ErrorIs(t, err, errs.ErrNotFound)
	for _, name := range []string{"..", "a//b", "a/../../x", "/a"} {
		_, err = main.OpenBranch(ctx, name)
		require.ErrorIs(t, err, errs.ErrInvalid, name)
	}

	// Tags lie with the main line and lead to the branch from either side.
	require.NoError(t, dev.CreateTag(ctx, "on-dev", 4))
	require.NoError(t, main.CreateTag(ctx, "on-main", 2))
	for _, from := range []*Dataset{main, dev} {
		tags, err := from.ListTags(ctx)
		require.NoError(t, err)
		require.Len(t, tags, 2)
		at, err := from.OpenTag(ctx, "on-dev")
		require.NoError(t, err)
		require.Equal(t, "dev", at.Branch())
		require.Equal(t, uint64(14), at.CountRows())
		at, err = from.OpenTag(ctx, "on-main")
		require.NoError(t, err)
		require.Empty(t, at.Branch())
		require.Equal(t, uint64(10), at.CountRows())
	}

	// Clean-up of either line keeps what tags of this line name, branches start from, and all objects of the other.
	_, err = CleanupWith(ctx, st, dev.Root(), keepNone, main.env.clock)
	require.NoError(t, err)
	_, err = CleanupWith(ctx, st, testRoot, keepNone, main.env.clock)
	require.NoError(t, err)
	for line, want := range map[string][]uint64{testRoot: {2, 3, 4}, dev.Root(): {4, 5}} {
		got, err := listVersions(ctx, st, line)
		require.NoError(t, err)
		require.Equal(t, want, got.versions, line)
	}
	dev, err = reopen(t, st).OpenBranch(ctx, "dev")
	require.NoError(t, err)
	require.Len(t, scan(t, dev, 0), 12)
	dev, _, err = dev.Compact(ctx, CompactOptions{})
	require.NoError(t, err)
	require.Len(t, scan(t, dev, 0), 12)
	require.Len(t, dev.Fragments(), 1)
	require.Nil(t, dev.Fragments()[0].Files[0].BaseID)
}

func TestBasePaths(t *testing.T) {
	ctx := ctxOf(t)
	st := objstore.NewMem()
	main := create(t, st, CreateOptions{})
	main = commit(t, main, Append{Fragments: []*Fragment{fragment(t, main, rowsOf(t, "a", 0, 10))}})
	main = commit(t, main, Delete{Updated: []*Fragment{deleteRows(t, main, 0, 3)}})
	other := objstore.NewMem()
	clone(t, other, main, "copy", "", "/data/"+testRoot)

	d, err := Open(ctx, other, "copy")
	require.NoError(t, err)
	require.Equal(t, []BasePath{{Path: "/data/" + testRoot, DatasetRoot: true}}, d.BasePaths())
	r, err := d.Scan(ctx, []int32{0})
	if err == nil {
		_, err = r.Next()
	}
	require.ErrorIs(t, err, errs.ErrUnsupported)
	require.ErrorContains(t, err, "/data/"+testRoot)

	find := func(path string) (Base, error) {
		dir, ok := strings.CutPrefix(path, "/data/")
		if !ok {
			return Base{}, errs.ErrNotFound
		}
		return Base{st, dir}, nil
	}
	d, err = OpenWith(ctx, other, "copy", Options{Bases: find})
	require.NoError(t, err)
	require.Len(t, scan(t, d, 0), 9)
	d = commit(t, d, UpdateBases{New: []BasePath{{Name: "x", Path: "/x"}, {Path: "/y", DatasetRoot: true}}})
	require.Equal(t, []BasePath{{Path: "/data/" + testRoot, DatasetRoot: true}, {ID: 1, Name: "x", Path: "/x"}, {ID: 2, Path: "/y", DatasetRoot: true}}, d.BasePaths())
	tx, err := d.Transaction(ctx)
	require.NoError(t, err)
	require.Equal(t, UpdateBases{New: []BasePath{{ID: 1, Name: "x", Path: "/x"}, {ID: 2, Path: "/y", DatasetRoot: true}}}, tx.Op)
	_, err = d.Commit(ctx, UpdateBases{New: []BasePath{{Name: "x", Path: "/z"}}})
	require.ErrorIs(t, err, errs.ErrInvalid)

	// An id that the version does not have is damage.
	_, err = d.place(proto.Uint32(9), dataDir, "f")
	require.ErrorIs(t, err, errs.ErrCorruption)
	_, err = d.place(proto.Uint32(1), deletionsDir, "f")
	require.Error(t, err)
}

func TestUpdateMemWALState(t *testing.T) {
	d := create(t, objstore.NewMem(), CreateOptions{MemWAL: testMemWAL()})
	g := MergedGeneration{Shard: [16]byte{7}, Generation: 3}
	d = commit(t, d, UpdateMemWALState{Merged: []MergedGeneration{g}})
	require.Equal(t, uint64(3), d.MemWAL().MergedUpTo(g.Shard))
	tx, err := d.Transaction(ctxOf(t))
	require.NoError(t, err)
	require.Equal(t, UpdateMemWALState{Merged: []MergedGeneration{g}}, tx.Op)
	_, err = d.Commit(ctxOf(t), UpdateMemWALState{Merged: []MergedGeneration{g}})
	require.ErrorIs(t, err, errs.ErrConflict)
}

// TestOracleBranches: branches, tags on them, clones and base paths of the reference; then it reads what we put on top.
func TestOracleBranches(t *testing.T) {
	ctx := context.Background()
	dir, st := local(t)
	type line struct {
		Version uint64
		IDs     []int
	}
	var want map[string]line
	ask := func(step string) {
		t.Helper()
		out := oracle.RunPython(t, "table_branches.py", dir, step)
		require.NoError(t, json.Unmarshal(out, &want), "%s", out)
	}
	ask("make")
	find := func(path string) (Base, error) {
		rel, err := filepath.Rel(dir, path)
		return Base{st, filepath.ToSlash(rel)}, err
	}
	numbers := func(text []string) (out []int) {
		for _, s := range text {
			n, err := strconv.Atoi(s)
			require.NoError(t, err)
			out = append(out, n)
		}
		return out
	}
	check := func(name string, d *Dataset, err error) *Dataset {
		t.Helper()
		require.NoError(t, err, name)
		require.Equal(t, want[name].Version, d.Version(), name)
		require.Equal(t, want[name].IDs, numbers(scan(t, d, 0)), name)
		return d
	}
	open := func(root string) (*Dataset, error) { return OpenWith(ctx, st, root, Options{Bases: find}) }
	all := func() (main, dev, x *Dataset) {
		t.Helper()
		d, err := Open(ctx, st, "main.lance")
		main = check("main", d, err)
		d, err = main.OpenBranch(ctx, "dev")
		dev = check("dev", d, err)
		d, err = dev.OpenBranch(ctx, "feature/x")
		x = check("feature/x", d, err)
		d, err = main.OpenTag(ctx, "on-branch")
		check("on-branch", d, err)
		d, err = open("clone.lance")
		check("clone", d, err)
		d, err = open("based.lance")
		check("based", d, err)
		return main, dev, x
	}
	main, dev, x := all()
	list, err := main.ListBranches(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "dev", list[1].Parent)

	// Our commits on a branch, a clone and a table with base paths.
	for _, d := range []*Dataset{dev, x} {
		d, err = d.Append(ctx, Records(arrowSchema(t, d), rowsOf(t, "go", 900, 905)), WriteOptions{})
		require.NoError(t, err)
		_, _, err = d.DeleteWhere(ctx, idBelow(2))
		require.NoError(t, err)
	}
	based, err := open("based.lance")
	require.NoError(t, err)
	based = commit(t, based, UpdateBases{New: []BasePath{{Name: "two", Path: filepath.Join(dir, "two"), DatasetRoot: true}}})
	_, _, err = based.DeleteWhere(ctx, idIs(1))
	require.NoError(t, err)
	require.NoError(t, dev.CreateTag(ctx, "ours", dev.Version()))
	_, err = Cleanup(ctx, st, dev.Root(), keepNone)
	require.NoError(t, err)
	ask("read")
	all()
	ask("write") // the reference uses our base path and goes on from our versions
	all()
}

// FuzzRefs reads the objects of _refs.
func FuzzRefs(f *testing.F) {
	f.Add([]byte(`{"parentBranch": "dev", "identifier": {"version_mapping": [[3, "ae"], [], [5, null]]}, "parentVersion": 5, "createAt": 1}`))
	f.Add([]byte(`{"branch": "dev", "version": 5, "createdAt": "2026-11-30T09:20:53.7Z", "manifestSize": 1, "metadata": {}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		st := objstore.NewMem()
		d := create(t, st, CreateOptions{})
		for _, dir := range []string{tagsDir, branchesDir} {
			require.NoError(t, st.Put(ctxOf(t), join(testRoot, dir, "x%2Fy.json"), text))
		}
		_, tags := d.ListTags(ctxOf(t))
		_, branches := d.ListBranches(ctxOf(t))
		_, pins := pinnedVersions(ctxOf(t), st, testRoot, "")
		for _, err := range []error{tags, branches, pins} {
			if err != nil {
				require.ErrorIs(t, err, errs.ErrCorruption)
			}
		}
		require.Equal(t, tags != nil || branches != nil, pins != nil)
	})
}
