package wal

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

const (
	entryDir    = "wal"
	entrySuffix = ".arrow"
)

// BitReversed returns the 64 bits of n, least significant first, as '0' and '1': the stem of object names of
// WAL entries and shard manifest versions, which spreads consecutive numbers over the key space.
// Spec: MemWAL, "WAL storage".
func BitReversed(n uint64) string { return fmt.Sprintf("%064b", bits.Reverse64(n)) }

// ParseBitReversed is the inverse of BitReversed; s may carry a suffix from its first '.' on.
func ParseBitReversed(s string) (uint64, bool) {
	s, _, _ = strings.Cut(s, ".")
	if len(s) != 64 || strings.Trim(s, "01") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 2, 64)
	return bits.Reverse64(n), err == nil
}

// EntryName returns the object name of the entry at p of the shard directory dir.
func EntryName(dir string, p Position) string {
	return dir + "/" + entryDir + "/" + BitReversed(uint64(p)) + entrySuffix
}

// parseEntryName returns the position of an object in the log's directory; ok is false for other files.
func parseEntryName(name string) (Position, bool) {
	base := name[strings.LastIndexByte(name, '/')+1:]
	if !strings.HasSuffix(base, entrySuffix) || len(base) != 64+len(entrySuffix) {
		return 0, false
	}
	n, ok := ParseBitReversed(base)
	return Position(n), ok && n > 0
}
