// Package enginetest runs the frontend's own test suites over lancesql's engine.
//
// Purpose: some forty thousand statements with known answers, written by the makers of the frontend for whoever stores its
// tables. What fails is listed with its reason in testdata/enginetest/skip.txt, through the server in wire.txt, and the lists may only
// shrink.
//
// Place in the dataflow: on top of sqlbackend, over engines whose files are in memory; imported by nothing.
//
// Invariants:
//
//	I1: a node that is not listed must pass; a node that is listed must fail.
//	I2: a node that hangs or ends the process is a failure like any other, and the nodes after it run.
//	I3: every listed node has a reason.
//	I4: no expectation of the suites is changed, but that an exact DECIMAL may stand for the DOUBLE of the frontend, and that sizes
//	    of tables are not compared.
//	I5: a node that fails counts as right only if its answer is the one listed as MySQL's.
//	I6: the plans of the statements of the suites about the text of plans are those checked in, which are ours.
//
// Does not know: which plan is right. Those checked in are what EXPLAIN said when they were last written.
package enginetest
