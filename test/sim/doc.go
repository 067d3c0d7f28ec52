// Package sim runs whole engines through random histories against maps.
//
// Purpose: find what no single test thinks of: transactions over several tables, savepoints, views, flushes, merges, freshness,
// other Lance writers, second claimants of a shard, writers that wake up too late, rebuilt tables, failing and dying disks,
// in any order. A history is decided by its seed; time, jobs and faults are the history's to give.
//
// Place in the dataflow: on top of engine, lsm and lance/table, tests only; imported by nothing.
//
// Invariants:
//
//	I1: after every step all tables and all open views hold exactly what the maps say.
//	I2: after a crash the tables hold what was acknowledged, with or without the one transaction in flight.
//	I3: every kind of step counts itself; a run in which one was not reached fails.
//	I4: with a rule of the engine switched off, a run fails.
//
// Does not know: SQL, files.
package sim
