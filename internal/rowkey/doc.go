// Package rowkey encodes primary keys as byte strings that sort like the tuples they stand for.
//
// Purpose: one encoding for PK indexes, key ranges, write sets and the composite `_pk_index` sidecar, and
// the append functions from which the SQL side builds hidden key columns.
//
// Place in the dataflow: takes rows or batches in schema order and gives Keys to memtable, pkstore, lsm and
// the engine's lock manager.
//
// Invariants:
//
//	I1: comparing two Keys of one Encoder bytewise compares the tuples; NULL is below everything.
//	I2: the encoding is injective and no Key is a proper prefix of another Key of the same Encoder.
//	I3: a value's bytes do not depend on its neighbours, so a prefix of the columns is a range bound.
//
// Does not know: collations, column names, which columns are the key of which table.
//
// Format: Spec: MemWAL, "Primary-key sidecars" (composite tuple encoding).
package rowkey
