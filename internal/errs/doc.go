// Package errs holds the error taxonomy shared by every layer.
//
// Purpose: a handful of sentinels that callers test with errors.Is, and one typed error for bad bytes.
//
// Place in the dataflow: lowest layer; everything may import it and it imports only the standard library.
//
// Invariants:
//
//	I1: a *Corruption always matches ErrCorruption.
//	I2: sentinels are compared with errors.Is only, never by text.
//
// Does not know: storage, SQL, MySQL error numbers (those are assigned in sqlbackend/errors.go).
package errs
