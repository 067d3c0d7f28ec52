package file_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/lance/file"
)

// oracleCase is one file exchanged with pylance.
type oracleCase struct {
	name string
	sc   *arrow.Schema
	cols []arrow.Array
}

// oracleCases generates files over all types, rows, patterns and nullness. Columns get short names: the reference
// limits nothing, but its messages are easier to read.
func oracleCases(rowCounts []int) []oracleCase {
	var out []oracleCase
	for _, rows := range rowCounts {
		for i, typ := range flatTypes {
			if rows > 5000 && typ.ID() == arrow.FIXED_SIZE_LIST && typ.(*arrow.FixedSizeListType).Len() > 1000 {
				continue
			}
			sc, cols := makeBatch(typ, rows, rand.New(rand.NewSource(int64(rows+i))))
			name := fmt.Sprintf("%02d-%s-%d", i, strings.Map(safe, typ.String()), rows)
			out = append(out, oracleCase{name: name, sc: sc, cols: cols})
		}
	}
	return out
}

func safe(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '_'
}

func writeIPC(t *testing.T, path string, c oracleCase) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(c.sc))
	require.NoError(t, err)
	require.NoError(t, w.Write(array.NewRecordBatch(c.sc, c.cols, int64(c.cols[0].Len()))))
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}

func runOracle(t *testing.T, args ...string) map[string]string {
	t.Helper()
	var answer map[string]string
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lance_file.py", args...), &answer))
	return answer
}

// runJobs runs several jobs in one process, which takes longer to start than to do most of them.
func runJobs(t *testing.T, jobs [][]string) []map[string]string {
	t.Helper()
	list, err := json.Marshal(jobs)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "jobs.json")
	require.NoError(t, os.WriteFile(path, list, 0o644))
	var answers []map[string]string
	require.NoError(t, json.Unmarshal(oracle.RunPython(t, "lance_file.py", "batch", path), &answers))
	require.Len(t, answers, len(jobs))
	return answers
}

// soak asks for the full matrix of versions, rows and hints.
func soak() bool { return os.Getenv("LANCESQL_SOAK") == "1" }

// oracleRows are the row counts that a version is tried with.
func oracleRows(version string) []int {
	switch {
	case soak():
		return []int{1, 5, 1000, 20_000}
	case version == "2.2":
		return []int{1, 1100}
	}
	return []int{1100}
}

// TestOracleReadsOurFiles has pylance compare what it reads from our files with the truth.
func TestOracleReadsOurFiles(t *testing.T) {
	oracle.Python(t)
	var jobs [][]string
	for _, v := range []file.Version{file.V22(), file.V21(), file.V20()} {
		for _, rows := range oracleRows(v.String()) {
			dir := t.TempDir()
			for _, c := range oracleCases([]int{rows}) {
				data, _ := write(t, c.sc, file.WriterOptions{Version: v}, array.NewRecordBatch(c.sc, c.cols, int64(rows)))
				require.NoError(t, os.WriteFile(filepath.Join(dir, c.name+"-"+v.String()+".lance"), data, 0o644))
				c.name += "-" + v.String()
				writeIPC(t, filepath.Join(dir, c.name+".arrow"), c)
			}
			jobs = append(jobs, []string{"check", dir})
		}
	}
	for _, verdicts := range runJobs(t, jobs) {
		require.Len(t, verdicts, len(flatTypes))
		for name, verdict := range verdicts {
			if verdict != "ok" {
				t.Errorf("%s: %s", name, verdict)
			}
		}
	}
}

// TestReadOracleFiles reads what pylance writes by default and with encoding hints.
func TestReadOracleFiles(t *testing.T) {
	oracle.Python(t)
	hints := [][]string{nil,
		{"lance-encoding:compression=zstd"}, {"lance-encoding:compression=lz4"}, {"lance-encoding:compression=none"},
		{"lance-encoding:compression=lz4", "lance-encoding:bss=on"}, {"lance-encoding:compression=fsst"},
		{"lance-encoding:structural-encoding=fullzip"}, {"lance-encoding:structural-encoding=miniblock"}}
	var jobs [][]string
	var cases [][]oracleCase
	for _, version := range []string{"2.2", "2.1", "2.0"} {
		for _, rows := range oracleRows(version) {
			for i, hint := range hints {
				if i > 0 && (rows < 1000 || version != "2.2" && !soak()) {
					continue
				}
				dir := t.TempDir()
				list := oracleCases([]int{rows})
				for _, c := range list {
					writeIPC(t, filepath.Join(dir, c.name+".arrow"), c)
				}
				jobs = append(jobs, append([]string{"write", dir, version}, hint...))
				cases = append(cases, list)
			}
		}
	}
	for i, written := range runJobs(t, jobs) {
		dir, version, hint := jobs[i][1], jobs[i][2], strings.Join(jobs[i][3:], ",")
		for _, c := range cases[i] {
			if written[c.name] != "ok" {
				t.Logf("pylance does not write %s in %s %s: %s", c.name, version, hint, written[c.name])
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, c.name+".lance"))
			require.NoError(t, err)
			t.Run(version+"/"+hint+"/"+c.name, func(t *testing.T) {
				checkFile(t, data, bare(c.sc), c.cols, newRand(int64(c.cols[0].Len())))
			})
		}
	}
}

func bare(sc *arrow.Schema) *arrow.Schema { return arrow.NewSchema(sc.Fields(), nil) }
