package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// Run runs the suite. open returns an empty store and arranges for its end itself, with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, objstore.Store)
	}{
		{"PutIfAbsent", testPutIfAbsent},
		{"PutKeepsItsOwnCopy", testPutKeepsItsOwnCopy},
		{"PutHint", testPutHint},
		{"PutRace", testPutRace},
		{"CreateRace", testCreateRace},
		{"CreateCommit", testCreateCommit},
		{"CreateAbort", testCreateAbort},
		{"CreateTaken", testCreateTaken},
		{"CreateLarge", testCreateLarge},
		{"ReadRanges", testReadRanges},
		{"ReadAllLimit", testReadAllLimit},
		{"ReadAfterReplacement", testReadAfterReplacement},
		{"Stat", testStat},
		{"List", testList},
		{"ListStops", testListStops},
		{"ListCallsBack", testListCallsBack},
		{"Walk", testWalk},
		{"Delete", testDelete},
		{"RemoveAll", testRemoveAll},
		{"RenameDirectory", testRenameDirectory},
		{"RenameObject", testRenameObject},
		{"RenameRefused", testRenameRefused},
		{"RenameRace", testRenameRace},
		{"RenameUnderReaders", testRenameUnderReaders},
		{"MakeDir", testMakeDir},
		{"ObjectInTheWay", testObjectInTheWay},
		{"BadNames", testBadNames},
		{"OddNames", testOddNames},
		{"Cancelled", testCancelled},
		{"ConcurrentMix", testConcurrentMix},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// must stops the test if a step that has to work does not.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks that an error matches a sentinel.
func want(t *testing.T, what string, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("%s: got error %v, want %v", what, err, sentinel)
	}
}

// put creates an object whose content is its own name, unless content is given.
func put(t *testing.T, st objstore.Store, name string, content ...string) {
	t.Helper()
	data := name
	if len(content) > 0 {
		data = content[0]
	}
	must(t, st.PutIfAbsent(t.Context(), name, []byte(data)))
}

// wantContent checks an object through all ways of reading.
func wantContent(t *testing.T, st objstore.Store, name, content string) {
	t.Helper()
	ctx := t.Context()
	data, err := st.ReadAll(ctx, name, 1<<30)
	if err != nil || string(data) != content {
		t.Errorf("ReadAll %q: got %s, %v; want %s", name, abbreviate(data), err, abbreviate([]byte(content)))
	}
	p := make([]byte, len(content))
	if err := st.ReadAt(ctx, name, p, 0); err != nil || string(p) != content {
		t.Errorf("ReadAt %q: got %s, %v; want %s", name, abbreviate(p), err, abbreviate([]byte(content)))
	}
	info, err := st.Stat(ctx, name)
	if err != nil || info.Size != int64(len(content)) || info.Name != name || info.Dir {
		t.Errorf("Stat %q: got %+v, %v; want %d bytes", name, info, err, len(content))
	}
}

// wantAbsent checks that there is no object called name.
func wantAbsent(t *testing.T, st objstore.Store, name string) {
	t.Helper()
	ctx := t.Context()
	_, err := st.Stat(ctx, name)
	want(t, "Stat of absent "+name, err, errs.ErrNotFound)
	_, err = st.ReadAll(ctx, name, 1<<20)
	want(t, "ReadAll of absent "+name, err, errs.ErrNotFound)
	want(t, "ReadAt of absent "+name, st.ReadAt(ctx, name, make([]byte, 1), 0), errs.ErrNotFound)
	want(t, "empty ReadAt of absent "+name, st.ReadAt(ctx, name, nil, 0), errs.ErrNotFound)
}

// children returns the names List visits, directories with a slash at the end.
func children(t *testing.T, st objstore.Store, dir string) []string {
	t.Helper()
	names := []string{}
	must(t, st.List(t.Context(), dir, func(info objstore.Info) error {
		if info.Dir {
			info.Name += "/"
		}
		names = append(names, info.Name)
		return nil
	}))
	return names
}

// wantChildren checks what List visits.
func wantChildren(t *testing.T, st objstore.Store, dir string, names ...string) {
	t.Helper()
	if got := children(t, st, dir); !slices.Equal(got, names) {
		t.Errorf("List %q: got %q, want %q", dir, got, names)
	}
}

func abbreviate(b []byte) string {
	if len(b) > 60 {
		return string(b[:60]) + "..."
	}
	return string(b)
}

func testPutIfAbsent(t *testing.T, st objstore.Store) {
	put(t, st, "top")
	put(t, st, "a/b/c", "one")
	put(t, st, "a/b/empty", "")
	wantContent(t, st, "top", "top")
	wantContent(t, st, "a/b/c", "one")
	wantContent(t, st, "a/b/empty", "")
	want(t, "second put", st.PutIfAbsent(t.Context(), "a/b/c", []byte("two")), errs.ErrExists)
	want(t, "same put again", st.PutIfAbsent(t.Context(), "a/b/c", []byte("one")), errs.ErrExists)
	wantContent(t, st, "a/b/c", "one")
	wantChildren(t, st, "a/b", "a/b/c", "a/b/empty")
	wantAbsent(t, st, "a/b/d")
	wantAbsent(t, st, "nowhere/at/all")
}

