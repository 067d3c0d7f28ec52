// Package wire answers MySQL protocol commands.
//
// # Purpose
//
// It stands between the frontend's connection loop and its engine: each command runs here, its rows are sent here, and
// each error gets the number, state and text that MySQL clients expect.
//
// # Place in the dataflow
//
// From below it takes the frontend's engine, session manager and stock handler (embedded, so that every command it does
// not know still works). It gives package sqlbackend a mysql.Handler, a listener that counts connections, and log bridges.
//
// # Invariants
//
//  1. A command begins and ends exactly once in the process list and in the session, also when it panics.
//  2. A failed statement is closed without passing the iterator that commits.
//  3. The last rows of a result, and every OK packet, are sent after the statement's iterators were closed, hence after
//     the commit of an autocommit statement.
//  4. Memory of a result is bounded by one batch of rows, unless a client cursor keeps batches.
//  5. Error mapping happens once, last, on the error as the engine returned it.
//
// # Does not know
//
// Tables, storage, transactions beyond "is one open", how statements are planned, MySQL numbers of single errors.
package wire
