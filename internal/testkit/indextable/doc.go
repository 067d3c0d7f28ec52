// Package indextable is the table on which index kinds prove that they and the reference read each other's files.
//
// Purpose: one small table with every scalar type and the values that indexes get wrong (NaN, signed zeros, infinities,
// NULL runs, empty and long text, deleted rows, several fragments), filters over it as expressions and as the
// reference's SQL, and calls to the reference that build indexes and answer filters with and without them.
//
// Place in the dataflow: tests of indexes/* only; on top of lance/table and internal/testkit/oracle.
//
// Invariants:
//
//	I1: the table is written by our writer; what is right comes from evaluating filters row by row, never from an index.
//	I2: an answer of the reference counts only with the plan that says the index was used.
//
// Does not know: index files, kinds.
package indextable
