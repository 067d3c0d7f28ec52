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

// TestSuitesElsewhere runs the suites with all rows in flushed generations, or in the base tables, before every statement, and
// with the engine opened anew before a script's first assertion. The same nodes fail, and those that ask for what is not kept.
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
			s := readSkipList(t)
			if store == storeReopened {
				for _, name := range forgotten() {
					s.listed[name] = "statistics"
				}
			}
			result := runSuites(t, list, store, s.hangs)
			report(t, result)
			s.compare(t, list, result)
		})
	}
}

// telling are the suites that run in every store in the plain run.
func telling() []string {
	return []string{"AlterTable", "ForeignKeys", "IndexedExpressions", "Indexes", "InsertInto", "JoinQueries", "Triggers", "Update", "UserPrivileges", "Views"}
}

// forgotten are the nodes that ask an engine opened anew for the histograms of ANALYZE TABLE, which are not stored.
func forgotten() []string {
	const script = "UserPrivileges/information_schema.column_statistics_shows_columns_with_privileges_only/"
	return []string{
		shortName(script + "SELECT_table_name,_column_name_FROM_information_schema.column_statistics_where_schema_name_=_'mydb';"),
		shortName(script + "SELECT_table_name,_column_name_FROM_information_schema.column_statistics_where_schema_name_=_'mydb';#01"),
	}
}

// wireFloor is the share of nodes, in percent, that pass through a server and its client. Most others fail in memory as well or
// compare types that a client does not see.
const wireFloor = 80

// TestSuitesWire runs the suites once through a server. Errors count by their MySQL numbers.
func TestSuitesWire(t *testing.T) {
	if os.Getenv(envChild) != "" || os.Getenv(envSoak) == "" {
		t.Skip("needs " + envSoak)
	}
	result := runSuites(t, chosen(), storeWire, readSkipList(t).hangs)
	report(t, result)
	good, all := 0, 0
	for _, x := range result.counted() {
		if x.outcome != skipped {
			all++
		}
		if x.outcome == passed {
			good++
		}
	}
	if good*100 < all*wireFloor {
		t.Errorf("%d of %d nodes pass through the wire", good, all)
	}
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
