package oracle

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Environment variables that tell where the reference implementation is; docs/testing.md.
const (
	EnvPython      = "LANCESQL_PYTHON"         // a Python with pylance and lancedb; default .venv/bin/python
	EnvNodeModules = "LANCESQL_NODE_MODULES"   // a node_modules folder; default .oracle/node_modules
	EnvRequire     = "LANCESQL_REQUIRE_ORACLE" // "1": absence fails the test instead of skipping it
)

// scriptTime bounds one run of a script.
const scriptTime = 5 * time.Minute

// Root returns the directory of go.mod above the running test.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("oracle: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("oracle: no go.mod above the test")
		}
		dir = parent
	}
}

// Missing ends the test because what is not installed: a skip, or a failure where the oracle is required.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv(EnvRequire) == "1" {
		t.Fatalf("%s, and %s=1", what, EnvRequire)
	}
	t.Skipf("%s (%s=1 makes this a failure)", what, EnvRequire)
}

// Python returns the interpreter that has the reference implementation; it ends the test if there is none.
func Python(t testing.TB) string {
	t.Helper()
	p := os.Getenv(EnvPython)
	if p == "" {
		p = filepath.Join(Root(t), ".venv", "bin", "python")
	}
	if _, err := os.Stat(p); err != nil {
		Missing(t, "no Python with pylance at "+p+", which `make oracle` installs")
	}
	return p
}

// NodeModules returns the folder that holds @lancedb/lancedb; it ends the test if there is none or no node.
func NodeModules(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(EnvNodeModules)
	if dir == "" {
		dir = filepath.Join(Root(t), ".oracle", "node_modules")
	}
	if _, err := os.Stat(filepath.Join(dir, "@lancedb", "lancedb", "package.json")); err != nil {
		Missing(t, "no @lancedb/lancedb in "+dir+", which `make oracle` installs")
	}
	Program(t, "node")
	return dir
}

// Program returns the path of an installed program; it ends the test if there is none.
func Program(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+" is not installed")
	}
	return p
}

// RunPython runs testdata/oracle/<script> with the arguments and returns its standard output.
func RunPython(t testing.TB, script string, args ...string) []byte {
	t.Helper()
	python := Python(t)
	return run(t, python, append([]string{"-B", scriptPath(t, script)}, args...))
}

// RunNode runs testdata/oracle/<script> under node and returns its standard output. The script's first argument is the
// node_modules folder, those given follow.
func RunNode(t testing.TB, script string, args ...string) []byte {
	t.Helper()
	modules := NodeModules(t)
	return run(t, Program(t, "node"), append([]string{scriptPath(t, script), modules}, args...))
}

func scriptPath(t testing.TB, script string) string {
	t.Helper()
	p := filepath.Join(Root(t), "testdata", "oracle", script)
	if _, err := os.ReadFile(p); err != nil { // I3
		t.Fatalf("oracle: %v", err)
	}
	return p
}

func run(t testing.TB, program string, args []string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scriptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("oracle: %s %q: %v\n%s%s", program, args, err, out.Bytes(), errs.Bytes())
	}
	return out.Bytes()
}
