package objstoretest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

func testDelete(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "d/1")
	put(t, st, "d/2")
	must(t, st.Delete(ctx, "d/1"))
	must(t, st.Delete(ctx, "d/1"))
	must(t, st.Delete(ctx, "no/such/object"))
	must(t, st.Delete(ctx, "d/2/below"))
	wantAbsent(t, st, "d/1")
	wantContent(t, st, "d/2", "d/2")
	// Directories, empty or not, are not objects.
	must(t, st.MakeDir(ctx, "d/empty"))
	must(t, st.Delete(ctx, "d"))
	must(t, st.Delete(ctx, "d/empty"))
	wantChildren(t, st, "d", "d/2", "d/empty/")
	// The last object gone, its directory may stay; it can be written again either way.
	must(t, st.Delete(ctx, "d/2"))
	put(t, st, "d/2", "again")
	wantContent(t, st, "d/2", "again")
}

func testRemoveAll(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	for _, name := range []string{"a/1", "a/b/2", "a/b/c/3", "ab/4", "a.b/5"} {
		put(t, st, name)
	}
	must(t, st.MakeDir(ctx, "a/d/e"))
	must(t, st.RemoveAll(ctx, "a"))
	wantChildren(t, st, "", "a.b/", "ab/")
	wantAbsent(t, st, "a/1")
	wantAbsent(t, st, "a/b/c/3")
	wantContent(t, st, "ab/4", "ab/4")
	must(t, st.RemoveAll(ctx, "a"))
	must(t, st.RemoveAll(ctx, "missing/and/below"))
	must(t, st.RemoveAll(ctx, "ab/4/below"))
	wantContent(t, st, "ab/4", "ab/4")
	must(t, st.RemoveAll(ctx, "ab/4")) // a single object
	wantAbsent(t, st, "ab/4")
	put(t, st, "a/b/2", "new")
	wantContent(t, st, "a/b/2", "new")
	wantChildren(t, st, "a", "a/b/")
	want(t, "RemoveAll of the root", st.RemoveAll(ctx, ""), errs.ErrInvalid)
}

func testRenameDirectory(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "db/t.lance/data/1", "one")
	put(t, st, "db/t.lance/2", "two")
	put(t, st, "db/t.lance2/3", "three")
	wantContent(t, st, "db/t.lance/data/1", "one")
	must(t, st.Rename(ctx, "db/t.lance", "db/u.lance"))
	wantAbsent(t, st, "db/t.lance/data/1")
	wantContent(t, st, "db/u.lance/data/1", "one")
	wantContent(t, st, "db/u.lance/2", "two")
	wantContent(t, st, "db/t.lance2/3", "three")
	wantChildren(t, st, "db", "db/t.lance2/", "db/u.lance/")
	// Into a directory that does not exist yet.
	must(t, st.Rename(ctx, "db/u.lance", ".dropped/deep/uuid"))
	wantContent(t, st, ".dropped/deep/uuid/data/1", "one")
	wantChildren(t, st, "db", "db/t.lance2/")
	// The old name can be used anew, and the moved directory goes on.
	put(t, st, "db/u.lance/data/1", "other")
	put(t, st, ".dropped/deep/uuid/data/4", "four")
	wantContent(t, st, "db/u.lance/data/1", "other")
	wantContent(t, st, ".dropped/deep/uuid/data/1", "one")
	wantContent(t, st, ".dropped/deep/uuid/data/4", "four")
	// An empty directory moves as well.
	must(t, st.MakeDir(ctx, "void"))
	must(t, st.Rename(ctx, "void", "void2"))
	wantChildren(t, st, "void2")
	wantChildren(t, st, "", ".dropped/", "db/", "void2/")
}

