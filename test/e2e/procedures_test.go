package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/server"
)

// Public bug reports of other systems, turned into procedures. Each is short here and longer in a soak.

// times is n, or more of it in a soak.
func times(n, soak int) int {
	if os.Getenv("LANCESQL_SOAK") != "" {
		return soak
	}
	return n
}

// files counts what lies below a directory, and its bytes.
func files(t *testing.T, dir string) (names []string, bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			names, bytes = append(names, p), bytes+info.Size()
		}
		return nil
	})
	require.NoError(t, err)
	return names, bytes
}

func lanceDir(srv *server.Server, table string) string {
	return filepath.Join(srv.DataDir(), "cases", table+".lance")
}

func startCases(t *testing.T, config map[string]string) (*server.Server, *sql.DB) {
	t.Helper()
	srv := server.Start(t, server.Options{Config: config})
	do(t, srv.Open(""), "CREATE DATABASE cases")
	return srv, srv.Open("cases", "interpolateParams=true")
}

// checked lets `lancesql check` judge a directory that nobody serves.
func checked(t *testing.T, srv *server.Server) {
	t.Helper()
	out, err := exec.Command(server.Binary(t), "check", srv.DataDir()).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// L04: upserts of the same keys from many connections leave one row for each; of racing inserts of a new key one wins.
func TestProcedureL04(t *testing.T) {
	srv, db := startCases(t, small())
	do(t, db, "CREATE TABLE t (pk INT NOT NULL PRIMARY KEY, n INT NOT NULL)")
	const connections = 8
	each := times(60, 500)
	var wg sync.WaitGroup
	var wins atomic.Int64
	faults := make(chan error, 2*connections)
	stop := make(chan struct{})
	for c := range connections {
		wg.Go(func() {
			r := newRand(uint64(c))
			for i := range each {
				_, err := db.Exec("INSERT INTO t VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1", 1+r.IntN(200))
				if code := mysqlCode(err); err != nil && code != 1213 && code != 1205 {
					faults <- err
					return
				}
				if i%10 == 0 {
					_, err := db.Exec("INSERT INTO t VALUES (?, 0)", 10_000+i)
					if err == nil {
						wins.Add(1)
					} else if mysqlCode(err) != 1062 {
						faults <- err
						return
					}
				}
			}
		})
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			rows, err := tryQuery(db, "SELECT COUNT(*), COUNT(DISTINCT pk) FROM t")
			if err != nil || *rows[0][0] != *rows[0][1] {
				faults <- fmt.Errorf("%v: %w", rows, err)
				return
			}
		}
	})
	wg.Wait()
	close(stop)
	watch.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
	require.EqualValues(t, (each+9)/10, wins.Load(), "one of the racing inserts of each key wins")
	do(t, db, "DELETE FROM t WHERE pk >= 10000")
	for pk := 1; pk <= 200; pk++ {
		do(t, db, "INSERT INTO t VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1", pk)
	}
	count := func() string { return joined(query(t, db, "SELECT COUNT(*), COUNT(DISTINCT pk) FROM t")) }
	require.Equal(t, "200 200", count())
	srv.Restart()
	db = srv.Open("cases")
	require.Equal(t, "200 200", count())
	do(t, db, "FLUSH TABLES")
	require.Equal(t, "200 200", count())
	srv.Stop()
	checked(t, srv)
	t.Run("oracle", func(t *testing.T) {
		got := oracle.DumpPython(t, filepath.Join(srv.DataDir(), "cases"), "t")
		require.Equal(t, 200, got.Lance.Count)
		require.Equal(t, 200, got.LanceDB.Count)
	})
}

