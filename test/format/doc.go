// Package format judges the Go implementation of the Lance format against the reference implementation.
//
// Purpose: read everything a generated corpus of pylance and lancedb files holds, let pylance and lancedb read everything
// we write, compare sizes, and feed damaged files to the reader. It finds faults; it does not know how to fix them.
//
// Place in the dataflow: on top of lance/file and lance/table, tests only; imported by nothing. testdata/oracle/corpus*.py
// are the other half.
//
// Invariants:
//
//	I1: what is right comes from the generator as an Arrow IPC file, never from a reader under test.
//	I2: values compare bit by bit; what lies under nulls does not count.
//	I3: a known failure is an entry of a literal table with its reason; an entry that nothing needs fails the test.
//
// Does not know: encodings, page layouts, SQL.
package format
