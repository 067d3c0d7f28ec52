//go:build invariants

package invariant

// Enabled tells whether Check panics. It is a constant, so that code under `if Enabled` costs nothing
// in production builds.
const Enabled = true

func broken(err error) error { panic(err) }
