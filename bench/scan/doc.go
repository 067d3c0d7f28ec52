// Command scan measures how little reads look at: ranges, look-ups, reclustering.
//
// Purpose: on rows like those of TPC-H's lineitem, what zone maps and indexes leave of a full scan, in bytes and time, before and
// after a recluster; point look-ups beside a row in memory.
//
// Place in the dataflow: on top of engine; `make bench-scan` runs it. Nothing imports it.
//
// Invariants:
//
//	I1: bytes are those that the store served, as the engine counts them.
//	I2: the number of rows of every answer is checked.
//
// Does not know: SQL, file formats.
package main
