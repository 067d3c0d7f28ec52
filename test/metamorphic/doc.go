// Package metamorphic asks the same question of a table in every way there is to find rows.
//
// Purpose: random tables of random types through random histories of writes, flushes, merges, compactions, reclusterings,
// remaps and other writers' commits; after each step a random filter is answered by zone maps, by each index, by several, in
// the order of keys and of indexes, with and without own writes.
//
// Place in the dataflow: on top of lsm and lance/table, tests only; imported by nothing.
//
// Invariants:
//
//	I1: every answer is that of looking at every row of the model.
//	I2: rows that a scan returns in the order of a key or an index are in that order.
//	I3: each planted bug makes a history fail.
//
// Does not know: SQL, transactions, crashes, files.
package metamorphic