func testRenameObject(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "a/1", "one")
	put(t, st, "a/2", "two")
	must(t, st.Rename(ctx, "a/1", "b/c/1"))
	wantAbsent(t, st, "a/1")
	wantContent(t, st, "b/c/1", "one")
	must(t, st.Rename(ctx, "b/c/1", "b/c/3"))
	wantChildren(t, st, "b/c", "b/c/3")
	want(t, "rename over an object", st.Rename(ctx, "a/2", "b/c/3"), errs.ErrExists)
	wantContent(t, st, "b/c/3", "one")
	wantContent(t, st, "a/2", "two")
}

func testRenameRefused(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "a/b/1", "one")
	put(t, st, "c/2", "two")
	must(t, st.MakeDir(ctx, "empty"))
	for _, c := range []struct {
		from, to string
		err      error
	}{
		{"missing", "x", errs.ErrNotFound},
		{"a/missing", "x", errs.ErrNotFound},
		{"c/2/below", "x", errs.ErrNotFound},
		{"a", "c", errs.ErrExists},
		{"a", "empty", errs.ErrExists},
		{"a", "c/2", errs.ErrExists},
		{"c/2", "a", errs.ErrExists},
		{"c/2", "empty", errs.ErrExists},
		{"a", "a", errs.ErrExists},
		{"a/b", "a", errs.ErrExists},
		{"a/b/1", "a/b/1", errs.ErrExists},
		{"a", "a/b/c", errs.ErrInvalid},
		{"a", "a/x", errs.ErrInvalid},
		{"a", "c/2/x", errs.ErrInvalid},
		{"a/b/1", "c/2/x", errs.ErrInvalid},
		{"", "x", errs.ErrInvalid},
		{"a", "", errs.ErrInvalid},
		{"a", "../x", errs.ErrInvalid},
	} {
		want(t, "rename "+c.from+" to "+c.to, st.Rename(ctx, c.from, c.to), c.err)
	}
	wantContent(t, st, "a/b/1", "one")
	wantContent(t, st, "c/2", "two")
	wantChildren(t, st, "", "a/", "c/", "empty/")
}

func testMakeDir(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	must(t, st.MakeDir(ctx, "a/b/c"))
	must(t, st.MakeDir(ctx, "a/b/c"))
	must(t, st.MakeDir(ctx, "a"))
	for _, dir := range []string{"", "a", "a/b/c", "none", "none/below"} {
		must(t, st.SyncDir(ctx, dir))
	}
	want(t, "sync a bad name", st.SyncDir(ctx, "a//b"), errs.ErrInvalid)
	wantChildren(t, st, "a/b", "a/b/c/")
	wantChildren(t, st, "a/b/c")
	put(t, st, "a/b/c/x")
	wantChildren(t, st, "a/b/c", "a/b/c/x")
	want(t, "put where a directory is", st.PutIfAbsent(ctx, "a/b", nil), errs.ErrExists)
	wantContent(t, st, "a/b/c/x", "a/b/c/x")
}

// testObjectInTheWay checks that an object is never turned into a directory or hidden by one.
func testObjectInTheWay(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "a/object", "here")
	want(t, "directory over an object", st.MakeDir(ctx, "a/object"), errs.ErrInvalid)
	want(t, "directory below an object", st.MakeDir(ctx, "a/object/b"), errs.ErrInvalid)
	want(t, "put below an object", st.PutIfAbsent(ctx, "a/object/b", nil), errs.ErrInvalid)
	want(t, "put deep below an object", st.PutIfAbsent(ctx, "a/object/b/c/d", nil), errs.ErrInvalid)
	want(t, "hint below an object", st.Put(ctx, "a/object/b", nil), errs.ErrInvalid)
	_, err := st.Create(ctx, "a/object/b")
	want(t, "create below an object", err, errs.ErrInvalid)
	wantContent(t, st, "a/object", "here")
	wantChildren(t, st, "a", "a/object")
}

