// Package btree builds, reads, searches and merges BTREE segments and the primary-key sidecar of a generation.
//
// Purpose: values in ascending order, each with the id of its row, in pages of a fixed number of rows, and one small
// table of the pages' bounds: what the reference calls a BTREE. A look-up decodes only the pages that can hold the key.
//
// Place in the dataflow: flush, merge, index builds and upkeep give it values with row addresses (or, for the sidecar,
// offsets) in order or not; it writes them through indexes/store. Scans ask an Index as an indexes.Segment; the key
// look-ups of lsm ask it for many sorted keys at once; merges read it as a Stream.
//
// Invariants:
//
//	I1: rows are ordered by value (order.go), NULLs first; a segment is checked against that when written and when read.
//	I2: page p holds rows [p*batch, (p+1)*batch) and row p of the table of pages its first value, last value and NULLs.
//	I3: an Index is immutable and safe for concurrent use; it holds the table of pages, other pages are in the cache.
//	I4: answers are exact. Equality is that of internal/predicate (-0 = +0, all NaN equal), whatever the order is.
//	I5: in a sidecar rows of one key are in ascending order of their offsets.
//
// Does not know: which rows are alive, fragments beyond the coverage it is told, where its entry lies.
//
// Format: docs/format/btree.md, docs/format/generation.md.
package btree
