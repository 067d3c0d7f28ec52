package objstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
)

// writeBufferBytesMax is the size of the pieces in which an object goes to the filesystem.
const writeBufferBytesMax = 128 << 10

// diskWrites is the label under which a vfs may account what a Local writes.
const diskWrites vfs.DiskWriteCategory = "lancesql-objects"

// PutIfAbsent implements Store.
func (l *Local) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := l.putWhole(ctx, name, data, l.publish); err != nil {
		return fmt.Errorf("put %q: %w", name, err)
	}
	return nil
}

// Put implements Store.
func (l *Local) Put(ctx context.Context, name string, data []byte) error {
	if err := l.putWhole(ctx, name, data, l.replace); err != nil {
		return fmt.Errorf("put hint %q: %w", name, err)
	}
	return nil
}

// putWhole writes an object in one go; publish gives it its name.
func (l *Local) putWhole(ctx context.Context, name string, data []byte, publish publisher) error {
	if err := errors.Join(begin(ctx, name), l.writable()); err != nil {
		return err
	}
	w, err := l.newWriter(name, min(len(data), writeBufferBytesMax))
	if err != nil {
		return err
	}
	if _, err := w.write(data); err != nil {
		return errors.Join(err, w.abort())
	}
	return w.commit(ctx, publish)
}

// Create implements Store. The returned Writer is used by one goroutine at a time.
func (l *Local) Create(ctx context.Context, name string) (Writer, error) {
	if err := errors.Join(begin(ctx, name), l.writable()); err != nil {
		return nil, fmt.Errorf("create %q: %w", name, err)
	}
	w, err := l.newWriter(name, writeBufferBytesMax)
	if err != nil {
		return nil, fmt.Errorf("create %q: %w", name, err)
	}
	return w, nil
}

// publisher gives the finished temporary at path temp the name of the object and makes the name durable.
// Whether the temporary still exists afterwards is left open.
type publisher func(temp, name string) error

// localWriter is an object on its way: a temporary in the directory of the object.
type localWriter struct {
	store *Local
	name  string   // of the object
	temp  string   // path of the temporary
	file  vfs.File // nil once closed
	// buffer collects small writes. Also, the filesystem may scribble over the bytes it is given, so it must
	// not be given the caller's.
	buffer []byte
	err    error // the first failed write; nothing can be committed after it
	ended  bool
}

