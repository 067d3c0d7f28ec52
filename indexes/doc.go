// Package indexes holds what all index kinds share: segments, queries, results and the table of kinds.
//
// Purpose: one question and one form of answer for every kind of index, so that a planner combines segments without
// knowing what is inside, and one literal table that says which kinds and versions are understood.
//
// Place in the dataflow: the kinds (indexes/btree, zonemap, bitmap, bloom) read files through indexes/store and answer
// Queries; lsm asks them, intersects what they say with coverage, translates it through the fragment reuse history and
// scans the rest.
//
// Invariants:
//
//	I1: a Result never misses a row of its Fragments that satisfies the query; if Exact it has no others.
//	I2: values compare as in internal/predicate: NULL matches only IS NULL, -0 = +0, every NaN is equal and above
//	    +inf, strings and binaries bytewise.
//	I3: an entry of an unknown kind or a version above the table's is not opened: its fragments are scanned.
//
// Does not know: MemTables, snapshots, which fragments and rows are live.
package indexes
