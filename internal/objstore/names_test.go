package objstore

import (
	"path/filepath"
	"strings"
	"testing"
)

// FuzzNames: a name that passes is below the root, and two names are never one path.
func FuzzNames(f *testing.F) {
	for _, name := range []string{
		"a", "a/b", "", ".", "..", "../x", "a/../..", "a//b", "/a", "a/", `a\..\b`, "a/.tmp1", "a\x00b", "...", "a/./b",
		strings.Repeat("x", 300), strings.Repeat("x/", 600) + "x",
	} {
		f.Add(name, "a/b")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if checkName(a) != nil {
			return
		}
		const root = "/data/root"
		path := filepath.Join(root, a)
		if !strings.HasPrefix(path, root+"/") || strings.TrimPrefix(path, root+"/") != a {
			t.Errorf("%q is at %q", a, path)
		}
		if got := childOf(parentOf(a), baseOf(a)); got != a {
			t.Errorf("%q comes back as %q", a, got)
		}
		if !within(a, a) || within(a+"x", a) || !within(a+"/x", a) {
			t.Errorf("%q is not within itself, or its namesake is, or its child is not", a)
		}
		if checkName(b) == nil && a != b && filepath.Join(root, b) == path {
			t.Errorf("%q and %q are both at %q", a, b, path)
		}
		if base := baseOf(a); hidden(base) {
			t.Errorf("%q would be hidden", a)
		} else if _, ok := tempToken(base); ok {
			t.Errorf("%q would be swept", a)
		}
	})
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		want      bool
	}{
		{"a", "a", true},
		{"a/b", "a", true},
		{"a/b/c", "a", true},
		{"a/b/c", "a/b", true},
		{"ab", "a", false},
		{"a.b/c", "a", false},
		{"a", "a/b", false},
		{"b", "a", false},
	} {
		if got := within(c.name, c.dir); got != c.want {
			t.Errorf("within(%q, %q) = %t", c.name, c.dir, got)
		}
	}
}

func TestDirSet(t *testing.T) {
	var s dirSet
	add := func(dir string) {
		_, stamp := s.has(dir)
		s.add(dir, stamp)
	}
	wantHas := func(dir string, want bool) {
		t.Helper()
		if got, _ := s.has(dir); got != want {
			t.Errorf("has(%q) = %t", dir, got)
		}
	}
	wantHas("", true)
	wantHas("a", false)
	add("a/b/c")
	for _, dir := range []string{"a", "a/b", "a/b/c"} {
		wantHas(dir, true)
	}
	add("a/bb")
	s.drop("a/b")
	wantHas("a/b", false)
	wantHas("a/b/c", false)
	wantHas("a/bb", true)
	wantHas("a", true)
	s.drop("x/y/z") // unknown
	s.drop("a")
	wantHas("a", false)
	wantHas("a/bb", false)
	add("p/q")
	s.drop("")
	wantHas("p", false)
	wantHas("", true)

	// What was dropped while somebody made it durable is not believed.
	_, stamp := s.has("late")
	s.drop("other")
	s.add("late", stamp)
	wantHas("late", false)
}
