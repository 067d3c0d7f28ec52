package format

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
)

// nodeTask is one line of the list for corpus_read.mjs.
type nodeTask struct {
	Name  string   `json:"name"`
	DB    string   `json:"db"`
	Out   string   `json:"out"`
	Take  []uint64 `json:"take"`
	Where string   `json:"where"`
	least int64    // the id that Where asks for
}

// nodeTypes are the truths that JavaScript's Arrow library can hand on as it got them.
func nodeTypes() []string {
	return []string{"int8-", "int16-", "int32-", "int64-", "uint8-", "uint64-", "float32-", "float64-", "bool-", "decimal128-", "date32-",
		"timestampus-", "utf8-", "binary-", "fsb16-", "fsl_f32_4-", "fsl_f32_128-", "utf8_long-", "list_i32-", "struct-", "list_struct-"}
}

// nodeReads lets lancedb for Node read some of the tables.
func nodeReads(t *testing.T, m *matrix) {
	t.Helper()
	t.Run("node", func(t *testing.T) {
		oracle.NodeModules(t)
		var list []nodeTask
		truth := map[string]string{}
		for _, k := range m.tables {
			for _, p := range nodeTypes() {
				if strings.HasPrefix(k.Name, "t_"+p) {
					n := rowsOf(t, k.Truth)
					list = append(list, nodeTask{Name: stem(k.Path), DB: m.dir, Out: k.Truth + ".node", Take: chosen(seeded(k.Name), n, 50), Where: fmt.Sprintf("id >= %d", n/2), least: int64(n / 2)})
					truth[stem(k.Path)] = k.Truth
				}
			}
		}
		require.NotEmpty(t, list)
		name := filepath.Join(m.dir, "node.json")
		text, err := json.Marshal(list)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, text, 0o644))
		var answers map[string]string
		require.NoError(t, json.Unmarshal(oracle.RunNode(t, "corpus_read.mjs", name), &answers))
		var faults []fault
		var checked []string
		for _, k := range list {
			checked = append(checked, "node_"+k.Name+"/*")
			err := guard(func() error {
				if a := answers[k.Name]; a != "ok" {
					return fmt.Errorf("node: %s", a)
				}
				return compareNode(t, k, truth[k.Name])
			})
			if err != nil {
				faults = append(faults, fault{"node_" + k.Name, "*", "node", err.Error()})
			}
		}
		settle(t, faults, knownWrites(), checked)
	})
}

func rowsOf(t *testing.T, path string) int {
	t.Helper()
	n := 0
	for _, r := range readIPC(t, path) {
		n += int(r.NumRows())
	}
	return n
}

// readIPC returns all batches of an Arrow IPC file.
func readIPC(t *testing.T, path string) []arrow.RecordBatch {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	require.NoError(t, err)
	var out []arrow.RecordBatch
	for i := range r.NumRecords() {
		rec, err := r.RecordBatchAt(i)
		require.NoError(t, err)
		out = append(out, rec)
	}
	return out
}

// column joins a column of several batches.
func column(t *testing.T, recs []arrow.RecordBatch, i int) arrow.Array {
	t.Helper()
	parts := make([]arrow.Array, len(recs))
	for k, r := range recs {
		parts[k] = r.Column(i)
	}
	a, err := array.Concatenate(parts, memory.DefaultAllocator)
	require.NoError(t, err)
	return a
}

// matchBatches compares a column of got, batch by batch, with the given rows of want.
func matchBatches(want arrow.Array, got []arrow.RecordBatch, i int, rows []uint64) error {
	for _, r := range got {
		n := min(int(r.NumRows()), len(rows))
		if s := matchTaken(want, r.Column(i), rows[:n]); s != "" {
			return fmt.Errorf("%s: %s", r.ColumnName(i), s)
		}
		if n < int(r.NumRows()) {
			return fmt.Errorf("more than %d rows", len(rows))
		}
		rows = rows[n:]
	}
	if len(rows) > 0 {
		return fmt.Errorf("%d rows are missing", len(rows))
	}
	return nil
}

// compareNode compares the three answers about one table with its truth.
func compareNode(t *testing.T, k nodeTask, truth string) error {
	t.Helper()
	want := readIPC(t, truth)
	got, taken, where := readIPC(t, k.Out), readIPC(t, k.Out+".take"), readIPC(t, k.Out+".where")
	all, passing := []uint64{}, []uint64{}
	ids := column(t, want, 0).(*array.Int64)
	for i := range ids.Len() {
		all = append(all, uint64(i))
		if ids.Value(i) >= k.least {
			passing = append(passing, uint64(i))
		}
	}
	for i := range int(want[0].NumCols()) {
		w := column(t, want, i)
		if err := matchBatches(w, got, i, all); err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if err := matchBatches(w, taken, i, k.Take); err != nil {
			return fmt.Errorf("take: %w", err)
		}
		if err := matchBatches(w, where, i, passing); err != nil {
			return fmt.Errorf("filter: %w", err)
		}
	}
	return nil
}
