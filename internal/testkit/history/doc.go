// Package history judges histories of transactions.
//
// Purpose: tests with many clients note what each transaction did and saw; this package says whether that can be.
//
// Place in the dataflow: tests of sqlbackend and test/e2e use it.
//
// Invariants:
//
//	I1: only what was observed is judged: an error means that no order of the transactions explains it.
//
// Does not know: SQL, servers, time.
package history
