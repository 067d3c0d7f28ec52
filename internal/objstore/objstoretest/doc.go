// Package objstoretest is the specification of objstore.Store as a test suite.
//
// Purpose: one suite that every implementation and wrapper runs, so that code tested over one store works
// over the others.
//
// Place in the dataflow: the tests of objstore and faultstore call Run; only tests import it.
//
// Invariants:
//
//	I1: a test uses nothing but the interface, so whatever passes can be exchanged.
//	I2: every test starts with an empty store of its own.
//
// Does not know: how a store keeps its objects; durability, which is tested over faultfs.
package objstoretest
