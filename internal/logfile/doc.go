// Package logfile keeps preallocated files that are overwritten in place and reused.
//
// Purpose: an append to a log that was written full of zeros before touches no file system metadata, so that one
// data sync makes it durable. The commit journal is built on it.
//
// Place in the dataflow: below engine/journal; above the same vfs as the local object store.
//
// Invariants:
//
//	I1: a File handed out has its full size, and its blocks and its directory entry are durable.
//	I2: a failed sync makes the File useless: every later write and sync fails.
//
// Does not know: records, segments, what the bytes mean.
package logfile
