// Package e2e drives bin/lancesql as a process through the MySQL protocol and reads its tables with the reference
// implementation of Lance.
//
// Purpose: say in tests what the product promises to a user: rows survive kill -9, transactions are whole, errors have
// MySQL's numbers, and after FLUSH TABLES any Lance reader sees what SQL sees.
//
// Place in the dataflow: on top of everything, through the binary alone; imported by nothing.
//
// Invariants:
//
//	I1: expected contents come from a model kept by the test, never from the server under test.
//	I2: each random test prints its seed; LANCESQL_SEED repeats it.
//	I3: only processes that the test started are signalled.
//
// Does not know: any package of the server.
package e2e
