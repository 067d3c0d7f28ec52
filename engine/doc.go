// Package engine is databases, transactions, commits and recovery over lsm tables.
//
// Purpose: it gives every statement a consistent view, locks what a statement writes until commit, makes a
// commit durable as one step and applies it in order. It owns the catalog and all background work.
//
// Place in the dataflow: sqlbackend calls it with physical rows (arrowx.Row) and keys; it calls lsm with
// write sets in commit order and views.
//
// Invariants:
//
//	I1: CommitSeq numbers are handed out in the order in which commits become visible; a view is one of them.
//	I2: the low-water mark never passes a registered view.
//	I3: a row is written only under the X lock of its key, held to the end of the transaction.
//	I4: a commit is acknowledged only after its journal record is durable (or written, if the setting says so), and
//	    visible; nothing is acknowledged after a record whose outcome is unknown.
//	I5: the catalog image is immutable; only paths named by our own intents are ever removed.
//	I6: a journal record goes only when every part of it is in a WAL entry of its shard, and such an entry only when the
//	    journal starts after its records.
//
// Does not know: plans, expressions, MySQL error numbers, wire protocol, file formats below lsm.
package engine
