package wal_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/rows"
	"lancesql/wal"
)

// entryText is what testdata/oracle/wal_entry.py prints.
type entryText struct {
	Metadata map[string]string
	Fields   []struct {
		Name, Type string
		Nullable   bool
		Metadata   map[string]string
	}
	Batches [][]map[string]*string
}

func readWithPyarrow(t *testing.T, data []byte) entryText {
	path := filepath.Join(t.TempDir(), "entry.arrow")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	var e entryText
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "wal_entry.py", path), &e))
	return e
}

// The Arrow reference implementation for Python reads our entries.
func TestPyarrowReadsEntry(t *testing.T) {
	s := testSchema()
	data, err := wal.EncodeEntry(s, 7, 3, []arrow.RecordBatch{batch(t, s, row(1, "é"), tombstone(2)), batch(t, s, row(3, ""))})
	require.NoError(t, err)
	e := readWithPyarrow(t, data)
	require.Equal(t, "7", e.Metadata["writer_epoch"])
	require.Equal(t, "3", e.Metadata["generation"])
	require.Equal(t, "of the table", e.Metadata["comment"])
	require.Len(t, e.Metadata["lancesql.crc32c"], 8)
	for i, want := range []struct {
		name, text string
		nullable   bool
	}{
		{"id", "int64", false}, {"name", "string", true}, {"price", "decimal128(20, 2)", true}, {"at", "timestamp[us]", true},
		{"ok", "bool", true}, {"raw", "large_binary", true}, {"_tombstone", "bool", false},
	} {
		require.Equal(t, want.name, e.Fields[i].Name)
		require.Equal(t, want.text, e.Fields[i].Type)
		require.Equal(t, want.nullable, e.Fields[i].Nullable, want.name)
	}
	require.Equal(t, s.Field(0).Metadata.ToMap(), e.Fields[0].Metadata)
	require.Len(t, e.Batches, 2)
	cells := func(batch, row int, names ...string) (out []string) {
		for _, n := range names {
			if v := e.Batches[batch][row][n]; v != nil {
				out = append(out, *v)
			} else {
				out = append(out, "NULL")
			}
		}
		return out
	}
	require.Equal(t, []string{"1", "é", "0.07", "1970-01-01 00:00:00.000001", "False", `b'\x00\x01'`, "False"},
		cells(0, 0, "id", "name", "price", "at", "ok", "raw", "_tombstone"))
	require.Equal(t, []string{"2", "NULL", "NULL", "NULL", "NULL", "NULL", "True"},
		cells(0, 1, "id", "name", "price", "at", "ok", "raw", "_tombstone"))
	require.Equal(t, []string{"3", ""}, cells(1, 0, "id", "name"))

	data, err = wal.EncodeSentinel(9)
	require.NoError(t, err)
	e = readWithPyarrow(t, data)
	require.Equal(t, map[string]string{"fence_sentinel": "true", "writer_epoch": "9"}, e.Metadata)
	require.Empty(t, e.Fields)
	require.Empty(t, e.Batches)
}

// Every column type passes the full validation of pyarrow.
func TestPyarrowValidatesEveryType(t *testing.T) {
	fields := append(rows.Schema().Fields(), testSchema().Field(6))
	s := arrow.NewSchema(fields, nil)
	rs := rows.Random(rand.New(rand.NewPCG(1, 7)), s, 100, 0.2)
	for _, r := range rs { // Python has no such dates
		for i := range r[:len(r)-1] {
			switch r[i].(type) {
			case arrow.Date32, arrow.Timestamp, arrow.Duration, arrow.Time64:
				r[i] = nil
			}
		}
	}
	data, err := wal.EncodeEntry(s, 1, 1, []arrow.RecordBatch{batch(t, s, rs...)})
	require.NoError(t, err)
	require.Len(t, readWithPyarrow(t, data).Batches[0], 100)
}
