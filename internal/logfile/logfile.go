package logfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
)

const (
	suffix        = ".log"
	zeroPiece     = 256 << 10
	fileBytesMax  = 2 << 30
	slotMax       = 1<<31 - 1
	writeCategory = vfs.DiskWriteCategory("lancesql-journal")
)

// Dir is a directory of files named by slot number ("17.log"). Other names in it are left alone. Safe for concurrent
// use on different slots.
type Dir struct {
	fs       vfs.FS
	path     string
	readOnly bool
}

// Open makes the directory, and its parents, durably.
func Open(fs vfs.FS, path string) (*Dir, error) {
	d := &Dir{fs: fs, path: path}
	var missing []string
	for p := path; ; p = fs.PathDir(p) {
		if _, err := fs.Stat(p); err == nil || fs.PathDir(p) == p {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("log directory %s: %w", path, err)
		}
		missing = append(missing, p)
	}
	if parent := fs.PathDir(path); len(missing) == 0 && parent != path {
		// Why: a process that died may have made the directory without living to see it durable.
		if err := d.syncDir(parent); err != nil {
			return nil, err
		}
	}
	for _, p := range slices.Backward(missing) {
		if err := fs.MkdirAll(p, 0o755); err != nil {
			return nil, fmt.Errorf("make log directory %s: %w", p, noSpace(err))
		}
		if err := d.syncDir(fs.PathDir(p)); err != nil { // Durable: the new directory
			return nil, err
		}
	}
	return d, nil
}

// OpenDisk is Open on the operating system's filesystem.
func OpenDisk(path string) (*Dir, error) { return Open(vfs.Default, path) }

// LookAt returns the directory at path of the operating system's filesystem for reading only: nothing is made, and its
// files open for reading. A directory that does not exist is empty.
func LookAt(path string) *Dir { return &Dir{fs: vfs.Default, path: path, readOnly: true} }

// Memory returns an empty directory in memory, which ends with the process.
func Memory() *Dir { return &Dir{fs: vfs.NewMem(), path: "/"} }

// Sync makes the names in the directory durable.
func (d *Dir) Sync() error { return d.syncDir(d.path) }

// Slots lists the slots in use, ascending.
func (d *Dir) Slots() ([]int, error) {
	names, err := d.fs.List(d.path)
	if d.readOnly && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list log directory %s: %w", d.path, err)
	}
	var slots []int
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, suffix)
		n, err := strconv.Atoi(digits)
		if ok && err == nil && n >= 0 && n <= slotMax && strconv.Itoa(n) == digits {
			slots = append(slots, n)
		}
	}
	slices.Sort(slots)
	return slots, nil
}

// Create makes the file of a slot, size bytes of zeros, durable on return. errs.ErrNoSpace if there is no room, or if less than
// spare bytes of the disk would be left; errs.ErrLimit for a size beyond 2 GiB. A file already there is overwritten from its
// beginning and lengthened.
func (d *Dir) Create(slot int, size, spare int64) (*File, error) {
	if size <= 0 || size > fileBytesMax {
		return nil, fmt.Errorf("log file of %d bytes: %w", size, errs.ErrLimit)
	}
	name := d.name(slot)
	if err := d.room(size + spare); err != nil {
		return nil, fmt.Errorf("create log file %s: %w", name, err)
	}
	f, err := d.fs.Create(name, writeCategory)
	if err != nil {
		return nil, fmt.Errorf("create log file %s: %w", name, noSpace(err))
	}
	lf := d.file(f, name, size)
	if err := lf.zero(); err != nil {
		// Why removed: on a full disk it would hold the space that others need to make room.
		return nil, errors.Join(err, f.Close(), d.Remove(slot))
	}
	if err := d.syncDir(d.path); err != nil { // Durable: the file's name
		return nil, errors.Join(err, f.Close())
	}
	return lf, nil
}

// room returns errs.ErrNoSpace if the disk is known to have less space. Why asked before anything is written: an attempt that
// fails takes all the space there is for a while, and others fail for it.
func (d *Dir) room(bytes int64) error {
	if usage, err := d.fs.GetDiskUsage(d.path); err == nil && usage.AvailBytes < uint64(bytes) {
		return fmt.Errorf("%d bytes are wanted, %d are free: %w", bytes, usage.AvailBytes, errs.ErrNoSpace)
	}
	return nil
}

// Open opens the file of a slot for reading and, unless the directory is only looked at, writing; errs.ErrNotFound if there is none.
func (d *Dir) Open(slot int) (*File, error) {
	name := d.name(slot)
	// Why look first: OpenReadWrite makes a missing file.
	if _, err := d.fs.Stat(name); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("log file %s: %w", name, errs.ErrNotFound)
	}
	open := func() (vfs.File, error) { return d.fs.OpenReadWrite(name, writeCategory) }
	if d.readOnly {
		open = func() (vfs.File, error) { return d.fs.Open(name) }
	}
	f, err := open()
	if err != nil {
		return nil, fmt.Errorf("open log file %s: %w", name, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log file %s: %w", name, err), f.Close())
	}
	return d.file(f, name, info.Size()), nil
}

