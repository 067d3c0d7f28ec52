package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"lancesql/internal/errs"
)

// Names on disk. A database called N is the directory encodeName(N) and a table called T in it is the directory
// encodeName(T) + ".lance". Encoded names consist of ASCII letters, digits, '_' and '-', so that they are safe on
// every filesystem and acceptable to Lance clients; see docs/format/catalog.md.
//
// Invariant: encodeName is injective, and no encoded name starts with '.', starts with systemPrefix in any case,
// or contains a '/'. Hence no name reaches outside its database, and none meets a directory of our own.
const (
	systemDir    = "_lancesql" // our own files
	systemPrefix = systemDir   // no database directory starts so
	droppedDir   = ".dropped"  // dropped tables on their way out; '.' is never part of an encoded name
	tableSuffix  = ".lance"

	nameBytesMax     = 256 // of a database or table; MySQL's 64 characters need no more
	encodedBytesMax  = 200 // leaves room for suffixes below the 255 bytes filesystems allow
	encodedHeadBytes = 120 // what remains readable of a name that is longer
	hashMark         = "-h-"
	hashBytes        = 16
)

const hexDigits = "0123456789abcdef"

// encodeName returns the directory name of a database or table. Every byte that is not an ASCII letter, digit or
// '_' becomes '-' and two lower-case hex digits; so does the first '_' of a name that starts like systemDir. A
// result above encodedBytesMax is cut and made unique again by a hash of the name: after a '-' that the rule
// above writes two hex digits follow, so hashMark cannot come from it.
func encodeName(name string) string {
	var b strings.Builder
	escape := func(c byte) {
		b.WriteByte('-')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	reserved := len(name) >= len(systemPrefix) && strings.EqualFold(name[:len(systemPrefix)], systemPrefix)
	for i := range len(name) {
		if c := name[i]; isPlain(c) && !(reserved && i == 0) {
			b.WriteByte(c)
		} else {
			escape(c)
		}
	}
	encoded := b.String()
	if len(encoded) <= encodedBytesMax {
		return encoded
	}
	sum := sha256.Sum256([]byte(name))
	return encoded[:encodedHeadBytes] + hashMark + hex.EncodeToString(sum[:hashBytes])
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// checkName reports whether a name given by a user can be kept: not empty, valid UTF-8, at most nameBytesMax bytes.
// What else MySQL forbids is not the engine's matter.
func checkName(kind, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s name is empty: %w", kind, errs.ErrInvalid)
	case len(name) > nameBytesMax:
		return fmt.Errorf("%s name of %d bytes, at most %d: %w", kind, len(name), nameBytesMax, errs.ErrLimit)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s name %q is not UTF-8: %w", kind, name, errs.ErrInvalid)
	}
	return nil
}

// tablePath is the directory of a table in the store.
func tablePath(dir, table string) string { return dir + "/" + encodeName(table) + tableSuffix }

// droppedPath is where the files of a dropped table or database wait for their removal.
func droppedPath(id TableID) string { return droppedDir + "/" + id.String() }

// isDirName reports whether s could be the result of encodeName.
func isDirName(s string) bool {
	if s == "" || len(s) > encodedBytesMax || len(s) >= len(systemPrefix) && strings.EqualFold(s[:len(systemPrefix)], systemPrefix) {
		return false
	}
	for i := range len(s) {
		if !isPlain(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

// isTablePath reports whether s could be the path of a table of ours.
func isTablePath(s string) bool {
	dir, base, ok := strings.Cut(s, "/")
	if !ok {
		return false
	}
	name, ok := strings.CutSuffix(base, tableSuffix)
	return ok && isDirName(dir) && isDirName(name)
}
