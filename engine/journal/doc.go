// Package journal is the engine-wide commit journal: one record decides one commit, whatever its number of
// tables and shards.
//
// Purpose: append a record and know that it is durable, many callers sharing one sync; and find all records again
// after a crash, in order, none missing and none doubled.
//
// Place in the dataflow: the engine's Durable writes commits here; recovery reads them; below lies internal/logfile.
//
// Invariants:
//
//	I1: record numbers have no gaps; J+1 is never written before J.
//	I2: an acknowledged record was synced before Append returned.
//	I3: no block that holds an acknowledged record is written again until its segment is recycled: records begin
//	    at block boundaries.
//	I4: a recycled file's old records carry an older segment id and are not records.
//	I5: a bad record ends the log only if nothing valid follows it; otherwise opening is refused.
//
// Does not know: what a part or a catalog change means.
//
// Format: docs/format/journal.md.
package journal
