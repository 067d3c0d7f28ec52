// Command lancesql is a MySQL-protocol database whose tables are Lance datasets.
//
// Purpose: it turns command line, configuration file and signals into an engine and a server, and their errors into one
// line and an exit code.
//
// Place in the dataflow: the top. It opens package engine, hands it to package sqlbackend, and closes both in the
// opposite order.
//
// Invariants:
//
//	I1: every refusal to start is one line on standard error and exit code 1; nothing was served then.
//	I2: flags win over the configuration file, which wins over defaults.
//	I3: after the first signal no connection is accepted; the process ends with code 0 once the engine is closed.
//
// Does not know: SQL, the MySQL protocol, what is in the data directory.
package main
