package lsm

import (
	"fmt"
	"strings"

	"lancesql/internal/objstore"
)

// ReadStats counts what scans did. One may be handed to several scans, one after the other, which add to it; it is read
// when they are closed.
type ReadStats struct {
	Scans                  int
	Shards, ShardsKept     int    // of which there are MemTables or generations; that were looked at
	Sources, SourcesKept   int    // the base, generations, MemTables, a transaction's own writes; that were looked at
	Fragments              int    // of the base
	FragmentsKept          int    // of which rows were read or looked up
	Zones, ZonesKept       int    // looked at, over all columns of the filter
	Segments               int    // of indexes that were asked
	Hops                   int    // rewrites through which their rows were led
	Candidates             uint64 // rows that indexes named
	Expected               uint64 // rows to be looked at, before any is read; by Plan alone for scans by keys
	RowsRead, RowsReturned uint64 // decoded, of all sources; handed out
	Covered                uint64 // of the rows handed out: taken from an index alone

	Store objstore.Meter // reads from the store, and their bytes; what a cache had is not among them
}

// String is one line, of what there is to say.
func (r *ReadStats) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.Shards > 1 {
		add("shards %d/%d", r.ShardsKept, r.Shards)
	}
	add("sources %d/%d", r.SourcesKept, r.Sources)
	add("fragments %d/%d", r.FragmentsKept, r.Fragments)
	if r.Zones > 0 {
		add("zones %d/%d", r.ZonesKept, r.Zones)
	}
	if r.Segments > 0 {
		add("index segments %d", r.Segments)
		add("hops %d", r.Hops)
		add("candidates %d", r.Candidates)
	}
	return strings.Join(parts, ", ")
}

// ReadString is one line about rows and bytes.
func (r *ReadStats) ReadString() string {
	out := fmt.Sprintf("rows read %d, rows returned %d, reads %d, bytes read %d", r.RowsRead, r.RowsReturned, r.Store.Reads(), r.Store.Bytes())
	if r.Covered > 0 {
		out += fmt.Sprintf(", rows from the index alone %d", r.Covered)
	}
	return out
}