func testPutKeepsItsOwnCopy(t *testing.T, st objstore.Store) {
	data := []byte("before")
	must(t, st.PutIfAbsent(t.Context(), "copy", data))
	if string(data) != "before" {
		t.Errorf("PutIfAbsent changed its argument to %q", data)
	}
	copy(data, "after!")
	wantContent(t, st, "copy", "before")
	got, err := st.ReadAll(t.Context(), "copy", 100)
	must(t, err)
	copy(got, "beyond")
	wantContent(t, st, "copy", "before")
}

func testPutHint(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	must(t, st.Put(ctx, "d/hint", []byte("first")))
	wantContent(t, st, "d/hint", "first")
	must(t, st.Put(ctx, "d/hint", []byte("second, longer")))
	wantContent(t, st, "d/hint", "second, longer")
	must(t, st.Put(ctx, "d/hint", []byte("3")))
	wantContent(t, st, "d/hint", "3")
	want(t, "put over a hint", st.PutIfAbsent(ctx, "d/hint", nil), errs.ErrExists)
	must(t, st.MakeDir(ctx, "d/sub"))
	want(t, "hint over a directory", st.Put(ctx, "d/sub", nil), errs.ErrInvalid)
	wantChildren(t, st, "d", "d/hint", "d/sub/")
}

func testCreateCommit(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	w, err := st.Create(ctx, "x/y/streamed")
	must(t, err)
	for _, piece := range []string{"one ", "", "two ", "three"} {
		n, err := io.WriteString(w, piece)
		if err != nil || n != len(piece) {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	wantAbsent(t, st, "x/y/streamed")
	wantChildren(t, st, "x/y")
	must(t, w.Commit(ctx))
	wantContent(t, st, "x/y/streamed", "one two three")
	must(t, w.Abort()) // no-op
	wantContent(t, st, "x/y/streamed", "one two three")
	want(t, "second Commit", w.Commit(ctx), errs.ErrClosed)
	_, err = io.WriteString(w, "late")
	want(t, "Write after Commit", err, errs.ErrClosed)

	empty, err := st.Create(ctx, "x/empty")
	must(t, err)
	must(t, empty.Commit(ctx))
	wantContent(t, st, "x/empty", "")
}

func testCreateAbort(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	w, err := st.Create(ctx, "x/gone")
	must(t, err)
	_, err = w.Write(bytes.Repeat([]byte("z"), 300_000))
	must(t, err)
	must(t, w.Abort())
	must(t, w.Abort())
	wantAbsent(t, st, "x/gone")
	want(t, "Commit after Abort", w.Commit(ctx), errs.ErrClosed)
	_, err = io.WriteString(w, "late")
	want(t, "Write after Abort", err, errs.ErrClosed)
	put(t, st, "x/gone", "second try")
	wantContent(t, st, "x/gone", "second try")
}

func testCreateTaken(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	w, err := st.Create(ctx, "x/contended")
	must(t, err)
	_, err = io.WriteString(w, "loser")
	must(t, err)
	put(t, st, "x/contended", "winner")
	want(t, "Commit of a taken name", w.Commit(ctx), errs.ErrExists)
	must(t, w.Abort())
	wantContent(t, st, "x/contended", "winner")
	wantChildren(t, st, "x", "x/contended")
}

func testCreateLarge(t *testing.T, st objstore.Store) {
	ctx := t.Context()
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	w, err := st.Create(ctx, "large")
	must(t, err)
	for rest, step := content, 1; len(rest) > 0; step = step*3 + 1 {
		n := min(step, len(rest))
		_, err := w.Write(rest[:n])
		must(t, err)
		rest = rest[n:]
	}
	must(t, w.Commit(ctx))
	wantContent(t, st, "large", string(content))
	must(t, st.PutIfAbsent(ctx, "large2", content))
	wantContent(t, st, "large2", string(content))
}

// readThrough reads an object in two ways that a store may serve from different caches, and returns the
// content if they agree.
func readThrough(ctx context.Context, st objstore.Store, name string) (string, error) {
	data, err := st.ReadAll(ctx, name, 1<<20)
	if err != nil {
		return "", err
	}
	p := make([]byte, len(data))
	if err := st.ReadAt(ctx, name, p, 0); err != nil {
		return "", err
	}
	if !bytes.Equal(p, data) {
		return "", errors.New("ReadAt and ReadAll of " + name + " disagree")
	}
	return string(data), nil
}
