// Command wal measures the write path below SQL: commits, flushes, merges, recovery.
//
// Purpose: figures that say how far the engine is from what its disk can do, so the floor is measured in the same run: an append of
// as many bytes as a one-row record takes, with a data sync, on a preallocated file.
//
// Place in the dataflow: on top of engine; `make bench-wal` runs it. Nothing imports it.
//
// Invariants:
//
//	I1: every figure is printed with what it is divided by.
//	I2: the floor and the commits of one writer alternate, so that both see the same disk.
//
// Does not know: SQL, file formats.
package main
