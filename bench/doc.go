// Command bench runs seeded workloads over SQL against any MySQL-protocol server and reports what they took.
//
// Purpose: one program that measures this server and others in the same way, so that a claim of speed is a command line.
// It prints a text table and writes JSON for later comparison.
//
// Place in the dataflow: a client. It connects through the MySQL protocol and imports nothing of the server.
//
// Invariants:
//
//	I1: the same seed, rows and connections send the same statements per connection, up to retries of deadlocks.
//	I2: a workload is measured only after its warm-up; preparation is never inside a measured time.
//	I3: an error other than a deadlock or a lock wait timeout ends the run: numbers of a faulty run mean nothing.
//
// Does not know: where the server keeps its data, or that it is lancesql.
package main
