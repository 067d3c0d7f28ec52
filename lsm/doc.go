// Package lsm is one table: a base Lance dataset plus the MemWAL shard on top of it.
//
// Purpose: it turns ordered commits of rows, keyed or (keyless.go) not, into WAL entries, a MemTable, flushed generations and base
// fragments, and answers key look-ups and scans at any CommitSeq that is still in use.
//
// Place in the dataflow: the engine stages and applies commits here and reads through a Snapshot; below lie
// the WAL, the MemTable, the key store and the Lance table format.
//
// Invariants:
//
//	I1: a physical row is born once and dies at most once; its death is recorded in the log of the source it
//	    lives in, with the generation of the row that replaced it.
//	I2: within one Version every key has at most one row that is alive at a given CommitSeq.
//	I3: a flush keeps row offsets, so births and deaths of a MemTable are those of its generation.
//	I4: a staged location cannot move: movers take the latch exclusively, a commit holds it shared.
//	I5: generations are flushed and merged in ascending order; the replay cursor only covers flushed rows.
//	I6: a Version serves a view S iff Floor <= S; Floor rises only when births are lost (merge, adoption).
//
// Does not know: other tables, transactions, locks, users, SQL types.
//
// Format: docs/format/{wal,generation,shard_manifest}.md.
package lsm
