package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

// pausedServer is a server that was stopped with SIGSTOP in the middle of its life, its lock file gone.
func pausedServer(t *testing.T) (srv *server.Server, resume func(), db *sql.DB) {
	t.Helper()
	srv = server.New(t, server.Options{Config: small()})
	cmd := srv.Command()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		text, _ := os.ReadFile(log.Name())
		if t.Failed() {
			t.Logf("log of the paused server:\n%s", text)
		}
		_ = log.Close()
	})
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	db = srv.Open("", "timeout=2s")
	require.Eventually(t, func() bool { return db.PingContext(context.Background()) == nil }, 60*time.Second, 20*time.Millisecond)
	do(t, db, "CREATE DATABASE paused")
	db = srv.Open("paused", "interpolateParams=true", "readTimeout=30s")
	do(t, db, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, s VARCHAR(100))")
	do(t, db, "CREATE TABLE u (id INT NOT NULL PRIMARY KEY, s VARCHAR(100))")
	for i := range 30 {
		do(t, db, "INSERT INTO t VALUES (?, ?)", i, fmt.Sprint("first ", i))
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, os.Remove(filepath.Join(srv.DataDir(), "_lancesql", "LOCK")))
	return srv, func() { require.NoError(t, cmd.Process.Signal(syscall.SIGCONT)) }, db
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestPausedServer: a server sleeps past a claim of its shards and a clean-up by another one, which somebody could start
// because the lock file was removed. When it goes on, everything it tries is refused and nothing of it lands.
func TestPausedServer(t *testing.T) {
	paused, resume, old := pausedServer(t)
	srv := server.Start(t, server.Options{DataDir: paused.DataDir(), Config: small()})
	db := srv.Open("paused", "interpolateParams=true")
	require.Equal(t, "30", one(t, db, "SELECT COUNT(*) FROM t"))
	for i := range 60 { // several flushes and a merge
		var rows []string
		for k := range 20 {
			rows = append(rows, fmt.Sprintf("(%d, 'second %d')", (20*i+k)%300, 20*i+k))
		}
		do(t, db, "REPLACE INTO t VALUES "+strings.Join(rows, ","))
	}
	do(t, db, "FLUSH TABLES")
	do(t, db, "INSERT INTO t VALUES (1000, 'in the journal')")
	before := query(t, db, "SELECT id, s FROM t ORDER BY id")

	resume()
	for i, statement := range []string{
		"INSERT INTO t VALUES (5000, 'too late')", "UPDATE t SET s = 'too late' WHERE id = 5", "DELETE FROM t WHERE id = 6",
		"INSERT INTO u VALUES (1, 'too late')", "CREATE TABLE late (id INT PRIMARY KEY)", "DROP TABLE u", "FLUSH TABLES",
	} {
		_, err := old.ExecContext(context.Background(), statement)
		if statement == "FLUSH TABLES" && err == nil {
			continue // it has nothing to flush
		}
		require.Error(t, err, "%d: %s", i, statement)
	}
	time.Sleep(300 * time.Millisecond) // its background work, if it had any
	require.Equal(t, before, query(t, db, "SELECT id, s FROM t ORDER BY id"))
	do(t, db, "INSERT INTO u VALUES (2, 'ours')")
	do(t, db, "FLUSH TABLES")
	srv.Restart()
	db = srv.Open("paused")
	require.Equal(t, before, query(t, db, "SELECT id, s FROM t ORDER BY id"))
	require.Equal(t, "2", one(t, db, "SELECT id FROM u"))
	_, err := tryQuery(db, "SELECT * FROM late")
	require.Error(t, err)
	srv.Stop()
}

// TestPausedServerAndRecover: the same with the tool that completes WAL files.
func TestPausedServerAndRecover(t *testing.T) {
	paused, resume, old := pausedServer(t)
	out, err := exec.Command(server.Binary(t), "recover", paused.DataDir()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	resume()
	for _, statement := range []string{"INSERT INTO t VALUES (5000, 'too late')", "INSERT INTO u VALUES (5000, 'too late')"} {
		_, err := old.ExecContext(context.Background(), statement)
		require.Error(t, err, statement)
	}
	srv := server.Start(t, server.Options{DataDir: paused.DataDir(), Config: small()})
	db := srv.Open("paused")
	require.Equal(t, "30", one(t, db, "SELECT COUNT(*) FROM t"))
	require.Equal(t, "0", one(t, db, "SELECT COUNT(*) FROM u"))
	srv.Stop()
}
