// Package zonebloom keeps a bloom filter over every few thousand rows of a column, so that look-ups of single values pass
// over the zones that cannot hold them.
//
// Purpose: BLOOMFILTER index segments: gathered while rows are written, stored as Lance 14 stores them, and asked for =,
// IN and IS NULL.
//
// Place in the dataflow: a Builder sees the batches that merge and compaction write and their offsets; Open reads a
// segment that anybody wrote; lsm asks Search which rows a look-up leaves. Filters are those of indexes/bloom.
//
// Invariants:
//
//	I1: a row that holds the value is in the answer; what cannot be hashed like the reference does (NaN) is in every zone.
//	I2: zones of one fragment are ascending and do not overlap; a zone never spans fragments.
//	I3: segments are not remapped: a rewritten fragment loses its zones.
//	I4: a Segment is safe for concurrent use; filters stay in its cache only.
//
// Does not know: which rows are live, snapshots, SQL types.
//
// Format: docs/format/zonebloom.md.
package zonebloom
