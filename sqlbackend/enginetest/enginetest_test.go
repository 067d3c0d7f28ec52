package enginetest

import (
	"fmt"
	"os"
	"regexp"
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
	store := os.Getenv(envStore)
	list, known := chosen(), readSkipList(t, store)
	result := runSuites(t, list, store, known.hangs)
	judge(t, list, result, known)
}

// judge counts nodes and compares those that fail with the list, or writes the list.
func judge(t *testing.T, list []suite, result *nodes, known *skipList) {
	t.Helper()
	report(t, result, known)
	switch {
	case os.Getenv(envUpdate) != "":
		if os.Getenv(envOnly) != "" {
			t.Fatalf("the list is written by a run of all suites, not with %s", envOnly)
		}
		writeSkipList(t, known, result)
	case os.Getenv(envStore) != storeFrontend:
		known.compare(t, list, result)
	}
}

// TestSuitesElsewhere runs the suites with all rows in flushed generations, or in the base tables, before every statement, and
// with the engine opened anew before a script's first assertion. The same nodes fail.
func TestSuitesElsewhere(t *testing.T) {
	if os.Getenv(envChild) != "" {
		t.Skip("a child process")
	}
	for _, store := range []string{storeReopened, storeFlushed, storeMerged} {
		t.Run(store, func(t *testing.T) {
			list := chosen()
			if os.Getenv(envSoak) == "" {
				list = slices.DeleteFunc(list, func(s suite) bool { return !slices.Contains(telling(), s.name) })
			}
			s := readSkipList(t, store)
			result := runSuites(t, list, store, s.hangs)
			report(t, result, s)
			s.compare(t, list, result)
		})
	}
}

// telling are the suites that run in every store in the plain run.
func telling() []string {
	return []string{"AlterTable", "ForeignKeys", "IndexedExpressions", "Indexes", "InsertInto", "JoinQueries", "Triggers", "Update", "UserPrivileges", "Views"}
}

// TestSuitesWire runs the suites through the server that cmd/lancesql runs, with a list of its own. Suites that talk to a server of
// the frontend's anyway are left out.
func TestSuitesWire(t *testing.T) {
	if os.Getenv(envChild) != "" {
		t.Skip("a child process")
	}
	known := readSkipList(t, storeWire)
	list := slices.DeleteFunc(chosen(), func(s suite) bool { return s.bare })
	judge(t, list, runSuites(t, list, storeWire, known.hangs), known)
}

func chosen() []suite {
	only := os.Getenv(envOnly)
	return slices.DeleteFunc(suites(), func(s suite) bool {
		return only != "" && !slices.Contains(strings.Split(only, ","), s.name)
	})
}

// rightFloor is the share of nodes, in per mille, that must be right in every run of all suites; nodes about plans apart.
const rightFloor = 990

// report counts the nodes and writes them down if the run asks for it.
func report(t *testing.T, result *nodes, known *skipList) {
	t.Helper()
	var all, plans tally
	var b strings.Builder
	for _, x := range result.counted() {
		to := &all
		if aboutPlans(x.name) {
			to = &plans
		}
		to.add(x, known)
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", x.outcome, x.name, x.answer, strings.ReplaceAll(x.output, "\n", `\n`))
	}
	t.Logf("nodes %v; about plans, apart: %v", all, plans)
	if whole := os.Getenv(envOnly) == "" && os.Getenv(envUpdate) == "" && os.Getenv(envStore) == ""; whole && all.right()*1000 < all.count()*rightFloor {
		t.Errorf("%d of %d nodes are right, less than %d per mille", all.right(), all.count(), rightFloor)
	}
	if file := os.Getenv(envReport); file != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tally counts nodes.
type tally struct{ passed, mysql, failed, hung, skipped int }

func (c *tally) add(x *node, known *skipList) {
	switch {
	case x.outcome == passed:
		c.passed++
	case known.right(x):
		c.mysql++
	case x.outcome == hung:
		c.hung++
	case x.outcome == skipped:
		c.skipped++
	default:
		c.failed++
	}
}

// right is the number of nodes that pass or give MySQL's answer.
func (c *tally) right() int { return c.passed + c.mysql }

// count leaves out those that the frontend itself skips.
func (c *tally) count() int { return c.right() + c.failed + c.hung }

func (c tally) String() string {
	return fmt.Sprintf("%d: %.2f %% right, %d pass, %d as MySQL, %d fail, %d hang (%d skipped)",
		c.count(), 100*float64(c.right())/float64(max(c.count(), 1)), c.passed, c.mysql, c.failed, c.hung, c.skipped)
}

// aboutPlans reports whether a node is about the plan of a statement, not its answer.
func aboutPlans(name string) bool { return planNode.MatchString(name) }

var planNode = regexp.MustCompile(`^JoinPlanning/|^JoinStats/|_join_types$|/debug$|/(?i:explain_)[^/]*$|^Tracing$`)
