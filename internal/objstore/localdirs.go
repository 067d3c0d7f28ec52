package objstore

import (
	"context"
	"errors"
	"fmt"

	"lancesql/internal/errs"
)

// MakeDir implements Store. It returns errs.ErrInvalid if an object is in the way.
func (l *Local) MakeDir(ctx context.Context, dir string) error {
	if err := errors.Join(begin(ctx, dir), l.writable()); err != nil {
		return fmt.Errorf("make directory %q: %w", dir, err)
	}
	if err := l.inDir(dir, func() error { return nil }); err != nil {
		return fmt.Errorf("make directory %q: %w", dir, err)
	}
	return nil
}

// SyncDir implements Store.
func (l *Local) SyncDir(ctx context.Context, dir string) error {
	err := errors.Join(beginDir(ctx, dir), l.writable())
	if err == nil {
		err = l.syncNearest(dir) // Durable: what was removed, or that dir is gone.
	}
	if err != nil {
		return fmt.Errorf("sync directory %q: %w", dir, err)
	}
	return nil
}

// RemoveAll implements Store. The removal is durable when it returns nil: what a caller removed before
// forgetting about it must not come back.
func (l *Local) RemoveAll(ctx context.Context, dir string) error {
	if err := errors.Join(begin(ctx, dir), l.writable()); err != nil {
		return fmt.Errorf("remove all of %q: %w", dir, err)
	}
	defer l.changeNames(dir)()
	if err := l.fs.RemoveAll(l.path(dir)); err != nil && !l.missing(dir, err) {
		return fmt.Errorf("remove all of %q: %w", dir, l.classify(dir, err))
	}
	// Why also if it was absent: an earlier process may have removed it without syncing.
	if err := l.syncNearest(parentOf(dir)); err != nil { // Durable: the removal.
		return fmt.Errorf("remove all of %q: %w", dir, err)
	}
	return nil
}

// syncNearest syncs dir, or the nearest of its parents that exists.
func (l *Local) syncNearest(dir string) error {
	for {
		err := l.syncDir(dir)
		if dir == "" || !errors.Is(err, errs.ErrNotFound) {
			return err
		}
		dir = parentOf(dir)
	}
}

// changeNames announces that names change their meaning, to the cache of files and the set of durable
// directories. The caller calls the returned function after the change.
func (l *Local) changeNames(names ...string) (end func()) {
	endHandles := l.handles.forget(names...)
	for _, name := range names {
		l.dirs.drop(name)
	}
	return func() {
		for _, name := range names {
			l.dirs.drop(name)
		}
		endHandles()
	}
}

// Rename implements Store. When it returns errs.ErrNotFound or errs.ErrExists, the names it found are durable,
// too: whoever tries again what a dead process began draws conclusions from them. It returns errs.ErrInvalid
// if the target lies inside the source or below an object.
func (l *Local) Rename(ctx context.Context, from, to string) error {
	if err := errors.Join(beginRename(ctx, from, to), l.writable()); err != nil {
		return fmt.Errorf("rename %q to %q: %w", from, to, err)
	}
	err := l.rename(from, to)
	if errors.Is(err, errs.ErrNotFound) || errors.Is(err, errs.ErrExists) {
		// Durable: what the caller is told.
		if syncErr := errors.Join(l.syncNearest(parentOf(to)), l.syncNearest(parentOf(from))); syncErr != nil {
			err = syncErr
		}
	}
	if err != nil {
		return fmt.Errorf("rename %q to %q: %w", from, to, err)
	}
	return nil
}

func (l *Local) rename(from, to string) error {
	info, err := l.fs.Stat(l.path(from))
	if err != nil {
		return l.classify(from, err)
	}
	defer l.changeNames(from, to)()
	switch {
	case info.IsDir():
		err = l.inDir(parentOf(to), func() error { return l.moveDir(from, to) })
	case info.Mode().IsRegular():
		err = l.inDir(parentOf(to), func() error { return l.linkTo(l.path(from), to) })
	default:
		err = errs.ErrNotFound
	}
	if err != nil {
		return err
	}
	// Why in this order: at no time may a crash leave the directory or object without a name.
	if err := l.syncDir(parentOf(to)); err != nil { // Durable: the new name.
		return err
	}
	if !info.IsDir() {
		if err := l.fs.Remove(l.path(from)); err != nil && !l.missing(from, err) {
			return l.classify(from, err)
		}
	} else if parentOf(from) == parentOf(to) {
		return nil
	}
	return l.syncDir(parentOf(from)) // Durable: the end of the old name.
}

// moveDir renames a directory to a free name.
func (l *Local) moveDir(from, to string) error {
	l.tree.Lock()
	defer l.tree.Unlock()
	switch _, err := l.fs.Stat(l.path(to)); {
	case err == nil:
		return errs.ErrExists
	case !l.missing(to, err):
		return err
	}
	// Why look again: pebble's memory filesystem loses the source if the target's parent is missing.
	if _, err := l.fs.Stat(l.path(parentOf(to))); err != nil {
		return l.classify(parentOf(to), err)
	}
	if err := l.fs.Rename(l.path(from), l.path(to)); err != nil {
		return l.classify(from, err)
	}
	return nil
}
