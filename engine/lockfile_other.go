//go:build !unix

package engine

import (
	"fmt"
	"os"

	"lancesql/internal/errs"
)

// tryLock refuses: without a lock two processes could write one directory.
func tryLock(*os.File) (held bool, err error) {
	return false, fmt.Errorf("no file locks on this system: %w", errs.ErrUnsupported)
}
