package lint_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const linesMax = 800

// exceptions maps a rule's subject (a path or a folder) to the reason it is exempt. used records which were needed.
type exceptions struct {
	reasons map[string]string
	used    map[string]bool
}

func except(reasons map[string]string) *exceptions {
	return &exceptions{reasons: reasons, used: map[string]bool{}}
}

// finish fails the test for every exception that nothing needed (I3).
func (e *exceptions) finish(t *testing.T) {
	t.Helper()
	for subject := range e.reasons {
		if !e.used[subject] {
			t.Errorf("nothing needs the exception for %s any more", subject)
		}
	}
}

func (e *exceptions) covers(p string) bool {
	found := false
	for subject := range e.reasons {
		if under(p, subject) {
			e.used[subject], found = true, true
		}
	}
	return found
}

// seams are the places where wall-clock time may be read.
func seams() map[string]string {
	return map[string]string{
		"internal/clock":  "the seam itself",
		"bench":           "measures time",
		"sqlbackend/wire": "deadlines of network connections are wall-clock times",
	}
}

// pauses are the places that may wait for a while: nothing that is stored or returned depends on how long.
func pauses() map[string]string {
	return map[string]string{
		"bench":                "measures time",
		"sqlbackend/wire":      "network connections",
		"sqlbackend/server.go": "closing connections at shutdown",
		"engine/pause.go":      "writers held back by pressure, alarms of background work",
		"wal/log.go":           "between attempts of an ambiguous put, which no cancellation may cut short",
	}
}

// TestTimeComesFromTheSeam: production code takes time from internal/clock, so that tests decide what time it is.
func TestTimeComesFromTheSeam(t *testing.T) {
	rules := map[string]*exceptions{}
	reading, waiting := except(seams()), except(pauses())
	for _, name := range []string{"Now", "Since", "Until"} {
		rules[name] = reading
	}
	for _, name := range []string{"Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"} {
		rules[name] = waiting
	}
	for _, f := range goFiles(t) {
		name := importName(f, "time")
		if f.isTestCode() || f.isGenerated() || name == "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || rules[sel.Sel.Name] == nil {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && !rules[sel.Sel.Name].covers(f.path) {
				t.Errorf("%s:%d: time.%s outside the seams of time", f.path, f.line(sel.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
	reading.finish(t)
	waiting.finish(t)
}

// randomness lists the only production files that may draw random bits themselves.
func randomness() map[string]string {
	return map[string]string{
		"bench":             "seeded workloads",
		"internal/objstore": "names of temporary files",
		"lsm/options.go":    "default source of the names of generations",

		"sqlbackend/wire/tls.go": "keys and serial numbers of certificates",
	}
}

func TestRandomnessComesFromTheSeam(t *testing.T) {
	allowed := except(randomness())
	for _, f := range goFiles(t) {
		if f.isTestCode() || f.isGenerated() {
			continue
		}
		for _, p := range []string{"math/rand", "math/rand/v2", "crypto/rand"} {
			if importName(f, p) != "" && !allowed.covers(f.path) {
				t.Errorf("%s imports %s; randomness comes from the caller", f.path, p)
			}
		}
	}
	allowed.finish(t)
}

func TestNoInit(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isGenerated() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s:%d: init()", f.path, f.line(fn.Pos()))
			}
		}
	}
}

// TestNoPanic: input never ends the process; a broken invariant of our own goes through internal/invariant.
func TestNoPanic(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTestCode() || f.isGenerated() || under(f.path, "internal/invariant") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
				t.Errorf("%s:%d: panic; return an error or use internal/invariant", f.path, f.line(call.Pos()))
			}
			return true
		})
	}
}

// goroutines lists who may start a goroutine: each owner has a Close that waits for it.
func goroutines() map[string]string {
	return map[string]string{
		"engine":           "commit pipeline, scheduler",
		"sqlbackend":       "the server",
		"cmd/lancesql":     "signal handling",
		"bench":            "one per connection",
		"internal/testkit": "test processes",
		"lance/file":       "columns of one batch, joined before it is returned",
	}
}

func TestGoroutinesHaveOwners(t *testing.T) {
	allowed := except(goroutines())
	for _, f := range goFiles(t) {
		if f.isTest() || f.isGenerated() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok && !allowed.covers(f.path) {
				t.Errorf("%s:%d: go statement outside the packages that own goroutines", f.path, f.line(g.Pos()))
			}
			return true
		})
	}
	allowed.finish(t)
}

