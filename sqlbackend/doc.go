// Package sqlbackend is lancesql as the SQL frontend (go-mysql-server) sees it: databases, tables, editors,
// sessions, and the server that carries them.
//
// Purpose: it maps MySQL types, keys and statements to physical rows, keys and engine transactions, and gives
// every statement boundary the frontend leaves open a definite end.
//
// Place in the dataflow: the frontend calls it with plans and rows; it calls engine with arrowx.Row, rowkey.Key
// and lsm.ScanSpec. Arrow batches coming back become rows here and nowhere else.
//
// Invariants:
//
//	I1: position i of a frontend row is physical column i; a hidden physical column comes last.
//	I2: two rows have the same key exactly when the frontend's comparison of every key part says so, and keys
//	    sort as their parts do.
//	I3: a scan may return more rows than an index lookup or pushed filter asked for, never fewer; the
//	    frontend's own filter stays above it.
//	I4: no call made under the frontend's catalog lock (database and table look-up) does I/O or waits.
//	I5: when the last command of a session has ended, no autocommit transaction, reader or lock of it remains.
//	I6: an object handed to the frontend is immutable or belongs to one statement.
//
// Does not know: files, generations, WAL entries, manifests, protobuf messages.
package sqlbackend
