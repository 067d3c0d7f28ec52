package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

// lancesql runs a command of the binary and returns its code and what it printed.
func lancesql(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	b, err := exec.Command(server.Binary(t), args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(b)
	}
	require.NoError(t, err, string(b))
	return 0, string(b)
}

// dataEntries are the WAL entries of a table that hold rows, oldest first: sentinels are smaller.
func dataEntries(t *testing.T, dir, table string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(table), "_mem_wal", "*", "wal", "*.arrow"))
	require.NoError(t, err)
	found = slices.DeleteFunc(found, func(name string) bool {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		return strings.Contains(string(b), "fence_sentinel")
	})
	slices.SortFunc(found, func(a, b string) int { return strings.Compare(reversed(a), reversed(b)) })
	return found
}

// reversed turns a bit-reversed name into one that sorts by number.
func reversed(name string) string {
	b := []byte(strings.TrimSuffix(filepath.Base(name), ".arrow"))
	slices.Reverse(b)
	return string(b)
}

func flipMiddle(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[len(b)*3/4] ^= 0xff
	require.NoError(t, os.WriteFile(name, b, 0o600))
}

func ids(t *testing.T, db *sql.DB, query string) []int {
	t.Helper()
	rows, err := db.Query(query)
	require.NoError(t, err)
	defer rows.Close()
	var out []int
	for rows.Next() {
		var id int
		require.NoError(t, rows.Scan(&id))
		out = append(out, id)
	}
	require.NoError(t, rows.Err())
	return out
}

// TestDamagedWAL is case W01: a byte in the middle of an older of several WAL files. The table refuses with file and place,
// never skipping the bad entry; recover says what is lost and stops there only when told to.
func TestDamagedWAL(t *testing.T) {
	srv := server.Start(t, server.Options{})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE d")
	do(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(40) NOT NULL)")
	do(t, db, "CREATE TABLE d.other (id INT PRIMARY KEY)")
	do(t, db, "INSERT INTO d.other VALUES (1)")
	for i := range 4 {
		do(t, db, "INSERT INTO d.t VALUES (?, ?)", i, strings.Repeat("x", 30))
		require.Eventually(t, func() bool { return len(dataEntries(t, srv.DataDir(), "d/t.lance")) == i+1 }, 10*time.Second, 20*time.Millisecond)
	}
	srv.Stop() // the journal holds nothing now
	entries := dataEntries(t, srv.DataDir(), "d/t.lance")
	bad := entries[1]
	flipMiddle(t, bad)

	code, out := lancesql(t, "check", srv.DataDir())
	require.Equal(t, 1, code, out)
	require.Contains(t, out, filepath.Base(bad))

	srv.Start()
	db = srv.Open("d")
	_, err := db.Exec("SELECT * FROM t")
	var refused *mysql.MySQLError
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, 1030, refused.Number)
	require.Contains(t, refused.Message, filepath.Base(bad))
	require.Contains(t, refused.Message, "corruption")
	require.Contains(t, refused.Message, "would be lost")
	require.Equal(t, []int{1}, ids(t, db, "SELECT id FROM other"), "other tables are served")
	srv.Stop()

	code, out = lancesql(t, "recover", srv.DataDir())
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "--truncate-at-damage")
	require.Contains(t, out, "lost are WAL entries")
	require.Contains(t, out, "2 rows, and the rows of 1 entries that cannot be read")
	require.FileExists(t, bad, "nothing was touched")
	code, out = lancesql(t, "recover", srv.DataDir(), "--truncate-at-damage")
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "2 rows, and the rows of 1 entries that cannot be read")
	require.NoFileExists(t, bad)
	moved, err := filepath.Glob(filepath.Join(srv.DataDir(), "_lancesql", "quarantine", "*", "d", "t.lance", "_mem_wal", "*", "wal", filepath.Base(bad)))
	require.NoError(t, err)
	require.Len(t, moved, 1, "set aside, not deleted")
	code, out = lancesql(t, "check", srv.DataDir())
	require.Equal(t, 0, code, out)

	srv.Start()
	db = srv.Open("d")
	require.Equal(t, []int{0}, ids(t, db, "SELECT id FROM t ORDER BY id"), "what was before the damage")
	do(t, db, "INSERT INTO t VALUES (9, 'y')")
	srv.Restart()
	require.Equal(t, []int{0, 9}, ids(t, srv.Open("d"), "SELECT id FROM t ORDER BY id"))
}

