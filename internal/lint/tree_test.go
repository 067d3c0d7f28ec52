package lint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "lancesql"

// goFile is one Go source file of the tree: path relative to the root with slashes, bytes and syntax.
type goFile struct {
	path string
	text []byte
	ast  *ast.File
	fset *token.FileSet
}

func (f *goFile) dir() string       { return path.Dir(f.path) }
func (f *goFile) isTest() bool      { return strings.HasSuffix(f.path, "_test.go") }
func (f *goFile) isGenerated() bool { return strings.HasSuffix(f.path, ".pb.go") }

// isTestCode says whether the file is compiled into tests only: _test files, test kits, process tests, this package.
func (f *goFile) isTestCode() bool {
	return f.isTest() || isTestPackage(f.dir())
}

// isTestPackage says whether the package (path below the module) exists for tests only.
func isTestPackage(dir string) bool {
	return strings.HasPrefix(dir, "internal/testkit/") || strings.HasPrefix(dir, "test/") || dir == "internal/lint" || dir == "sqlbackend/enginetest" ||
		dir == "internal/objstore/objstoretest" || dir == "internal/objstore/faultstore" || dir == "internal/objstore/faultfs"
}

func (f *goFile) line(pos token.Pos) int { return f.fset.Position(pos).Line }

// root is the directory of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}

// files returns the paths of all files of the tree, relative to the root: what git would commit, or, outside a
// checkout, every regular file below the root that does not lie in a hidden or built directory.
func files(t *testing.T) []string {
	t.Helper()
	top := root(t)
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = top
	out, err := cmd.Output()
	var names []string
	if err == nil {
		for _, name := range strings.Split(string(out), "\x00") {
			if name == "" {
				continue
			}
			if st, err := os.Lstat(filepath.Join(top, name)); err == nil && st.Mode().IsRegular() {
				names = append(names, name)
			}
		}
	} else {
		names = walk(t, top)
	}
	sort.Strings(names)
	return names
}

func walk(t *testing.T, top string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch rel {
			case ".git", ".venv", ".oracle", "bin", "data", "bench-out":
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	require.NoError(t, err)
	return names
}

// goFiles parses every Go file of the tree.
func goFiles(t *testing.T) []*goFile {
	t.Helper()
	top := root(t)
	var list []*goFile
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		require.NoError(t, err)
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		list = append(list, &goFile{path: name, text: text, ast: syntax, fset: fset})
	}
	require.NotEmpty(t, list)
	return list
}

// listedPackage is what `go list -json` says about one package.
type listedPackage struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// ours returns the package's path below the module; ok is false for other modules' packages.
func ours(importPath string) (string, bool) {
	rest, ok := strings.CutPrefix(importPath, module+"/")
	return rest, ok
}

// packages lists the module's own packages, those of ignored files left out.
func packages(t *testing.T) []listedPackage {
	t.Helper()
	dirs := map[string]bool{}
	for _, name := range files(t) {
		dirs[path.Dir(name)] = true
	}
	cmd := exec.Command("go", "list", "-e", "-tags", "gms_pure_go", "-json=ImportPath,Standard,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	var list []listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if dir, ok := ours(p.ImportPath); ok && dirs[dir] {
			list = append(list, p)
		}
	}
	require.NotEmpty(t, list)
	return list
}

// under says whether the slash path p is dir or lies below it.
func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// importName returns the name by which the file refers to the import path, "" if it does not import it.
func importName(f *goFile, importPath string) string {
	for _, spec := range f.ast.Imports {
		if strings.Trim(spec.Path.Value, `"`) != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}
