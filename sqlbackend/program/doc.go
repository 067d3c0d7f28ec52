// Package program parses and runs the bodies of stored programs: procedures and functions.
//
// # Purpose
//
// The frontend's interpreter knows few handlers and loses local variables in many statements. This one reads the whole language
// of stored programs, keeps frames of typed variables, and leaves every SQL statement and expression to its caller.
//
// # Place in the dataflow
//
// Package sqlbackend gives it the tokens of a body and a function that parses one SQL statement; it gives back a Body. To run one,
// sqlbackend gives it an Env, through which each statement runs as a statement of the session.
//
// # Invariants
//
//  1. A Body is immutable: it may run many times, also at once, and inside itself.
//  2. A variable enters a statement as a literal of its type in the syntax tree, never as text.
//  3. A statement that fails changes no variable; a handler runs for one condition at a time, the innermost block first.
//  4. Every turn of a loop looks at the context, and what interrupts a program is never handled by it.
//
// # Does not know
//
// Sessions, transactions, the catalog, how a body is stored, the protocol.
package program
