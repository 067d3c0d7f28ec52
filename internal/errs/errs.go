package errs

import (
	"errors"
	"fmt"
)

// Storage sentinels. Each line says who is at fault or what the caller may do next.
var (
	ErrNotFound    = errors.New("not found")         // the named thing does not exist
	ErrExists      = errors.New("already exists")    // put-if-absent met an existing object
	ErrConflict    = errors.New("conflict")          // reload and retry
	ErrFenced      = errors.New("fenced")            // a newer writer owns the shard
	ErrPoisoned    = errors.New("poisoned")          // this writer must be reopened
	ErrUnsupported = errors.New("unsupported")       // flag, version or encoding we must refuse
	ErrInvalid     = errors.New("invalid argument")  // the caller's fault
	ErrLimit       = errors.New("limit exceeded")    // a configured bound was hit
	ErrClosed      = errors.New("closed")            // used after Close
	ErrCorruption  = errors.New("corruption")        // bytes that cannot be what we or Lance wrote
	ErrNoSpace     = errors.New("no space left")     // the disk is full; nothing was acknowledged
	ErrTableFull   = errors.New("the table is full") // a temporary table, whose memory is bounded
	ErrSync        = errors.New("sync failed")       // fatal: what a failed fsync left behind is unknown
	ErrLocked      = errors.New("locked by another process")
	ErrNewerFormat = errors.New("written by a newer version")
	ErrReadOnly    = errors.New("opened for reading only")
	ErrVanished    = errors.New("removed by its writer meanwhile") // a reader beside a writer: look again
)

// Transaction sentinels.
var (
	ErrWriteConflict = errors.New("row changed since it was read") // re-run the statement
	ErrDeadlock      = errors.New("deadlock")                      // the whole transaction was rolled back
	ErrLockTimeout   = errors.New("lock wait timeout")             // only the statement fails
	ErrSchemaChanged = errors.New("table definition changed")      // the view is older than a schema change
	ErrDuplicateKey  = errors.New("duplicate key")                 // matched by the engine's typed error
	ErrAmbiguousKey  = errors.New("key stored more than once")     // another writer broke the primary key
)

// Corruption reports bytes that no correct writer produces. It matches ErrCorruption.
type Corruption struct {
	Object string // object name or "<memory>"
	Offset int64  // byte offset inside the object, -1 if unknown
	What   string // what was expected or found
}

// Corrupt builds a *Corruption; offset is in bytes, -1 when unknown.
func Corrupt(object string, offset int64, format string, args ...any) error {
	return &Corruption{Object: object, Offset: offset, What: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (c *Corruption) Error() string {
	if c.Offset < 0 {
		return fmt.Sprintf("corruption in %s: %s", c.Object, c.What)
	}
	return fmt.Sprintf("corruption in %s at byte %d: %s", c.Object, c.Offset, c.What)
}

// Is reports whether target is ErrCorruption.
func (c *Corruption) Is(target error) bool { return target == ErrCorruption }
