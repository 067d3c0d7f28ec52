package objstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
)

// Local is a Store in a directory of a filesystem. Safe for concurrent use.
//
// Creating an object. The bytes go to a temporary in the object's directory and are synced; the temporary is
// linked to the final name, which fails if that exists; the temporary is removed; the directory is synced.
// So the name never stands for anything but the whole content (I1), one of several writers wins (I3), and
// the acknowledgement follows the last sync (I2).
//
// Why not rename: it replaces what is there. Why not create with O_EXCL under the final name: a crash
// leaves a partial object that readers take for a whole one.
type Local struct {
	fs      vfs.FS   // immutable
	root    string   // immutable
	token   string   // immutable; marks this store's temporaries
	handles *handles // immutable pointer

	dirs   dirSet
	serial atomic.Uint64         // last temporary's number
	broken atomic.Pointer[error] // the first failed sync (I5)
	closed atomic.Bool

	// tree is held shared by calls that give a directory entry its first meaning (link, make directory),
	// and exclusively by Rename from looking for its target to moving there: the rename of a directory
	// would silently replace an empty one. It covers single file system calls and never a sync.
	tree sync.RWMutex
}

// OpenLocal opens the store in directory root of fs, creating the directory and its parents if they are
// absent. root is a path of fs; a relative one is taken from the working directory at each call. It
// returns errs.ErrInvalid if root is not a directory. vfs.Default and pebble's memory filesystems will do.
func OpenLocal(fs vfs.FS, root string) (*Local, error) {
	if root == "" {
		return nil, fmt.Errorf("open object store: %w: no root directory", errs.ErrInvalid)
	}
	var token [tempHexDigits / 4]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, fmt.Errorf("open object store %q: %w", root, err)
	}
	l := &Local{
		fs:      fs,
		root:    fs.PathJoin(root),
		token:   hex.EncodeToString(token[:]),
		handles: newHandles(handleCountMax),
	}
	if err := l.makeRoot(); err != nil {
		return nil, fmt.Errorf("open object store %q: %w", root, err)
	}
	return l, nil
}

// OpenDisk is OpenLocal on the operating system's filesystem, for packages that may not know pebble's vfs.
func OpenDisk(root string) (*Local, error) { return OpenLocal(vfs.Default, root) }

// Close closes cached files. Calls made later fail with errs.ErrClosed; those in progress end normally.
func (l *Local) Close() error {
	l.closed.Store(true)
	l.handles.clear(true)
	return nil
}

// path returns the path of a checked name in fs.
func (l *Local) path(name string) string {
	if name == "" {
		return l.root
	}
	return l.fs.PathJoin(l.root, name)
}

// ready returns an error unless the store may be read.
func (l *Local) ready() error {
	if l.closed.Load() {
		return errs.ErrClosed
	}
	return nil
}

// writable returns an error unless the store may be changed.
func (l *Local) writable() error {
	if err := l.ready(); err != nil {
		return err
	}
	if broken := l.broken.Load(); broken != nil {
		return fmt.Errorf("%w earlier: %w", errs.ErrSync, *broken)
	}
	return nil
}

// classify adds our sentinel to an error of the filesystem about path name.
func (l *Local) classify(name string, err error) error {
	switch {
	case l.missing(name, err):
		return errs.ErrNotFound
	case vfs.IsNoSpaceError(err), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", errs.ErrNoSpace, err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%w: %w", errs.ErrInvalid, err)
	}
	return err
}

// missing reports whether err means that name does not exist, which includes that an object lies where one
// of its directories would have to be.
func (l *Local) missing(name string, err error) bool {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	// Why the search: pebble's memory filesystem has no typed error for this.
	return !isErrno(err) && l.blocked(name)
}

// blocked reports whether an object lies where one of name's directories would have to be.
func (l *Local) blocked(name string) bool {
	for dir := parentOf(name); dir != ""; dir = parentOf(dir) {
		if info, err := l.fs.Stat(l.path(dir)); err == nil {
			return !info.IsDir()
		}
	}
	return false
}

// isErrno reports whether err came from the operating system.
func isErrno(err error) bool {
	var no syscall.Errno
	return errors.As(err, &no)
}

// retryFiles runs open, and once more with every cached file closed if the process had too many.
func (l *Local) retryFiles(open func() error) error {
	err := open()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		l.handles.clear(false)
		err = open()
	}
	return err
}

