// Package bitmap answers questions about columns of few distinct values with one set of row addresses per value.
//
// Purpose: BITMAP index segments, written by a streaming build of bounded memory and read by value, so that =, IN, ranges
// and IS NULL have exact answers without reading the column.
//
// Place in the dataflow: lsm feeds a Builder with batches and their addresses while it merges, or with the contents of
// older segments, translated; Search gives lsm the addresses of matching rows.
//
// Invariants:
//
//	I1: an answer holds exactly the indexed rows whose value matches, in the order of internal/predicate: both zeros are
//	    one value, all NaNs are.
//	I2: keys are written ascending in the total order, NULL first, each once.
//	I3: a Builder holds at most about Options.MemoryMax, beyond it spills sorted runs beside the index file and removes
//	    them at the end.
//	I4: a Segment is immutable and safe for concurrent use; it keeps all keys in memory, bitmaps only in the cache.
//
// Does not know: which rows are live, how addresses move, SQL types.
//
// Format: docs/format/bitmap.md.
package bitmap
