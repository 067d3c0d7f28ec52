package faultfs_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/errs"
	"lancesql/internal/objstore/faultfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newFS(plan faultfs.Plan) *faultfs.FS { return faultfs.New(vfs.NewCrashableMem(), plan) }

// write creates a file; sync says whether its bytes are synced.
func write(t *testing.T, fs vfs.FS, name, content string, sync bool) {
	t.Helper()
	f, err := fs.Create(name, "test")
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	if sync {
		must(t, f.Sync())
	}
	must(t, f.Close())
}

func syncDir(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	d, err := fs.OpenDir(name)
	must(t, err)
	must(t, d.Sync())
	must(t, d.Close())
}

// dump lists a filesystem as "path=content" and "path/" lines.
func dump(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	lines := []string{}
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fs.List(dir)
		must(t, err)
		slices.Sort(names)
		for _, name := range names {
			path := fs.PathJoin(dir, name)
			info, err := fs.Stat(path)
			must(t, err)
			if info.IsDir() {
				lines = append(lines, path+"/")
				walk(path)
				continue
			}
			f, err := fs.Open(path)
			must(t, err)
			data, err := io.ReadAll(f)
			must(t, errors.Join(err, f.Close()))
			lines = append(lines, path+"="+string(data))
		}
	}
	walk("/")
	return lines
}

func wantDump(t *testing.T, what string, fs vfs.FS, lines ...string) {
	t.Helper()
	if got := dump(t, fs); !slices.Equal(got, lines) {
		t.Errorf("%s: got %q, want %q", what, got, lines)
	}
}

func clone(t *testing.T, f *faultfs.FS, percent int, seed uint64) *vfs.MemFS {
	t.Helper()
	c, err := f.CrashClone(faultfs.CloneConfig{UnsyncedPercent: percent, Rand: rand.New(rand.NewPCG(seed, 1))})
	must(t, err)
	return c
}

