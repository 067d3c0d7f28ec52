// Package objstore stores whole objects under slash-separated names, with exclusive creation.
//
// Purpose: the one door through which Lance files, WAL entries, manifests and catalog snapshots reach a
// disk. Local keeps them in a directory and makes every acknowledged object durable; Mem keeps them in
// memory with the same behaviour. Both pass internal/objstore/objstoretest.
//
// Place in the dataflow: it gets bytes and names from lance/table, wal, lsm and the engine's catalog, and
// gives them to a vfs.FS (the operating system's, or pebble's memory filesystem in tests). faultstore wraps
// any Store, faultfs wraps the vfs.FS below a Local.
//
// Invariants:
//
//	I1: an object is visible completely or not at all, also after a crash: its bytes are synced before its
//	    name exists.
//	I2: when PutIfAbsent, Commit, MakeDir or Rename returns nil, the name is synced in its directory and
//	    every directory on the path is synced in its parent. So are the names on which the answers
//	    errs.ErrExists of PutIfAbsent and Commit, errs.ErrExists and errs.ErrNotFound of Rename, and nil of
//	    RemoveAll are founded: a dead process may have left them unsynced.
//	I3: of any number of writers creating one name, one succeeds.
//	I4: no name leads outside the root. A symbolic link placed there by an administrator is followed, except
//	    by RemoveAll, which removes the link and not what it points to.
//	I5: after a failed sync nothing more is acknowledged: every later change fails with errs.ErrSync until
//	    the store is opened again. Reads go on.
//	I6: a file is removed only by Delete and RemoveAll of its name, or if it is a temporary of this package.
//
// After a crash in the middle of Rename both names may exist, with equal content: the new name is synced
// before the removal of the old one, so that no order in which a disk may write them loses the directory.
//
// Does not know: what is in an object; versions, shards, epochs.
//
// Format: a temporary is a file `.tmp` followed by 32 lower-case hex digits, 16 of the store that wrote it
// and 16 of a counter, in the directory of the object it becomes. List hides every name that starts with
// `.tmp`, which includes the temporaries of the Lance libraries.
package objstore