// open opens an object for reading and returns its size in bytes.
func (l *Local) open(name string) (vfs.File, int64, error) {
	// Why look before opening: opening a named pipe would wait for its writer.
	info, err := l.fs.Stat(l.path(name))
	if err != nil {
		return nil, 0, l.classify(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errs.ErrNotFound
	}
	var file vfs.File
	if err := l.retryFiles(func() (err error) {
		file, err = l.fs.Open(l.path(name))
		return err
	}); err != nil {
		return nil, 0, l.classify(name, err)
	}
	// Stat again: a hint may have been replaced in between, and the size must be that of this file.
	if info, err = file.Stat(); err != nil {
		_ = file.Close()
		return nil, 0, l.classify(name, err)
	}
	return file, info.Size(), nil
}

// ReadAt implements Store. It keeps the file open for later calls.
func (l *Local) ReadAt(ctx context.Context, name string, p []byte, off int64) error {
	if err := errors.Join(begin(ctx, name), l.ready()); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	h, err := l.handles.acquire(name, func() (vfs.File, int64, error) { return l.open(name) })
	if err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	defer l.handles.release(h)
	if err := checkRange(len(p), off, h.size); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	if err := readFull(h.file, p, off); err != nil {
		l.handles.forget(name)()
		return fmt.Errorf("read %q: %w", name, l.classify(name, err))
	}
	return nil
}

// ReadAll implements Store. It always looks at the file that has the name now, so that hints which another
// process replaces are read anew.
func (l *Local) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := errors.Join(begin(ctx, name), l.ready()); err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	file, size, err := l.open(name)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	defer file.Close()
	if err := checkLimit(size, limit); err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	data := make([]byte, size)
	if err := readFull(file, data, 0); err != nil {
		return nil, fmt.Errorf("read %q: %w", name, l.classify(name, err))
	}
	return data, nil
}

// readFull fills p from offset off of a file that is known to be long enough.
func readFull(file io.ReaderAt, p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	n, err := file.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF // somebody cut the file short
	}
	return err
}

// Stat implements Store.
func (l *Local) Stat(ctx context.Context, name string) (Info, error) {
	if err := errors.Join(begin(ctx, name), l.ready()); err != nil {
		return Info{}, fmt.Errorf("stat %q: %w", name, err)
	}
	info, err := l.fs.Stat(l.path(name))
	if err != nil {
		return Info{}, fmt.Errorf("stat %q: %w", name, l.classify(name, err))
	}
	if !info.Mode().IsRegular() {
		return Info{}, fmt.Errorf("stat %q: %w", name, errs.ErrNotFound)
	}
	return Info{Name: name, Size: info.Size(), ModTime: info.ModTime()}, nil
}

// List implements Store. Entries that are neither files nor directories are passed over.
func (l *Local) List(ctx context.Context, dir string, visit func(Info) error) error {
	if err := errors.Join(beginDir(ctx, dir), l.ready()); err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	bases, err := l.entries(dir)
	if err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	for _, base := range bases {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("list %q: %w", dir, err)
		}
		if hidden(base) {
			continue
		}
		name := childOf(dir, base)
		info, err := l.fs.Stat(l.path(name))
		if err != nil {
			if l.missing(name, err) || errors.Is(err, syscall.ELOOP) {
				continue // removed meanwhile, or a link to nowhere or to itself
			}
			return fmt.Errorf("list %q: %w", dir, err)
		}
		child := Info{Name: name, ModTime: info.ModTime(), Dir: info.IsDir()}
		switch {
		case info.Mode().IsRegular():
			child.Size = info.Size()
		case !info.IsDir():
			continue
		}
		if err := visit(child); err != nil {
			return err
		}
	}
	return nil
}

// entries returns the sorted names of a directory's entries, none if it is missing or an object.
func (l *Local) entries(dir string) ([]string, error) {
	// Why look first: listing an object is an error of no type in pebble's memory filesystem.
	info, err := l.fs.Stat(l.path(dir))
	if err == nil && !info.IsDir() {
		return nil, nil
	}
	var bases []string
	if err == nil {
		err = l.retryFiles(func() (err error) {
			bases, err = l.fs.List(l.path(dir))
			return err
		})
	}
	if err != nil {
		if l.missing(dir, err) {
			return nil, nil
		}
		return nil, err
	}
	slices.Sort(bases)
	return bases, nil
}
