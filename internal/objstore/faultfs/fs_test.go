package faultfs_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/objstore/faultfs"
)

// scenario makes every kind of changing call once and returns the errors in order, nil ones included.
func scenario(fs vfs.FS) []error {
	var results []error
	do := func(err error) { results = append(results, err) }
	do(fs.MkdirAll("/d", 0o755))
	f, err := fs.Create("/d/f", "test")
	do(err)
	if err == nil {
		_, err = f.Write([]byte("content"))
		do(err)
		do(f.Sync())
		_ = f.Close()
	} else {
		results = append(results, err, err)
	}
	do(fs.Link("/d/f", "/d/g"))
	do(fs.Rename("/d/g", "/d/h"))
	do(fs.Remove("/d/h"))
	d, err := fs.OpenDir("/d")
	if err == nil {
		err = d.Sync()
		_ = d.Close()
	}
	do(err)
	do(fs.RemoveAll("/d"))
	return results
}

// numberedCalls is how many calls the scenario makes: RemoveAll takes a file and a directory.
const numberedCalls = 10

func TestCount(t *testing.T) {
	f := newFS(faultfs.Plan{})
	for i, err := range scenario(f) {
		if err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if f.Count() != numberedCalls || f.DirSyncs() != 1 || f.FileSyncs() != 1 || len(f.Trace()) != numberedCalls {
		t.Errorf("%d calls, %d directory syncs, %d file syncs, trace:\n%s",
			f.Count(), f.DirSyncs(), f.FileSyncs(), strings.Join(f.Trace(), "\n"))
	}
	f.Reset(faultfs.Plan{})
	if f.Count() != 0 || f.DirSyncs() != 0 || f.FileSyncs() != 0 || f.Trace() != nil {
		t.Error("Reset does not start anew")
	}
}

func TestCrashAtEveryCall(t *testing.T) {
	for n := int64(1); n <= numberedCalls; n++ {
		f := newFS(faultfs.Plan{CrashAt: n})
		crashed := false
		for i, err := range scenario(f) {
			crashed = crashed || err != nil
			if crashed != errors.Is(err, faultfs.ErrCrashed) {
				t.Errorf("crash at %d, step %d: %v", n, i, err)
			}
		}
		if !crashed || !f.Crashed() || f.Count() != n {
			t.Errorf("crash at %d: crashed %t, %d calls", n, crashed, f.Count())
		}
		_, listErr := f.List("/")
		_, statErr := f.Stat("/")
		_, openErr := f.Open("/d/f")
		_, lockErr := f.Lock("/LOCK")
		for _, err := range []error{listErr, statErr, openErr, lockErr} {
			if !errors.Is(err, faultfs.ErrCrashed) {
				t.Errorf("crash at %d, call afterwards: %v", n, err)
			}
		}
	}
}

func TestOpenFilesCrashToo(t *testing.T) {
	f := newFS(faultfs.Plan{})
	w, err := f.Create("/f", "test")
	must(t, err)
	_, err = w.Write([]byte("x"))
	must(t, err)
	f.Crash()
	_, writeErr := w.Write([]byte("y"))
	_, readErr := w.ReadAt(make([]byte, 1), 0)
	_, statErr := w.Stat()
	_, toErr := w.SyncTo(1)
	for _, err := range []error{writeErr, readErr, statErr, toErr, w.Sync(), w.SyncData(), w.Close()} {
		if !errors.Is(err, faultfs.ErrCrashed) {
			t.Errorf("got %v, want %v", err, faultfs.ErrCrashed)
		}
	}
	f.Reset(faultfs.Plan{})
	wantDump(t, "after the crash", f, "/f=x")
}

func TestFailOnce(t *testing.T) {
	for n := int64(1); n <= numberedCalls; n++ {
		f := newFS(faultfs.Plan{FailAt: n, Err: syscall.ENOSPC})
		failed := 0
		for _, err := range scenario(f) {
			if errors.Is(err, syscall.ENOSPC) {
				failed++
			}
			if errors.Is(err, faultfs.ErrCrashed) {
				t.Errorf("fail at %d crashed", n)
			}
		}
		// A file that could not be created is reported for what would have been done with it.
		if failed == 0 || f.Crashed() {
			t.Errorf("fail at %d: %d failures", n, failed)
		}
	}
	f := newFS(faultfs.Plan{FailAt: 1})
	if err := f.MkdirAll("/d", 0o755); !errors.Is(err, faultfs.ErrInjected) {
		t.Errorf("default error: got %v", err)
	}
}

func TestPlantedSyncs(t *testing.T) {
	for _, c := range []struct {
		plan faultfs.Plan
		want string
	}{
		{faultfs.Plan{}, "[/1=a /2=b]"},
		{faultfs.Plan{SkipDirSync: faultfs.Only(1)}, "[/1=a /2=b]"}, // healed by the second
		{faultfs.Plan{SkipDirSync: faultfs.Only(2)}, "[/1=a]"},
		{faultfs.Plan{SkipDirSync: faultfs.All()}, "[]"},
		{faultfs.Plan{SkipFileSync: faultfs.Only(1)}, "[/1= /2=b]"},
		{faultfs.Plan{SkipFileSync: faultfs.All()}, "[/1= /2=]"},
	} {
		f := newFS(c.plan)
		write(t, f, "/1", "a", true)
		syncDir(t, f, "/")
		write(t, f, "/2", "b", true)
		syncDir(t, f, "/")
		if got := fmt.Sprint(dump(t, clone(t, f, 0, 1))); got != c.want {
			t.Errorf("got %s, want %s; trace %q", got, c.want, f.Trace())
		}
	}
}
