package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend"
)

// TestMain lets the test binary be the program itself, so that signals reach a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("LANCESQL_TEST_MAIN") != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestCommandLine(t *testing.T) {
	code, out, _ := call("--version")
	require.Zero(t, code)
	require.Contains(t, out, sqlbackend.Version)
	code, out, _ = call("--help")
	require.Zero(t, code)
	require.Contains(t, out, "lancesql serve")
	code, out, _ = call("serve", "--help")
	require.Zero(t, code)
	require.Contains(t, out, "-data-dir")

	file := filepath.Join(t.TempDir(), "f.yaml")
	write := func(text string) string {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "no command"},
		{[]string{"dance"}, `"dance"`},
		{[]string{"serve", "--nope"}, "-nope"},
		{[]string{"serve", "extra"}, `"extra"`},
		{[]string{"serve", "--log-level", "loud"}, `"loud"`},
		{[]string{"serve", "--addr", ""}, "neither an address nor a socket"},
		{[]string{"serve", "--data-dir", ""}, "no data directory"},
		{[]string{"serve", "--config", filepath.Join(t.TempDir(), "absent")}, "absent"},
		{[]string{"serve", "--config", write("no_such: 1\n")}, "no_such"},
	} {
		code, _, text := call(c.args...)
		require.Equal(t, 1, code, c.args)
		require.Contains(t, text, c.says, c.args)
		require.Equal(t, 1, strings.Count(text, "\n"), text)
		require.True(t, strings.HasPrefix(text, "lancesql: "), text)
	}
	code, _, text := call("serve", "--config", write("frozen_soft: 5\nfrozen_hard: 2\nmemtable_bytes: -1\n"))
	require.Equal(t, 1, code)
	require.Equal(t, 1, strings.Count(text, "\n"), text)
}

func TestOptionsPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	require.NoError(t, os.WriteFile(file, []byte("addr: 127.0.0.1:1\ndata_dir: /from/file\nlock_wait_timeout: 7s\nmemtable_rows: 60\n"), 0o600))
	var out bytes.Buffer
	o, err := parseOptions([]string{"--config", file, "--addr", "127.0.0.1:2"}, &out)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:2", o.Addr, "the flag wins")
	require.Equal(t, "/from/file", o.DataDir, "the file wins over the default")
	require.Equal(t, "warn", o.LogLevel)
	require.Equal(t, 7*time.Second, o.engine().LockWaitTimeout)
	require.EqualValues(t, 60, o.engine().MemTableRows)
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = parseOptions([]string{"--config", empty}, &out)
	require.NoError(t, err)
}

// process starts the program and waits until it listens on socket.
func process(t *testing.T, dir, socket string, more ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"serve", "--data-dir", dir, "--addr", "", "--socket", socket}, more...)...)
	cmd.Env = append(os.Environ(), "LANCESQL_TEST_MAIN=1")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := c.Read(make([]byte, 1)) // the handshake: it answers
		return err == nil && n == 1
	}, 30*time.Second, 10*time.Millisecond)
	return cmd, &log
}

func TestSignals(t *testing.T) {
	dir, socket := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "s")
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		cmd, log := process(t, dir, socket)
		require.NoError(t, cmd.Process.Signal(sig))
		require.NoError(t, cmd.Wait(), "code 0: %s", log)
		require.Empty(t, log.String(), "nothing to say")
		require.NoFileExists(t, socket)
	}
	cmd, _ := process(t, dir, socket)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.FileExists(t, socket)
	cmd, log := process(t, dir, socket, "--log-level", "info") // a stale lock and a stale socket are no obstacle
	code, _, text := call("serve", "--data-dir", dir, "--addr", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, text, "process "+strconv.Itoa(cmd.Process.Pid))
	code, _, text = call("serve", "--data-dir", filepath.Join(t.TempDir(), "other"), "--addr", "", "--socket", socket)
	require.Equal(t, 1, code)
	require.Contains(t, text, "already in use")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "%s", log)
	require.Contains(t, log.String(), "ready")
}
