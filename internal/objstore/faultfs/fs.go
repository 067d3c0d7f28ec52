package faultfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrInjected is the default error of a call that a Plan fails. ErrCrashed is the result of every call from
// a crash on.
var (
	ErrInjected = errors.New("injected filesystem fault")
	ErrCrashed  = errors.New("filesystem crashed")
)

// traceCallsMax bounds the trace; the oldest calls are forgotten first.
const traceCallsMax = 8192

// Plan says what happens to the numbered calls. The zero Plan lets all of them through.
type Plan struct {
	// CrashAt is the number of the call that crashes: it has no effect and returns ErrCrashed, as does every
	// later call. 0 = none.
	CrashAt int64
	// FailAt is the number of a call that fails once, without effect, with Err. 0 = none.
	FailAt int64
	Err    error // nil = ErrInjected
	// SkipDirSync and SkipFileSync plant a bug: a sync of a directory or file for which they return true is
	// left out and reported as done. They get its number among the directory (file) syncs, from 1, and run
	// under a lock. nil = none.
	SkipDirSync  func(k int64) bool
	SkipFileSync func(k int64) bool
}

// Only selects the k-th sync.
func Only(k int64) func(int64) bool { return func(i int64) bool { return i == k } }

// All selects every sync.
func All() func(int64) bool { return func(int64) bool { return true } }

// FS is a filesystem with faults. Safe for concurrent use.
type FS struct {
	inner vfs.FS // immutable

	// calls is held shared during every changing call, and exclusively by CrashClone. It comes before mu.
	calls sync.RWMutex

	mu        sync.Mutex
	plan      Plan     // under mu
	count     int64    // under mu; changing calls
	dirSyncs  int64    // under mu; among them
	fileSyncs int64    // under mu; among them
	crashed   bool     // under mu
	trace     []string // under mu
	removals  removals // under mu
}

// New wraps inner, normally a vfs.NewCrashableMem. The plan is in force at once.
func New(inner vfs.FS, p Plan) *FS { return &FS{inner: inner, plan: p} }

// Reset puts another plan in force, numbers from 1 again, forgets the trace and ends a crash. What is
// unsynced stays unsynced.
func (f *FS) Reset(p Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.count, f.dirSyncs, f.fileSyncs, f.crashed, f.trace = p, 0, 0, 0, false, nil
}

// Count returns how many changing calls were numbered.
func (f *FS) Count() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// DirSyncs returns how many of them were syncs of directories, left out ones included.
func (f *FS) DirSyncs() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirSyncs
}

// FileSyncs returns how many of them were syncs of files, left out ones included.
func (f *FS) FileSyncs() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fileSyncs
}

// Crash makes every call from now on return ErrCrashed.
func (f *FS) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = true
}

// Crashed reports whether the filesystem has crashed.
func (f *FS) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashed
}

// Trace returns the latest numbered calls, oldest first, for failure messages.
func (f *FS) Trace() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.trace)
}

// step numbers a changing call and returns the error it fails with, if any.
func (f *FS) step(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stepLocked(format, args...)
}

func (f *FS) stepLocked(format string, args ...any) error {
	if f.crashed {
		return ErrCrashed
	}
	f.count++
	if len(f.trace) >= traceCallsMax {
		f.trace = slices.Delete(f.trace, 0, traceCallsMax/2)
	}
	f.trace = append(f.trace, fmt.Sprintf("#%d ", f.count)+fmt.Sprintf(format, args...))
	switch f.count {
	case f.plan.CrashAt:
		f.crashed = true
		return ErrCrashed
	case f.plan.FailAt:
		if f.plan.Err != nil {
			return f.plan.Err
		}
		return ErrInjected
	}
	return nil
}

// change performs a numbered call.
func (f *FS) change(perform func() error, format string, args ...any) error {
	f.calls.RLock()
	defer f.calls.RUnlock()
	if err := f.step(format, args...); err != nil {
		return err
	}
	return perform()
}

