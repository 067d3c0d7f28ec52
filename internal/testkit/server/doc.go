// Package server runs bin/lancesql as a process for tests: start, kill -9, restart, stop, with its log shown on failure.
//
// Purpose: process-level tests see what a user sees. Nothing here reaches into the server; it is driven by its flags,
// signals and the MySQL protocol.
//
// Place in the dataflow: tests only. Builds cmd/lancesql once per test binary and connects through a MySQL driver.
//
// Invariants:
//
//	I1: a server listens on 127.0.0.1 on a port of its own; its data directory is temporary unless the test names one.
//	I2: every process is ended, by its id, before the test ends.
//	I3: the binary is built from the sources of this tree, and a cached test result depends on those sources.
//
// Does not know: SQL beyond a ping, the data directory's layout.
package server
