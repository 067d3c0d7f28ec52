// Package table reads and writes Lance tables: versions, fragments, deletion files, transactions and the index section.
//
// Purpose: turn "these fragments are added, these offsets are gone" into the next version of a table that the
// reference library opens, scans and commits on top of, and read any such version back. Fragments hold rows
// physically; which of them are live is said by deletion files.
//
// Place in the dataflow: gets objects from internal/objstore and record batches from lance/file; gives lsm immutable
// Dataset handles, fragment readers, and commits by compare-and-swap on the version number. Users of the library find
// whole operations beside the bare commits: append, overwrite, delete, update, merge, columns, compaction, tags, time travel.
//
// Invariants:
//
//	I1: a Dataset is immutable; a commit returns a new handle. Data and deletion files never change once named by a version.
//	I2: version v+1 is created only by put-if-absent of its manifest, after every object it names is durable.
//	I3: a fragment id is never used twice; max_fragment_id never falls.
//	I4: a deletion file holds the complete set of deleted offsets of its fragment; the set never shrinks.
//	I5: what is not understood (unknown fields, index kinds) is carried to the next version; what must be understood
//	    (feature flags, file versions) and is not, is refused.
//	I6: merged generations of a shard advance strictly, in the same manifest as the rows they brought.
//	I7: every committed version names a transaction, as a file and inline.
//	I8: an operation passes over concurrent commits only where the conflict table says so; what it acknowledged is in
//	    every later version, and a row that two sides change at once makes one of them compute anew.
//	I9: clean-up removes nothing that a kept version, a tag or a branch names, and no unnamed object that may belong to a commit in flight.
//
// Does not know: shards' contents, the WAL, generations' meaning, enforcing of keys, SQL. The MemWAL entry is
// carried as typed data.
//
// Format: docs/format/layout.md and docs/format/manifest.md.
package table
