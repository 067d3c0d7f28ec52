// Package pkstore is the in-memory primary-key index of MemTables: key -> row positions, newest first.
//
// Purpose: answer "which row of this MemTable is the newest of this key below row n" with one seek. One
// pebble instance on a memory filesystem serves all MemTables; each owns a Space of keys.
//
// Place in the dataflow: MemTables put the keys of appended rows; lsm looks keys up for reads, uniqueness and
// deaths. Everything here is lost at close and rebuilt by WAL replay.
//
// Invariants:
//
//	I1: an entry is space (8 bytes BE) + key + ^row (8 bytes BE), so rows of a key descend.
//	I2: no key of a space is a proper prefix of another (rowkey I2); entries of one key are contiguous.
//	I3: space ids are never reused while the store is open.
//	I4: a Put is atomic: readers see all of its entries or none.
//
// Does not know: Arrow, tables, generations, sequence numbers, durability.
package pkstore
