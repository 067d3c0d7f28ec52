package objstore

import (
	"fmt"
	"strings"

	"lancesql/internal/errs"
)

const (
	// nameBytesMax bounds a whole name. The longest name the engine makes (two encoded names of 200 bytes,
	// a shard, a file) stays below 600; object stores commonly stop at 1024.
	nameBytesMax = 1024
	// segmentBytesMax is the limit of common filesystems for one directory entry.
	segmentBytesMax = 255
	// tempPrefix starts the names of objects in flight, ours and those of the Lance libraries. No object
	// may be called so, and List does not show them.
	tempPrefix = ".tmp"
	// tempHexDigits is the length of the part of our temporaries' names that follows tempPrefix.
	tempHexDigits = 32
)

// checkName returns errs.ErrInvalid unless name is a proper object or directory name below the root.
func checkName(name string) error {
	if len(name) > nameBytesMax {
		return fmt.Errorf("%w: object name of %d bytes, at most %d", errs.ErrInvalid, len(name), nameBytesMax)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%w: object name %q holds a zero byte", errs.ErrInvalid, name)
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return fmt.Errorf("%w: object name %q has segment %q", errs.ErrInvalid, name, segment)
		case len(segment) > segmentBytesMax:
			return fmt.Errorf("%w: object name %q has a segment of %d bytes, at most %d",
				errs.ErrInvalid, name, len(segment), segmentBytesMax)
		case strings.HasPrefix(segment, tempPrefix):
			return fmt.Errorf("%w: object name %q: %q is reserved", errs.ErrInvalid, name, tempPrefix)
		}
	}
	return nil
}

// checkDir is checkName for places where "" means the root.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	return checkName(dir)
}

// parentOf returns the directory of name, "" for the root.
func parentOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// baseOf returns the last segment of name.
func baseOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// childOf returns the full name of a directory's child.
func childOf(dir, base string) string {
	if dir == "" {
		return base
	}
	return dir + "/" + base
}

// within reports whether name is dir or lies below it.
func within(name, dir string) bool {
	return strings.HasPrefix(name, dir) && (len(name) == len(dir) || name[len(dir)] == '/')
}

// hidden reports whether List passes over a directory entry.
func hidden(base string) bool { return strings.HasPrefix(base, tempPrefix) }

// tempToken returns the part of one of our temporaries' names that tells which store wrote it.
func tempToken(base string) (token string, ok bool) {
	digits, ok := strings.CutPrefix(base, tempPrefix)
	if !ok || len(digits) != tempHexDigits {
		return "", false
	}
	for i := range len(digits) {
		if c := digits[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return digits[:tempHexDigits/2], true
}