// L12: rows whose generations were merged and removed are not replayed again. L14: batches beyond the MemTable's size flush
// the first time. L16: no directory of a generation outlives its merge, and what a crashed flush left is swept.
func TestProcedureL12L14L16(t *testing.T) {
	srv, db := startCases(t, map[string]string{"memtable_rows": "120", "merge_after_generations": "1"})
	do(t, db, "CREATE TABLE append_only (a INT, b VARCHAR(20))")
	do(t, db, "CREATE TABLE keyed (id INT NOT NULL PRIMARY KEY, b VARCHAR(20))")
	rounds := times(10, 50)
	for i := range rounds {
		var a, b []string
		for k := range 100 {
			a = append(a, fmt.Sprintf("(%d, 'row')", 100*i+k))
			b = append(b, fmt.Sprintf("(%d, 'round %d')", (100*i+k)%1000, i))
		}
		do(t, db, "INSERT INTO append_only VALUES "+strings.Join(a, ","))
		do(t, db, "REPLACE INTO keyed VALUES "+strings.Join(b, ","))
		if i%3 == 2 {
			do(t, db, "FLUSH TABLES")
		}
	}
	counts := func() string {
		return joined(query(t, db, "SELECT (SELECT COUNT(*) FROM append_only), (SELECT COUNT(*) FROM keyed)"))
	}
	want := fmt.Sprint(100*rounds, " ", min(1000, 100*rounds))
	require.Equal(t, want, counts())
	do(t, db, "FLUSH TABLES")
	require.Equal(t, want, counts())
	left := func(table string) []string {
		dirs, err := filepath.Glob(filepath.Join(lanceDir(srv, table), "_mem_wal", "*", "*_gen_*"))
		require.NoError(t, err)
		return dirs
	}
	for _, table := range []string{"append_only", "keyed"} {
		require.Eventually(t, func() bool { return len(left(table)) <= 1 }, 30*time.Second, 50*time.Millisecond, "%v", left(table))
	}
	// What a flush that died leaves behind.
	shards, err := filepath.Glob(filepath.Join(lanceDir(srv, "keyed"), "_mem_wal", "*"))
	require.NoError(t, err)
	orphan := filepath.Join(shards[0], "0badc0de_gen_9999")
	require.NoError(t, os.MkdirAll(filepath.Join(orphan, "data"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(orphan, "data", "x.lance"), []byte("half"), 0o644))
	for range 2 {
		srv.Restart()
		db = srv.Open("cases")
		require.Equal(t, want, counts(), "after kill -9")
	}
	require.NotContains(t, left("keyed"), orphan)
	require.NotContains(t, srv.Log(), "already exists")
	require.NotContains(t, srv.Log(), "panic")
	srv.Stop()
	checked(t, srv)
}

// L17: OPTIMIZE TABLE without new rows makes no new files and no new versions.
func TestProcedureL17(t *testing.T) {
	srv, db := startCases(t, small())
	do(t, db, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, s VARCHAR(50), KEY (s))")
	for i := range 5 {
		var rows []string
		for k := range 200 {
			rows = append(rows, fmt.Sprintf("(%d, 's%d')", 200*i+k, k))
		}
		do(t, db, "INSERT INTO t VALUES "+strings.Join(rows, ","))
	}
	query(t, db, "OPTIMIZE TABLE t")
	do(t, db, "FLUSH TABLES")
	query(t, db, "OPTIMIZE TABLE t")
	var before int64
	versions := 0
	require.Eventually(t, func() bool { // what the first ones left to be cleaned up
		was := before
		_, before = files(t, lanceDir(srv, "t"))
		versions = versionsOf(t, lanceDir(srv, "t"))
		return was == before
	}, 30*time.Second, 500*time.Millisecond)
	for range 10 {
		query(t, db, "OPTIMIZE TABLE t")
	}
	_, after := files(t, lanceDir(srv, "t"))
	require.LessOrEqual(t, after, before, "disk use grows")
	require.Equal(t, versions, versionsOf(t, lanceDir(srv, "t")), "versions of nothing")
	require.Equal(t, "1000", one(t, db, "SELECT COUNT(*) FROM t"))
	srv.Stop()
}

func versionsOf(t *testing.T, dir string) int {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "_versions", "*.manifest"))
	require.NoError(t, err)
	return len(list)
}

// L18: single-row statements from many connections meet no commit conflict of the format, and versions come with flushes,
// not with statements.
func TestProcedureL18(t *testing.T) {
	srv, db := startCases(t, small())
	do(t, db, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT NOT NULL)")
	const connections = 32
	each := times(20, 200)
	faults := make(chan error, connections)
	var statements atomic.Int64
	var wg sync.WaitGroup
	for c := range connections {
		wg.Go(func() {
			r := newRand(uint64(c))
			for range each {
				id := r.IntN(500)
				text := []string{"INSERT INTO t VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1", "UPDATE t SET n = n + 1 WHERE id = ?", "DELETE FROM t WHERE id = ?"}[r.IntN(3)]
				if _, err := db.Exec(text, id); err != nil && mysqlCode(err) != 1213 && mysqlCode(err) != 1205 {
					faults <- fmt.Errorf("%s: %w", text, err)
					return
				}
				statements.Add(1)
			}
		})
	}
	wg.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
	do(t, db, "FLUSH TABLES")
	require.Less(t, int64(versionsOf(t, lanceDir(srv, "t"))), statements.Load()/20, "versions for %d statements", statements.Load())
	srv.Stop()
}

