// Package suites runs test suites that this project did not write against a server of ours.
//
// Purpose: programs written for MySQL say what their authors rely on.
//
// Place in the dataflow: it fetches modules through go, copies them out of the module cache into a temporary folder and runs
// their tests over the wire. Nothing of them is kept here.
//
// Invariants:
//
//	I1: what fails and may fail is a literal list with reasons; anything else that fails, and what is listed and passes, fails
//	    the test.
//	I2: without a way to fetch a suite its test is skipped and says so, unless LANCESQL_REQUIRE_ORACLE=1.
//
// Does not know: anything below the MySQL protocol.
package suites
