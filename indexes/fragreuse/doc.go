// Package fragreuse follows rows through rewrites: from the addresses an index holds to those of today.
//
// Purpose: read the fragment reuse history of a table version, translate addresses and coverage of index segments
// through it, and say what of it may be forgotten; write and read the row maps of stable partitions.
//
// Place in the dataflow: lance/table gives it the decoded history of a manifest and commits what it prepares; the kinds
// of index give it the addresses they hold; lsm gets addresses that exist in the manifest, and the fragments left to scan.
//
// Invariants:
//
//	I1: a translated address lies in the translation's coverage; every live row of the coverage that the segment holds
//	    is among them. What cannot be followed is not covered, never guessed.
//	I2: a fragment is rewritten at most once and its id is never used again, so an address alone says which steps it
//	    has still to take; nothing depends on when a segment was built.
//	I3: everything read is checked against the digests of the steps; what does not agree is *errs.Corruption.
//	I4: a History and its Translations are immutable but for caches; safe for concurrent use.
//
// Does not know: values, kinds of index beyond "addresses" and "positions", snapshots, who compacts and when.
//
// Format: docs/format/fri.md.
package fragreuse