// alive returns ErrCrashed after a crash; for calls that are not numbered.
func (f *FS) alive() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed {
		return ErrCrashed
	}
	return nil
}

// Create implements vfs.FS.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	var inner vfs.File
	err := f.change(func() (err error) {
		inner, err = f.inner.Create(name, category)
		f.note(err, func(r *removals) { r.added(name) })
		return err
	}, "create %s", name)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f, name: name}, nil
}

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	return f.change(func() error {
		err := f.inner.Link(oldname, newname)
		f.note(err, func(r *removals) { r.added(newname) })
		return err
	}, "link %s -> %s", oldname, newname)
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	inner, err := f.inner.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f, name: name}, nil
}

// OpenReadWrite implements vfs.FS. It is numbered because it may create the file.
func (f *FS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	var inner vfs.File
	err := f.change(func() (err error) {
		inner, err = f.inner.OpenReadWrite(name, category, opts...)
		f.note(err, func(r *removals) { r.added(name) })
		return err
	}, "open for writing %s", name)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f, name: name}, nil
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	inner, err := f.inner.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f, name: name, dir: true}, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.change(func() error {
		err := f.inner.Remove(name)
		f.note(err, func(r *removals) { r.removed(name, "") })
		return err
	}, "remove %s", name)
}

// RemoveAll implements vfs.FS. On pebble's memory filesystem, which has no symbolic links, it removes entry by
// entry, each a numbered call, so that a crash can leave a part; elsewhere it is one call.
func (f *FS) RemoveAll(name string) error {
	if _, ok := f.inner.(*vfs.MemFS); !ok {
		return f.change(func() error { return f.inner.RemoveAll(name) }, "remove all %s", name)
	}
	if err := f.alive(); err != nil {
		return err
	}
	info, err := f.inner.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		children, err := f.inner.List(name)
		if err != nil {
			return err
		}
		slices.Sort(children)
		for _, child := range children {
			if err := f.RemoveAll(f.inner.PathJoin(name, child)); err != nil {
				return err
			}
		}
	}
	if err := f.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	return f.change(func() error {
		err := f.inner.Rename(oldname, newname)
		f.note(err, func(r *removals) { r.renamed(oldname, newname) })
		return err
	}, "rename %s -> %s", oldname, newname)
}

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	var inner vfs.File
	err := f.change(func() (err error) {
		inner, err = f.inner.ReuseForWrite(oldname, newname, category)
		f.note(err, func(r *removals) { r.renamed(oldname, newname) })
		return err
	}, "reuse %s as %s", oldname, newname)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f, name: newname}, nil
}

// MkdirAll implements vfs.FS. It is one call, however many directories it makes.
func (f *FS) MkdirAll(dir string, perm os.FileMode) error {
	return f.change(func() error {
		err := f.inner.MkdirAll(dir, perm)
		f.note(err, func(r *removals) { r.added(dir) })
		return err
	}, "mkdir %s", dir)
}

// Lock implements vfs.FS. It is numbered because it creates the file.
func (f *FS) Lock(name string) (io.Closer, error) {
	var lock io.Closer
	err := f.change(func() (err error) {
		lock, err = f.inner.Lock(name)
		f.note(err, func(r *removals) { r.added(name) })
		return err
	}, "lock %s", name)
	return lock, err
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// PathBase implements vfs.FS.
func (f *FS) PathBase(path string) string { return f.inner.PathBase(path) }

// PathJoin implements vfs.FS.
func (f *FS) PathJoin(elem ...string) string { return f.inner.PathJoin(elem...) }

// PathDir implements vfs.FS.
func (f *FS) PathDir(path string) string { return f.inner.PathDir(path) }

// GetDiskUsage implements vfs.FS.
func (f *FS) GetDiskUsage(path string) (vfs.DiskUsage, error) { return f.inner.GetDiskUsage(path) }

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.inner }
