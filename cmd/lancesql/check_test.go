package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func copyGolden(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, "store"))))
	return dir
}

func checkJSON(t *testing.T, args ...string) (int, checkReport) {
	t.Helper()
	code, out, text := call(append([]string{"check", "--json"}, args...)...)
	var r checkReport
	require.NoError(t, json.Unmarshal([]byte(out), &r), "%s%s", out, text)
	return code, r
}

func TestCheckClean(t *testing.T) {
	dir := copyGolden(t)
	before := tree(t, dir)
	code, out, text := call("check", "--deep", dir)
	require.Zero(t, code, "%s%s", out, text)
	require.Empty(t, text)
	require.Equal(t, dir+": 2 tables in 2 databases, 5 rows in base tables, 2 shards; 0 errors, 0 warnings\n", out)
	code, r := checkJSON(t, dir)
	require.Zero(t, code)
	require.Empty(t, r.Findings)
	require.EqualValues(t, 6, r.Catalog)
	require.Equal(t, before, tree(t, dir), "a check changes nothing")
}

func TestCheckCommandLine(t *testing.T) {
	code, out, _ := call("check", "--help")
	require.Zero(t, code)
	require.Contains(t, out, "lancesql check DIR")
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "no data directory given"},
		{[]string{"--nope", "x"}, "-nope"},
		{[]string{"a", "b"}, `"b"`},
		{[]string{"--memory", "0", "x"}, "--memory"},
		{[]string{filepath.Join(t.TempDir(), "absent")}, "not found"},
		{[]string{t.TempDir()}, "not a lancesql data directory"},
	} {
		code, out, text := call(append([]string{"check"}, c.args...)...)
		require.Equal(t, 2, code, c.args)
		require.Contains(t, text, c.says, c.args)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(text, "\n"), text)
	}
}

// TestCheckDamage: what is damaged is named, with the byte where that is known; the rest is checked all the same.
func TestCheckDamage(t *testing.T) {
	for _, d := range []damage{
		{"data file cut", "data/*.lance", 0, half, "are recorded", nil},
		{"data file footer", "data/*.lance", 0, flip(-1), "footer magic", nil},
		{"data file missing", "data/*.lance", 0, nil, "is missing", nil},
		{"newest manifest cut", "_versions/*.manifest", 0, half, "_versions/", nil},
		{"older manifest cut", "_versions/*.manifest", 1, half, "_versions/", nil},
		{"deletions", "_deletions/*.arrow", 0, flip(-1), "_deletions/", nil},
		{"WAL entry", "_mem_wal/*/wal/*.arrow", 1, flip(200), "WAL entry", nil},
		{"generation", "_mem_wal/*/*_gen_*/_versions/*.manifest", 0, half, "_gen_", nil},
		{"generation data", "_mem_wal/*/*_gen_*/data/*.lance", 0, half, "_gen_", nil},
		{"catalog", "_lancesql/catalog/*.snap", 1, flip(100), "checksum", nil},
		{"catalog cut", "_lancesql/catalog/*.snap", 1, half, "cut short", nil},
		{"format", "_lancesql/FORMAT", 0, flip(0), "not a format number", nil},
	} {
		dir := copyGolden(t)
		base := filepath.Join(dir, filepath.FromSlash(goldenTable))
		if strings.HasPrefix(d.pattern, "_lancesql") {
			base = dir
		}
		file := one(t, base, d.pattern, d.k)
		if d.change == nil {
			require.NoError(t, os.Remove(file))
		} else {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, d.change(b), 0o600))
		}
		code, out, text := call("check", dir, "--deep")
		require.Equal(t, exitProblems, code, "%s: %s%s", d.name, out, text)
		require.Contains(t, out, d.says, d.name)
		require.Contains(t, out, "error: ", d.name)
		require.Contains(t, text, "error", d.name)
		code, r := checkJSON(t, dir, "--deep")
		require.Equal(t, exitProblems, code, d.name)
		require.Positive(t, r.Errors, d.name)
	}
}

func TestCheckLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e := openEngine(t, dir)
	code, _, text := call("check", dir)
	require.Equal(t, exitNoCheck, code)
	require.Contains(t, text, "locked by another process")
	require.Contains(t, text, "process "+strconv.Itoa(os.Getpid()))
	code, _, _ = call("check", "--no-lock", dir)
	require.Zero(t, code, "nothing is written at the moment")
	require.NoError(t, e.Close(t.Context()))
	code, out, text := call("check", dir)
	require.Zero(t, code, "%s%s", out, text)
}

func TestRecoverCommandLine(t *testing.T) {
	code, out, _ := call("recover", "--help")
	require.Zero(t, code)
	require.Contains(t, out, "lancesql recover DIR")
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "no data directory given"},
		{[]string{"--nope", "x"}, "-nope"},
		{[]string{filepath.Join(t.TempDir(), "absent")}, "not found"},
		{[]string{t.TempDir()}, "not a lancesql data directory"},
	} {
		code, _, text := call(append([]string{"recover"}, c.args...)...)
		require.Equal(t, 1, code, c.args)
		require.Contains(t, text, c.says, c.args)
	}
	dir := copyGolden(t)
	code, out, text := call("recover", dir)
	require.Zero(t, code, text)
	require.Equal(t, dir+": 0 tables, 0 journal records, 0 rows written to WAL entries\n", out)
}
