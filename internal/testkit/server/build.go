package server

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lancesql/internal/testkit/oracle"
)

// built is the state of the one build of a test binary.
type built struct {
	once sync.Once
	path string
	log  string
	err  error
}

var binary = &built{}

// EnvBinary names a ready binary to test instead of one built here: an older release, or a script that starts another
// MySQL server with the same arguments, to check the tests themselves.
const EnvBinary = "LANCESQL_BINARY"

// Binary builds cmd/lancesql, once per test binary, and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(EnvBinary); p != "" {
		return p
	}
	root := oracle.Root(t)
	touch(t, root)
	binary.once.Do(func() {
		dir, err := os.MkdirTemp("", "lancesql-bin-")
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "lancesql")
		cmd := exec.Command("go", "build", "-tags", "gms_pure_go", "-o", binary.path, "./cmd/lancesql")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		binary.log, binary.err = string(out), err
	})
	if binary.err != nil {
		t.Fatalf("build cmd/lancesql: %v\n%s", binary.err, binary.log)
	}
	return binary.path
}

// Cleanup removes the built binary; TestMain calls it after the tests.
func Cleanup() {
	if binary.path != "" {
		_ = os.RemoveAll(filepath.Dir(binary.path))
	}
}

// touch asks for the state of every source file, so that the go tool's test cache knows that the result depends on it (I3).
func touch(t testing.TB, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != root && (strings.HasPrefix(name, ".") || name == "data" || name == "bin" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go") || d.Name() == "go.mod" || d.Name() == "go.sum" {
			_, err = os.Stat(p)
		}
		return err
	})
	if err != nil {
		t.Fatalf("read the source tree: %v", err)
	}
}
