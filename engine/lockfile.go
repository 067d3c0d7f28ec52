package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// A data directory is recognised by `_lancesql/FORMAT`, which holds the number of the directory's format, and is used
// by one process at a time, which holds an advisory lock on `_lancesql/LOCK`. The file's content, the process id,
// is for people and error messages; the lock is the operating system's and ends with the process, so that a file
// left behind is no obstacle. The file is never removed: a second process could lock the removed one.
const (
	lockName   = "LOCK"
	formatName = "FORMAT"
	dataFormat = 1

	formatBytesMax = 64
	pidBytesMax    = 32
)

// openDataDir opens the local store of a data directory, initialising an empty or absent one, and holds its lock
// until release, which also closes the store.
//
// Errors: errs.ErrInvalid if path is not a data directory, errs.ErrLocked naming the process that uses it,
// errs.ErrNewerFormat, errs.ErrCorruption, those of the filesystem. Nothing is written before the directory is known
// to be empty or ours.
func openDataDir(ctx context.Context, path string) (store *objstore.Local, release func() error, err error) {
	if path == "" {
		return nil, nil, fmt.Errorf("no data directory given: %w", errs.ErrInvalid)
	}
	if err := checkDataDir(path); err != nil {
		return nil, nil, err
	}
	if store, err = objstore.OpenDisk(path); err != nil {
		return nil, nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	if err := store.MakeDir(ctx, systemDir); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("data directory %s: %w", path, err), store.Close())
	}
	lock, err := lockDataDir(path)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	release = func() error { return errors.Join(store.Close(), unlockDataDir(lock)) }
	if err := prepareDataDir(ctx, store); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("data directory %s: %w", path, err), release())
	}
	return store, release, nil
}

// checkDataDir refuses a path that holds something else than a data directory.
func checkDataDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory: %w", path, errs.ErrInvalid)
	}
	switch _, err := os.Stat(filepath.Join(path, systemDir, formatName)); {
	case err == nil:
		return nil // its content is checked under the lock
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data directory: %w", err)
	}
	stranger, err := firstStranger(path, systemDir, "lost+found")
	if err == nil && stranger == "" {
		// An initialisation that was cut short leaves no more than the lock file.
		stranger, err = firstStranger(filepath.Join(path, systemDir), lockName)
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if stranger != "" {
		return fmt.Errorf("%s is not a lancesql data directory (it holds %s but no %s/%s): %w", path, stranger, systemDir, formatName, errs.ErrInvalid)
	}
	return nil
}

// firstStranger returns the name of an entry of dir that is not listed and is no temporary, "" if there is none.
func firstStranger(dir string, known ...string) (string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer d.Close()
	for {
		// Why in pieces: a directory that is not ours may be huge.
		list, err := d.Readdirnames(64)
	entries:
		for _, name := range list {
			for _, k := range known {
				if name == k {
					continue entries
				}
			}
			if !strings.HasPrefix(name, ".tmp") {
				return name, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
	}
}

// lockDataDir takes the lock and writes the process id into its file.
func lockDataDir(path string) (*os.File, error) {
	name := filepath.Join(path, systemDir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	switch held, err := tryLock(f); {
	case err != nil:
		_ = f.Close()
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	case !held:
		err := fmt.Errorf("data directory %s is used by %s: %w", path, holder(f), errs.ErrLocked)
		_ = f.Close()
		return nil, err
	}
	// The id is a courtesy; the lock holds without it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// holder names the process that wrote the lock file.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, pidBytesMax))
	pid, parseErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || parseErr != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

func unlockDataDir(f *os.File) error {
	_ = f.Truncate(0) // a courtesy as well
	if err := f.Close(); err != nil {
		return fmt.Errorf("unlock data directory: %w", err)
	}
	return nil
}

// prepareDataDir checks the format of the locked directory, writes it into a new one and removes temporaries of
// processes that died.
func prepareDataDir(ctx context.Context, store *objstore.Local) error {
	name := systemDir + "/" + formatName
	text, err := store.ReadAll(ctx, name, formatBytesMax)
	if errors.Is(err, errs.ErrNotFound) {
		text = []byte(strconv.Itoa(dataFormat) + "\n")
		err = store.PutIfAbsent(ctx, name, text)
	}
	if errors.Is(err, errs.ErrLimit) {
		return errs.Corrupt(name, -1, "more than %d bytes", formatBytesMax)
	}
	if err != nil {
		return err
	}
	if err := checkFormat(name, string(text)); err != nil {
		return err
	}
	for _, dir := range []string{systemDir, catalogDir} {
		if _, err := store.SweepTemp(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// checkFormat accepts the content of a FORMAT file: a decimal number and a line feed.
func checkFormat(name, text string) error {
	line, _, _ := strings.Cut(text, "\n")
	format, err := strconv.ParseUint(line, 10, 32)
	switch {
	case err != nil || format == 0:
		return errs.Corrupt(name, 0, "%q is not a format number", line)
	case format > dataFormat:
		return fmt.Errorf("its format is %d, this version knows %d: %w", format, dataFormat, errs.ErrNewerFormat)
	}
	return nil
}
