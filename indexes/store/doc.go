// Package store reads and writes the files of index segments.
//
// Purpose: the one way from an index kind to its bytes: small Lance files of version 2.0 below one directory of an
// object store, with metadata and global buffers, and a bounded cache of what was read from them.
//
// Place in the dataflow: the kinds (indexes/btree, zonemap, bitmap, bloom) give it record batches and get record batches
// and buffers back; it reads and writes through lance/file and internal/objstore. lsm names the directory.
//
// Invariants:
//
//	I1: a file exists completely, durably, or not at all; a file is never replaced.
//	I2: a Writer holds at most about 8 MiB of each column.
//	I3: every number read from a file is checked and bounded; what is wrong is *errs.Corruption.
//	I4: a Cache holds at most its bytes, and nothing of an owner after Drop.
//
// Does not know: what the columns mean, index entries, fragments.
//
// Format: docs/format/file.md, "Version 2.0".
package store
