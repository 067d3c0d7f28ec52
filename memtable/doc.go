// Package memtable holds the rows of one generation in memory: an append log of Arrow batches, the sequence
// number at which each prefix was born, and the primary-key entries of its rows.
//
// Purpose: buffer rows before a flush and serve strongly consistent reads of them.
//
// Place in the dataflow: lsm appends the batches of committed groups (or of replayed WAL entries); scans take
// prefixes of the log, look-ups go through the Space, and a flush reads the whole log in forward order.
//
// Invariants:
//
//	I1: row positions are insert order, never change and are never reused; coalescing keeps them.
//	I2: rows are published after their primary-key entries and before their birth, so a reader that takes
//	    Births().At(s) finds every row below it, and every key of such a row.
//	I3: a published log is immutable; a reader that got a batch owns a reference to it.
//	I4: births ascend in both sequence number and row count.
//
// Does not know: files, the WAL, shards, deaths, views, SQL.
package memtable
