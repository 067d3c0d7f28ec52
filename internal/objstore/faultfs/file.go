package faultfs

import "github.com/cockroachdb/pebble/v2/vfs"

// file is an open file or directory of an FS.
type file struct {
	vfs.File
	fs   *FS
	name string
	dir  bool
}

// Close implements vfs.File. It always closes the inner file: a dead process holds none.
func (f *file) Close() error {
	err := f.File.Close()
	if crashed := f.fs.alive(); crashed != nil {
		return crashed
	}
	return err
}

// Read implements vfs.File.
func (f *file) Read(p []byte) (int, error) {
	if err := f.fs.alive(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.alive(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// Stat implements vfs.File.
func (f *file) Stat() (vfs.FileInfo, error) {
	if err := f.fs.alive(); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

// Write implements vfs.File.
func (f *file) Write(p []byte) (n int, err error) {
	err = f.fs.change(func() (err error) {
		n, err = f.File.Write(p)
		return err
	}, "write %s (%d bytes)", f.name, len(p))
	return n, err
}

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.change(func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	}, "write %s (%d bytes at %d)", f.name, len(p), off)
	return n, err
}

// Sync implements vfs.File.
func (f *file) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.sync(f.File.SyncData) }

// SyncTo implements vfs.File. It is the weaker of the forms the interface allows: nothing is promised.
func (f *file) SyncTo(int64) (fullSync bool, err error) { return false, f.fs.alive() }

// sync performs a numbered sync, unless the plan leaves it out.
func (f *file) sync(perform func() error) error {
	f.fs.calls.RLock()
	defer f.fs.calls.RUnlock()
	skip, err := f.fs.stepSync(f.name, f.dir)
	if err != nil || skip {
		return err
	}
	if err := perform(); err != nil {
		return err
	}
	if f.dir {
		f.fs.note(nil, func(r *removals) { r.synced(f.name) })
	}
	return nil
}

// stepSync numbers a sync and says whether the plan leaves it out.
func (f *FS) stepSync(name string, dir bool) (skip bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count, planted, kind := &f.fileSyncs, f.plan.SkipFileSync, "file"
	if dir {
		count, planted, kind = &f.dirSyncs, f.plan.SkipDirSync, "directory"
	}
	if !f.crashed {
		*count++
		skip = planted != nil && planted(*count)
	}
	suffix := ""
	if skip {
		suffix = " (left out)"
	}
	return skip, f.stepLocked("sync %s %s%s", kind, name, suffix)
}