// newWriter starts the temporary of object name, whose directory it makes.
func (l *Local) newWriter(name string, bufferBytes int) (*localWriter, error) {
	w := &localWriter{store: l, name: name, buffer: make([]byte, 0, bufferBytes)}
	err := l.inDir(parentOf(name), func() error {
		base := fmt.Sprintf("%s%s%016x", tempPrefix, l.token, l.serial.Add(1))
		w.temp = l.path(childOf(parentOf(name), base))
		err := l.retryFiles(func() (err error) {
			w.file, err = l.fs.Create(w.temp, diskWrites)
			return err
		})
		if err != nil {
			return l.classify(name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Write implements io.Writer. After an error the object can only be aborted.
func (w *localWriter) Write(p []byte) (int, error) {
	n, err := w.write(p)
	if err != nil {
		return n, fmt.Errorf("write %q: %w", w.name, err)
	}
	return n, nil
}

func (w *localWriter) write(p []byte) (int, error) {
	if w.ended {
		return 0, errs.ErrClosed
	}
	if w.err != nil {
		return 0, w.err
	}
	var done int
	for done < len(p) {
		if len(w.buffer) == cap(w.buffer) {
			if err := w.flush(); err != nil {
				return done, err
			}
		}
		n := copy(w.buffer[len(w.buffer):cap(w.buffer)], p[done:])
		w.buffer = w.buffer[:len(w.buffer)+n]
		done += n
	}
	return done, nil
}

// flush gives the buffer to the filesystem.
func (w *localWriter) flush() error {
	if w.err != nil || len(w.buffer) == 0 {
		return w.err
	}
	if _, err := w.file.Write(w.buffer); err != nil {
		w.err = w.store.classify(w.name, err)
		return w.err
	}
	w.buffer = w.buffer[:0]
	return nil
}

// Commit implements Writer. Whatever it returns, the writer has ended.
func (w *localWriter) Commit(ctx context.Context) error {
	err := errs.ErrClosed
	if !w.ended {
		err = w.commit(ctx, w.store.publish)
	}
	if err != nil {
		return fmt.Errorf("commit %q: %w", w.name, err)
	}
	return nil
}

// commit finishes the temporary, gives it its name and removes what is left of it. A cancelled context
// counts up to the moment before the name is given.
func (w *localWriter) commit(ctx context.Context, publish publisher) error {
	err := errors.Join(ctx.Err(), w.store.writable())
	if err == nil {
		err = w.finish()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, w.abort())
	}
	w.ended = true
	return publish(w.temp, w.name)
}

// finish syncs and closes the temporary.
func (w *localWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil { // Durable: the object's bytes.
		if vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EDQUOT) {
			// The bytes had no room; they are thrown away, and no other file depends on them.
			return w.store.classify(w.name, err)
		}
		return w.store.failSync(err)
	}
	err := w.file.Close()
	w.file, w.buffer = nil, nil
	if err != nil {
		return w.store.classify(w.name, err)
	}
	return nil
}

// Abort implements Writer.
func (w *localWriter) Abort() error {
	if w.ended {
		return nil
	}
	if err := w.abort(); err != nil {
		return fmt.Errorf("abort %q: %w", w.name, err)
	}
	return nil
}

// abort throws the temporary away. One that cannot be removed is left to SweepTemp.
func (w *localWriter) abort() error {
	w.ended = true
	if w.file != nil {
		_ = w.file.Close() // the bytes are unwanted
		w.file, w.buffer = nil, nil
	}
	if err := w.store.fs.Remove(w.temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// publish is the publisher of objects that must not exist yet.
func (l *Local) publish(temp, name string) error {
	linked := l.linkTo(temp, name)
	// A temporary that cannot be removed does no harm, and the outcome is known without it.
	_ = l.fs.Remove(temp)
	if linked != nil && !errors.Is(linked, errs.ErrExists) {
		return linked
	}
	// Why also if the name was taken: the caller may find its own bytes there, of an attempt that broke
	// off between the link and this sync.
	if err := l.settle(name); err != nil { // Durable: the object's name.
		return err
	}
	return linked
}

// linkTo gives the file at path file the object name, or returns errs.ErrExists if something has it.
func (l *Local) linkTo(file, name string) error {
	l.tree.RLock()
	err := l.fs.Link(file, l.path(name))
	l.tree.RUnlock()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrExist):
		return errs.ErrExists
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("%w: the filesystem has no hard links: %w", errs.ErrUnsupported, err)
	}
	return l.classify(name, err)
}

// replace is the publisher of hints.
func (l *Local) replace(temp, name string) error {
	defer l.handles.forget(name)()
	err := l.replaceEntry(temp, name)
	if err != nil {
		return errors.Join(err, l.removeTemp(temp))
	}
	return l.settle(name) // Durable: the object's name.
}

// replaceEntry renames the temporary to an object's name, whether or not that exists.
func (l *Local) replaceEntry(temp, name string) error {
	l.tree.RLock()
	defer l.tree.RUnlock()
	// Why look first: pebble's memory filesystem would replace a directory.
	if info, err := l.fs.Stat(l.path(name)); err == nil && info.IsDir() {
		return errIsDirectory(name)
	}
	if err := l.fs.Rename(temp, l.path(name)); err != nil {
		return l.classify(name, err)
	}
	return nil
}

func (l *Local) removeTemp(temp string) error {
	if err := l.fs.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// settle syncs the directory of an object, and the directories above if one of them was renamed or removed
// and made anew since the object was begun.
func (l *Local) settle(name string) error {
	dir := parentOf(name)
	if err := l.syncDir(dir); err != nil {
		return err
	}
	return l.ensureDir(dir)
}

// Delete implements Store.
func (l *Local) Delete(ctx context.Context, name string) error {
	if err := errors.Join(begin(ctx, name), l.writable()); err != nil {
		return fmt.Errorf("delete %q: %w", name, err)
	}
	info, err := l.fs.Stat(l.path(name))
	if err == nil && info.IsDir() {
		return nil // a directory is no object, so there is none of this name
	}
	if err == nil {
		defer l.handles.forget(name)()
		err = l.fs.Remove(l.path(name))
	}
	if err != nil && !l.missing(name, err) {
		return fmt.Errorf("delete %q: %w", name, l.classify(name, err))
	}
	return nil
}

// SweepTemp removes from dir itself ("" = root), not from directories below, the temporaries that stores
// other than this one left behind when their process died, and returns their number. Files that are not
// exactly of our making stay. The caller holds the lock that keeps other writing processes out of the root:
// the temporaries of a living one would be taken from it.
func (l *Local) SweepTemp(ctx context.Context, dir string) (removed int, err error) {
	if err := errors.Join(beginDir(ctx, dir), l.writable()); err != nil {
		return 0, fmt.Errorf("sweep %q: %w", dir, err)
	}
	bases, err := l.entries(dir)
	if err != nil {
		return 0, fmt.Errorf("sweep %q: %w", dir, err)
	}
	for _, base := range bases {
		if err := ctx.Err(); err != nil {
			return removed, fmt.Errorf("sweep %q: %w", dir, err)
		}
		if token, ok := tempToken(base); !ok || token == l.token {
			continue
		}
		path := l.path(childOf(dir, base))
		if info, err := l.fs.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := l.removeTemp(path); err != nil {
			return removed, fmt.Errorf("sweep %q: %w", dir, l.classify(dir, err))
		}
		removed++
	}
	return removed, nil
}
