package oracle

import (
	"encoding/json"
	"strings"
	"testing"
)

// Field is a column as a reader sees it; Type is spelled as in testdata/oracle/dump_table.py (int32, utf8, timestamp[us], …).
type Field struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

// Dump is one reader's view of a table. A nil cell is NULL; the spelling of the others is that of dump_table.py. Rows come
// in the reader's order.
type Dump struct {
	Schema []Field     `json:"schema"`
	Count  int         `json:"count"`
	Rows   [][]*string `json:"rows"`
}

// Version is an older version that could be checked out, with its number of rows.
type Version struct {
	Version uint64 `json:"version"`
	Count   int    `json:"count"`
}

// Table is what Python's readers say about a table: pylance, lancedb, and pylance over all versions.
type Table struct {
	Lance     Dump      `json:"lance"`
	LanceDB   Dump      `json:"lancedb"`
	Versions  []Version `json:"versions"`
	Fragments int       `json:"fragments"`
}

// hiddenPrefix marks columns that are ours and that SQL does not show.
const hiddenPrefix = "__lancesql"

// DumpPython opens <dir>/<table>.lance with pylance and with lancedb, validates it and checks out every version.
func DumpPython(t testing.TB, dir, table string) Table {
	t.Helper()
	return DumpPythonTables(t, dir, table)[0]
}

// DumpPythonTables is DumpPython for several tables in one run; one answer per table, in order.
func DumpPythonTables(t testing.TB, dir string, tables ...string) []Table {
	t.Helper()
	var answers []Table
	decode(t, RunPython(t, "dump_table.py", append([]string{dir}, tables...)...), &answers)
	if len(answers) != len(tables) {
		t.Fatalf("oracle: %d answers for %d tables", len(answers), len(tables))
	}
	return answers
}

// DumpNode opens the table with lancedb for Node.
func DumpNode(t testing.TB, dir, table string) Dump {
	t.Helper()
	return DumpNodeTables(t, dir, table)[0]
}

// DumpNodeTables is DumpNode for several tables in one run; one answer per table, in order.
func DumpNodeTables(t testing.TB, dir string, tables ...string) []Dump {
	t.Helper()
	var answers []Dump
	decode(t, RunNode(t, "dump_table.mjs", append([]string{dir}, tables...)...), &answers)
	if len(answers) != len(tables) {
		t.Fatalf("oracle: %d answers for %d tables", len(answers), len(tables))
	}
	return answers
}

func decode(t testing.TB, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("oracle: decode answer: %v\n%.500s", err, text)
	}
}

// Visible returns the dump without the hidden columns.
func (d Dump) Visible() Dump {
	keep := make([]int, 0, len(d.Schema))
	out := Dump{Count: d.Count}
	for i, f := range d.Schema {
		if !strings.HasPrefix(f.Name, hiddenPrefix) {
			keep = append(keep, i)
			out.Schema = append(out.Schema, f)
		}
	}
	for _, row := range d.Rows {
		cells := make([]*string, len(keep))
		for i, c := range keep {
			cells[i] = row[c]
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}
