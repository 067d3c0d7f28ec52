// Package faultfs makes a filesystem fail, crash and forget on request.
//
// Purpose: number the changing calls of a vfs.FS, fail or crash at the n-th, leave out chosen syncs as a
// planted bug, and produce the disk that a machine would find after losing power at this moment. It tests
// objstore.Local, and through it everything that claims durability.
//
// Place in the dataflow: it stands between an objstore.Local and pebble's memory filesystem; only tests
// import it.
//
// Invariants:
//
//	I1: changing calls are numbered from 1 in the order in which they begin, each exactly once; every step
//	    of a RemoveAll is a call of its own.
//	I2: from a crash on, no call of any kind reaches the filesystem; each returns ErrCrashed.
//	I3: CrashClone sees every change completely or not at all, and at its strictest holds exactly what was
//	    synced: bytes by a sync of the file, names by a sync of the directory.
//	I4: with an empty Plan the filesystem behaves like the inner one.
//
// CrashClone of pebble's own memory filesystem is not used directly, for two reasons. Its Link takes a read
// lock twice, so a concurrent clone can block it for ever: this package lets a clone wait until no call is in
// progress. And it brings back every name whose removal was not synced, always, so that a program which
// removes something before its replacement is durable looks correct: this package remembers unsynced
// removals and lets them survive with the same probability as unsynced names.
//
// Does not know: objects, stores, what the files mean.
package faultfs