// TestCloneDropsWhatIsUnsynced is the check of the crash model: each kind of change is lost without its sync
// and kept with it.
func TestCloneDropsWhatIsUnsynced(t *testing.T) {
	for _, c := range []struct {
		name     string
		prepare  func(t *testing.T, fs vfs.FS) // durable, with everything synced
		change   func(t *testing.T, fs vfs.FS)
		sync     func(t *testing.T, fs vfs.FS)
		lost     []string // at 0 %, before sync
		spared   []string // at 100 %, before sync
		survived []string // at 0 %, after sync
	}{
		{
			name:   "new file without directory sync",
			change: func(t *testing.T, fs vfs.FS) { write(t, fs, "/f", "x", true) },
			sync:   func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/") },
			lost:   []string{}, spared: []string{"/f=x"}, survived: []string{"/f=x"},
		},
		{
			name: "new file without file sync",
			change: func(t *testing.T, fs vfs.FS) {
				write(t, fs, "/f", "x", false)
				syncDir(t, fs, "/")
			},
			sync: func(t *testing.T, fs vfs.FS) {
				f, err := fs.Open("/f")
				must(t, err)
				must(t, f.Sync())
				must(t, f.Close())
			},
			lost: []string{"/f="}, spared: []string{"/f=x"}, survived: []string{"/f=x"},
		},
		{
			name: "link",
			prepare: func(t *testing.T, fs vfs.FS) {
				write(t, fs, "/f", "x", true)
				must(t, fs.MkdirAll("/d", 0o755))
				syncDir(t, fs, "/")
			},
			change: func(t *testing.T, fs vfs.FS) { must(t, fs.Link("/f", "/d/g")) },
			sync:   func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/d") },
			lost:   []string{"/d/", "/f=x"}, spared: []string{"/d/", "/d/g=x", "/f=x"},
			survived: []string{"/d/", "/d/g=x", "/f=x"},
		},
		{
			name:    "rename over a file",
			prepare: func(t *testing.T, fs vfs.FS) { write(t, fs, "/f", "old", true); syncDir(t, fs, "/") },
			change: func(t *testing.T, fs vfs.FS) {
				write(t, fs, "/g", "new", true)
				must(t, fs.Rename("/g", "/f"))
			},
			sync: func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/") },
			lost: []string{"/f=old"}, spared: []string{"/f=new"}, survived: []string{"/f=new"},
		},
		{
			name: "new directory with a synced file in it",
			change: func(t *testing.T, fs vfs.FS) {
				must(t, fs.MkdirAll("/d", 0o755))
				write(t, fs, "/d/f", "x", true)
				syncDir(t, fs, "/d")
			},
			sync: func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/") },
			lost: []string{}, spared: []string{"/d/", "/d/f=x"}, survived: []string{"/d/", "/d/f=x"},
		},
		{
			name: "rename of a directory",
			prepare: func(t *testing.T, fs vfs.FS) {
				must(t, fs.MkdirAll("/a/d", 0o755))
				must(t, fs.MkdirAll("/b", 0o755))
				write(t, fs, "/a/d/f", "x", true)
				syncDir(t, fs, "/a/d")
				syncDir(t, fs, "/a")
				syncDir(t, fs, "/")
			},
			change: func(t *testing.T, fs vfs.FS) { must(t, fs.Rename("/a/d", "/b/e")) },
			sync: func(t *testing.T, fs vfs.FS) {
				syncDir(t, fs, "/b")
				syncDir(t, fs, "/a")
			},
			lost:     []string{"/a/", "/a/d/", "/a/d/f=x", "/b/"},
			spared:   []string{"/a/", "/b/", "/b/e/", "/b/e/f=x"},
			survived: []string{"/a/", "/b/", "/b/e/", "/b/e/f=x"},
		},
		{
			name:    "removal",
			prepare: func(t *testing.T, fs vfs.FS) { write(t, fs, "/f", "x", true); syncDir(t, fs, "/") },
			change:  func(t *testing.T, fs vfs.FS) { must(t, fs.Remove("/f")) },
			sync:    func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/") },
			lost:    []string{"/f=x"}, spared: []string{}, survived: []string{},
		},
		{
			name: "removal of a tree",
			prepare: func(t *testing.T, fs vfs.FS) {
				must(t, fs.MkdirAll("/d/e", 0o755))
				write(t, fs, "/d/e/f", "x", true)
				syncDir(t, fs, "/d/e")
				syncDir(t, fs, "/d")
				syncDir(t, fs, "/")
			},
			change: func(t *testing.T, fs vfs.FS) { must(t, fs.RemoveAll("/d")) },
			sync:   func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/") },
			lost:   []string{"/d/", "/d/e/", "/d/e/f=x"}, spared: []string{}, survived: []string{},
		},
		{
			name: "removal in a directory that is then renamed",
			prepare: func(t *testing.T, fs vfs.FS) {
				must(t, fs.MkdirAll("/d", 0o755))
				write(t, fs, "/d/f", "x", true)
				write(t, fs, "/d/g", "y", true)
				syncDir(t, fs, "/d")
				syncDir(t, fs, "/")
			},
			change: func(t *testing.T, fs vfs.FS) {
				must(t, fs.Remove("/d/f"))
				must(t, fs.Rename("/d", "/e"))
			},
			sync: func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/e"); syncDir(t, fs, "/") },
			lost: []string{"/d/", "/d/f=x", "/d/g=y"}, spared: []string{"/e/", "/e/g=y"},
			survived: []string{"/e/", "/e/g=y"},
		},
		{
			name:    "removal and new file of the name",
			prepare: func(t *testing.T, fs vfs.FS) { write(t, fs, "/f", "old", true); syncDir(t, fs, "/") },
			change: func(t *testing.T, fs vfs.FS) {
				must(t, fs.Remove("/f"))
				write(t, fs, "/f", "new", true)
			},
			sync: func(t *testing.T, fs vfs.FS) { syncDir(t, fs, "/") },
			lost: []string{"/f=old"}, spared: []string{"/f=new"}, survived: []string{"/f=new"},
		},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			f := newFS(faultfs.Plan{})
			if c.prepare != nil {
				c.prepare(t, f)
			}
			c.change(t, f)
			lost := clone(t, f, 0, 1)
			wantDump(t, "0 %", lost, c.lost...)
			spared := clone(t, f, 100, 1)
			wantDump(t, "100 %", spared, c.spared...)
			// What is in a clone has been written to disk: it survives the next crash.
			wantDump(t, "clone of the clone", clone(t, faultfs.New(spared, faultfs.Plan{}), 0, 1), c.spared...)
			c.sync(t, f)
			wantDump(t, "after the sync", clone(t, f, 0, 1), c.survived...)
			wantDump(t, "after the sync, 50 %", clone(t, f, 50, 1), c.survived...)
			wantDump(t, "the original", f, c.survived...)
		})
	}
}

