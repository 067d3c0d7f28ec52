package indextable

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lancesql/internal/testkit/oracle"
)

// Build is an index for the reference to create.
type Build struct {
	Column string         `json:"column"`
	Kind   string         `json:"kind"` // zonemap, bitmap, bloomfilter, btree
	Name   string         `json:"name"`
	Params map[string]any `json:"params,omitempty"`
}

// Answer is the reference's answer to one filter.
type Answer struct {
	Error   string  `json:"error"`   // of the scan with indexes
	Indexed []int64 `json:"indexed"` // ids of the matching rows, ascending
	Scanned []int64 `json:"scanned"` // the same without indexes
	Plan    string  `json:"plan"`
}

// Used reports whether the plan asks the index of that name.
func (a Answer) Used(name string) bool { return strings.Contains(a.Plan, "@"+name+"(") }

// ReferenceBuild has pylance create indexes; it returns what it refused, by name.
func (tb *Table) ReferenceBuild(t testing.TB, builds []Build) map[string]string {
	t.Helper()
	refused := map[string]string{}
	tb.ask(t, "build", builds, &refused)
	return refused
}

// ReferenceQuery has pylance answer filters with and without indexes.
func (tb *Table) ReferenceQuery(t testing.TB, filters []Filter) []Answer {
	t.Helper()
	var sql []string
	for _, f := range filters {
		sql = append(sql, f.SQL)
	}
	var answers []Answer
	tb.ask(t, "query", sql, &answers)
	if len(answers) != len(filters) {
		t.Fatalf("%d answers for %d filters", len(answers), len(filters))
	}
	return answers
}

// ReferenceRun runs another command of testdata/oracle/indexes.py.
func (tb *Table) ReferenceRun(t testing.TB, command string, request, answer any) {
	t.Helper()
	tb.ask(t, command, request, answer)
}

func (tb *Table) ask(t testing.TB, command string, request, answer any) {
	t.Helper()
	b, err := json.Marshal(request)
	must(t, err)
	file := filepath.Join(t.TempDir(), command+".json")
	must(t, os.WriteFile(file, b, 0o600))
	out := oracle.RunPython(t, "indexes.py", command, tb.Dir, file)
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("%s: %v\n%.500s", command, err, out)
	}
}

// LanceDBBuild has lancedb for Node create indexes; it returns what it refused, by name.
func (tb *Table) LanceDBBuild(t testing.TB, builds []Build) map[string]string {
	t.Helper()
	refused := map[string]string{}
	tb.askNode(t, "build", builds, &refused)
	return refused
}

// LanceDBQuery has lancedb for Node answer filters; Scanned stays empty.
func (tb *Table) LanceDBQuery(t testing.TB, filters []Filter) []Answer {
	t.Helper()
	var sql []string
	for _, f := range filters {
		sql = append(sql, f.SQL)
	}
	var answers []Answer
	tb.askNode(t, "query", sql, &answers)
	if len(answers) != len(filters) {
		t.Fatalf("%d answers for %d filters", len(answers), len(filters))
	}
	return answers
}

func (tb *Table) askNode(t testing.TB, command string, request, answer any) {
	t.Helper()
	b, err := json.Marshal(request)
	must(t, err)
	file := filepath.Join(t.TempDir(), command+".json")
	must(t, os.WriteFile(file, b, 0o600))
	out := oracle.RunNode(t, "indexes.mjs", command, filepath.Dir(tb.Dir), strings.TrimSuffix(filepath.Base(tb.Dir), ".lance"), file)
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("%s: %v\n%.500s", command, err, out)
	}
}
