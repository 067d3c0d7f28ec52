package lint_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoReplace: the module graph is what go.mod says, for everyone who builds it.
func TestNoReplace(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	require.NoError(t, err)
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") || strings.Contains(line, "=>") {
			t.Errorf("go.mod:%d: replace directive", i+1)
		}
	}
}

// TestTestdataIsUsed: each entry of a testdata folder is named by some Go file or script; what nothing reads is deleted.
func TestTestdataIsUsed(t *testing.T) {
	top := root(t)
	readers := map[string][]byte{}
	entries := map[string]bool{} // testdata folder + first name below it
	for _, name := range files(t) {
		if i := strings.Index("/"+name, "/testdata/"); i >= 0 {
			folder := name[:i] + "testdata"
			if i > 0 {
				folder = name[:i-1] + "/testdata"
			}
			first, _, _ := strings.Cut(strings.TrimPrefix(name, folder+"/"), "/")
			entries[folder+"/"+first] = true
		}
		switch path.Ext(name) {
		case ".go", ".sh", ".py", ".mjs":
			text, err := os.ReadFile(filepath.Join(top, name))
			require.NoError(t, err)
			readers[name] = text
		}
	}
	for entry := range entries {
		owner := strings.TrimSuffix(path.Dir(entry), "testdata")
		base := path.Base(entry)
		stem, _, _ := strings.Cut(base, ".")
		found := false
		for name, text := range readers {
			inside := owner == "" || strings.HasPrefix(name, owner)
			if !inside || name == entry || strings.HasPrefix(name, entry+"/") {
				continue
			}
			if base == "fuzz" && bytes.Contains(text, []byte("*testing.F)")) { // the go tool reads it
				found = true
				break
			}
			if bytes.Contains(text, []byte(base)) || bytes.Contains(text, []byte("testdata/*")) ||
				(path.Ext(base) != "" && bytes.Contains(text, []byte("testdata/*"+path.Ext(base)))) || bytes.Contains(text, []byte(`"`+stem+`"`)) {
				found = true
				break
			}
		}
		if !found {
			t.Errorf("%s is read by nothing", entry)
		}
	}
}

// TestNoMachineText: committed text carries no path, host or mark of the machine it was written on.
func TestNoMachineText(t *testing.T) {
	top := root(t)
	slash := "/"
	// The patterns are put together so that this file does not match itself.
	bad := regexp.MustCompile(slash + `(work|farm)` + slash + `[a-z0-9_.]|` + slash + `home` + slash + `[a-z]+` + slash + `|` + slash + `root` + slash + `\.[a-z]{3}|` + slash + `tmp` + slash + `(pre|warm)|` +
		`prox[y]\.golang|registr[y]\.npm|pyp[i]\.org|\.librar[y]` + slash)
	for _, name := range files(t) {
		if name == "go.sum" || name == "LICENSE" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		require.NoError(t, err)
		if bytes.IndexByte(text, 0) >= 0 {
			continue // binary golden
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if m := bad.Find(line); m != nil {
				t.Errorf("%s:%d: machine path or host %q", name, i+1, m)
			}
		}
	}
}

// TestRepositoryFiles: what a newcomer and CI rely on is there.
func TestRepositoryFiles(t *testing.T) {
	for _, name := range []string{"README.md", "LICENSE", "CHANGELOG.md", "Makefile", ".ci/run", "docs/glossary.md", "docs/plan.md", "docs/testing.md", "docs/benchmarks.md"} {
		_, err := os.Stat(filepath.Join(root(t), name))
		require.NoError(t, err)
	}
}

// TestMarks: unfinished marks carry an issue number.
func TestMarks(t *testing.T) {
	mark := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	numbered := regexp.MustCompile(`\b(TODO|FIXME)\(#[0-9]+\)`)
	for _, f := range goFiles(t) {
		if under(f.path, "internal/lint") || f.isGenerated() {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if mark.MatchString(c.Text) && !numbered.MatchString(c.Text) {
					t.Errorf("%s:%d: %s without an issue number", f.path, f.line(c.Pos()), mark.FindString(c.Text))
				}
			}
		}
	}
}
