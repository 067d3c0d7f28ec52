package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// Environment of a child process: the store's directory, its number, how many steps, where its report goes.
const (
	envChildDir    = "LANCESQL_TABLE_CHILD_DIR"
	envChildNumber = "LANCESQL_TABLE_CHILD_NUMBER"
	envChildSteps  = "LANCESQL_TABLE_CHILD_STEPS"
	envChildReport = "LANCESQL_TABLE_CHILD_REPORT"
)

// TestProcessChild is one writer in a process of its own; it does nothing unless TestProcesses starts it.
func TestProcessChild(t *testing.T) {
	dir := os.Getenv(envChildDir)
	if dir == "" {
		t.Skip("a part of TestProcesses")
	}
	number, err := strconv.Atoi(os.Getenv(envChildNumber))
	require.NoError(t, err)
	steps, err := strconv.Atoi(os.Getenv(envChildSteps))
	require.NoError(t, err)
	st, err := objstore.OpenLocal(vfs.Default, dir)
	require.NoError(t, err)
	w := newWorker(number, 11)
	w.on, err = OpenWith(t.Context(), st, testRoot, Options{OnConflict: w.saw})
	require.NoError(t, err)
	for n := range steps {
		require.NoError(t, w.step(t.Context(), n))
	}
	text, err := json.Marshal(w.report)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(os.Getenv(envChildReport), text, 0o600))
}

// TestProcesses: two processes of ours and one of pylance change one table at once. No acknowledged change is lost, every
// conflict we met is one of the table.
func TestProcesses(t *testing.T) {
	rounds, steps := 1, 25
	if os.Getenv("LANCESQL_SOAK") != "" {
		rounds, steps = 10, 60
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { processes(t, round, steps) })
	}
}

func processes(t *testing.T, round, steps int) {
	dir := t.TempDir()
	py := startPylance(t, filepath.Join(dir, testRoot))
	st, err := objstore.OpenLocal(vfs.Default, dir)
	require.NoError(t, err)
	countersTable(t, st, Options{})
	const children = 2
	done := make(chan error, children)
	for i := range children {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcessChild$", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), envChildDir+"="+dir, fmt.Sprintf("%s=%d", envChildNumber, 10*round+i),
			fmt.Sprintf("%s=%d", envChildSteps, steps), fmt.Sprintf("%s=%s", envChildReport, childReport(dir, i)))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		go func() {
			err := cmd.Wait()
			if err != nil {
				err = fmt.Errorf("child %d: %w\n%s", i, err, out.Bytes())
			}
			done <- err
		}()
	}
	theirs, err := pylanceWorker(py, rand.New(rand.NewPCG(uint64(round), 3)), steps)
	for range children {
		err = errors.Join(err, <-done)
	}
	require.NoError(t, err)
	reports, conflicts := []report{theirs}, 0
	for i := range children {
		text, err := os.ReadFile(childReport(dir, i))
		require.NoError(t, err)
		var o report
		require.NoError(t, json.Unmarshal(text, &o))
		requireConflictsOfTheTable(t, o)
		conflicts += len(o.Conflicts)
		reports = append(reports, o)
	}
	d := reopen(t, st)
	requireNothingLost(t, d, reports...)
	var v view
	require.NoError(t, py.call("look", fields{"filters": []string{"id < 5"}}, &v))
	require.Equal(t, int(d.CountRows()), len(v.Rows))
	require.Len(t, v.Filtered[0], 5)
	require.Equal(t, d.Version(), v.Version)
	t.Logf("%d versions, %d conflicts of ours, %d of pylance's", d.Version(), conflicts, len(theirs.Others))
}

func childReport(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("report%d.json", i))
}

// pylanceWorker is a worker on the other side. Conflicts that pylance gave up on are in Others.
func pylanceWorker(py *pylance, r *rand.Rand, steps int) (report, error) {
	o := report{Counts: make(map[int64]int64), Here: make(map[int64]bool), Shared: make(map[int64]bool)}
	for step := range steps {
		mine := int64(1_000_000 + step)
		var acknowledged func()
		var op string
		var f fields
		switch k := r.IntN(10); {
		case k < 4:
			id := int64(r.IntN(counterRows))
			op, f = "update", fields{"set": map[string]string{"n": "n + 1"}, "where": fmt.Sprintf("id = %d", id)}
			acknowledged = func() { o.Counts[id]++ }
		case k < 6:
			op, f = "append", fields{"rows": [][]any{{mine}}}
			acknowledged = func() { o.Here[mine] = true }
		case k < 8:
			id := int64(sharedFirst + r.IntN(sharedRows))
			op, f = "merge", fields{"rows": [][]any{{id}}, "matched": true, "not_matched": true, "by_source": false}
			acknowledged = func() { o.Shared[id] = true }
		case k < 9:
			op, f = "compact", fields{"fragment_rows": 10}
			acknowledged = func() {}
		default:
			for id, there := range o.Here {
				if there {
					op, f = "delete", fields{"where": fmt.Sprintf("id = %d", id)}
					acknowledged = func() { o.Here[id] = false }
				}
			}
		}
		if op == "" {
			continue
		}
		err := py.call(op, f, nil)
		switch {
		case err == nil:
			acknowledged()
		case errors.Is(err, errs.ErrConflict) || errors.Is(err, errs.ErrSchemaChanged):
			o.Others = append(o.Others, err.Error())
		default:
			return o, err
		}
	}
	return o, nil
}
