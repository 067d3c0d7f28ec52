package objstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
)

// dirPerm is what new directories are created with, before the process's mask.
const dirPerm = 0o755

// failSync records a failed sync and returns it as errs.ErrSync. The kernel may have dropped what it could
// not write and report success next time, so no later sync of this store can be believed (I5).
func (l *Local) failSync(err error) error {
	l.broken.CompareAndSwap(nil, &err)
	return fmt.Errorf("%w: %w", errs.ErrSync, err)
}

// syncDir makes the entries of dir durable. It returns errs.ErrNotFound if dir is gone, which is no failed
// sync.
func (l *Local) syncDir(dir string) error {
	err := l.syncPath(l.path(dir))
	var failed *syncError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return l.failSync(failed.err)
	}
	return fmt.Errorf("sync directory %q: %w", dir, l.classify(dir, err))
}

// syncError is a failed sync, as opposed to a directory that could not be opened.
type syncError struct{ err error }

// Error implements error.
func (e *syncError) Error() string { return e.err.Error() }

// Unwrap gives access to the filesystem's error.
func (e *syncError) Unwrap() error { return e.err }

// syncPath syncs the directory at a path of the filesystem.
func (l *Local) syncPath(path string) error {
	var d vfs.File
	if err := l.retryFiles(func() (err error) {
		d, err = l.fs.OpenDir(path)
		return err
	}); err != nil {
		return err
	}
	err := d.Sync() // Durable: the directory's entries.
	_ = d.Close()   // only synced: nothing is buffered
	if err != nil {
		return &syncError{err}
	}
	return nil
}

// makeRoot creates the root and its parents and syncs each in its parent, whether or not it existed: a
// process that was killed may have created it without doing so.
func (l *Local) makeRoot() error {
	var missing []string // deepest first
	var existing []string
	for path := l.root; ; path = l.fs.PathDir(path) {
		info, err := l.fs.Stat(path)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%w: %q is not a directory", errs.ErrInvalid, path)
		case err == nil:
			existing = append(existing, path)
		case errors.Is(err, os.ErrNotExist):
			missing = append(missing, path)
		case errors.Is(err, syscall.ENOTDIR):
			return fmt.Errorf("%w: %q is not a directory", errs.ErrInvalid, l.fs.PathDir(path))
		default:
			return err
		}
		if l.fs.PathDir(path) == path {
			break
		}
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := l.fs.MkdirAll(missing[i], dirPerm); err != nil {
			return l.classify("", err)
		}
		if err := l.syncPath(l.fs.PathDir(missing[i])); err != nil { // Durable: the new directory.
			return fmt.Errorf("%w: %w", errs.ErrSync, err)
		}
	}
	for _, path := range existing {
		if parent := l.fs.PathDir(path); parent != path {
			if err := l.syncForeign(parent); err != nil { // Durable: a directory somebody else made.
				return fmt.Errorf("%w: %w", errs.ErrSync, err)
			}
		}
	}
	return nil
}

// syncForeign syncs a directory above the root as far as we are allowed to: it may not be readable for us,
// or be of a filesystem that does not sync directories.
func (l *Local) syncForeign(path string) error {
	err := l.syncPath(path)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// ensureDir makes dir exist durably, with all its parents. It returns errs.ErrInvalid if an object is in
// the way.
func (l *Local) ensureDir(dir string) error {
	durable, stamp := l.dirs.has(dir)
	if durable {
		return nil
	}
	if err := l.ensureDir(parentOf(dir)); err != nil {
		return err
	}
	if err := l.makeEntry(dir); err != nil {
		return err
	}
	if err := l.syncDir(parentOf(dir)); err != nil { // Durable: the directory, even if another made it.
		return err
	}
	l.dirs.add(dir, stamp)
	return nil
}

// makeEntry makes dir exist in its existing parent.
func (l *Local) makeEntry(dir string) error {
	if info, err := l.fs.Stat(l.path(dir)); err == nil {
		if !info.IsDir() {
			return errObjectInTheWay(dir)
		}
		return nil
	}
	l.tree.RLock()
	defer l.tree.RUnlock()
	if err := l.fs.MkdirAll(l.path(dir), dirPerm); err != nil {
		if l.blocked(childOf(dir, "x")) {
			return errObjectInTheWay(dir)
		}
		return l.classify(dir, err)
	}
	return nil
}

// inDir makes dir exist durably and runs create, which creates something in it. If dir has vanished
// although we hold it for durable, because another program removed it, it is made anew and create runs once
// more.
func (l *Local) inDir(dir string, create func() error) error {
	if err := l.ensureDir(dir); err != nil {
		return err
	}
	err := create()
	if !errors.Is(err, errs.ErrNotFound) {
		return err
	}
	l.dirs.drop("")
	if err := l.ensureDir(dir); err != nil {
		return err
	}
	return create()
}