// badNames returns names that every method refuses.
func badNames() []string {
	return []string{
		"", ".", "..", "/", "/a", "a/", "a//b", "a/./b", "./a", "a/.", "../a", "a/..", "a/../b", "a/b/../../../c", "//",
		"nul\x00byte", "a/\x00", ".tmp", ".tmpfile", "a/.tmp0/b", strings.Repeat("s", 256), "a/" + strings.Repeat("s", 256),
		strings.Repeat("deep/", 300) + "x",
	}
}

func testBadNames(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	put(t, st, "good")
	for _, name := range badNames() {
		_, createErr := st.Create(ctx, name)
		_, readErr := st.ReadAll(ctx, name, 10)
		_, statErr := st.Stat(ctx, name)
		for what, err := range map[string]error{
			"PutIfAbsent": st.PutIfAbsent(ctx, name, nil),
			"Put":         st.Put(ctx, name, nil),
			"Create":      createErr,
			"ReadAt":      st.ReadAt(ctx, name, nil, 0),
			"ReadAll":     readErr,
			"Stat":        statErr,
			"Delete":      st.Delete(ctx, name),
			"RemoveAll":   st.RemoveAll(ctx, name),
			"Rename":      st.Rename(ctx, "good", name),
			"Rename from": st.Rename(ctx, name, "better"),
			"MakeDir":     st.MakeDir(ctx, name),
		} {
			if !errors.Is(err, errs.ErrInvalid) {
				t.Errorf("%s of %q: got %v, want %v", what, name, err, errs.ErrInvalid)
			}
		}
		if name != "" {
			err := st.List(ctx, name, func(objstore.Info) error { return nil })
			want(t, "List of "+name, err, errs.ErrInvalid)
		}
	}
	wantChildren(t, st, "", "good")
}

// testOddNames uses names that look bad and are not.
func testOddNames(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	for _, name := range []string{
		`back\slash`, `..\up`, "...", "..a", "a..", ".hidden", " ", "new\nline", "tab\t/x", "\xff\xfe", "ünïcödé", "a:b", "*?",
		"%2e%2e", "~", "-rf", "a.tmp", "tmp", strings.Repeat("s", 255), "d/" + strings.Repeat("é", 127) + "/x",
	} {
		must(t, st.PutIfAbsent(ctx, name, []byte(name)))
		wantContent(t, st, name, name)
		found := false
		must(t, objstore.Walk(ctx, st, "", func(info objstore.Info) error {
			found = found || info.Name == name
			return nil
		}))
		if !found {
			t.Errorf("Walk does not visit %q", name)
		}
		must(t, st.Delete(ctx, name))
		wantAbsent(t, st, name)
	}
}

func testCancelled(t *testing.T, st objstore.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	put(t, st, "d/x", "content")
	w, err := st.Create(ctx, "d/late")
	must(t, err)
	_, err = w.Write([]byte("content"))
	must(t, err)
	cancel()
	want(t, "Commit", w.Commit(ctx), context.Canceled)
	must(t, w.Abort())
	_, createErr := st.Create(ctx, "d/new")
	_, readErr := st.ReadAll(ctx, "d/x", 10)
	_, statErr := st.Stat(ctx, "d/x")
	for what, err := range map[string]error{
		"PutIfAbsent": st.PutIfAbsent(ctx, "d/new", nil),
		"Put":         st.Put(ctx, "d/new", nil),
		"Create":      createErr,
		"ReadAt":      st.ReadAt(ctx, "d/x", nil, 0),
		"ReadAll":     readErr,
		"Stat":        statErr,
		"List":        st.List(ctx, "d", func(objstore.Info) error { return nil }),
		"Delete":      st.Delete(ctx, "d/x"),
		"RemoveAll":   st.RemoveAll(ctx, "d"),
		"Rename":      st.Rename(ctx, "d", "e"),
		"MakeDir":     st.MakeDir(ctx, "d/new"),
	} {
		want(t, what, err, context.Canceled)
	}
	wantContent(t, st, "d/x", "content")
	wantChildren(t, st, "", "d/")
	wantChildren(t, st, "d", "d/x")
}
