// Package sched runs the engine's background jobs.
//
// Purpose: it owns every goroutine that outlives a call of the engine, runs jobs by priority with a bounded number
// of workers, and turns their errors into retries, pauses and one callback.
//
// Place in the dataflow: engine submits flush, merge and clean-up jobs of tables as plain functions; the scheduler
// calls them and reports what went wrong.
//
// Invariants:
//
//	I1: at most one job of a (kind, table) runs at a time, and at most one more waits behind it; a job submitted
//	    while its like is running runs once more afterwards, so that no request for work is lost.
//	I2: with two or more workers one of them runs nothing but flushes, so that merges never hold up the release
//	    of memory.
//	I3: a job that panics or fails stops only its own table's jobs.
//	I4: after Close has returned nil no job runs and none will.
//
// Does not know: what a job does, storage, SQL.
package sched
