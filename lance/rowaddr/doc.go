// Package rowaddr names one physical row of a Lance table: a fragment and an offset inside it.
//
// Purpose: one integer type for row addresses, so that they are never mixed with row ids, offsets or counts, and sets of them.
//
// Place in the dataflow: index structures and the table layer produce addresses; scans, takes and deletion vectors
// consume them. Nothing below.
//
// Invariants:
//  1. Addr = fragment<<32 | offset; the order of addresses is the order of (fragment, offset).
//
// Does not know: stable row ids, deletions, files.
package rowaddr
