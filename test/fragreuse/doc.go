// Package fragreuse proves that fragment reuse histories are interchangeable with those of the reference.
//
// Purpose: indexes built by pylance answer through histories that pylance and we record, for both of us, with the answers
// of a scan.
//
// Place in the dataflow: on top of indexes/fragreuse, indexes/btree, indexes/bitmap and lance/table, tests only; imported
// by nothing. testdata/oracle/fragreuse.py is the other half.
//
// Invariants:
//
//	I1: what is right comes from scans, ours and theirs, never from an index.
//	I2: an answer of the reference counts only with the plan that says the index was used.
//
// Does not know: how a history is stored.
package fragreuse
