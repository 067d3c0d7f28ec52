package objstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
)

// ReadOnly is a Store in a directory that it never changes, for programs that look at a directory which another process
// may be writing: opening creates, syncs and locks nothing, and every method that would change something fails with
// errs.ErrReadOnly. Safe for concurrent use.
//
// A file stays open for a while after it was read, so what the writer deletes meanwhile can still be read by whoever
// began to.
type ReadOnly struct{ local *Local }

var _ Store = (*ReadOnly)(nil)

// OpenReadOnly returns the store in directory root of the operating system's filesystem. errs.ErrInvalid if root is no
// directory, errs.ErrNotFound if it does not exist.
func OpenReadOnly(root string) (*ReadOnly, error) {
	l := &Local{fs: vfs.Default, root: vfs.Default.PathJoin(root), handles: newHandles(handleCountMax)}
	info, err := l.fs.Stat(l.root)
	if err != nil {
		return nil, fmt.Errorf("open object store %q: %w", root, l.classify("", err))
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open object store %q: %w: not a directory", root, errs.ErrInvalid)
	}
	return &ReadOnly{local: l}, nil
}

// Close closes cached files.
func (r *ReadOnly) Close() error { return r.local.Close() }

// DropCache closes the files that nobody reads at the moment, so that the disk space of deleted ones is given back.
func (r *ReadOnly) DropCache() { r.local.handles.clear(false) }

// ReadAt implements Store.
func (r *ReadOnly) ReadAt(ctx context.Context, name string, p []byte, off int64) error {
	return r.local.ReadAt(ctx, name, p, off)
}

// ReadAll implements Store.
func (r *ReadOnly) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	return r.local.ReadAll(ctx, name, limit)
}

// Stat implements Store.
func (r *ReadOnly) Stat(ctx context.Context, name string) (Info, error) {
	return r.local.Stat(ctx, name)
}

// List implements Store.
func (r *ReadOnly) List(ctx context.Context, dir string, visit func(Info) error) error {
	return r.local.List(ctx, dir, visit)
}

// Temporaries visits the objects in flight in dir, which List does not show.
func (r *ReadOnly) Temporaries(ctx context.Context, dir string, visit func(Info) error) error {
	if err := beginDir(ctx, dir); err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	bases, err := r.local.entries(dir)
	if err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	for _, base := range bases {
		if !strings.HasPrefix(base, tempPrefix) {
			continue
		}
		name := childOf(dir, base)
		info, err := r.local.fs.Stat(r.local.path(name))
		if err != nil {
			continue // gone meanwhile
		}
		if err := visit(Info{Name: name, Size: info.Size(), ModTime: info.ModTime(), Dir: info.IsDir()}); err != nil {
			return err
		}
	}
	return nil
}

func (r *ReadOnly) refuse(what, name string) error {
	return fmt.Errorf("%s %q: %w", what, name, errs.ErrReadOnly)
}

// PutIfAbsent implements Store; errs.ErrReadOnly.
func (r *ReadOnly) PutIfAbsent(_ context.Context, name string, _ []byte) error {
	return r.refuse("put", name)
}

// Put implements Store; errs.ErrReadOnly.
func (r *ReadOnly) Put(_ context.Context, name string, _ []byte) error { return r.refuse("put", name) }

// Create implements Store; errs.ErrReadOnly.
func (r *ReadOnly) Create(_ context.Context, name string) (Writer, error) {
	return nil, r.refuse("create", name)
}

// Delete implements Store; errs.ErrReadOnly.
func (r *ReadOnly) Delete(_ context.Context, name string) error { return r.refuse("delete", name) }

// SyncDir implements Store; errs.ErrReadOnly.
func (r *ReadOnly) SyncDir(_ context.Context, dir string) error { return r.refuse("sync", dir) }

// RemoveAll implements Store; errs.ErrReadOnly.
func (r *ReadOnly) RemoveAll(_ context.Context, dir string) error { return r.refuse("remove", dir) }

// Rename implements Store; errs.ErrReadOnly.
func (r *ReadOnly) Rename(_ context.Context, from, _ string) error { return r.refuse("rename", from) }

// MakeDir implements Store; errs.ErrReadOnly.
func (r *ReadOnly) MakeDir(_ context.Context, dir string) error { return r.refuse("make", dir) }
