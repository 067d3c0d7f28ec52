package table

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
)

// history is a table of five versions whose files exist.
func history(t *testing.T, at *clock.Manual) (*objstore.Mem, *Dataset) {
	t.Helper()
	st := objstore.NewMemClock(at)
	return st, historyOn(t, st, at)
}

func historyOn(t *testing.T, st objstore.Store, at *clock.Manual) *Dataset {
	t.Helper()
	d := create(t, st, CreateOptions{Options: Options{Clock: at}, MemWAL: testMemWAL()})
	add := func(rows uint64) *Fragment {
		f := fakeFragment(rows)
		require.NoError(t, st.PutIfAbsent(context.Background(), testRoot+"/data/"+f.Files[0].Path, []byte("x")))
		return f
	}
	d = commit(t, d, Append{Fragments: []*Fragment{add(10), add(10)}})        // 2
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 1)}})    // 3
	d = commit(t, d, Delete{Updated: []*Fragment{deleteRows(t, d, 0, 1, 2)}}) // 4
	index := IndexEntry{UUID: uuid.New(), Name: "i", Fields: []int32{0}, Fragments: roaring.BitmapOf(0, 1), DetailsType: "/x"}
	d = commit(t, d, CreateIndex{New: []IndexEntry{index}}) // 5
	require.NoError(t, st.PutIfAbsent(context.Background(), testRoot+"/_indices/"+index.UUID.String()+"/page.lance", []byte("x")))
	return d
}

// A crash at any call of a clean-up leaves versions whose objects are all there, whatever of the removals is on the disk.
func TestCleanupCrash(t *testing.T) {
	at := clock.NewManual(time.Unix(1_700_000_000, 0))
	calls := int64(0)
	for n := int64(1); ; n++ {
		fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
		st, err := objstore.OpenLocal(fs, "/root")
		require.NoError(t, err)
		newest := historyOn(t, st, at).Version()
		fs.Reset(faultfs.Plan{CrashAt: n})
		_, err = CleanupWith(t.Context(), st, testRoot, keepNone, at)
		for seed := range uint64(8) {
			clone, cerr := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: 50, Rand: rand.New(rand.NewPCG(seed, uint64(n)))})
			require.NoError(t, cerr)
			left, oerr := objstore.OpenLocal(clone, "/root")
			require.NoError(t, oerr)
			list, lerr := listVersions(t.Context(), left, testRoot)
			require.NoError(t, lerr)
			require.Equal(t, newest, list.versions[len(list.versions)-1])
			there := objects(t, left)
			for _, v := range list.versions {
				s, err := loadManifest(t.Context(), left, testRoot, v, list.naming)
				require.NoError(t, err)
				names := s.fileNames(testRoot)
				for _, name := range slices.Concat(names.Data, names.Deletions) {
					require.Contains(t, there, strings.TrimPrefix(name, testRoot+"/"), "version %d after a crash at call %d, seed %d", v, n, seed)
				}
			}
			require.NoError(t, left.Close())
		}
		if err == nil {
			break
		}
		calls = n
	}
	require.Greater(t, calls, int64(8))
}

func objects(t *testing.T, st objstore.Store) []string {
	t.Helper()
	var out []string
	require.NoError(t, objstore.Walk(context.Background(), st, testRoot, func(i objstore.Info) error {
		out = append(out, strings.TrimPrefix(i.Name, testRoot+"/"))
		return nil
	}))
	return out
}

func TestCleanupKeepsTheNewest(t *testing.T) {
	ctx := context.Background()
	at := clock.NewManual(time.Unix(1_700_000_000, 0))
	st, d := history(t, at)
	require.NoError(t, st.PutIfAbsent(ctx, testRoot+"/data/young.lance", []byte("a commit in flight")))
	require.NoError(t, st.PutIfAbsent(ctx, testRoot+"/data/notes.txt", []byte("not ours")))
	removed, err := CleanupWith(ctx, st, testRoot, keepNone, at)
	require.NoError(t, err)
	require.Len(t, removed, 4+4+1, "four manifests, four transactions, one deletion file")
	left := objects(t, st)
	for _, name := range removed {
		require.NotContains(t, left, strings.TrimPrefix(name, testRoot+"/"))
	}
	names := d.FileNames()
	for _, name := range slices.Concat([]string{names.Manifest, names.Transaction, testRoot + "/data/young.lance"}, names.Data, names.Deletions) {
		require.Contains(t, left, strings.TrimPrefix(name, testRoot+"/"))
	}
	require.Equal(t, d.CountRows(), reopen(t, st).CountRows())

	// Later the file that nobody named is garbage; what is not ours stays; a dropped index goes with its last version.
	entries, err := d.Indexes()
	require.NoError(t, err)
	d = commit(t, d, CreateIndex{Removed: []uuid.UUID{entries[1].UUID}})
	at.Advance(8 * 24 * time.Hour)
	removed, err = CleanupWith(ctx, st, testRoot, keepNone, at)
	require.NoError(t, err)
	require.Contains(t, removed, testRoot+"/data/young.lance")
	require.Contains(t, removed, testRoot+"/_indices/"+entries[1].UUID.String())
	require.Contains(t, objects(t, st), "data/notes.txt")
	again, err := CleanupWith(ctx, st, testRoot, keepNone, at)
	require.NoError(t, err)
	require.Empty(t, again)
	require.Equal(t, d.Version(), reopen(t, st).Version())
}

func TestCleanupHonoursKeepTagsAndBranches(t *testing.T) {
	ctx := context.Background()
	at := clock.NewManual(time.Unix(1_700_000_000, 0))
	st, d := history(t, at)
	require.NoError(t, st.PutIfAbsent(ctx, testRoot+"/_refs/tags/v2.json", []byte(`{"branch":null,"version":2,"manifestSize":1}`)))
	require.NoError(t, st.PutIfAbsent(ctx, testRoot+"/_refs/branches/b.json", []byte(`{"parentBranch":null,"parentVersion":3,"createAt":1,"manifestSize":1}`)))
	asked := []uint64{}
	_, err := CleanupWith(ctx, st, testRoot, func(v uint64, ts time.Time) bool {
		require.True(t, ts.Equal(at.Now()))
		asked = append(asked, v)
		return v == 4
	}, at)
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 4}, asked)
	for v, ok := range map[uint64]bool{1: false, 2: true, 3: true, 4: true, 5: true} {
		old, err := d.At(ctx, v)
		require.Equal(t, ok, err == nil, "version %d", v)
		if ok {
			for _, f := range old.Fragments() {
				_, err := old.Deletions(ctx, f)
				require.NoError(t, err)
			}
		}
	}
}

func TestCleanupStopsAtWhatItCannotRead(t *testing.T) {
	ctx := context.Background()
	at := clock.NewManual(time.Unix(1_700_000_000, 0))
	for name, data := range map[string]string{
		"_refs/tags/x.json":                       `{"`,
		"_refs/tags/y.json":                       `{}`,
		"_versions/18446744073709551613.manifest": "damaged",
	} {
		st, _ := history(t, at)
		require.NoError(t, st.Put(ctx, testRoot+"/"+name, []byte(data)))
		before := objects(t, st)
		removed, err := CleanupWith(ctx, st, testRoot, keepNone, at)
		require.ErrorIs(t, err, errs.ErrCorruption, name)
		require.Empty(t, removed)
		require.Equal(t, before, objects(t, st))
	}
}
