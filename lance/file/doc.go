// Package file reads and writes single Lance data files (*.lance), versions 2.0 to 2.2, flat and nested columns.
//
// Purpose: turn record batches into one immutable file and ranges or sets of rows of such a file back into record
// batches. It owns the container (footer, tables of offsets, file descriptor, column metadata) and all reads and
// writes; the bytes inside page buffers belong to lance/encoding.
//
// Place in the dataflow: the table layer gives it a schema, a place to write to or a Source to read from, and the map
// from field ids to physical columns; it gets record batches and the summary that a manifest needs.
//
// Invariants:
//  1. A Reader is immutable after Open and safe for concurrent use; caches inside it are bounded.
//  2. Every length and position read from a file is checked against the file size before it is used; what is wrong is
//     reported as *errs.Corruption and never panics.
//  3. A Writer holds at most about WriterOptions.MaxPageBytes per column, and no more than a fixed total.
//  4. Every page buffer starts at a multiple of 64 bytes.
//
// Does not know: fragments, manifests, deletions, row addresses, SQL types, object stores.
//
// Format: docs/format/file.md.
package file
