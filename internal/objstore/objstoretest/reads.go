package objstoretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func testReadRanges(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	const content = "0123456789"
	put(t, st, "r", content)
	for off := range len(content) + 1 {
		for end := off; end <= len(content); end++ {
			p := make([]byte, end-off)
			if err := st.ReadAt(ctx, "r", p, int64(off)); err != nil || string(p) != content[off:end] {
				t.Errorf("ReadAt [%d,%d): got %q, %v", off, end, p, err)
			}
		}
	}
	for _, c := range []struct {
		n   int
		off int64
		err error
	}{
		{11, 0, io.ErrUnexpectedEOF},
		{1, 10, io.ErrUnexpectedEOF},
		{0, 11, io.ErrUnexpectedEOF},
		{2, 9, io.ErrUnexpectedEOF},
		{1, 1 << 62, io.ErrUnexpectedEOF},
		{1, -1, errs.ErrInvalid},
		{0, -1, errs.ErrInvalid},
	} {
		err := st.ReadAt(ctx, "r", make([]byte, c.n), c.off)
		want(t, fmt.Sprintf("ReadAt of %d bytes at %d", c.n, c.off), err, c.err)
	}
	put(t, st, "empty", "")
	must(t, st.ReadAt(ctx, "empty", nil, 0))
	want(t, "read of an empty object", st.ReadAt(ctx, "empty", make([]byte, 1), 0), io.ErrUnexpectedEOF)
}

func testReadAllLimit(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "ten", "0123456789")
	put(t, st, "none", "")
	for limit, ok := range map[int64]bool{-1: false, 0: false, 9: false, 10: true, 11: true} {
		data, err := st.ReadAll(ctx, "ten", limit)
		if ok {
			if err != nil || len(data) != 10 {
				t.Errorf("limit %d: got %d bytes, %v", limit, len(data), err)
			}
			continue
		}
		want(t, fmt.Sprintf("limit %d", limit), err, errs.ErrLimit)
	}
	data, err := st.ReadAll(ctx, "none", 0)
	if err != nil || data == nil || len(data) != 0 {
		t.Errorf("empty object: got %v, %v", data, err)
	}
}

// testReadAfterReplacement makes names mean new objects in every way there is, with readers that have seen
// the old ones.
func testReadAfterReplacement(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "d/x", "deleted")
	wantContent(t, st, "d/x", "deleted")
	must(t, st.Delete(ctx, "d/x"))
	wantAbsent(t, st, "d/x")
	put(t, st, "d/x", "put again")
	wantContent(t, st, "d/x", "put again")

	must(t, st.RemoveAll(ctx, "d"))
	wantAbsent(t, st, "d/x")
	put(t, st, "d/x", "third life")
	wantContent(t, st, "d/x", "third life")

	must(t, st.Rename(ctx, "d", "e"))
	wantAbsent(t, st, "d/x")
	wantContent(t, st, "e/x", "third life")
	put(t, st, "d/x", "fourth life")
	wantContent(t, st, "d/x", "fourth life")
	wantContent(t, st, "e/x", "third life")

	must(t, st.Put(ctx, "d/x", []byte("overwritten")))
	wantContent(t, st, "d/x", "overwritten")

	must(t, st.RemoveAll(ctx, "e"))
	must(t, st.Rename(ctx, "d", "e"))
	wantContent(t, st, "e/x", "overwritten")
}

func testStat(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "a/b/c", "four")
	info, err := st.Stat(ctx, "a/b/c")
	must(t, err)
	if info.Name != "a/b/c" || info.Size != 4 || info.Dir || info.ModTime.IsZero() {
		t.Errorf("got %+v", info)
	}
	var listed objstore.Info
	must(t, st.List(ctx, "a/b", func(i objstore.Info) error { listed = i; return nil }))
	if listed.Name != info.Name || listed.Size != info.Size || !listed.ModTime.Equal(info.ModTime) {
		t.Errorf("List gives %+v, Stat %+v", listed, info)
	}
	wantAbsent(t, st, "a/b")     // directories are no objects
	wantAbsent(t, st, "a/b/c/d") // nor is anything below an object
	wantAbsent(t, st, "a/b/c/d/e/f")
}

