//go:build !invariants

package invariant

// Enabled tells whether Check panics. It is a constant, so that code under `if Enabled` costs nothing
// in production builds.
const Enabled = false

func broken(err error) error { return err }
