// Package wal is the write-ahead log of one shard: Arrow IPC stream objects at consecutive positions.
//
// Purpose: make batches durable in order, let a newer writer fence an older one, and replay what a crash left.
//
// Place in the dataflow: lsm appends the batches of a committed group and acknowledges when Append returns;
// at open it fences, then replays entries into MemTables; after a flush it removes covered entries.
//
// Invariants:
//
//	I1: positions start at 1 and have no gap: entry n+1 is written only after entry n exists.
//	I2: an entry is never overwritten and a position never skipped after a failed attempt.
//	I3: Append returns a position only for bytes that are at that position.
//	I4: a writer that cannot tell whose bytes are at its position is poisoned and never acknowledges again.
//	I5: sentinels are never removed, so an older writer always meets one.
//
// Does not know: generations beyond their number, MemTables, manifests (the current epoch comes through a
// callback), SQL.
//
// Format: docs/format/wal.md. Spec: MemWAL, "Write-ahead log".
package wal
