package enginetest

import (
	"slices"
	"testing"

	gms "github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/queries"
	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
)

// fullHarness is what the suites ask of a harness.
type fullHarness interface {
	gms.ClientHarness
	gms.ServerHarness
}

// suite is one of the frontend's test functions.
type suite struct {
	name  string
	run   func(*testing.T, fullHarness)
	bare  bool // it insists on the frontend's own engine type
	holds bool // it keeps databases and catalogs it got from the engine
}

// with adapts a test function that takes any harness.
func with(f func(*testing.T, gms.Harness)) func(*testing.T, fullHarness) {
	return func(t *testing.T, h fullHarness) { f(t, h) }
}

// queryPlanScripts asks the frontend's scripts about plans for their answers; TestPlans compares the plans.
func queryPlanScripts(t *testing.T, h gms.Harness) {
	h.Setup(setup.MydbData)
	for _, s := range queries.QueryPlanScriptTests {
		s.Assertions = slices.Clone(s.Assertions)
		for i := range s.Assertions {
			s.Assertions[i].ExpectedPlan = ""
		}
		gms.TestScript(t, h, s)
	}
}

// suites lists the frontend's suites in the order in which they run. Left out are those that compare plans as text, which are
// TestPlans' (planSuites), those that read versions of a table (AS OF) or need databases that
// are read-only as a whole, which lancesql does not have, and those whose nodes the frontend itself calls broken.
func suites() []suite {
	return []suite{
		{name: "AddColumn", run: with(gms.TestAddColumn)},
		{name: "AddDropPks", run: with(gms.TestAddDropPks)},
		{name: "AlterTable", run: with(gms.TestAlterTable)},
		{name: "AmbiguousColumnResolution", run: with(gms.TestAmbiguousColumnResolution)},
		{name: "AnsiQuotesSqlMode", run: with(gms.TestAnsiQuotesSqlMode)},
		{name: "AnsiQuotesSqlModePrepared", run: with(gms.TestAnsiQuotesSqlModePrepared)},
		{name: "Blobs", run: with(gms.TestBlobs)},
		{name: "CharsetCollationEngine", run: with(gms.TestCharsetCollationEngine)},
		{name: "ChecksOnInsert", run: with(gms.TestChecksOnInsert)},
		{name: "ChecksOnUpdate", run: with(gms.TestChecksOnUpdate)},
		{name: "ClearWarnings", run: with(gms.TestClearWarnings)},
		{name: "ColumnAliases", run: with(gms.TestColumnAliases)},
		{name: "ColumnDefaults", run: with(gms.TestColumnDefaults)},
		{name: "ComplexIndexQueries", run: with(gms.TestComplexIndexQueries)},
		{name: "ComplexIndexQueriesPrepared", run: with(gms.TestComplexIndexQueriesPrepared)},
		{name: "ConcurrentCreateDatabaseIfNotExists", run: with(gms.TestConcurrentCreateDatabaseIfNotExists)},
		{name: "ConcurrentDropDatabaseIfExists", run: with(gms.TestConcurrentDropDatabaseIfExists)},
		{name: "Convert", run: with(gms.TestConvert)},
		{name: "ConvertPrepared", run: with(gms.TestConvertPrepared)},
		{name: "CreateCheckConstraints", run: with(gms.TestCreateCheckConstraints)},
		{name: "CreateCheckConstraintsScriptsPrepared", run: with(gms.TestCreateCheckConstraintsScriptsPrepared)},
		{name: "CreateDatabase", run: with(gms.TestCreateDatabase)},
		{name: "CreateForeignKeys", run: with(gms.TestCreateForeignKeys)},
		{name: "CreateTable", run: with(gms.TestCreateTable)},
		{name: "CurrentTimestamp", run: with(gms.TestCurrentTimestamp)},
		{name: "DateParse", run: with(gms.TestDateParse)},
		{name: "Delete", run: with(gms.TestDelete)},
		{name: "DeleteErrors", run: with(gms.TestDeleteErrors)},
		{name: "DeleteQueriesPrepared", run: with(gms.TestDeleteQueriesPrepared)},
		{name: "DerivedTableOuterScopeVisibility", run: with(gms.TestDerivedTableOuterScopeVisibility)},
		{name: "DisallowedCheckConstraints", run: with(gms.TestDisallowedCheckConstraints)},
		{name: "DropCheckConstraints", run: with(gms.TestDropCheckConstraints)},
		{name: "DropColumn", run: with(gms.TestDropColumn)},
		{name: "DropColumnKeylessTables", run: with(gms.TestDropColumnKeylessTables)},
		{name: "DropDatabase", run: with(gms.TestDropDatabase)},
		{name: "DropForeignKeys", run: with(gms.TestDropForeignKeys)},
		{name: "DropTable", run: with(gms.TestDropTable), holds: true},
		{name: "Events", run: with(gms.TestEvents)},
		{name: "ForeignKeys", run: with(gms.TestForeignKeys)},
		{name: "FulltextIndexes", run: with(gms.TestFulltextIndexes)},
		{name: "GeneratedColumns", run: with(gms.TestGeneratedColumns)},
		{name: "IgnoreIntoWithDuplicateUniqueKeyKeyless", run: with(gms.TestIgnoreIntoWithDuplicateUniqueKeyKeyless)},
		{name: "IgnoreIntoWithDuplicateUniqueKeyKeylessPrepared", run: with(gms.TestIgnoreIntoWithDuplicateUniqueKeyKeylessPrepared)},
		{name: "IndexPrefix", run: with(gms.TestIndexPrefix)},
		{name: "IndexedExpressions", run: with(gms.TestIndexedExpressions)},
		{name: "Indexes", run: with(gms.TestIndexes)},
		{name: "InfoSchema", run: with(gms.TestInfoSchema)},
		{name: "InfoSchemaPrepared", run: with(gms.TestInfoSchemaPrepared)},
		{name: "InnerNestedInNaturalJoins", run: with(gms.TestInnerNestedInNaturalJoins)},
		{name: "InsertDuplicateKeyKeyless", run: with(gms.TestInsertDuplicateKeyKeyless)},
		{name: "InsertDuplicateKeyKeylessPrepared", run: with(gms.TestInsertDuplicateKeyKeylessPrepared)},
		{name: "InsertErrorScriptsPrepared", run: with(gms.TestInsertErrorScriptsPrepared)},
		{name: "InsertIgnoreInto", run: with(gms.TestInsertIgnoreInto)},
		{name: "InsertIgnoreScriptsPrepared", run: with(gms.TestInsertIgnoreScriptsPrepared)},
		{name: "InsertInto", run: with(gms.TestInsertInto)},
		{name: "InsertIntoErrors", run: with(gms.TestInsertIntoErrors)},
		{name: "InsertQueriesPrepared", run: with(gms.TestInsertQueriesPrepared)},
		{name: "InsertScriptsPrepared", run: with(gms.TestInsertScriptsPrepared)},
		{name: "JSONTableQueries", run: with(gms.TestJSONTableQueries)},
		{name: "JSONTableQueriesPrepared", run: with(gms.TestJSONTableQueriesPrepared)},
		{name: "JSONTableScripts", run: with(gms.TestJSONTableScripts)},
		{name: "JSONTableScriptsPrepared", run: with(gms.TestJSONTableScriptsPrepared)},
		{name: "JoinPlanning", run: with(gms.TestJoinPlanning)},
		{name: "JoinQueries", run: with(gms.TestJoinQueries)},
		{name: "JoinQueriesPrepared", run: with(gms.TestJoinQueriesPrepared)},
		{name: "JoinStats", run: with(gms.TestJoinStats)},
		{name: "LargeGeometryScripts", run: with(gms.TestLargeGeometryScripts)},
		{name: "LargeGeometryScriptsPrepared", run: with(gms.TestLargeGeometryScriptsPrepared)},
		{name: "LateralJoinQueries", run: with(gms.TestLateralJoinQueries)},
		{name: "LoadData", run: with(gms.TestLoadData)},
		{name: "LoadDataErrors", run: with(gms.TestLoadDataErrors)},
		{name: "LoadDataPrepared", run: with(gms.TestLoadDataPrepared)},
		{name: "ModifyColumn", run: with(gms.TestModifyColumn)},
		{name: "MySqlDb", run: with(gms.TestMySqlDb)},
		{name: "MySqlDbPrepared", run: with(gms.TestMySqlDbPrepared)},
		{name: "NamedWindows", run: with(gms.TestNamedWindows)},
		{name: "NaturalJoin", run: with(gms.TestNaturalJoin)},
		{name: "NaturalJoinDisjoint", run: with(gms.TestNaturalJoinDisjoint)},
		{name: "NaturalJoinEqual", run: with(gms.TestNaturalJoinEqual)},
		{name: "NoDatabaseSelected", run: with(gms.TestNoDatabaseSelected)},
		{name: "NullRanges", run: with(gms.TestNullRanges)},
		{name: "NumericErrorScripts", run: with(gms.TestNumericErrorScripts)},
		{name: "OnUpdateExprScripts", run: with(gms.TestOnUpdateExprScripts)},
		{name: "OrderByGroupBy", run: with(gms.TestOrderByGroupBy)},
		{name: "PkOrdinalsDDL", run: with(gms.TestPkOrdinalsDDL)},
		{name: "PkOrdinalsDML", run: with(gms.TestPkOrdinalsDML)},
		{name: "Prepared", run: with(gms.TestPrepared)},
		{name: "PreparedInsert", run: with(gms.TestPreparedInsert)},
		{name: "PreparedStatements", run: with(gms.TestPreparedStatements)},
		{name: "PrivilegePersistence", run: with(gms.TestPrivilegePersistence)},
		{name: "Queries", run: with(gms.TestQueries)},
		{name: "QueriesPrepared", run: with(gms.TestQueriesPrepared)},
		{name: "QueryErrors", run: with(gms.TestQueryErrors)},
		{name: "QueryPlanScripts", run: with(queryPlanScripts)},
		{name: "RecursiveViewDefinition", run: with(gms.TestRecursiveViewDefinition)},
		{name: "RenameColumn", run: with(gms.TestRenameColumn)},
		{name: "RenameTable", run: with(gms.TestRenameTable)},
		{name: "ReplaceInto", run: with(gms.TestReplaceInto)},
		{name: "ReplaceIntoErrors", run: with(gms.TestReplaceIntoErrors)},
		{name: "ReplaceQueriesPrepared", run: with(gms.TestReplaceQueriesPrepared)},
		{name: "RollbackTriggers", run: with(gms.TestRollbackTriggers)},
		{name: "RowLimit", run: with(gms.TestRowLimit)},
		{name: "SQLLogicTests", run: with(gms.TestSQLLogicTests)},
		{name: "Scripts", run: with(gms.TestScripts)},
		{name: "ScriptsPrepared", run: with(gms.TestScriptsPrepared)},
		{name: "SelectIntoFile", run: with(gms.TestSelectIntoFile)},
		{name: "SessionSelectLimit", run: with(gms.TestSessionSelectLimit)},
		{name: "ShowTableStatus", run: with(gms.TestShowTableStatus)},
		{name: "ShowTableStatusPrepared", run: with(gms.TestShowTableStatusPrepared)},
		{name: "ShowTriggers", run: with(gms.TestShowTriggers)},
		{name: "SpatialDelete", run: with(gms.TestSpatialDelete)},
		{name: "SpatialIndexScripts", run: with(gms.TestSpatialIndexScripts)},
		{name: "SpatialIndexScriptsPrepared", run: with(gms.TestSpatialIndexScriptsPrepared)},
		{name: "SpatialInsertInto", run: with(gms.TestSpatialInsertInto)},
		{name: "SpatialQueries", run: with(gms.TestSpatialQueries)},
		{name: "SpatialQueriesPrepared", run: with(gms.TestSpatialQueriesPrepared)},
		{name: "SpatialScripts", run: with(gms.TestSpatialScripts)},
		{name: "SpatialScriptsPrepared", run: with(gms.TestSpatialScriptsPrepared)},
		{name: "SpatialUpdate", run: with(gms.TestSpatialUpdate)},
		{name: "StatisticIndexFilters", run: with(gms.TestStatisticIndexFilters)},
		{name: "Statistics", run: with(gms.TestStatistics)},
		{name: "StatisticsPrepared", run: with(gms.TestStatisticsPrepared)},
		{name: "StoredProcedures", run: with(gms.TestStoredProcedures)},
		{name: "TimeQueries", run: with(gms.TestTimeQueries)},
		{name: "Tracing", run: with(gms.TestTracing)},
		{name: "TransactionScripts", run: with(gms.TestTransactionScripts)},
		{name: "TriggerErrors", run: with(gms.TestTriggerErrors)},
		{name: "Triggers", run: with(gms.TestTriggers)},
		{name: "Truncate", run: with(gms.TestTruncate), holds: true},
		{name: "TupleQueries", run: with(gms.TestTupleQueries)},
		{name: "Update", run: with(gms.TestUpdate)},
		{name: "UpdateErrors", run: with(gms.TestUpdateErrors)},
		{name: "UpdateIgnore", run: with(gms.TestUpdateIgnore)},
		{name: "UpdateQueriesPrepared", run: with(gms.TestUpdateQueriesPrepared)},
		{name: "Use", run: with(gms.TestUse)},
		{name: "VariableErrors", run: with(gms.TestVariableErrors)},
		{name: "VectorFunctions", run: with(gms.TestVectorFunctions)},
		{name: "VectorIndexes", run: with(gms.TestVectorIndexes)},
		{name: "VectorType", run: with(gms.TestVectorType)},
		{name: "Views", run: with(gms.TestViews)},
		{name: "ViewsPrepared", run: with(gms.TestViewsPrepared)},
		{name: "Warnings", run: with(gms.TestWarnings)},
		{name: "WindowFunctions", run: with(gms.TestWindowFunctions)},
		{name: "WindowRangeFrames", run: with(gms.TestWindowRangeFrames)},
		{name: "WindowRowFrames", run: with(gms.TestWindowRowFrames)},
		{name: "ConcurrentProcessList", run: with(gms.TestConcurrentProcessList), bare: true},
		{name: "ConcurrentTransactions", run: with(gms.TestConcurrentTransactions), bare: true},
		{name: "UserPrivileges", run: func(t *testing.T, h fullHarness) { gms.TestUserPrivileges(t, h) }},
		{name: "UserAuthentication", run: with(gms.TestUserAuthentication), bare: true},
		{name: "ReadOnly", run: func(t *testing.T, h fullHarness) { gms.TestReadOnly(t, h, false) }, bare: true},
		{name: "JsonScripts", run: func(t *testing.T, h fullHarness) { gms.TestJsonScripts(t, h, nil) }},
		{name: "JsonScriptsPrepared", run: func(t *testing.T, h fullHarness) { gms.TestJsonScriptsPrepared(t, h, nil) }},
		{name: "JoinOps", run: func(t *testing.T, h fullHarness) { gms.TestJoinOps(t, h, gms.DefaultJoinOpTests) }},
		{name: "CharsetCollationWire", run: func(t *testing.T, h fullHarness) { gms.TestCharsetCollationWire(t, h, h.SessionBuilder()) }, bare: true},
		{name: "DatabaseCollationWire", run: func(t *testing.T, h fullHarness) { gms.TestDatabaseCollationWire(t, h, h.SessionBuilder()) }, bare: true},
		{name: "TypesOverWire", run: func(t *testing.T, h fullHarness) { gms.TestTypesOverWire(t, h, h.SessionBuilder()) }, bare: true},
		{name: "Variables", run: with(gms.TestVariables)}, // last: it resets the process's system variables
	}
}
