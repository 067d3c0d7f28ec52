package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultfs"
)

// faultRun opens a store, makes the directory, and runs one operation in which call n fails with err.
func faultRun(t *testing.T, n int64, failure error, op func(st objstore.Store) error) (
	fs *faultfs.FS, st *objstore.Local, failed error, reached bool,
) {
	t.Helper()
	fs = faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
	st = openLocal(t, fs, crashRoot)
	if err := st.PutIfAbsent(t.Context(), "d/before", []byte("before")); err != nil {
		t.Fatal(err)
	}
	fs.Reset(faultfs.Plan{FailAt: n, Err: failure})
	err := op(st)
	return fs, st, err, fs.Count() >= n
}

// failedCall returns the call that was made to fail.
func failedCall(fs *faultfs.FS, n int64) string {
	_, call, _ := strings.Cut(fs.Trace()[n-1], " ")
	return call
}

// leftovers returns the temporaries in the directory of the tests.
func leftovers(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List(crashRoot + "/d")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, ".tmp") })
}

// TestFailedPut fails every call of a put once, with a full disk and with a broken one.
func TestFailedPut(t *testing.T) {
	content := strings.Repeat("content ", 40_000) // several writes
	puts := map[string]func(st objstore.Store) error{
		"PutIfAbsent": func(st objstore.Store) error {
			return st.PutIfAbsent(context.Background(), "d/new", []byte(content))
		},
		"Create": func(st objstore.Store) error {
			w, err := st.Create(context.Background(), "d/new")
			if err != nil {
				return err
			}
			if _, err := io.WriteString(w, content); err != nil {
				return errors.Join(err, w.Abort())
			}
			return w.Commit(context.Background())
		},
	}
	for what, op := range puts {
		for _, failure := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
			for n := int64(1); ; n++ {
				fs, st, err, reached := faultRun(t, n, failure, op)
				if !reached {
					if err != nil {
						t.Errorf("%s without a fault: %v", what, err)
					}
					break
				}
				call := failedCall(fs, n)
				where := fmt.Sprintf("%s, %v at call %d, %s", what, failure, n, call)
				noSpace := failure != syscall.EIO
				if strings.HasPrefix(call, "remove") {
					// The object is there, and its temporary is garbage.
					if err != nil || len(leftovers(t, fs)) != 1 {
						t.Errorf("%s: got %v", where, err)
					}
					wantRead(t, st, "d/new", content)
					continue
				}
				dirSync, fileSync := strings.HasPrefix(call, "sync dir"), strings.HasPrefix(call, "sync file")
				broken := dirSync || (fileSync && !noSpace)
				switch {
				case err == nil:
					t.Errorf("%s: no error", where)
				case errors.Is(err, errs.ErrSync) != broken:
					t.Errorf("%s: got %v", where, err)
				case errors.Is(err, errs.ErrNoSpace) != (noSpace && !broken):
					t.Errorf("%s: got %v", where, err)
				}
				if !errors.Is(err, failure) {
					t.Errorf("%s: the cause is lost: %v", where, err)
				}
				if left := leftovers(t, fs); len(left) != 0 {
					t.Errorf("%s: left %q", where, left)
				}
				wantRead(t, st, "d/before", "before") // reads go on
				if !dirSync {
					wantRead(t, st, "d/new", absent)
				}
				again := op(st)
				switch {
				case broken && !errors.Is(again, errs.ErrSync):
					t.Errorf("%s: a change after a failed sync: %v", where, again)
				case !broken && again != nil:
					t.Errorf("%s: second attempt: %v", where, again)
				case !broken:
					wantRead(t, st, "d/new", content)
				}
			}
		}
	}
}

// wantRead checks an object, or that it is absent.
func wantRead(t *testing.T, st objstore.Store, name, content string) {
	t.Helper()
	got, err := read(t.Context(), st, name)
	if err != nil || got != content {
		t.Errorf("%s: got %.40q, %v; want %.40q", name, got, err, content)
	}
}

// TestFailedHint: readers see the old or the new content whatever fails.
func TestFailedHint(t *testing.T) {
	op := func(st objstore.Store) error { return st.Put(context.Background(), "d/before", []byte("after")) }
	for n := int64(1); ; n++ {
		fs, st, err, reached := faultRun(t, n, syscall.EIO, op)
		if !reached {
			wantRead(t, st, "d/before", "after")
			return
		}
		call := failedCall(fs, n)
		if err == nil {
			t.Errorf("%s failed unnoticed", call)
		}
		content := "before"
		if strings.HasPrefix(call, "sync dir") {
			content = "after"
		}
		wantRead(t, st, "d/before", content)
		if left := leftovers(t, fs); len(left) != 0 {
			t.Errorf("%s: left %q", call, left)
		}
	}
}

// TestFailedNames: a change of names that fails is reported, and one that was not made can be made again.
func TestFailedNames(t *testing.T) {
	ctx := context.Background()
	for what, op := range map[string]func(st objstore.Store) error{
		"MakeDir":          func(st objstore.Store) error { return st.MakeDir(ctx, "x/y") },
		"Delete":           func(st objstore.Store) error { return st.Delete(ctx, "d/before") },
		"RemoveAll":        func(st objstore.Store) error { return st.RemoveAll(ctx, "d") },
		"Rename directory": func(st objstore.Store) error { return st.Rename(ctx, "d", "x/y") },
		"Rename object":    func(st objstore.Store) error { return st.Rename(ctx, "d/before", "x/y") },
	} {
		for n := int64(1); ; n++ {
			fs, st, err, reached := faultRun(t, n, syscall.EIO, op)
			if !reached {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				break
			}
			call := failedCall(fs, n)
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s, %s: got %v", what, call, err)
			}
			if strings.HasPrefix(call, "sync") {
				if !errors.Is(err, errs.ErrSync) || !errors.Is(op(st), errs.ErrSync) {
					t.Errorf("%s, %s: got %v, then %v", what, call, err, op(st))
				}
				continue
			}
			if err := op(st); err != nil && !errors.Is(err, errs.ErrExists) {
				t.Errorf("%s, %s: second attempt: %v", what, call, err)
			}
		}
	}
}

