package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

// TestBadInput: each fault has MySQL's number and SQLSTATE, changes nothing, and leaves the connection in use.
func TestBadInput(t *testing.T) {
	srv := server.Start(t, server.Options{})
	ctx := context.Background()
	do(t, srv.Open(""), "CREATE DATABASE bad")
	db := srv.Open("bad", "interpolateParams=true")
	db.SetMaxOpenConns(1) // one connection: it must survive every error
	do(t, db, `CREATE TABLE t (id INT NOT NULL PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, name VARCHAR(5), must INT NOT NULL,
		amount DECIMAL(5,2), day DATE, raw VARBINARY(3))`)
	do(t, db, "INSERT INTO t VALUES (1, 1, 1, 'one', 1, 1.00, '2020-01-01', 'a'), (2, 2, 2, 'two', 2, 2.00, '2020-01-02', 'b')")
	do(t, db, "CREATE TABLE pair (a BIGINT UNSIGNED, b VARCHAR(10), v INT, PRIMARY KEY (a, b))")
	do(t, db, "INSERT INTO pair VALUES (1, 'x', 1)")
	contents := func() string {
		var b strings.Builder
		for _, q := range []string{"SELECT * FROM t ORDER BY id", "SELECT * FROM pair ORDER BY a, b", "SHOW TABLES"} {
			for _, row := range query(t, db, q) {
				for _, c := range row {
					if c == nil {
						b.WriteString("NULL ")
						continue
					}
					fmt.Fprintf(&b, "%q ", *c)
				}
				b.WriteString("\n")
			}
		}
		return b.String()
	}
	before := contents()
	for _, c := range []struct {
		statement string
		number    uint16
		state     string
	}{
		{"INSERT INTO t VALUES (1, 1, 1, 'dup', 1, 1, NULL, NULL)", 1062, "23000"},
		{"INSERT INTO t (id, must) VALUES (7, 7), (8, 8), (2, 2)", 1062, "23000"}, // the statement is undone as a whole
		{"INSERT INTO t (id, must) VALUES (9, 9), (9, 9)", 1062, "23000"},
		{"UPDATE t SET id = 1 WHERE id = 2", 1062, "23000"},
		{"INSERT INTO pair VALUES (1, 'X', 2)", 1062, "23000"}, // the collation takes x and X for equal
		{"SELECT * FROM nowhere", 1146, "42S02"},
		{"INSERT INTO nowhere VALUES (1)", 1146, "42S02"},
		{"SELECT * FROM nodb.t", 1049, "42000"},
		{"USE nodb", 1049, "42000"},
		{"SELECT missing FROM t", 1054, "42S22"},
		{"UPDATE t SET missing = 1", 1054, "42S22"},
		{"INSERT INTO t (id, tiny, must) VALUES (3, 128, 3)", 1264, "22003"},
		{"INSERT INTO t (id, tiny, must) VALUES (3, -129, 3)", 1264, "22003"},
		{"INSERT INTO t (id, small, must) VALUES (3, -1, 3)", 1264, "22003"},
		{"INSERT INTO t (id, small, must) VALUES (3, 65536, 3)", 1264, "22003"},
		{"INSERT INTO t (id, amount, must) VALUES (3, 1000, 3)", 1264, "22003"},
		{"INSERT INTO t (id, must) VALUES (2147483648, 3)", 1264, "22003"},
		{"UPDATE t SET tiny = 1000 WHERE id = 1", 1264, "22003"},
		{"INSERT INTO t (id, must) VALUES (3, NULL)", 1048, "23000"},
		{"INSERT INTO t (id, must) VALUES (NULL, 3)", 1048, "23000"},
		{"UPDATE t SET must = NULL WHERE id = 1", 1048, "23000"},
		{"INSERT INTO t (id, name, must) VALUES (3, 'sixsix', 3)", 1406, "22001"},
		{"INSERT INTO t (id, raw, must) VALUES (3, 'four', 3)", 1406, "22001"},
		{"UPDATE t SET name = 'much too long'", 1406, "22001"},
		{"INSERT INTO t (id) VALUES (3)", 1364, "HY000"},
		{"INSERT INTO t VALUES (3, 3)", 1136, "21S01"},
		{"INSERT INTO t (id, day, must) VALUES (3, '2020-13-01', 3)", 1292, "22007"},
		{"INSERT INTO t (id, tiny, must) VALUES (3, 'abc', 3)", 1366, "HY000"},
		{"SELEKT 1", 1064, "42000"},
		{"CREATE TABLE t (id INT PRIMARY KEY)", 1050, "42S01"},
		{"CREATE DATABASE bad", 1007, "HY000"},
		{"DROP TABLE nowhere", 1051, "42S02"},
		{"DROP DATABASE nodb", 1008, "HY000"},
		{"CREATE TABLE twice (a INT, a INT)", 1060, "42S21"},
		{"CREATE TABLE keyless (a INT, PRIMARY KEY (b))", 1072, "42000"},
	} {
		t.Run(c.statement, func(t *testing.T) {
			_, err := db.ExecContext(ctx, c.statement)
			requireError(t, err, c.number, c.state)
			require.Equal(t, before, contents())
		})
	}
	t.Run("in a transaction", func(t *testing.T) {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		do(t, tx, "INSERT INTO t (id, must) VALUES (50, 1)")
		_, err = tx.ExecContext(ctx, "INSERT INTO t (id, must) VALUES (51, 1), (1, 1)")
		requireError(t, err, 1062, "23000")
		do(t, tx, "INSERT INTO t (id, must) VALUES (52, 1)")
		require.NoError(t, tx.Commit()) // the failed statement alone is undone
		require.Equal(t, "50 52", joined(query(t, db, "SELECT id FROM t WHERE id >= 50 ORDER BY id")))
		do(t, db, "DELETE FROM t WHERE id >= 50")
	})
	srv.Restart()
	db = srv.Open("bad", "interpolateParams=true")
	require.Equal(t, before, contents())
}

