package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gms "github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/queries"
	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
	"github.com/dolthub/go-mysql-server/sql"
)

// plansDir holds what EXPLAIN says here of the statements of the frontend's suites about the text of plans, a file for each suite:
//
//	statement, lines without blanks around
//	<tab>line of EXPLAIN FORMAT=TREE, one blank for each level
//
// with an empty line between statements.
const plansDir = "../../testdata/enginetest/plans"

// planSuite is one of the frontend's suites about the text of plans.
type planSuite struct {
	name    string
	scripts [][]setup.SetupScript
	tests   []queries.QueryPlanTest
	empty   bool // the tables have no rows
}

func planSuites() []planSuite {
	return []planSuite{
		{name: "GeneratedColumnPlans", scripts: setup.GeneratedColumnSetup, tests: queries.GeneratedColumnPlanTests},
		{name: "ImdbPlans", scripts: setup.ImdbPlanSetup, tests: queries.ImdbPlanTests, empty: true},
		{name: "IndexQueryPlans", scripts: setup.ComplexIndexSetup, tests: queries.IndexPlanTests},
		{name: "IntegrationPlans", scripts: [][]setup.SetupScript{setup.MydbData, setup.Integration_testData}, tests: queries.IntegrationPlanTests},
		{name: "QueryPlans", scripts: setup.PlanSetup, tests: queries.PlanTests},
		{name: "SysbenchPlans", scripts: setup.SysbenchSetup, tests: queries.SysbenchPlanTests},
		{name: "TpccPlans", scripts: setup.TpccPlanSetup, tests: queries.TpccPlanTests},
		{name: "TpcdsPlans", scripts: setup.TpcdsPlanSetup, tests: queries.TpcdsPlanTests},
		{name: "TpchPlans", scripts: setup.TpchPlanSetup, tests: queries.TpchPlanTests},
	}
}

// TestPlans compares the plans of the statements of the frontend's plan suites, and of its scripts about plans, with those that
// are checked in, which are ours: a change of plans is seen in review. LANCESQL_ENGINETEST_UPDATE=1 writes them. Whatever the plan,
// the queries of the suites must give the rows that they give over the frontend's own tables.
func TestPlans(t *testing.T) {
	if os.Getenv(envChild) != "" {
		t.Skip("a child process")
	}
	for _, s := range planSuites() {
		t.Run(s.name, func(t *testing.T) {
			h := &harness{}
			h.Setup(s.scripts...)
			e, err := h.NewEngine(t)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			e.(*queryEngine).quiet = true
			var plans []planned
			for _, tt := range s.tests {
				plans = append(plans, plannedOf(h, e, tt.Query))
			}
			comparePlans(t, s.name, plans)
			if !s.empty {
				compareAnswers(t, h, e, s)
			}
		})
	}
	t.Run("QueryPlanScripts", func(t *testing.T) {
		var plans []planned
		for _, s := range queries.QueryPlanScriptTests {
			plans = append(plans, scriptPlans(t, s)...)
		}
		comparePlans(t, "QueryPlanScripts", plans)
	})
}

// scriptPlans are the plans of what a script asserts.
func scriptPlans(t *testing.T, s queries.ScriptTest) []planned {
	t.Helper()
	h := &harness{}
	h.Setup(setup.MydbData)
	e, err := h.NewEngine(t)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	e.(*queryEngine).quiet = true
	run := e.(*queryEngine).run
	for _, statement := range s.SetUpScript {
		if err := run(gms.NewContext(h), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	var plans []planned
	for _, a := range s.Assertions {
		if a.ExpectedPlan != "" {
			plans = append(plans, plannedOf(h, e, a.Query))
		} else if err := run(gms.NewContext(h), a.Query); err != nil && a.ExpectedErr == nil && a.ExpectedErrStr == "" {
			t.Fatalf("%s: %v", a.Query, err)
		}
	}
	return plans
}

// planned is a statement with its plan.
type planned struct{ query, plan string }

// plannedOf asks for the plan of a statement. What cannot be planned has the error in its place.
func plannedOf(h *harness, e gms.QueryEngine, query string) planned {
	var lines []string
	for _, l := range strings.Split(query, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	p := planned{query: strings.Join(lines, "\n")}
	ctx := gms.NewContext(h)
	_, it, _, err := e.Query(ctx, "EXPLAIN FORMAT=TREE "+query)
	var rows []sql.Row
	if err == nil {
		rows, err = sql.RowIterToRows(ctx, it)
	}
	if err != nil {
		p.plan = fmt.Sprintf("error %d %s", errorNumber(err), errorText(err))
		return p
	}
	lines = lines[:0]
	for _, r := range rows {
		lines = append(lines, indented(fmt.Sprint(r[0])))
	}
	p.plan = strings.Join(lines, "\n")
	return p
}

// indented is a line of a tree with a blank for each level instead of branches, which change with what comes after.
func indented(line string) string {
	text := strings.TrimLeft(line, " │├└─")
	const level = 4 // columns
	depth := utf8.RuneCountInString(line[:len(line)-len(text)]) / level
	return strings.Repeat(" ", depth) + strings.TrimRight(text, " ")
}

func (p planned) String() string {
	return p.query + "\n\t" + strings.ReplaceAll(p.plan, "\n", "\n\t") + "\n"
}

// comparePlans compares the plans of a suite with those checked in, or writes them.
func comparePlans(t *testing.T, suite string, plans []planned) {
	t.Helper()
	var said []string
	for _, p := range plans {
		said = append(said, p.String())
	}
	file := filepath.Join(plansDir, suite+".txt")
	if os.Getenv(envUpdate) != "" {
		if err := os.WriteFile(file, []byte(strings.Join(said, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n\n")
	for i := range known {
		known[i] += "\n"
	}
	if len(known) != len(said) {
		t.Errorf("%s has plans of %d statements, not of %d", file, len(known), len(said))
	}
	const shown = 5
	changed := 0
	for i := range min(len(known), len(said)) {
		if known[i] == said[i] {
			continue
		}
		if changed++; changed <= shown {
			t.Errorf("the plan of\n%s\nwas\n%s\nis", known[i], said[i])
		}
	}
	failed := len(slices.DeleteFunc(slices.Clone(plans), func(p planned) bool { return !strings.HasPrefix(p.plan, "error ") }))
	t.Logf("%d plans, %d changed (LANCESQL_ENGINETEST_UPDATE=1 writes them), %d statements without one", len(plans), changed, failed)
}