// Remove deletes the file of a slot; an absent one is not an error. It may come back after a crash.
func (d *Dir) Remove(slot int) error {
	if err := d.fs.Remove(d.name(slot)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove log file: %w", err)
	}
	return nil
}

func (d *Dir) name(slot int) string { return d.fs.PathJoin(d.path, strconv.Itoa(slot)+suffix) }

func (d *Dir) syncDir(path string) error {
	dir, err := d.fs.OpenDir(path)
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", path, err)
	}
	err = dir.Sync()
	_ = dir.Close() // only synced
	if err != nil {
		return fmt.Errorf("sync directory %s: %w: %w", path, errs.ErrSync, err)
	}
	return nil
}

func noSpace(err error) error {
	if vfs.IsNoSpaceError(err) {
		return fmt.Errorf("%w: %w", errs.ErrNoSpace, err)
	}
	return err
}

// File is one preallocated file. Reads may run beside one writer.
type File struct {
	f      vfs.File
	dir    *Dir
	name   string
	size   atomic.Int64
	broken atomic.Bool
}

func (d *Dir) file(f vfs.File, name string, size int64) *File {
	lf := &File{f: f, dir: d, name: name}
	lf.size.Store(size)
	return lf
}

// Name returns the path of the file, for messages.
func (f *File) Name() string { return f.name }

// Size returns the length in bytes.
func (f *File) Size() int64 { return f.size.Load() }

// ReadAt fills p from offset off; io.ErrUnexpectedEOF beyond the end.
func (f *File) ReadAt(p []byte, off int64) error {
	n, err := f.f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s at %d: %w", f.name, off, err)
}

// WriteAt overwrites p at off, inside the preallocated size (errs.ErrLimit beyond it). Durable after Sync.
func (f *File) WriteAt(p []byte, off int64) error {
	if f.broken.Load() {
		return fmt.Errorf("write %s: %w", f.name, errs.ErrSync)
	}
	if off < 0 || off+int64(len(p)) > f.Size() {
		return fmt.Errorf("write %s: %d bytes at %d of %d: %w", f.name, len(p), off, f.Size(), errs.ErrLimit)
	}
	if _, err := f.f.WriteAt(p, off); err != nil {
		f.broken.Store(true)
		return fmt.Errorf("write %s at %d: %w: %w", f.name, off, errs.ErrSync, err)
	}
	return nil
}

// Extend makes the file longer by some bytes of zeros, durably. errs.ErrNoSpace if there is no room, or if less than spare bytes
// of the disk would be left; errs.ErrLimit beyond 2 GiB: the file stays as it is then.
func (f *File) Extend(by, spare int64) error {
	size := f.Size()
	if by <= 0 || size+by > fileBytesMax {
		return fmt.Errorf("extend %s by %d bytes: %w", f.name, by, errs.ErrLimit)
	}
	if f.broken.Load() {
		return fmt.Errorf("extend %s: %w", f.name, errs.ErrSync)
	}
	if err := f.dir.room(by + spare); err != nil {
		return fmt.Errorf("extend %s: %w", f.name, err)
	}
	piece := make([]byte, min(int64(zeroPiece), by))
	for off := size; off < size+by; off += int64(len(piece)) {
		if _, err := f.f.WriteAt(piece[:min(int64(len(piece)), size+by-off)], off); err != nil {
			return fmt.Errorf("extend %s: %w", f.name, noSpace(err))
		}
	}
	if err := f.f.Sync(); err != nil { // Durable: the blocks and the length
		f.broken.Store(true)
		return fmt.Errorf("extend %s: %w: %w", f.name, errs.ErrSync, err)
	}
	f.size.Store(size + by)
	return nil
}

// Sync makes everything written durable. After an error nothing about the file can be believed (I2).
func (f *File) Sync() error {
	if f.broken.Load() {
		return fmt.Errorf("sync %s: %w", f.name, errs.ErrSync)
	}
	if err := f.f.SyncData(); err != nil {
		f.broken.Store(true)
		return fmt.Errorf("sync %s: %w: %w", f.name, errs.ErrSync, err)
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// zero writes the whole file and syncs data and length.
func (f *File) zero() error {
	size := f.Size()
	piece := make([]byte, min(int64(zeroPiece), size))
	for off := int64(0); off < size; off += int64(len(piece)) {
		n := min(int64(len(piece)), size-off)
		if _, err := f.f.Write(piece[:n]); err != nil {
			return fmt.Errorf("preallocate %s: %w", f.name, noSpace(err))
		}
	}
	if err := f.f.Sync(); err != nil { // Durable: the blocks and the length
		if vfs.IsNoSpaceError(err) {
			return fmt.Errorf("preallocate %s: %w", f.name, noSpace(err))
		}
		return fmt.Errorf("preallocate %s: %w: %w", f.name, errs.ErrSync, err)
	}
	return nil
}
