// Package testcert makes certificates for tests of TLS.
//
// Purpose: clients that check a server's certificate need one that names 127.0.0.1 and that they can be told to trust.
//
// Place in the dataflow: tests only. What it writes is given to a server's settings and to the client.
//
// Invariants:
//
//	I1: a certificate is good for an hour and is its own authority.
//
// Does not know: servers and clients.
package testcert
