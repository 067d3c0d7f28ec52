package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lancesql/internal/clock"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func TestOpenLocalRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"", file, file + "/below", file + "/below/that"} {
		if _, err := objstore.OpenLocal(vfs.Default, root); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("root %q: got %v", root, err)
		}
	}
	// Opening twice is fine, and finds what is there.
	first := openLocal(t, vfs.Default, filepath.Join(dir, "new", "root"))
	if err := first.PutIfAbsent(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	second, err := objstore.OpenDisk(filepath.Join(dir, "new", "root"))
	if err != nil {
		t.Fatal(err)
	}
	wantRead(t, second, "a/b", "x")
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "new", "root", "a", "b")); err != nil || string(got) != "x" {
		t.Errorf("on disk: %q, %v", got, err)
	}
}

// TestForeignEntries: what others put into the root is neither followed out of it nor a hindrance.
func TestForeignEntries(t *testing.T) {
	ctx := t.Context()
	base := t.TempDir()
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	st := openLocal(t, vfs.Default, root)
	if err := st.PutIfAbsent(ctx, "d/object", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.MkdirAll(filepath.Join(outside, "sub"), 0o755),
		os.WriteFile(filepath.Join(outside, "precious"), []byte("precious"), 0o644),
		os.Symlink(outside, filepath.Join(root, "d", "link")),
		os.Symlink(filepath.Join(base, "nowhere"), filepath.Join(root, "d", "dangling")),
		os.Symlink("loop", filepath.Join(root, "d", "loop")),
		syscall.Mkfifo(filepath.Join(root, "d", "pipe"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := st.List(ctx, "d", func(info objstore.Info) error {
		names = append(names, info.Name)
		return nil
	}); err != nil {
		t.Error(err)
	}
	if want := []string{"d/link", "d/object"}; !slices.Equal(names, want) {
		t.Errorf("List: got %q, want %q", names, want)
	}
	if _, err := st.ReadAll(ctx, "d/pipe", 10); !errors.Is(err, errs.ErrNotFound) {
		t.Errorf("reading a pipe: %v", err) // and not: waiting for its writer
	}
	if err := st.RemoveAll(ctx, "d"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(outside, "precious")); err != nil || string(got) != "precious" {
		t.Errorf("RemoveAll followed a link: %q, %v", got, err)
	}
}

// TestVanishedDirectory: another program may remove an empty directory that the store has used.
func TestVanishedDirectory(t *testing.T) {
	ctx := t.Context()
	root := t.TempDir()
	st := openLocal(t, vfs.Default, root)
	for range 3 {
		if err := st.PutIfAbsent(ctx, "a/b/c", []byte("x")); err != nil {
			t.Fatal(err)
		}
		wantRead(t, st, "a/b/c", "x")
		if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Stat(ctx, "a/b/c"); !errors.Is(err, errs.ErrNotFound) {
			t.Errorf("Stat: %v", err)
		}
	}
	w, err := st.Create(ctx, "a/b/c")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(ctx); !errors.Is(err, errs.ErrNotFound) {
		t.Errorf("commit without its directory: %v", err)
	}
}

func TestSweepTemp(t *testing.T) {
	ctx := t.Context()
	root := t.TempDir()
	dead := openLocal(t, vfs.Default, root)
	for i := range 3 {
		if _, err := dead.Create(ctx, fmt.Sprintf("d/%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	keep := []string{
		".tmp", ".tmpAbC123", ".tmp" + strings.Repeat("0", 31), ".tmp" + strings.Repeat("0", 33),
		".tmp" + strings.Repeat("F", 32), ".tmp" + strings.Repeat("g", 32), strings.Repeat("0", 32), "x.tmp",
	}
	for _, name := range keep {
		if err := os.WriteFile(filepath.Join(root, "d", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	directory := ".tmp" + strings.Repeat("1", 32)
	if err := os.MkdirAll(filepath.Join(root, "d", directory), 0o755); err != nil {
		t.Fatal(err)
	}
	st := openLocal(t, vfs.Default, root)
	living, err := st.Create(ctx, "d/living")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := st.SweepTemp(ctx, ""); n != 0 || err != nil {
		t.Errorf("root: swept %d, %v", n, err)
	}
	if n, err := st.SweepTemp(ctx, "missing"); n != 0 || err != nil {
		t.Errorf("missing: swept %d, %v", n, err)
	}
	if n, err := st.SweepTemp(ctx, "../d"); n != 0 || !errors.Is(err, errs.ErrInvalid) {
		t.Errorf("outside: swept %d, %v", n, err)
	}
	if n, err := st.SweepTemp(ctx, "d"); n != 3 || err != nil {
		t.Errorf("swept %d, %v; want 3", n, err)
	}
	for _, name := range append(keep, directory) {
		if _, err := os.Lstat(filepath.Join(root, "d", name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := living.Commit(ctx); err != nil {
		t.Errorf("the temporary of the living store was taken: %v", err)
	}
}

func TestMemClock(t *testing.T) {
	ctx := t.Context()
	c := clock.NewManual(time.Unix(1000, 0))
	st := objstore.NewMemClock(c)
	if err := st.PutIfAbsent(ctx, "x", nil); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Hour)
	if err := st.Put(ctx, "y", nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"x": 1000, "y": 4600} {
		if info, err := st.Stat(ctx, name); err != nil || info.ModTime.Unix() != want {
			t.Errorf("%s: got %v, %v", name, info.ModTime, err)
		}
	}
}

func ExampleLocal() {
	fs := vfs.NewMem() // vfs.Default in production
	st, err := objstore.OpenLocal(fs, "/data")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	ctx, name := context.Background(), "shop/orders.lance/_versions/1.manifest"
	fmt.Println(st.PutIfAbsent(ctx, name, []byte("first")))
	fmt.Println(errors.Is(st.PutIfAbsent(ctx, name, []byte("second")), errs.ErrExists))
	data, err := st.ReadAll(ctx, name, 1<<10)
	fmt.Println(string(data), err)
	// Output:
	// <nil>
	// true
	// first <nil>
}

func BenchmarkPutIfAbsent(b *testing.B) {
	for name, open := range map[string]func() (objstore.Store, error){
		"Mem":        func() (objstore.Store, error) { return objstore.NewMem(), nil },
		"LocalMemFS": func() (objstore.Store, error) { return objstore.OpenLocal(vfs.NewMem(), "/root") },
		"LocalDisk":  func() (objstore.Store, error) { return objstore.OpenLocal(vfs.Default, b.TempDir()) },
	} {
		b.Run(name, func(b *testing.B) {
			st, err := open()
			if err != nil {
				b.Fatal(err)
			}
			data := make([]byte, 4096)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := st.PutIfAbsent(b.Context(), fmt.Sprintf("d/%d", i), data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadAt(b *testing.B) {
	for name, open := range map[string]func() (objstore.Store, error){
		"Mem":       func() (objstore.Store, error) { return objstore.NewMem(), nil },
		"LocalDisk": func() (objstore.Store, error) { return objstore.OpenLocal(vfs.Default, b.TempDir()) },
	} {
		b.Run(name, func(b *testing.B) {
			st, err := open()
			if err != nil {
				b.Fatal(err)
			}
			if err := st.PutIfAbsent(b.Context(), "d/x", make([]byte, 1<<20)); err != nil {
				b.Fatal(err)
			}
			p := make([]byte, 4096)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := st.ReadAt(b.Context(), "d/x", p, int64(i%200)*4096); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
