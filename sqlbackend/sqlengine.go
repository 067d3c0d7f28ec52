package sqlbackend

import (
	"slices"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/rowexec"

	"lancesql/engine"
)

// NewSQLEngine returns the frontend's engine over p, with lancesql's parser, functions, system variables and operators.
// Accounts are off until a server adds them. The caller closes it before e.
func NewSQLEngine(e *engine.Engine, p *Provider) *sqle.Engine {
	p.builtin = map[string]bool{}
	for name := range function.NewRegistry() {
		p.builtin[foldName(name)] = true
	}
	for _, f := range functions() {
		p.builtin[foldName(f.FunctionName())] = true
	}
	p.parser = &parser{inner: sql.NewMysqlParser(), admin: injectAdmin(e)}
	front := newFrontend(p, sql.EngineOverrides{
		Builder:                         sql.BuilderOverrides{Parser: p.parser},
		SchemaFormatter:                 schemaFormatter{&sql.MySqlSchemaFormatter{}},
		CostedIndexScanExpressionFilter: plannable{},
		Hooks:                           sql.ExecutionHooks{CreateTable: sql.CreateTable{PreSQLExecution: CreateTableHook}},
	})
	p.grants = front.Analyzer.Catalog.MySQLDb
	return front
}

// newFrontend wires the frontend's parts: variables, functions, operators, the builder of statement roots.
func newFrontend(p sql.DatabaseProvider, overrides sql.EngineOverrides) *sqle.Engine {
	setSystemVariables()
	a := analyzer.NewBuilder(p).AddOverrides(overrides).
		AddPostAnalyzeRule(PushDownRuleID, PushDownRule).
		RemoveOnceAfterRule(ruleNamed("replaceAgg")). // MIN and MAX of a key would have no row where there is none to see
		Build()
	a.Catalog.RegisterFunction(sql.NewEmptyContext(), functions()...)
	statistics := newStatistics()
	a.Catalog.StatsProvider = statistics
	a.Coster = &coster{Coster: a.Coster, stats: statistics}
	for _, b := range a.Batches {
		b.Rules = slices.Clone(b.Rules) // some are the frontend's own list, which other engines have as well
		if b.Desc == "once-before" {    // as its last: the frontend's check of groupings is not about what is added
			b.Rules = append(b.Rules, analyzer.Rule{Id: carryColumnsRuleID, Apply: CarryColumnsRule})
		}
		for i, r := range b.Rules {
			switch r.Id {
			case ruleNamed("applyIndexesFromOuterScope"):
				b.Rules[i].Apply = statistics.outerLookups(r.Apply)
			case ruleNamed("unnestExistsSubqueries"), ruleNamed("unnestInSubqueries"):
				b.Rules[i].Apply = unnesting(r.Apply)
			case ruleNamed("resolveDropConstraint"), ruleNamed("validateDropConstraint"):
				b.Rules[i].Apply = findingChecks(r.Apply)
			case ruleNamed("replaceIdxSort"):
				b.Rules[i].Apply = keyOrderBefore(r.Apply)
			case ruleNamed("validateGroupBy"):
				b.Rules[i].Apply = checkingGroups(groupsFunctions(r.Apply))
			case ruleNamed("assignExecIndexes"):
				b.Rules[i].Apply = placingDuplicates(r.Apply)
			}
		}
	}
	a.Catalog.MySQLDb.SetPersister(&mysql_db.NoopPersister{})
	front := sqle.New(a, nil)

	// Why two builders: one for roots, which may be run again, one for everything below them.
	ops := &operators{statistics: statistics, front: front}
	if own, ok := p.(*Provider); ok {
		own.operators = ops
	}
	inner := rowexec.NewBuilder(ops, overrides)
	ops.build = inner.Build
	root := rowexec.NewBuilder(&rootBuilder{operators: ops, inner: inner}, overrides)
	runner := statementRunner{front} // CALL and DDL hooks run statements through it
	a.Runner, inner.Runner, root.Runner = runner, runner, runner
	ops.wireNested(overrides, runner)
	a.ExecBuilder = root
	return front
}

// ruleNamed returns the number of one of the frontend's rules, most of which it does not export; an unused number if
// there is none.
func ruleNamed(name string) analyzer.RuleId {
	const known = 200 // more than there are
	for id := range analyzer.RuleId(known) {
		if id.String() == name {
			return id
		}
	}
	return known
}
