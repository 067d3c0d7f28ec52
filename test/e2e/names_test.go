package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

// TestNames: what MySQL accepts as a name we accept, each name is its own table, and nothing appears outside the data
// directory.
func TestNames(t *testing.T) {
	outer := t.TempDir()
	srv := server.Start(t, server.Options{DataDir: filepath.Join(outer, "data")})
	db := srv.Open("")
	quote := func(s string) string {
		out := "`"
		for _, r := range s {
			if r == '`' {
				out += "`"
			}
			out += string(r)
		}
		return out + "`"
	}
	names := []string{"plain", "with space", "../up", "../../up", "a/b", `a\b`, "dot.dot", "..", "日本", "per%cent", "semi;colon", "quo`te", "-dash",
		"under_score", "_versions", "x-2f", "CON", "sixtyfour" + fmt.Sprintf("%055d", 0)}
	do(t, db, "CREATE DATABASE `data base/..`")
	for i, name := range names {
		full := "`data base/..`." + quote(name)
		do(t, db, "CREATE TABLE "+full+" (`id` INT PRIMARY KEY, "+quote("c "+name[:min(len(name), 3)])+" INT)")
		do(t, db, fmt.Sprintf("INSERT INTO %s VALUES (%d, %d)", full, i, i))
	}
	check := func() {
		t.Helper()
		for i, name := range names {
			require.Equal(t, fmt.Sprintf("%d %d", i, i), joined(query(t, db, "SELECT * FROM `data base/..`."+quote(name))), name)
		}
		var got []string
		for _, row := range query(t, db, "SHOW TABLES FROM `data base/..`") {
			got = append(got, *row[0])
		}
		want := append([]string(nil), names...)
		sort.Strings(want)
		sort.Strings(got)
		require.Equal(t, want, got)
	}
	check()
	do(t, db, "FLUSH TABLES")
	srv.Restart()
	db = srv.Open("")
	check()
	entries, err := os.ReadDir(outer)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the data directory")
	do(t, db, "DROP DATABASE `data base/..`")
	srv.Restart()
}

// TestForeignFilesStay: the server removes nothing that it did not make.
func TestForeignFilesStay(t *testing.T) {
	srv := server.Start(t, server.Options{})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE d")
	do(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY)")
	foreign := filepath.Join(srv.DataDir(), "d", "notes.txt")
	require.NoError(t, os.WriteFile(foreign, []byte("mine"), 0o644))
	do(t, db, "DROP TABLE d.t")
	srv.Restart()
	db = srv.Open("")
	_, err := tryQuery(db, "DROP DATABASE d") // may refuse or forget the database; the file stays
	if err != nil {
		require.NotZero(t, mysqlCode(err), "%v", err)
	}
	srv.Restart()
	text, err := os.ReadFile(foreign)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}
