package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// Position numbers the entries of a log from 1; 0 means no entry.
type Position uint64

// Epoch is the claim number of a writer; a higher one fences a lower one.
type Epoch uint64

// Entry is one decoded WAL entry. Its batches are of one schema, none empty; whoever decoded it releases them.
type Entry struct {
	Position   Position
	Epoch      Epoch  // epoch of the writer
	Sentinel   bool   // fence sentinel: no batches, to be skipped
	Generation uint64 // MemTable the batches belong to; 0 = not recorded
	Journal    uint64 // greatest number of a journal record the entry carries; 0 = not recorded
	Batches    []arrow.RecordBatch
}

// Release releases the batches of the entry.
func (e *Entry) Release() {
	for _, b := range e.Batches {
		b.Release()
	}
	e.Batches = nil
}

// Keys of the schema metadata. Spec: MemWAL, "WAL entry format".
const (
	metaEpoch      = "writer_epoch"
	metaGeneration = "generation"
	metaSentinel   = "fence_sentinel"
	metaChecksum   = "lancesql.crc32c"  // ours
	metaJournal    = "lancesql.journal" // ours
)

// Field metadata of primary-key columns.
const (
	metaPK         = "lance-schema:unenforced-primary-key"
	metaPKPosition = "lance-schema:unenforced-primary-key:position"
	metaFieldID    = "lance:field_id"
)

// tombstoneName is the last column of every entry.
const tombstoneName = "_tombstone"

// reservedMeta reports whether a schema metadata key belongs to the entry and not to the table.
func reservedMeta(key string) bool {
	return key == metaEpoch || key == metaGeneration || key == metaSentinel || key == metaChecksum || key == metaJournal
}

func isPrimaryKey(f arrow.Field) bool {
	if v, ok := f.Metadata.GetValue(metaPK); ok && v == "true" {
		return true
	}
	_, ok := f.Metadata.GetValue(metaPKPosition)
	return ok
}

// checksum covers what an entry says: the bytes after the schema message (batches and end marker) and, since
// the schema message holds the checksum itself, the parsed schema metadata, field names, nullability and field
// metadata, each string with its length in front, metadata in key order.
func checksum(schema *arrow.Schema, body []byte) string {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, body)
	var buf []byte
	addString := func(s string) {
		buf = append(binary.LittleEndian.AppendUint32(buf, uint32(len(s))), s...)
	}
	addMeta := func(m arrow.Metadata) {
		pairs := m.ToMap()
		for _, k := range slices.Sorted(maps.Keys(pairs)) {
			if k != metaChecksum {
				addString(k)
				addString(pairs[k])
			}
		}
	}
	addMeta(schema.Metadata())
	for _, f := range schema.Fields() {
		addString(f.Name)
		addString(strconv.FormatBool(f.Nullable))
		addMeta(f.Metadata)
	}
	return fmt.Sprintf("%08x", crc32.Update(sum, table, buf))
}
