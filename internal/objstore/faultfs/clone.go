package faultfs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
)

// CloneConfig says how much of what was not synced a crash spares.
type CloneConfig struct {
	// UnsyncedPercent is the probability, per block of a file, per new name and per removed name, that an
	// unsynced change is on the disk. 0 = exactly what was synced; 100 = everything, as after the death of the
	// process alone.
	UnsyncedPercent int
	// Rand decides; it may be nil if the probability is 0 or 100.
	Rand *rand.Rand
}

// CrashClone returns a filesystem in a state in which a crash at this moment could leave this one. It waits
// for calls in progress, may be taken any number of times, before or after a crash, and is independent of the
// original. It returns errs.ErrUnsupported unless FS wraps pebble's memory filesystem, which must come from
// vfs.NewCrashableMem or be a clone: pebble panics over one of vfs.NewMem.
func (f *FS) CrashClone(cfg CloneConfig) (*vfs.MemFS, error) {
	mem, ok := f.inner.(*vfs.MemFS)
	if !ok {
		return nil, fmt.Errorf("crash clone: %w: the filesystem is a %T", errs.ErrUnsupported, f.inner)
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(0, 0)) // decides nothing at 0 and 100
	}
	f.calls.Lock()
	defer f.calls.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: cfg.UnsyncedPercent, RNG: cfg.Rand})
	if err := f.removals.apply(clone, cfg); err != nil {
		return nil, fmt.Errorf("crash clone: %w", err)
	}
	return clone, nil
}

// note records the effect of a successful call on names.
func (f *FS) note(err error, record func(*removals)) {
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	record(&f.removals)
}

// removals are the names taken out of directories since these were last synced, by path of the directory
// and name. The value is the path a rename moved the entry to, "" if it was removed. A name that was removed
// and then given anew is not among them: after a crash it has its old or its new meaning, never none.
type removals struct{ byDir map[string]map[string]string }

// split cleans a path, so that every spelling of a directory is one, and parts it.
func split(name string) (dir, base string) {
	name = path.Clean("/" + name)
	return path.Dir(name), path.Base(name)
}

// removed records that a name is gone.
func (r *removals) removed(name, target string) {
	dir, base := split(name)
	if r.byDir == nil {
		r.byDir = map[string]map[string]string{}
	}
	if r.byDir[dir] == nil {
		r.byDir[dir] = map[string]string{}
	}
	r.byDir[dir][base] = target
}

// added records that a name means something new.
func (r *removals) added(name string) {
	dir, base := split(name)
	delete(r.byDir[dir], base)
}

// renamed records a rename. What was removed from a renamed directory is removed from it under its new name,
// and under the old one as well, which the disk may still have. What was removed from a directory that had the new name
// before is forgotten: it is another one.
func (r *removals) renamed(oldname, newname string) {
	r.removed(oldname, newname)
	r.added(newname)
	from, to := path.Clean("/"+oldname), path.Clean("/"+newname)
	within := func(dir, root string) (rest string, ok bool) {
		rest, ok = strings.CutPrefix(dir, root)
		return rest, ok && (rest == "" || rest[0] == '/')
	}
	maps.DeleteFunc(r.byDir, func(dir string, _ map[string]string) bool {
		_, ok := within(dir, to)
		return ok
	})
	for _, dir := range slices.Collect(maps.Keys(r.byDir)) {
		if rest, ok := within(dir, from); ok {
			r.byDir[to+rest] = maps.Clone(r.byDir[dir])
		}
	}
}

// synced records that a directory's names are on the disk.
func (r *removals) synced(dir string) { delete(r.byDir, path.Clean("/"+dir)) }

// apply lets removals survive in a clone with the given probability. A rename's old name goes only if its
// new name is there: journaling filesystems never show a renamed directory without a name, and a program has
// no means to guard against one that does.
func (r *removals) apply(clone *vfs.MemFS, cfg CloneConfig) error {
	for _, dir := range slices.Sorted(maps.Keys(r.byDir)) {
		for _, base := range slices.Sorted(maps.Keys(r.byDir[dir])) {
			if cfg.UnsyncedPercent <= 0 || cfg.Rand.IntN(100) >= cfg.UnsyncedPercent {
				continue
			}
			if target := r.byDir[dir][base]; target != "" {
				if _, err := clone.Stat(target); err != nil {
					continue
				}
			}
			name := path.Join(dir, base)
			if err := clone.RemoveAll(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if err := syncClone(clone, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncClone makes a removal in the clone final, so that a clone of the clone does not bring it back.
func syncClone(clone *vfs.MemFS, dir string) error {
	d, err := clone.OpenDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the directory is not on the disk
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
