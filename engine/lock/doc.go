// Package lock is the row lock manager: shared and exclusive locks on opaque keys, queues and deadlock search.
//
// Purpose: it orders transactions that want the same rows. It grants S and X locks in arrival order, holds them
// until the owner releases everything, and breaks every cycle of owners that wait for each other.
//
// Place in the dataflow: the transactions of package engine take locks before they write; nothing below knows
// about it, and it keeps nothing on disk.
//
// Invariants:
//
//	I1: at any time a resource has either one X holder, or any number of S holders, or none.
//	I2: a request that could be granted is granted: whenever a holder or a waiter leaves, the queue is granted
//	    from its head as far as it is compatible with the holders.
//	I3: no request overtakes an incompatible earlier one, but an upgrade from S to X goes before all requests that
//	    are not upgrades. Hence nobody starves.
//	I4: the waits-for graph of the owners is free of cycles whenever the mutex is free: it can only grow when a
//	    request blocks, and then it is searched before the mutex is released.
//	I5: a chosen victim gets errs.ErrDeadlock from its pending request and from every later one until ReleaseAll.
//
// Does not know: storage, tables, rows, SQL, transactions beyond an owner with a number.
package lock
