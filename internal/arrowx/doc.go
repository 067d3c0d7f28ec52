// Package arrowx moves cells, rows and batches between Go values and Arrow memory.
//
// Purpose: the one place that knows which Go type a cell of each Arrow type has, and the typed loops that
// gather, mask, join and measure record batches. Every other package works on whole batches.
//
// Place in the dataflow: lowest storage layer but one. It takes Arrow arrays from files, the WAL and the
// MemTable and gives rows to the SQL side, and batches built from rows to the write path.
//
// Invariants:
//
//	I1: a cell handed out owns its bytes; releasing the batch it came from does not change it.
//	I2: a function that returns a batch transfers one reference; one that takes a batch borrows it.
//	I3: every batch handed out starts at bit 0 of fresh buffers, except slices made by the caller.
//
// Does not know: SQL types, collations, keys, Lance field ids, files.
package arrowx
