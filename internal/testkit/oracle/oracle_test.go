package oracle_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
)

func text(cells []*string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = "NULL"
		if c != nil {
			out[i] = *c
		}
	}
	return out
}

// TestDumps: the three readers agree on a table that the reference wrote, and on its spelling.
func TestDumps(t *testing.T) {
	dir := t.TempDir()
	oracle.RunPython(t, "make_table.py", dir, "sample")
	got := oracle.DumpPython(t, dir, "sample")
	require.Equal(t, []oracle.Version{{Version: 1, Count: 3}, {Version: 2, Count: 4}}, got.Versions)
	require.Equal(t, 2, got.Fragments)
	require.Equal(t, 4, got.Lance.Count)
	var types []string
	for _, f := range got.Lance.Schema {
		types = append(types, f.Type)
	}
	require.Equal(t, []string{"int32", "uint64", "float32", "float64", "bool", "decimal128(10,2)", "decimal256(65,0)", "date32",
		"timestamp[us]", "duration[us]", "utf8", "binary", "fixed_size_binary(4)"}, types)
	require.Equal(t, []string{"1", "18446744073709551615", "0.10000000149011612", "0.1", "true", "-1.50",
		"10000000000000000000000000000000000000000", "-1", "-1", "-1", "", "", "61626364"}, text(got.Lance.Rows[0]))
	require.Equal(t, []string{"-3", "NULL", "-1.0000000150474662e+30", "-1e+300", "NULL", "99999999.99", "-7", "19000",
		"253402300799999999", "3020399000000", "é€𝄞", "00ff", "00010203"}, text(got.Lance.Rows[2]))
	require.Equal(t, got.Lance, got.LanceDB)

	node := oracle.DumpNode(t, dir, "sample")
	require.Equal(t, got.Lance.Schema, node.Schema)
	for i := range node.Rows {
		// Floats are spelled by each language in its own way; e2e tests compare them as numbers.
		a, b := text(got.Lance.Rows[i]), text(node.Rows[i])
		a[2], a[3], b[2], b[3] = "", "", "", ""
		require.Equal(t, a, b)
	}
}

// TestMissing: an absent interpreter skips, or fails where the oracle is required.
func TestMissing(t *testing.T) {
	if os.Getenv("ORACLE_CHILD") == "1" {
		oracle.Python(t)
		return
	}
	child := func(require string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMissing$", "-test.v")
		cmd.Env = append(os.Environ(), "ORACLE_CHILD=1", oracle.EnvPython+"="+t.TempDir()+"/none", oracle.EnvRequire+"="+require)
		return cmd
	}
	out, err := child("0").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "--- SKIP: TestMissing")
	out, err = child("1").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--- FAIL: TestMissing")
}
