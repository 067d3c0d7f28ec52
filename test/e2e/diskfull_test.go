package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

// tinyDisk is a server whose data directory lies on a file system of its own.
type tinyDisk struct {
	t       *testing.T
	dir     string
	srv     *server.Server
	ballast int
}

func newTinyDisk(t *testing.T) *tinyDisk {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a small file system of its own is needed: mount tmpfs: %v", err)
	}
	d := &tinyDisk{t: t, dir: dir}
	d.srv = server.New(t, server.Options{DataDir: filepath.Join(dir, "data"),
		Config: map[string]string{"memtable_rows": "100000", "memtable_bytes": "33554432", "merge_after_generations": "8"}})
	t.Cleanup(func() {
		d.srv.Kill()
		_ = syscall.Unmount(dir, 0)
	})
	d.srv.Start()
	return d
}

// fill takes all space but about so many bytes.
func (d *tinyDisk) fill(leave int64) {
	d.t.Helper()
	for {
		var s syscall.Statfs_t
		require.NoError(d.t, syscall.Statfs(d.dir, &s))
		n := int64(s.Bavail)*int64(s.Bsize) - leave
		if n <= 0 {
			return
		}
		d.ballast++
		if err := os.WriteFile(filepath.Join(d.dir, fmt.Sprint("ballast", d.ballast)), make([]byte, n), 0o644); err != nil {
			return
		}
	}
}

// heals runs a step again and again, now that there is space, until it works. What the steps before left to the background
// may take the space for a while.
func (d *tinyDisk) heals(name string, run func() error) {
	d.t.Helper()
	began, tries := time.Now(), 0
	for {
		err := run()
		if err == nil {
			return
		}
		if tries++; time.Since(began) > time.Minute {
			var s syscall.Statfs_t
			require.NoError(d.t, syscall.Statfs(d.dir, &s))
			d.t.Fatalf("%s does not heal: %d times in %s, %d bytes free: %v\n%s", name, tries, time.Since(began), int64(s.Bavail)*int64(s.Bsize), err, d.srv.Log())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (d *tinyDisk) empty() {
	for ; d.ballast > 0; d.ballast-- {
		_ = os.Remove(filepath.Join(d.dir, fmt.Sprint("ballast", d.ballast)))
	}
}

// TestDiskFullAtEveryStep (W05, W10): with no space, or with only so much that a step fails half way, every statement works
// or fails with 1021 or 1114; reads go on, and once there is space again everything goes on without a restart; a kill -9 on
// the full disk loses nothing either.
func TestDiskFullAtEveryStep(t *testing.T) {
	d := newTinyDisk(t)
	ctx := context.Background()
	do(t, d.srv.Open(""), "CREATE DATABASE tiny")
	var db *sql.DB
	connect := func() { db = d.srv.Open("tiny", "interpolateParams=true", "readTimeout=60s") }
	connect()
	do(t, db, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, b VARCHAR(3000))")
	rows, last := map[string]int{}, 0
	insert := func(table string) error {
		last++
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (?, REPEAT(?, 40))", last, fmt.Sprintf("%032x", uint64(last)*0x9e3779b97f4a7c15))
		if err == nil {
			rows[table]++
		}
		return err
	}
	count := func() {
		t.Helper()
		for table, n := range rows {
			require.Equal(t, fmt.Sprint(n), one(t, db, "SELECT COUNT(*) FROM "+table+" WHERE LENGTH(b) = 1280"))
		}
	}
	for range times(100, 2000) {
		require.NoError(t, insert("t"))
	}
	allowed := func(err error, what string) {
		t.Helper()
		if code := mysqlCode(err); err != nil && code != 1021 && code != 1114 {
			t.Fatalf("%s on a full disk: %v", what, err)
		}
	}
	tables := 0
	steps := []struct {
		name string
		run  func() error
	}{
		{"commit", func() error { return insert("t") }},
		{"flush and merge", func() error { _, err := db.ExecContext(ctx, "FLUSH TABLES"); return err }},
		{"create and drop", func() error {
			tables++
			if _, err := db.ExecContext(ctx, fmt.Sprintf("CREATE TABLE x%d (id INT PRIMARY KEY)", tables)); err != nil {
				return err
			}
			_, err := db.ExecContext(ctx, fmt.Sprintf("DROP TABLE x%d", tables))
			return err
		}},
		{"index", func() error {
			_, err := db.ExecContext(ctx, "ALTER TABLE t ADD INDEX by_b (b(20))")
			if err != nil && mysqlCode(err) != 1061 { // made by an attempt that could not drop it again
				return err
			}
			_, err = db.ExecContext(ctx, "ALTER TABLE t DROP INDEX by_b")
			return err
		}},
		// Why a table of its own, which goes again: however often this is tried, t stays small enough for copies of it.
		{"commits up to a journal segment", func() error {
			if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS many (id INT NOT NULL PRIMARY KEY, b VARCHAR(3000))"); err != nil {
				return err
			}
			for range times(60, 3000) {
				if err := insert("many"); err != nil {
					return err
				}
			}
			count()
			_, err := db.ExecContext(ctx, "DROP TABLE many")
			if err == nil {
				delete(rows, "many")
			}
			return err
		}},
	}
	refused := 0
	for round, leave := range []int64{0, 256 << 10, 16 << 10, 1 << 20}[:times(2, 4)] {
		for _, s := range steps {
			for range 20 {
				require.NoError(t, insert("t"))
			}
			d.fill(leave)
			err := s.run()
			allowed(err, s.name)
			if err != nil {
				refused++
			}
			count()
			require.True(t, d.srv.Alive())
			if s.name == "flush and merge" && round%2 == 1 {
				d.srv.Kill()
				d.empty()
				d.srv.Start()
				connect()
				count()
				continue
			}
			d.empty()
			d.heals(s.name, func() error { err := s.run(); allowed(err, s.name); return err })
			count()
		}
	}
	t.Logf("%d steps were refused", refused)
	require.Positive(t, refused)
	do(t, db, "FLUSH TABLES")
	count()
	d.srv.Restart()
	connect()
	count()
	d.srv.Stop()
	checked(t, d.srv)
}