// TestRecoverCompletesWAL is a part of case W07: after kill -9, recover puts every acknowledged row into WAL files, says so, and
// finds nothing to do the second time; the same command line starts the server, a second process is refused.
func TestRecoverCompletesWAL(t *testing.T) {
	srv := server.Start(t, server.Options{})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE d")
	do(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY)")
	do(t, db, "CREATE TABLE d.u (id INT PRIMARY KEY)")
	acked := 0
	for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); acked++ {
		do(t, db, "INSERT INTO d.t VALUES (?)", acked)
		do(t, db, "INSERT INTO d.u VALUES (?)", acked)
	}
	code, out := lancesql(t, "recover", srv.DataDir())
	require.Equal(t, 1, code)
	require.Contains(t, out, "is used by process")
	srv.Kill()
	code, out = lancesql(t, "check", srv.DataDir())
	require.Equal(t, 0, code, "what waits in the journal is no error: %s", out)
	code, out = lancesql(t, "recover", srv.DataDir())
	require.Equal(t, 0, code, out)
	t.Log(out)
	code, out = lancesql(t, "recover", srv.DataDir())
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "0 tables, 0 journal records, 0 rows")
	require.NoError(t, os.RemoveAll(filepath.Join(srv.DataDir(), "_lancesql", "journal")), "WAL files hold it all")
	srv.Start()
	second := exec.Command(server.Binary(t), "serve", "--data-dir", srv.DataDir(), "--addr", "", "--socket", filepath.Join(t.TempDir(), "s"))
	b, err := second.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(b), "is used by process")
	for _, table := range []string{"t", "u"} {
		require.Len(t, ids(t, srv.Open("d"), "SELECT id FROM "+table), acked, table)
	}
}

// TestEmptyNewestFiles is case W09: files that were made and got no content before a crash count as absent.
func TestEmptyNewestFiles(t *testing.T) {
	srv := server.Start(t, server.Options{})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE d")
	do(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY)")
	do(t, db, "INSERT INTO d.t VALUES (1), (2)")
	srv.Kill()
	var newest string
	snaps, err := filepath.Glob(filepath.Join(srv.DataDir(), "_lancesql", "catalog", "*.snap"))
	require.NoError(t, err)
	newest = slices.Max(snaps)
	var n int
	_, err = fmt.Sscanf(filepath.Base(newest), "%d.snap", &n)
	require.NoError(t, err)
	shard, err := filepath.Glob(filepath.Join(srv.DataDir(), "d", "t.lance", "_mem_wal", "*"))
	require.NoError(t, err)
	require.Len(t, shard, 1)
	for _, name := range []string{
		filepath.Join(filepath.Dir(newest), fmt.Sprintf("%020d.snap", n+1)),
		filepath.Join(srv.DataDir(), "_lancesql", "journal", "77.log"),
		filepath.Join(shard[0], "wal", ".tmp0123"),
		filepath.Join(shard[0], "manifest", ".tmp0123"),
		filepath.Join(srv.DataDir(), "d", "t.lance", "_versions", ".tmp0123"),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	code, out := lancesql(t, "check", srv.DataDir())
	require.Equal(t, 1, code, "the empty snapshot is told: %s", out)
	srv.Start()
	db = srv.Open("d")
	require.Equal(t, []int{1, 2}, ids(t, db, "SELECT id FROM t ORDER BY id"))
	do(t, db, "CREATE TABLE u (id INT PRIMARY KEY)")
	do(t, db, "INSERT INTO t VALUES (3)")
	srv.Restart()
	require.Equal(t, []int{1, 2, 3}, ids(t, srv.Open("d"), "SELECT id FROM t ORDER BY id"))
}

// TestDamagedJournal: a damaged record with whole ones behind it stops the start with file, place and loss; recover cuts
// there when told to, and what WAL entries hold is not lost.
func TestDamagedJournal(t *testing.T) {
	srv := server.Start(t, server.Options{})
	db := srv.Open("")
	do(t, db, "CREATE DATABASE d")
	do(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY)")
	for i := range 30 {
		do(t, db, "INSERT INTO d.t VALUES (?)", i)
	}
	srv.Kill()
	segments, err := filepath.Glob(filepath.Join(srv.DataDir(), "_lancesql", "journal", "*.log"))
	require.NoError(t, err)
	var name string
	var at int
	for _, s := range segments { // the newest use of a file that holds several records
		b, err := os.ReadFile(s)
		require.NoError(t, err)
		if n := strings.Count(string(b), "LJR1"); n > 10 {
			name, at = s, 4096*6
			require.Equal(t, "LJR1", string(b[at:at+4]))
			b[at+60] ^= 0xff
			require.NoError(t, os.WriteFile(s, b, 0o600))
		}
	}
	require.NotEmpty(t, name)
	code, out := lancesql(t, "check", srv.DataDir())
	require.Equal(t, 1, code, out)
	require.Contains(t, out, fmt.Sprintf("_lancesql/journal/%s at byte %d", filepath.Base(name), at))
	err = srv.TryStart()
	require.Error(t, err)
	require.Contains(t, srv.Log(), "is damaged")
	require.Contains(t, srv.Log(), "would be lost")
	code, out = lancesql(t, "recover", srv.DataDir())
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "--truncate-at-damage")
	code, out = lancesql(t, "recover", "--truncate-at-damage", srv.DataDir())
	require.Equal(t, 0, code, out)
	t.Log(out)
	srv.Start()
	db = srv.Open("d")
	got := ids(t, db, "SELECT id FROM t ORDER BY id")
	for i, id := range got {
		require.Equal(t, i, id, "a prefix: %v", got)
	}
	do(t, db, "INSERT INTO t VALUES (1000)")
	srv.Restart()
	require.Len(t, ids(t, srv.Open("d"), "SELECT id FROM t"), len(got)+1)
	srv.Stop()
	code, out = lancesql(t, "check", srv.DataDir())
	require.Equal(t, 0, code, out)
}

