// Command format measures lance/file beside the reference implementation on the same files.
//
// Purpose: one table that says how fast we scan, take and write compared with pylance, for one column of each common
// encoding; both sides run in turns within one process pair, so that a busy machine is equally busy for both.
//
// Place in the dataflow: on top of lance/file; starts a Python that has pylance, which makes the files and is the other
// side. Prints a table and writes JSON.
//
// Invariants:
//
//	I1: both sides read the same bytes with the same batch size, from a warm cache, and must see the same number of rows.
//	I2: the reference may use one thread for decoding (LANCE_CPU_THREADS=1); its input threads stay as they are.
//	I3: a ratio is of the best rounds; medians and processor time are in the JSON as well.
//
// Does not know: tables, SQL, the encodings that the files have.
package main
