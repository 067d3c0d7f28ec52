// Package zonemap keeps the least and greatest value of every few thousand rows, so that scans pass over the rest.
//
// Purpose: statistics of runs of rows (zones) of one column, gathered while rows are written, stored as ZONEMAP index
// segments and as write seeds inside data files, and the pruning of zones by filters.
//
// Place in the dataflow: a Builder sees the batches that flush, merge and compaction write and gives Stats, one per
// fragment and column; Write makes an index segment of them, AppendSeed a seed. Open reads a segment that anybody wrote;
// lsm asks its Search or Prune which row ranges a filter leaves and reads only these.
//
// Invariants:
//
//	I1: a row that can satisfy a filter is in what pruning keeps; what is not known is kept.
//	I2: bounds hold in the order of internal/predicate and in the total order of floats: -0 lies between a bound of -0
//	    and one of +0, NaN is in no bound, only in the counts.
//	I3: zones of one fragment are ascending and do not overlap; a zone never spans fragments.
//	I4: statistics of version 0 never become version 1 when they hide a maximum or the signs of NaNs.
//	I5: a Segment is immutable and safe for concurrent use.
//
// Does not know: which rows are live, snapshots, SQL types, where filters come from.
//
// Format: docs/format/zonemap.md.
package zonemap
