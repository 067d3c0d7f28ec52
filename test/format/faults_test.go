package format

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"testing"
)

// envReport names a file that gets the complete list of failures.
const envReport = "LANCESQL_FORMAT_REPORT"

// fault is one thing that was read wrongly.
type fault struct {
	file, column, step string
	what               string
}

func (f fault) subject() string { return f.file + "/" + f.column }

// cause is what without the numbers and names that differ from file to file.
func (f fault) cause() string {
	s := regexp.MustCompile(`[\w.-]+\.lance\b`).ReplaceAllString(f.what, "F")
	s = regexp.MustCompile(`(field|column|inner field) "[^"]*"`).ReplaceAllString(s, "$1")
	s = regexp.MustCompile(`type (\w+)<.*>: unsupported`).ReplaceAllString(s, "type $1: unsupported")
	s = regexp.MustCompile(`(row \d+: )(bytes|"|length).*`).ReplaceAllString(s, "values differ")
	s = regexp.MustCompile(`\d+`).ReplaceAllString(s, "N")
	return s
}

// guard runs f; a panic is an error that names the frames it passed through.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v at %s", p, frames())
		}
	}()
	return f()
}

// frames lists the functions of lance/ on the stack of a panic, innermost first.
func frames() string {
	pcs := make([]uintptr, 64)
	it := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var out []string
	for {
		f, more := it.Next()
		if strings.Contains(f.Function, "lancesql/lance/") && len(out) < 4 {
			out = append(out, fmt.Sprintf("%s:%d", path.Base(f.Function), f.Line))
		}
		if !more {
			return strings.Join(out, " < ")
		}
	}
}

// settle fails the test for faults that no entry of known covers, and for entries of known that cover none. Keys are
// FILE/COLUMN globs, values the reason. checked says which subjects were looked at at all.
func settle(t *testing.T, faults []fault, known map[string]string, checked []string) {
	t.Helper()
	used := map[string]bool{}
	var fresh []fault
	for _, f := range faults {
		covered := false
		for glob := range known {
			if ok, err := path.Match(glob, f.subject()); err == nil && ok {
				used[glob], covered = true, true
			}
		}
		if !covered {
			fresh = append(fresh, f)
		}
	}
	for glob, reason := range known {
		seen := false
		for _, s := range checked {
			ok, err := path.Match(glob, s)
			seen = seen || err == nil && ok
		}
		if seen && !used[glob] {
			t.Errorf("the known failure %q (%s) is gone: remove its entry", glob, reason)
		}
	}
	t.Logf("%d files and columns checked, %d faults, %d of them known", len(checked), len(faults), len(faults)-len(fresh))
	for _, line := range grouped(fresh) {
		t.Error(line)
	}
	report(t, faults)
}

// grouped lists faults by cause, the most frequent first.
func grouped(faults []fault) []string {
	groups := map[string][]fault{}
	for _, f := range faults {
		c := f.step + ": " + f.cause()
		groups[c] = append(groups[c], f)
	}
	causes := make([]string, 0, len(groups))
	for c := range groups {
		causes = append(causes, c)
	}
	sort.Slice(causes, func(i, j int) bool {
		a, b := len(groups[causes[i]]), len(groups[causes[j]])
		return a > b || a == b && causes[i] < causes[j]
	})
	var out []string
	for _, c := range causes {
		g := groups[c]
		var b strings.Builder
		fmt.Fprintf(&b, "%d x %s", len(g), c)
		for i, f := range g {
			if i == 12 {
				fmt.Fprintf(&b, "\n    … %d more", len(g)-i)
				break
			}
			fmt.Fprintf(&b, "\n    %s: %s: %.300s", f.subject(), f.step, f.what)
		}
		out = append(out, b.String())
	}
	return out
}

// report appends every fault to the file that envReport names.
func report(t *testing.T, faults []fault) {
	t.Helper()
	name := os.Getenv(envReport)
	if name == "" {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "== %s: %d faults\n", t.Name(), len(faults))
	for _, g := range grouped(faults) {
		fmt.Fprintln(&b, g)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(b.String())
		err2 := f.Close()
		if err == nil {
			err = err2
		}
	}
	if err != nil {
		t.Errorf("report: %v", err)
	}
}
