package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// readStore reads the objects below a directory. Why not objstore.OpenDisk: that creates and syncs directories, and
// inspection may not touch anything, so it gets a store without any method that could.
type readStore struct{ root string }

// path is the file of an object. Names come out of damaged files too, hence the check.
func (s readStore) path(name string) (string, error) {
	if name == "" {
		return s.root, nil
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("object name %q: %w", name, errs.ErrInvalid)
	}
	return filepath.Join(s.root, filepath.FromSlash(name)), nil
}

// named replaces the path in an error of the file system by the object's name.
func named(name string, err error) error {
	var bad *fs.PathError
	if errors.As(err, &bad) {
		err = bad.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errs.ErrNotFound
	}
	return fmt.Errorf("%s: %w", name, err)
}

// List implements inspect.Store.
func (s readStore) List(_ context.Context, dir string, visit func(objstore.Info) error) error {
	path, err := s.path(dir)
	if err != nil {
		return err
	}
	list, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return named(dir, err)
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".tmp") { // an object that is still being written
			continue
		}
		name := e.Name()
		if dir != "" {
			name = dir + "/" + name
		}
		info, err := os.Stat(filepath.Join(path, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return named(name, err)
		}
		if err := visit(objectInfo(name, info)); err != nil {
			return err
		}
	}
	return nil
}

func objectInfo(name string, i fs.FileInfo) objstore.Info {
	out := objstore.Info{Name: name, ModTime: i.ModTime(), Dir: i.IsDir()}
	if !out.Dir {
		out.Size = i.Size()
	}
	return out
}

// Stat implements inspect.Store.
func (s readStore) Stat(_ context.Context, name string) (objstore.Info, error) {
	path, err := s.path(name)
	if err != nil {
		return objstore.Info{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return objstore.Info{}, named(name, err)
	}
	if !info.Mode().IsRegular() {
		return objstore.Info{}, named(name, fs.ErrNotExist)
	}
	return objectInfo(name, info), nil
}

// ReadAt implements inspect.Store.
func (s readStore) ReadAt(_ context.Context, name string, p []byte, off int64) error {
	f, err := s.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.ReadFull(io.NewSectionReader(f, off, int64(len(p))), p); err != nil {
		return named(name, err)
	}
	return nil
}

// ReadAll implements inspect.Store.
func (s readStore) ReadAll(ctx context.Context, name string, limit int64) ([]byte, error) {
	info, err := s.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Size > limit {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read: %w", name, info.Size, limit, errs.ErrLimit)
	}
	b := make([]byte, info.Size)
	return b, s.ReadAt(ctx, name, b, 0)
}

func (s readStore) open(name string) (*os.File, error) {
	path, err := s.path(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, named(name, err)
	}
	return f, nil
}