// TestReadOnlyServer: a second process beside the writer shows what it commits, changes nothing, and answers writes with 1290.
func TestReadOnlyServer(t *testing.T) {
	w := server.Start(t, server.Options{Config: small()})
	db := w.Open("")
	do(t, db, "CREATE DATABASE d")
	db = w.Open("d")
	do(t, db, "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)")
	do(t, db, "INSERT INTO t VALUES (1, 0), (2, 0)")
	time.Sleep(300 * time.Millisecond) // written behind
	r := server.Start(t, server.Options{DataDir: w.DataDir(), Args: []string{"--read-only"}, Config: map[string]string{"read_only_staleness": "20ms"}})
	rdb := r.Open("d")
	for _, q := range []string{
		"INSERT INTO t VALUES (3, 0)", "UPDATE t SET n = 1 WHERE id = 77", "DELETE FROM t", "CREATE TABLE u (id INT PRIMARY KEY)", "DROP TABLE t",
		"ALTER TABLE t ADD COLUMN x INT", "TRUNCATE TABLE t", "CREATE DATABASE e", "FLUSH TABLES",
	} {
		_, err := rdb.Exec(q)
		var refused *mysql.MySQLError
		require.ErrorAs(t, err, &refused, q)
		require.EqualValues(t, 1290, refused.Number, q)
	}
	last := 0
	for n := 1; n <= 120; n++ {
		tx, err := db.Begin()
		require.NoError(t, err)
		_, err = tx.Exec("UPDATE t SET n = ? WHERE id IN (1, 2)", n)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		got := ids(t, rdb, "SELECT n FROM t WHERE id < 10 ORDER BY id")
		require.Len(t, got, 2)
		require.Equal(t, got[0], got[1], "a transaction seen in part")
		require.GreaterOrEqual(t, got[0], last, "it went back")
		last = got[0]
		if n%10 == 0 {
			for i := range 40 { // flushes and merges go on
				do(t, db, "INSERT INTO t VALUES (?, 0)", 1000*n+i)
			}
		}
	}
	do(t, db, "CREATE TABLE later (id INT PRIMARY KEY)")
	do(t, db, "INSERT INTO later VALUES (7)")
	require.Eventually(t, func() bool {
		n := 0
		return rdb.QueryRow("SELECT COUNT(*) FROM later").Scan(&n) == nil && n == 1
	}, 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool { return ids(t, rdb, "SELECT n FROM t WHERE id = 1")[0] == 120 }, 10*time.Second, 20*time.Millisecond)
	w.Kill()
	require.Equal(t, []int{120}, ids(t, rdb, "SELECT n FROM t WHERE id = 2"), "the writer's death changes nothing")
}
