package table

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"lancesql/internal/clock"
	"lancesql/internal/objstore"
)

// unnamedAgeMin is how old an object that no version names must be before it is removed: a commit in flight may be
// about to name it. It is the reference's age.
const unnamedAgeMin = 7 * 24 * time.Hour

// Cleanup removes the versions for which keep answers false, and the objects that only they name. The newest version,
// tagged versions and those that branches start from are kept whatever keep says; objects that no version names are
// removed only when older than seven days; objects of unknown kinds are never touched. If any manifest or reference
// cannot be read, nothing is removed. Returns the names of what was removed, also beside an error.
//
// A caller that reads old versions, or writes objects more than seven days before it commits them, must keep what it
// reads. Removing is idempotent: after a crash the rest counts as unnamed.
func Cleanup(ctx context.Context, st objstore.Store, root string, keep func(version uint64, committed time.Time) bool) (removed []string, err error) {
	return CleanupWith(ctx, st, root, keep, clock.System())
}

// CleanupWith is Cleanup by a given clock.
func CleanupWith(ctx context.Context, st objstore.Store, root string, keep func(version uint64, committed time.Time) bool, c clock.Clock) (removed []string, err error) {
	w := &sweep{st: st, root: root, now: c.Now(), named: make(map[string]bool), condemned: make(map[string]bool)}
	if err := w.mark(ctx, keep); err != nil {
		return nil, fmt.Errorf("clean up %s: %w", root, err)
	}
	if err := w.collect(ctx); err != nil {
		return nil, fmt.Errorf("clean up %s: %w", root, err)
	}
	if err := w.remove(ctx); err != nil {
		return w.removed, fmt.Errorf("clean up %s: %w", root, err)
	}
	return w.removed, nil
}

// CleanupPlan returns what CleanupWith would remove now, in its order, and removes nothing.
func CleanupPlan(ctx context.Context, st objstore.Store, root string, keep func(version uint64, committed time.Time) bool, c clock.Clock) ([]string, error) {
	w := &sweep{st: st, root: root, now: c.Now(), named: make(map[string]bool), condemned: make(map[string]bool)}
	if err := w.mark(ctx, keep); err != nil {
		return nil, fmt.Errorf("plan the clean-up of %s: %w", root, err)
	}
	if err := w.collect(ctx); err != nil {
		return nil, fmt.Errorf("plan the clean-up of %s: %w", root, err)
	}
	return slices.Concat(w.manifests, w.objects, w.folders), nil
}

// sweep is one clean-up: mark what is needed, collect what is not, remove.
type sweep struct {
	st   objstore.Store
	root string
	now  time.Time

	named     map[string]bool // objects and index folders of kept versions
	condemned map[string]bool // objects and index folders of versions to remove
	manifests []string        // of versions to remove
	objects   []string        // to remove after the manifests
	folders   []string        // index and blob folders to remove after the manifests
	removed   []string
	keepMaps  bool // row maps of stable partitions: something may name them that could not be read
}

func (w *sweep) mark(ctx context.Context, keep func(uint64, time.Time) bool) error {
	list, err := listVersions(ctx, w.st, w.root)
	if err != nil {
		return err
	}
	var pinned map[uint64]bool
	for i, v := range list.versions {
		s, err := loadManifest(ctx, w.st, w.root, v, list.naming)
		if err != nil {
			return err
		}
		if pinned == nil {
			main, err := mainRootOf(w.root, s.m.GetBranch())
			if err != nil {
				return err
			}
			if pinned, err = pinnedVersions(ctx, w.st, main, s.m.GetBranch()); err != nil {
				return err
			}
		}
		n := s.fileNames(w.root)
		into := w.named
		if i < len(list.versions)-1 && !pinned[v] && !keep(v, s.timestamp()) {
			into = w.condemned
			w.manifests = append(w.manifests, n.Manifest)
		}
		w.markMaps(ctx, s, into)
		for _, names := range [][]string{{n.Transaction}, n.Data, n.Deletions, n.IndexFolders} {
			for _, name := range names {
				into[name] = true
			}
		}
	}
	return nil
}

// dead says whether an object or folder may go, given its newest modification.
func (w *sweep) dead(name string, modified time.Time) bool {
	if w.named[name] {
		return false
	}
	return w.condemned[name] || w.now.Sub(modified) > unnamedAgeMin
}

func (w *sweep) collect(ctx context.Context) error {
	kinds := []struct {
		dir  string
		mine func(base string) bool
	}{
		{dataDir, func(b string) bool { return strings.HasSuffix(b, dataSuffix) }},
		{deletionsDir, func(b string) bool { return strings.HasSuffix(b, ".arrow") || strings.HasSuffix(b, ".bin") }},
		{transactionsDir, func(b string) bool { return strings.HasSuffix(b, txnSuffix) }},
	}
	for _, k := range kinds {
		err := listObjects(ctx, w.st, join(w.root, k.dir), k.mine, func(i objstore.Info) {
			if w.dead(i.Name, i.ModTime) {
				w.objects = append(w.objects, i.Name)
			}
		})
		if err != nil {
			return err
		}
	}
	if err := w.collectBlobs(ctx); err != nil {
		return err
	}
	if err := w.collectFolders(ctx, indicesDir); err != nil {
		return err
	}
	return w.collectMaps(ctx)
}

// collectBlobs condemns the folders with the blobs of the data files that go.
func (w *sweep) collectBlobs(ctx context.Context) error {
	going := make(map[string]bool)
	for _, o := range w.objects {
		if strings.HasSuffix(o, dataSuffix) {
			going[blobFolder(o)] = true
		}
	}
	if len(going) == 0 {
		return nil
	}
	return w.st.List(ctx, join(w.root, dataDir), func(i objstore.Info) error {
		if i.Dir && going[i.Name] {
			w.folders = append(w.folders, i.Name)
		}
		return nil
	})
}

// collectFolders judges the folders named by UUIDs in dir as wholes, by their newest file.
func (w *sweep) collectFolders(ctx context.Context, dir string) error {
	newest := make(map[string]time.Time)
	err := w.st.List(ctx, join(w.root, dir), func(i objstore.Info) error {
		if _, err := uuid.Parse(path.Base(i.Name)); err == nil && i.Dir {
			newest[i.Name] = time.Time{}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, folder := range slices.Sorted(maps.Keys(newest)) {
		empty := true
		err := w.st.List(ctx, folder, func(i objstore.Info) error {
			empty = false
			if i.ModTime.After(newest[folder]) {
				newest[folder] = i.ModTime
			}
			if i.Dir { // an unknown layout has no age: keep it unless a removed version names the folder
				newest[folder] = w.now
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !empty && w.dead(folder, newest[folder]) {
			w.folders = append(w.folders, folder)
		}
	}
	return nil
}

// remove takes manifests first: a version must not be readable when its objects are gone.
func (w *sweep) remove(ctx context.Context) error {
	objects := func(names []string) error {
		for _, name := range names {
			if err := w.st.Delete(ctx, name); err != nil {
				return err
			}
			w.removed = append(w.removed, name)
		}
		return nil
	}
	if err := objects(w.manifests); err != nil {
		return err
	}
	if len(w.manifests) > 0 {
		// Durable: the end of these versions. Or a crash would bring manifests back whose objects are gone.
		if err := w.st.SyncDir(ctx, join(w.root, versionsDir)); err != nil {
			return err
		}
	}
	if err := objects(w.objects); err != nil {
		return err
	}
	for _, name := range w.folders {
		if err := w.st.RemoveAll(ctx, name); err != nil {
			return err
		}
		w.removed = append(w.removed, name)
	}
	return nil
}
