// Package bloom holds the two bloom filters of the format: the primary-key filter beside a generation and the zones of a
// BLOOMFILTER index.
//
// Purpose: say for certain that a key is not in a generation, or a value not in a zone, without reading either.
//
// Place in the dataflow: flush fills a filter and writes it; opening a generation reads it. Scans ask zone segments as an
// indexes.Segment. Files go through indexes/store.
//
// Invariants:
//
//	I1: a filter never denies what was added to it.
//	I2: the hashed bytes are the reference's, for the types where its writer and its reader agree; for others there is no
//	    filter, since its own denies what it holds (Trusted).
//	I3: a decoded filter has a length the format knows; what has not is *errs.Corruption.
//
// Does not know: generations, shards, which rows are alive.
//
// Format: docs/format/generation.md, "bloom_filter.bin".
package bloom
