package objstore

import (
	"context"
	"fmt"
	"io"

	"lancesql/internal/errs"
)

// begin checks what every call on a name checks first.
func begin(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return checkName(name)
}

// beginDir is begin where "" means the root.
func beginDir(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return checkDir(dir)
}

// beginRename is begin for a pair of names.
func beginRename(ctx context.Context, from, to string) error {
	if err := begin(ctx, from); err != nil {
		return err
	}
	if err := checkName(to); err != nil {
		return err
	}
	if from != to && within(to, from) {
		return fmt.Errorf("%w: the target lies inside the source", errs.ErrInvalid)
	}
	return nil
}

// checkRange returns an error unless n bytes from off lie within size.
func checkRange(n int, off, size int64) error {
	if off < 0 {
		return fmt.Errorf("%w: offset %d", errs.ErrInvalid, off)
	}
	if off > size || int64(n) > size-off {
		return fmt.Errorf("%w: %d bytes at offset %d of %d", io.ErrUnexpectedEOF, n, off, size)
	}
	return nil
}

// checkLimit returns errs.ErrLimit if an object of size bytes may not be read whole.
func checkLimit(size, limit int64) error {
	if size > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", errs.ErrLimit, size, limit)
	}
	return nil
}

// errObjectInTheWay reports that a directory is needed where an object is.
func errObjectInTheWay(dir string) error {
	return fmt.Errorf("%w: an object lies on the path of directory %q", errs.ErrInvalid, dir)
}

// errIsDirectory reports that an object is needed where a directory is.
func errIsDirectory(name string) error {
	return fmt.Errorf("%w: %q is a directory", errs.ErrInvalid, name)
}
