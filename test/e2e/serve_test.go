package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/server"
)

// refusal runs a `lancesql serve` that must end by itself with an error, and returns its only line.
func refusal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	text := strings.TrimSpace(string(out))
	require.NotContains(t, text, "\n", "one line")
	require.NotEmpty(t, text)
	return text
}

func TestServeRefuses(t *testing.T) {
	t.Run("port taken", func(t *testing.T) {
		srv := server.New(t, server.Options{})
		l, err := net.Listen("tcp", srv.Addr())
		require.NoError(t, err)
		defer l.Close()
		require.Contains(t, refusal(t, srv.Command()), srv.Addr())
	})
	t.Run("data directory in use", func(t *testing.T) {
		srv := server.Start(t, server.Options{})
		other := server.New(t, server.Options{DataDir: srv.DataDir()})
		require.Contains(t, refusal(t, other.Command()), srv.DataDir())
		require.Equal(t, "1", one(t, srv.Open(""), "SELECT 1"), "the first one is not disturbed")
		srv.Kill() // leaves a stale lock
		srv.Start()
	})
	t.Run("not a data directory", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "something.txt"), []byte("else"), 0o644))
		srv := server.New(t, server.Options{DataDir: dir})
		require.Contains(t, refusal(t, srv.Command()), dir)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing was written")
	})
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o644))
		require.Contains(t, refusal(t, server.New(t, server.Options{DataDir: file}).Command()), file)
	})
	t.Run("newer format", func(t *testing.T) {
		srv := server.Start(t, server.Options{})
		srv.Stop()
		require.NoError(t, os.WriteFile(filepath.Join(srv.DataDir(), "_lancesql", "FORMAT"), []byte("999\n"), 0o644))
		require.Contains(t, refusal(t, srv.Command()), "newer")
	})
	t.Run("unknown setting", func(t *testing.T) {
		srv := server.New(t, server.Options{Config: map[string]string{"no_such_setting": "1"}})
		require.Contains(t, refusal(t, srv.Command()), "no_such_setting")
	})
}

// TestServeStops: SIGTERM ends the process with success, and a server that was told nothing says little.
func TestServeStops(t *testing.T) {
	srv := server.Start(t, server.Options{})
	db := srv.Open("")
	require.Regexp(t, `^8\.0\.40-lancesql-`, one(t, db, "SELECT VERSION()"))
	require.Contains(t, one(t, db, "SELECT @@version_comment"), "lancesql")
	do(t, db, "CREATE DATABASE d")
	do(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY)")
	do(t, db, "INSERT INTO d.t VALUES (1), (2)")
	srv.Stop()
	require.LessOrEqual(t, strings.Count(srv.Log(), "\n"), 10, "the log is quiet:\n%s", srv.Log())
	srv.Start()
	require.Equal(t, "2", one(t, srv.Open(""), "SELECT COUNT(*) FROM d.t"))
	srv.Stop()
}

func TestVersionFlag(t *testing.T) {
	out, err := exec.Command(server.Binary(t), "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "lancesql")
}
