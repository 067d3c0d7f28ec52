//go:build !unix

package engine

import (
	"fmt"
	"os"

	"lancesql/internal/errs"
)

// tryShare says that this platform has no lock to share.
func tryShare(*os.File) (held bool, err error) {
	return false, fmt.Errorf("locking a data directory on this platform: %w", errs.ErrUnsupported)
}
