package enginetest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Environment of TestSuites.
const (
	envOnly   = "LANCESQL_ENGINETEST"        // suites to run, separated by commas; all if empty
	envUpdate = "LANCESQL_ENGINETEST_UPDATE" // write the list instead of comparing with it
	envReport = "LANCESQL_ENGINETEST_REPORT" // a file for every node: outcome, name, what it said
	envSoak   = "LANCESQL_SOAK"
)

// TestSuites runs the suites and compares what fails with the list.
func TestSuites(t *testing.T) {
	if os.Getenv(envChild) != "" {
		t.Skip("a child process")
	}
	list := chosen()
	result := runSuites(t, list, os.Getenv(envStore), readSkipList(t).hangs)
	report(t, result)
	switch {
	case os.Getenv(envUpdate) != "":
		if os.Getenv(envOnly) != "" {
			t.Fatalf("the list is written by a run of all suites, not with %s", envOnly)
		}
		writeSkipList(t, readSkipList(t), result)
	case os.Getenv(envStore) != storeFrontend:
		readSkipList(t).compare(t, list, result)
	}
}

// TestSuitesMerged runs the suites with all rows merged into the base tables before every statement. The same nodes fail.
func TestSuitesMerged(t *testing.T) {
	if os.Getenv(envChild) != "" || os.Getenv(envSoak) == "" {
		t.Skip("needs " + envSoak)
	}
	list := chosen()
	s := readSkipList(t)
	s.compare(t, list, runSuites(t, list, storeMerged, s.hangs))
}

func chosen() []suite {
	only := os.Getenv(envOnly)
	return slices.DeleteFunc(suites(), func(s suite) bool {
		return only != "" && !slices.Contains(strings.Split(only, ","), s.name)
	})
}

// report counts the nodes and writes them down if the run asks for it.
func report(t *testing.T, result *nodes) {
	t.Helper()
	count := make(map[string]int)
	var b strings.Builder
	for _, x := range result.counted() {
		count[x.outcome]++
		fmt.Fprintf(&b, "%s\t%s\t%s\n", x.outcome, x.name, strings.ReplaceAll(x.output, "\n", `\n`))
	}
	t.Logf("nodes: %d pass, %d fail, %d hang, %d skipped", count[passed], count[failed], count[hung], count[skipped])
	if file := os.Getenv(envReport); file != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
