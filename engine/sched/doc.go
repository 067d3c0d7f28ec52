// Package sched runs the engine's background jobs.
//
// Purpose: it owns every goroutine that outlives a call of the engine, runs jobs by priority with a bounded number
// of workers, and turns their errors into retries, pauses and one callback.
//
// Place in the dataflow: engine submits write-behind, flush, merge and clean-up jobs of tables as plain functions; the scheduler
// calls them and reports what went wrong.
//
// Invariants:
//
//	I1: at most one job of a (kind, table) runs at a time, and at most one more waits behind it; a job submitted
//	    while its like is running runs once more afterwards, so that no request for work is lost.
//	I2: one worker runs nothing but write-behind; with two or more others one of them runs nothing later in order than
//	    flushes, and compactions have a worker of their own: so a long job never holds up the WAL, a merge the release of
//	    memory, nor a compaction the merges, of its table or of others.
//	I3: a job that panics or fails stops only its own table's jobs.
//	I4: after Close has returned nil no job runs and none will.
//
// Does not know: what a job does, storage, SQL.
package sched
