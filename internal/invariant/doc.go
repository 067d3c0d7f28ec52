// Package invariant checks what our own code promises itself.
//
// Purpose: one function that stops a test build at the first broken promise and lets a production build
// carry on with an error. It is not for input: bad bytes are errs.Corruption, bad arguments errs.ErrInvalid.
//
// Place in the dataflow: lowest layer; everything may import it and it imports only the standard library.
// The build tag `invariants` switches the panicking form on.
//
// Invariants:
//
//	I1: Check of a true condition has no effect in either build.
//	I2: with the tag off nothing in this package panics.
//
// Does not know: what is being checked.
package invariant
