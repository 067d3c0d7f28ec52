// Package lock is the lock manager: locks of five modes on opaque resources, queues and deadlock search.
//
// Purpose: it orders sessions that want the same rows, tables, definitions or names. It grants locks in arrival order,
// holds them until their owner releases them, and breaks every cycle of owners that wait for each other.
//
// Place in the dataflow: the sessions and transactions of package engine take locks before they read or write; nothing
// below knows about it, and it keeps nothing on disk.
//
// Invariants:
//
//	I1: the modes held on a resource by different owners are compatible with each other at any time.
//	I2: a request that could be granted is granted: whenever a holder or a waiter leaves, the queue is walked, and every
//	    request compatible with the holders and with all requests before it is granted.
//	I3: no request overtakes an incompatible earlier one, but the upgrade of a lock already held goes before all requests
//	    that are no upgrades. Hence nobody starves.
//	I4: the waits-for graph of the owners is free of cycles whenever the mutex is free: a cycle can only arise when a
//	    request blocks, and then it is searched before the mutex is released.
//	I5: a victim gets errs.ErrDeadlock from its pending request; if that was for its transaction, also from every later
//	    one until the locks of the transaction are released.
//
// Does not know: storage, tables, rows, SQL, transactions beyond an owner with a number.
package lock
