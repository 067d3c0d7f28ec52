package objstore

import (
	"context"
	"io"
	"time"
)

// Store is a flat namespace of whole objects named by slash-separated paths ("a/b/c", no leading or
// trailing slash, no "." or ".." segments: anything else is errs.ErrInvalid). Objects are immutable once
// written, except hint objects written with Put. All methods are safe for concurrent use.
type Store interface {
	// PutIfAbsent creates name with data. It returns errs.ErrExists if the object is already there, and is
	// durable (file and every directory on its path synced) when it returns nil.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// Put creates or replaces a hint object, best effort durable. Readers see the old or the new content.
	Put(ctx context.Context, name string, data []byte) error
	// Create streams a new object: invisible until Commit, durable after it. Commit returns errs.ErrExists
	// if the name was taken meanwhile.
	Create(ctx context.Context, name string) (Writer, error)
	// ReadAt fills p from offset off: the full range or an error (errs.ErrNotFound, io.ErrUnexpectedEOF).
	ReadAt(ctx context.Context, name string, p []byte, off int64) error
	// ReadAll returns the whole object. limit bounds its size in bytes (errs.ErrLimit beyond it).
	ReadAll(ctx context.Context, name string, limit int64) ([]byte, error)
	// Stat returns size and modification time, or errs.ErrNotFound. Directories are not objects.
	Stat(ctx context.Context, name string) (Info, error)
	// List visits the direct children of dir ("" = root) in lexical order: objects and sub-directories.
	// A missing directory has no children. Temporary objects in flight are not visited.
	List(ctx context.Context, dir string, visit func(Info) error) error
	// Delete removes one object; an absent object is not an error. The removal is synced lazily: it may
	// come back after a crash.
	Delete(ctx context.Context, name string) error
	// SyncDir makes the removals in dir itself durable; a missing directory has none.
	SyncDir(ctx context.Context, dir string) error
	// RemoveAll removes everything below dir and dir itself; absent is not an error.
	RemoveAll(ctx context.Context, dir string) error
	// Rename moves a directory (or object) and syncs both parents. errs.ErrExists if the target exists,
	// errs.ErrUnsupported on stores without directories.
	Rename(ctx context.Context, from, to string) error
	// MakeDir creates dir and its parents durably; existing is not an error.
	MakeDir(ctx context.Context, dir string) error
}

// Writer is one object being streamed. Exactly one of Commit and Abort ends it; Abort after Commit is a no-op.
type Writer interface {
	io.Writer
	Commit(ctx context.Context) error
	Abort() error
}

// Info describes one child of a directory. Name is the full name, not the base name.
type Info struct {
	Name    string
	Size    int64 // bytes; 0 for directories
	ModTime time.Time
	Dir     bool
}
