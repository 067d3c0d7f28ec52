// Package faultstore makes any objstore.Store fail on request.
//
// Purpose: number the operations of a store and let the n-th of them fail, succeed without saying so, be
// late, or be the last one before a crash. Tests run a scenario once per number and look at what is left.
//
// Place in the dataflow: it stands between the code under test and a real store; only tests import it.
//
// Invariants:
//
//	I1: operations are numbered from 1 in the order in which they begin, each exactly once.
//	I2: after a crash no operation reaches the inner store, and every result is ErrCrashed; that of an
//	    operation that was in progress as well, whatever it did.
//	I3: with an empty Plan the store behaves like the inner one.
//
// Does not know: what the numbers mean to the code under test.
package faultstore