func testList(t *testing.T, st objstore.Store) {
	wantChildren(t, st, "")
	for _, name := range []string{"t/b", "t/a", "t/a-b", "t/ab/x", "t/B", "t/a.b/y", "t/10", "t/9", "u/z"} {
		put(t, st, name)
	}
	wantChildren(t, st, "", "t/", "u/")
	wantChildren(t, st, "t", "t/10", "t/9", "t/B", "t/a", "t/a-b", "t/a.b/", "t/ab/", "t/b")
	wantChildren(t, st, "t/ab", "t/ab/x")
	wantChildren(t, st, "missing")
	wantChildren(t, st, "missing/too")
	wantChildren(t, st, "u/z")   // an object has no children
	wantChildren(t, st, "u/z/q") // nor has what lies below one
	// Objects in flight are not seen.
	w, err := st.Create(t.Context(), "u/flying")
	must(t, err)
	_, err = w.Write(make([]byte, 1<<20))
	must(t, err)
	wantChildren(t, st, "u", "u/z")
	must(t, w.Commit(t.Context()))
	wantChildren(t, st, "u", "u/flying", "u/z")
	must(t, st.List(t.Context(), "", func(info objstore.Info) error {
		if !info.Dir || info.Size != 0 {
			t.Errorf("directory visited as %+v", info)
		}
		return nil
	}))
}

func testListStops(t *testing.T, st objstore.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, name := range []string{"1", "2", "3"} {
		put(t, st, name)
	}
	stop := errors.New("enough")
	visits := 0
	err := st.List(ctx, "", func(objstore.Info) error {
		if visits++; visits == 2 {
			return stop
		}
		return nil
	})
	if err != stop || visits != 2 {
		t.Errorf("got %v after %d visits, want the visitor's error after 2", err, visits)
	}
	visits = 0
	err = st.List(ctx, "", func(objstore.Info) error { visits++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || visits != 1 {
		t.Errorf("cancelled: got %v after %d visits", err, visits)
	}
}

// testListCallsBack lets a visitor use the store, as clean-up does.
func testListCallsBack(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	for i := range 20 {
		put(t, st, fmt.Sprintf("d/%02d", i))
	}
	must(t, st.List(ctx, "d", func(info objstore.Info) error {
		if err := st.PutIfAbsent(ctx, "e/"+strings.TrimPrefix(info.Name, "d/"), nil); err != nil {
			return err
		}
		return st.Delete(ctx, info.Name)
	}))
	wantChildren(t, st, "d")
	if n := len(children(t, st, "e")); n != 20 {
		t.Errorf("%d objects copied, want 20", n)
	}
}

func testWalk(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	names := []string{"a/1", "a/b/2", "a/b/c/d/3", "a/z", "top"}
	for _, name := range names {
		put(t, st, name)
	}
	must(t, st.MakeDir(ctx, "a/emptydir"))
	walk := func(dir string) []string {
		var got []string
		must(t, objstore.Walk(ctx, st, dir, func(info objstore.Info) error {
			got = append(got, info.Name)
			return nil
		}))
		return got
	}
	if got := walk(""); !slices.Equal(got, names) {
		t.Errorf("Walk of the root: got %q, want %q", got, names)
	}
	if got := walk("a/b"); !slices.Equal(got, []string{"a/b/2", "a/b/c/d/3"}) {
		t.Errorf("Walk of a/b: got %q", got)
	}
	if got := walk("missing"); got != nil {
		t.Errorf("Walk of a missing directory: got %q", got)
	}
	stop := errors.New("enough")
	visits := 0
	err := objstore.Walk(ctx, st, "", func(objstore.Info) error {
		if visits++; visits == 3 {
			return stop
		}
		return nil
	})
	if err != stop || visits != 3 {
		t.Errorf("got %v after %d visits, want the visitor's error after 3", err, visits)
	}
}
