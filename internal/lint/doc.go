// Package lint holds the house rules as tests; it has no code of its own outside them.
//
// Purpose: turn the rules on layers, names, files and imports into failures that name the line. A rule that is
// only written down is broken within a month.
//
// Place in the dataflow: beside the product; reads the source tree and `go list`, is imported by nothing.
//
// Invariants:
//
//	I1: the layer table in layers_test.go is literal; a new package fails the test until it is given a place.
//	I2: every exception is an entry of a literal table with its reason, never a comment in the checked file.
//	I3: an exception that nothing needs any more fails the test, so that lists only shrink.
//
// Does not know: what any package does.
package lint
