package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lancesql/internal/errs"
)

// shareDataDir keeps writers out of a data directory until release, without changing anything in it. A directory without
// a lock file has never been opened by a writer that could be kept out. errs.ErrLocked while a writer has it open.
func shareDataDir(path string) (release func(), err error) {
	f, err := os.Open(filepath.Join(path, systemDir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	held, err := tryShare(f)
	if err == nil && held {
		return func() { _ = f.Close() }, nil // only read
	}
	if err == nil {
		err = fmt.Errorf("data directory %s is open in %s: %w", path, holder(f), errs.ErrLocked)
	} else {
		err = fmt.Errorf("lock data directory %s: %w", path, err)
	}
	_ = f.Close() // only read
	return nil, err
}