// TestNoMutablePackageVariables: a package-level variable is a sentinel, a table or embedded data, so it has a value
// where it is declared, and it is not a lock, a pool or an atomic.
func TestNoMutablePackageVariables(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTestCode() || f.isGenerated() {
			continue
		}
		for _, d := range f.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, s := range gen.Specs {
				spec := s.(*ast.ValueSpec)
				embedded := (gen.Doc != nil && strings.Contains(gen.Doc.Text()+rawComments(gen.Doc), "//go:embed")) ||
					(spec.Doc != nil && strings.Contains(rawComments(spec.Doc), "//go:embed"))
				if len(spec.Values) == 0 && !embedded && spec.Names[0].Name != "_" {
					t.Errorf("%s:%d: package variable %s has no value", f.path, f.line(spec.Pos()), spec.Names[0].Name)
				}
				var text bytes.Buffer
				for _, v := range spec.Values {
					require.NoError(t, format.Node(&text, f.fset, v))
				}
				if strings.HasPrefix(text.String(), "sync.") || strings.HasPrefix(text.String(), "&sync.") || strings.HasPrefix(text.String(), "atomic.") {
					t.Errorf("%s:%d: package variable %s is shared mutable state", f.path, f.line(spec.Pos()), spec.Names[0].Name)
				}
			}
		}
	}
}

func rawComments(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(c.Text)
	}
	return b.String()
}

func TestNoCond(t *testing.T) {
	for _, f := range goFiles(t) {
		name := importName(f, "sync")
		if name == "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || (sel.Sel.Name != "Cond" && sel.Sel.Name != "NewCond") {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
				t.Errorf("%s:%d: sync.Cond is not used in this project", f.path, f.line(sel.Pos()))
			}
			return true
		})
	}
}

// TestErrorTexts: wrapped texts name the operation; they never say that something failed (the error says so).
func TestErrorTexts(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTestCode() || f.isGenerated() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || (sel.Sel.Name != "Errorf" && sel.Sel.Name != "New") {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); !ok || (x.Name != "fmt" && x.Name != "errors") {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && strings.Contains(lit.Value, "failed to") {
				t.Errorf("%s:%d: error text says \"failed to\"", f.path, f.line(call.Pos()))
			}
			return true
		})
	}
}

func TestFileCeiling(t *testing.T) {
	for _, f := range goFiles(t) {
		if lines := bytes.Count(f.text, []byte("\n")); lines > linesMax && !f.isGenerated() {
			t.Errorf("%s has %d lines, the ceiling is %d; split it by noun", f.path, lines, linesMax)
		}
	}
}

func TestFormatted(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isGenerated() {
			continue
		}
		want, err := format.Source(f.text)
		require.NoError(t, err, f.path)
		if !bytes.Equal(want, f.text) {
			t.Errorf("%s is not gofmt-ed (make fmt)", f.path)
		}
	}
}

// TestDocParts: doc.go of every package has the four fixed parts, in order.
func TestDocParts(t *testing.T) {
	parts := []string{"Purpose:", "Place in the dataflow:", "Invariants:", "Does not know:"}
	docs, dirs := map[string]*goFile{}, map[string]bool{}
	for _, f := range goFiles(t) {
		if strings.Contains("/"+f.path, "/testdata/") {
			continue
		}
		dirs[f.dir()] = true
		if strings.HasSuffix(f.path, "/doc.go") {
			docs[f.dir()] = f
		}
	}
	for dir := range dirs {
		f := docs[dir]
		if f == nil {
			t.Errorf("%s has no doc.go", dir)
			continue
		}
		for _, fault := range docFaults(f.ast.Doc.Text(), parts) {
			t.Errorf("%s: %s", f.path, fault)
		}
	}
}

func docFaults(doc string, parts []string) []string {
	var faults []string
	at := 0
	for _, part := range parts {
		i := strings.Index(doc[at:], "\n"+part)
		if i < 0 { // as a heading
			i = strings.Index(doc[at:], "\n# "+strings.TrimSuffix(part, ":")+"\n")
		}
		if i < 0 {
			faults = append(faults, fmt.Sprintf("part %q is missing or out of order", part))
			continue
		}
		at += i + len(part)
	}
	return faults
}
