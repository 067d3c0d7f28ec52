package engine

import (
	"fmt"
	"os"
	"path/filepath"

	"lancesql/internal/errs"
)

// dirGuard tells whether the lock file of a data directory is still the one that this process has locked. Why: a lock of
// the operating system ends with its file. Who removes the file while a process is stopped, or restores a copy over the
// directory, can start a second one; the first must not acknowledge anything any more when it goes on.
type dirGuard struct {
	name string
	held os.FileInfo
}

// guardDataDir is called with the lock held.
func guardDataDir(path string) (*dirGuard, error) {
	g := &dirGuard{name: filepath.Join(path, systemDir, lockName)}
	var err error
	if g.held, err = os.Stat(g.name); err != nil {
		return nil, fmt.Errorf("lock of the data directory: %w", err)
	}
	return g, nil
}

// check returns an error matching errs.ErrSync if the lock is lost: what is being written then may or may not count.
func (g *dirGuard) check() error {
	if g == nil {
		return nil
	}
	now, err := os.Stat(g.name)
	if err == nil && os.SameFile(now, g.held) {
		return nil
	}
	return fmt.Errorf("the data directory's lock file %s is gone or another one; another server may have the directory: %w", g.name, errs.ErrSync)
}
