// Package predicate evaluates filters over Arrow columns under SQL's three-valued logic.
//
// Purpose: the filter language that crosses the storage layers, and its evaluation by typed loops over whole
// columns or over one row; and what a filter says about the values of one column, for indexes.
//
// Place in the dataflow: built by the SQL side, carried by scan specifications, evaluated by lsm on the
// batches that come from files and MemTables.
//
// Invariants:
//
//	I1: Eval and EvalRow agree on every row; NULL counts as false at the top only.
//	I2: a value whose Go type is not the column's own is an error, never a silent mismatch.
//	I3: a predicate only reads the columns that Columns lists.
//	I4: Bounds never leaves out a cell with which a predicate can be true.
//
// Does not know: SQL text, collations, files, keys, statistics.
package predicate