// W11: a copy of the directory made while the server writes, the WAL first or the manifests first. Under LOCK INSTANCE FOR
// BACKUP it opens to a prefix of the commits that has all of those before the lock. Without the lock it opens to a prefix too, or
// what is missing is refused; it is never missing in silence. Garbage behind the end of the journal is no obstacle.
func TestProcedureW11(t *testing.T) {
	srv, db := startCases(t, small())
	do(t, db, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, s VARCHAR(100))")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var acknowledged atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := db.Exec("INSERT INTO t VALUES (?, 'row')", i); err != nil {
				ended <- err
				return
			}
			acknowledged.Add(1)
		}
		ended <- nil
	}()
	backup, err := srv.Open("cases").Conn(ctx)
	require.NoError(t, err)
	for round := range times(4, 40) {
		time.Sleep(300 * time.Millisecond)
		locked := round%4 < 2
		if locked {
			_, err := backup.ExecContext(ctx, "LOCK INSTANCE FOR BACKUP")
			require.NoError(t, err)
		}
		least := acknowledged.Load()
		copied := filepath.Join(t.TempDir(), fmt.Sprint("copy", round))
		copyInOrder(t, srv.DataDir(), copied, round%2 == 0)
		if locked {
			_, err := backup.ExecContext(ctx, "UNLOCK INSTANCE")
			require.NoError(t, err)
		}
		rows := countCopy(t, copied, locked)
		if locked {
			require.GreaterOrEqual(t, rows, least, "a commit before the lock is missing")
		}
		t.Logf("copy %d: %d rows, %d were acknowledged before, %d after", round, rows, least, acknowledged.Load())
	}
	cancel()
	require.NoError(t, <-ended)
	srv.Stop()
}

// countCopy starts a server on a copy and counts its rows; -1 if it refuses because something is missing. whole says that
// nothing but the end of the journal, which grew meanwhile, may be.
func countCopy(t *testing.T, dir string, whole bool) int64 {
	t.Helper()
	other := server.New(t, server.Options{DataDir: dir, Config: small()})
	if err := other.TryStart(); err != nil {
		require.Contains(t, other.Log(), "corruption")
		if !whole {
			t.Log("refused:", err)
			return -1
		}
		t.Log("the journal was cut:", err)
		code, out := lancesql(t, "recover", dir, "--truncate-at-damage")
		require.Equal(t, 0, code, out)
		require.NoError(t, other.TryStart(), other.Log())
	}
	defer other.Stop()
	var count, next int64
	err := other.Open("cases").QueryRow("SELECT COUNT(*), COALESCE(MAX(id), -1) + 1 FROM t").Scan(&count, &next)
	if err != nil && !whole {
		require.ErrorContains(t, err, "LOCK INSTANCE FOR BACKUP")
		t.Log("refused:", err)
		return -1
	}
	require.NoError(t, err)
	require.Equal(t, count, next, "a commit in the middle is missing")
	return count
}

// copyInOrder copies a directory that changes meanwhile: manifests before everything else, or after. The journal, which
// decides what is committed, comes last: what is not yet in a WAL file when that is copied is in it.
func copyInOrder(t *testing.T, from, to string, manifestsFirst bool) {
	t.Helper()
	rank := func(p string) int {
		switch {
		case strings.Contains(p, "_lancesql/journal"):
			return 3
		case strings.Contains(p, "_versions/") || strings.Contains(p, "/manifest/"):
			if manifestsFirst {
				return 0
			}
			return 2
		}
		return 1
	}
	for pass := range 4 {
		names, _ := files(t, from)
		for _, name := range names {
			if rank(name) != pass {
				continue
			}
			data, err := os.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			require.NoError(t, err)
			rel, err := filepath.Rel(from, name)
			require.NoError(t, err)
			target := filepath.Join(to, rel)
			require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
			require.NoError(t, os.WriteFile(target, data, 0o644))
		}
	}
}
