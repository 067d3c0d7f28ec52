package invariant

import (
	"errors"
	"fmt"
)

// ErrBroken marks errors that report a broken invariant of our own code: a bug, not a condition that a
// caller can repair.
var ErrBroken = errors.New("broken invariant")

// Check returns nil if cond holds. Otherwise it panics in builds with the tag `invariants`, and returns an
// error that matches ErrBroken in all others. The arguments are evaluated in either case: guard costly ones
// with Enabled.
func Check(cond bool, format string, args ...any) error {
	if cond {
		return nil
	}
	return broken(fmt.Errorf("%w: %s", ErrBroken, fmt.Sprintf(format, args...)))
}
