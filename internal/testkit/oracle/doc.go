// Package oracle runs the reference implementation of Lance (pylance and lancedb for Python, lancedb for Node) on tables
// that tests wrote, and runs other installed programs under the same skip rule.
//
// Purpose: one place that finds the interpreters, decides between skipping and failing, and decodes what the scripts of
// testdata/oracle print. Tests that need an independent opinion on our bytes ask here.
//
// Place in the dataflow: tests only. Starts processes; knows the folder layout of the repository.
//
// Invariants:
//
//	I1: an absent interpreter skips the test with the reason, unless LANCESQL_REQUIRE_ORACLE=1, when it fails it.
//	I2: a script that ends with an error fails the test with everything it printed.
//	I3: scripts are read through the os package before they run, so that a cached test result depends on them.
//
// Does not know: what the tables hold, SQL, how a table was written.
package oracle