// TestCloneRenameKeepsAName: with partial survival a renamed directory has its old name, its new one or both.
func TestCloneRenameKeepsAName(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(60) {
		f := newFS(faultfs.Plan{})
		must(t, f.MkdirAll("/a/d", 0o755))
		must(t, f.MkdirAll("/b", 0o755))
		write(t, f, "/a/d/f", "x", true)
		syncDir(t, f, "/a/d")
		syncDir(t, f, "/a")
		syncDir(t, f, "/")
		must(t, f.Rename("/a/d", "/b/e"))
		c := clone(t, f, 50, seed)
		_, oldErr := c.Stat("/a/d")
		_, newErr := c.Stat("/b/e")
		switch {
		case oldErr != nil && newErr != nil:
			t.Fatalf("seed %d: the directory has no name: %q", seed, dump(t, c))
		case oldErr != nil:
			seen["new"] = true
		case newErr != nil:
			seen["old"] = true
		default:
			seen["both"] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("saw only %v", seen)
	}
}

// TestPebbleForgetsRemovals records why CrashClone does not rely on pebble's alone. If it fails, pebble has
// learned it and clone.go can lose half its code.
// What was removed from a directory says nothing about another one that gets its name.
func TestCloneOfADirectoryInAnothersPlace(t *testing.T) {
	fs := newFS(faultfs.Plan{})
	for _, dir := range []string{"/a", "/c"} {
		must(t, fs.MkdirAll(dir, 0o755))
		write(t, fs, dir+"/x", "of "+dir, true)
		syncDir(t, fs, dir)
	}
	syncDir(t, fs, "/")
	must(t, fs.Remove("/a/x"))
	must(t, fs.Rename("/a", "/b"))
	syncDir(t, fs, "/")
	must(t, fs.Rename("/c", "/a"))
	syncDir(t, fs, "/")
	clone, err := fs.CrashClone(faultfs.CloneConfig{UnsyncedPercent: 100})
	must(t, err)
	wantDump(t, "everything survives", clone, "/a/", "/a/x=of /c", "/b/")
}

func TestPebbleForgetsRemovals(t *testing.T) {
	mem := vfs.NewCrashableMem()
	write(t, mem, "/f", "x", true)
	syncDir(t, mem, "/")
	must(t, mem.Remove("/f"))
	c := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	wantDump(t, "everything spared", c, "/f=x")
}

// TestCloneDuringCalls takes clones while others link and remove. A clone that could deadlock with Link, as
// pebble's own does, would hang here.
func TestCloneDuringCalls(t *testing.T) {
	f := newFS(faultfs.Plan{})
	write(t, f, "/f", "x", true)
	syncDir(t, f, "/")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		name := string(rune('a' + i))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := errors.Join(f.Link("/f", "/"+name), f.Remove("/"+name)); err != nil {
					t.Errorf("link and remove %s: %v", name, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seed := range uint64(200) {
			c, err := f.CrashClone(faultfs.CloneConfig{
				UnsyncedPercent: 50, Rand: rand.New(rand.NewPCG(seed, 2)),
			})
			if err != nil {
				t.Errorf("clone: %v", err)
				return
			}
			if _, err := c.Stat("/f"); err != nil {
				t.Errorf("clone %d lost the synced file: %v", seed, err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("clone and link wait for each other")
	}
	close(stop)
	wg.Wait()
}

func TestCloneUnsupported(t *testing.T) {
	_, err := faultfs.New(vfs.Default, faultfs.Plan{}).CrashClone(faultfs.CloneConfig{})
	if !errors.Is(err, errs.ErrUnsupported) {
		t.Errorf("got %v, want %v", err, errs.ErrUnsupported)
	}
}

func TestDiskPassThrough(t *testing.T) {
	f := faultfs.New(vfs.Default, faultfs.Plan{})
	dir := t.TempDir()
	must(t, f.MkdirAll(f.PathJoin(dir, "a", "b"), 0o755))
	write(t, f, f.PathJoin(dir, "a", "b", "f"), "x", true)
	before := f.Count()
	must(t, f.RemoveAll(f.PathJoin(dir, "a")))
	if n := f.Count() - before; n != 1 {
		t.Errorf("RemoveAll on a disk is %d calls, want 1", n)
	}
	if _, err := f.Stat(f.PathJoin(dir, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}