// TestFailedSyncEndsChanges checks that every kind of change is refused after a failed sync, and that a new
// store goes on.
func TestFailedSyncEndsChanges(t *testing.T) {
	ctx := t.Context()
	fs := faultfs.New(vfs.NewCrashableMem(), faultfs.Plan{})
	st := openLocal(t, fs, crashRoot)
	if err := st.PutIfAbsent(ctx, "d/x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	inFlight, err := st.Create(ctx, "d/inflight")
	if err != nil {
		t.Fatal(err)
	}
	// create, write, sync file: the third call is the sync.
	fs.Reset(faultfs.Plan{FailAt: 3})
	if err := st.PutIfAbsent(ctx, "d/y", []byte("y")); !errors.Is(err, errs.ErrSync) {
		t.Fatalf("got %v", err)
	}
	_, createErr := st.Create(ctx, "d/z")
	_, sweepErr := st.SweepTemp(ctx, "d")
	for what, err := range map[string]error{
		"PutIfAbsent": st.PutIfAbsent(ctx, "d/z", nil),
		"Put":         st.Put(ctx, "d/z", nil),
		"Create":      createErr,
		"Commit":      inFlight.Commit(ctx),
		"Delete":      st.Delete(ctx, "d/x"),
		"RemoveAll":   st.RemoveAll(ctx, "d"),
		"Rename":      st.Rename(ctx, "d", "e"),
		"MakeDir":     st.MakeDir(ctx, "f"),
		"SweepTemp":   sweepErr,
	} {
		if !errors.Is(err, errs.ErrSync) || !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	wantRead(t, st, "d/x", "x")
	wantRead(t, st, "d/y", absent)
	again := openLocal(t, fs, crashRoot)
	if err := again.PutIfAbsent(ctx, "d/y", []byte("y")); err != nil {
		t.Errorf("reopened: %v", err)
	}
}

// busyFS runs out of file descriptors when more than max files are open for reading.
type busyFS struct {
	vfs.FS
	open, max int
	opened    int
}

func (f *busyFS) take() error {
	if f.open >= f.max {
		return &os.PathError{Op: "open", Err: syscall.EMFILE}
	}
	f.open++
	f.opened++
	return nil
}

func (f *busyFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.take(); err != nil {
		return nil, err
	}
	inner, err := f.FS.Open(name, opts...)
	return &busyFile{inner, f}, err
}

func (f *busyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.take(); err != nil {
		return nil, err
	}
	inner, err := f.FS.Create(name, category)
	return &busyFile{inner, f}, err
}

func (f *busyFS) OpenDir(name string) (vfs.File, error) {
	if err := f.take(); err != nil {
		return nil, err
	}
	inner, err := f.FS.OpenDir(name)
	return &busyFile{inner, f}, err
}

type busyFile struct {
	vfs.File
	fs *busyFS
}

func (f *busyFile) Close() error {
	f.fs.open--
	return f.File.Close()
}

// TestTooManyFiles: cached files make room when the process has no descriptor left, and all of them are closed
// in the end.
func TestTooManyFiles(t *testing.T) {
	ctx := t.Context()
	fs := &busyFS{FS: vfs.NewMem(), max: 10}
	st, err := objstore.OpenLocal(fs, "/root")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		name := fmt.Sprintf("d/%d", i)
		if err := st.PutIfAbsent(ctx, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
		for j := range i + 1 {
			name := fmt.Sprintf("d/%d", j)
			p := make([]byte, len(name))
			if err := st.ReadAt(ctx, name, p, 0); err != nil || string(p) != name {
				t.Fatalf("%s: got %q, %v", name, p, err)
			}
		}
	}
	if fs.open == 0 {
		t.Error("no file is kept open")
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	if fs.open != 0 {
		t.Errorf("%d files are open after Close", fs.open)
	}
	if err := st.ReadAt(ctx, "d/1", nil, 0); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	if err := st.PutIfAbsent(ctx, "d/x", nil); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("put after Close: %v", err)
	}
}

// TestFilesAreKept: repeated reads open a file once, and no more than the limit stay open.
func TestFilesAreKept(t *testing.T) {
	ctx := t.Context()
	fs := &busyFS{FS: vfs.NewMem(), max: 1 << 20}
	st := openLocal(t, fs, "/root")
	for i := range 400 {
		if err := st.PutIfAbsent(ctx, fmt.Sprintf("d/%d", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	before := fs.opened
	for range 100 {
		if err := st.ReadAt(ctx, "d/1", make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
	}
	if fs.opened != before+1 {
		t.Errorf("100 reads opened %d files", fs.opened-before)
	}
	for i := range 400 {
		if err := st.ReadAt(ctx, fmt.Sprintf("d/%d", i), make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
	}
	if fs.open > 256 {
		t.Errorf("%d files stay open", fs.open)
	}
	before = fs.opened
	if err := st.ReadAt(ctx, "d/399", make([]byte, 1), 0); err != nil || fs.opened != before {
		t.Errorf("the last one read is not among those kept: %v", err)
	}
}
