// Package bloom holds the split-block bloom filter of the format and the primary-key filter beside a generation.
//
// Purpose: say for certain that a key is not in a generation without reading it.
//
// Place in the dataflow: flush fills a filter and writes it; opening a generation reads it. indexes/zonebloom keeps the same
// filters for zones of rows. Files go through indexes/store.
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