func joined(rows [][]*string) string {
	var out []string
	for _, row := range rows {
		for _, c := range row {
			if c == nil {
				out = append(out, "NULL")
				continue
			}
			out = append(out, *c)
		}
	}
	return strings.Join(out, " ")
}

// TestDiskFull: a full disk is error 1021; reads go on, nothing acknowledged is lost, and once there is space again the
// server goes on by itself.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=112m"); err != nil {
		t.Skipf("a small file system of its own is needed: mount tmpfs: %v", err)
	}
	srv := server.New(t, server.Options{DataDir: filepath.Join(dir, "data"), Config: map[string]string{"memtable_rows": "60", "merge_after_generations": "2"}})
	t.Cleanup(func() {
		srv.Kill()
		_ = syscall.Unmount(dir, 0)
	})
	// Why so much: what was written when there was no space is in the journal, WAL files, generations and the base for a while.
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 84<<20), 0o644))
	srv.Start()
	do(t, srv.Open(""), "CREATE DATABASE tiny_disk")
	open := func() *sql.DB { return srv.Open("tiny_disk", "interpolateParams=true") }
	db := open()
	do(t, db, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, b BLOB)")

	r := newRand(1)
	block := make([]byte, 60<<10)
	acknowledged := 0
	insert := func() error {
		for i := range block {
			block[i] = byte(r.UintN(256)) // does not compress
		}
		_, err := db.ExecContext(context.Background(), "INSERT INTO t VALUES (?, ?)", acknowledged, block)
		if err == nil {
			acknowledged++
		}
		return err
	}
	var err error
	for err == nil && acknowledged < 2000 {
		err = insert()
	}
	requireError(t, err, 1021, "HY000")
	count := func() int {
		var n int
		require.NoError(t, db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM t WHERE LENGTH(b) = 61440").Scan(&n))
		return n
	}
	require.Equal(t, acknowledged, count(), "reads go on")
	for range 5 { // some may find room, some not; no other error
		if err := insert(); err != nil {
			requireError(t, err, 1021, "HY000")
		}
	}
	require.Equal(t, acknowledged, count())
	require.True(t, srv.Alive())

	require.NoError(t, os.Remove(ballast))
	for range 20 {
		require.NoError(t, insert(), "there is space again")
	}
	require.Equal(t, acknowledged, count())
	srv.Restart()
	db = open()
	require.Equal(t, acknowledged, count(), "after kill -9")
	do(t, db, "FLUSH TABLES")
	require.Equal(t, acknowledged, count())
}
